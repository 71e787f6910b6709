#!/usr/bin/env python3
"""Measures what a gRPC call costs in two builds of the program, and the same ranking over HTTP/1.1.

  tests/bench/grpc_call.py --old TROUPE --new TROUPE [--rounds 7] [--calls 2000] [--candidates 2,50]
                           [--in-flight 1,16] [--json FILE]

Each build serves the demo world with `grpc.listen`. grpcio, one channel, sends rankings with a fixed number
in flight. Within a round the builds alternate, and the first one changes each round. Figures are medians over
the rounds: the server's CPU time per call (of its process, so with the ranking itself), the median latency,
and calls per second, which the client bounds. Needs Debian's python3-grpcio; exits with 77 without.
"""
import argparse
import atexit
import concurrent.futures
import http.client
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO = ROOT / "deploy" / "demo"
TICKS = os.sysconf("SC_CLK_TCK")


def text(number, value):
    value = value.encode()
    return bytes([number << 3 | 2, len(value)]) + value  # all values are short


def rankings(candidates):
    """Returns messages and JSON bodies of the same rankings."""
    rows = [json.loads(line) for line in (DEMO / "world" / "requests.jsonl").read_text().splitlines()]
    asked = [{"user": row["user"], "candidates": row["candidates"][:candidates]} for row in rows]
    asked = [row for row in asked if len(row["candidates"]) == candidates]
    messages = [text(1, row["user"]) + b"".join(text(2, item) for item in row["candidates"]) for row in asked]
    return messages, [json.dumps(row).encode() for row in asked]


class Node:
    def __init__(self, troupe, folder):
        common = ["--model", DEMO / "model", "--data-dir", folder / "data"]
        subprocess.run(
            [troupe, "import", *common, "--data", DEMO / "world"], check=True, stdout=subprocess.DEVNULL
        )
        self.log = folder / "log"
        port = folder / "port"
        self.process = subprocess.Popen(
            [
                troupe,
                "serve",
                *common,
                "--port",
                "0",
                "--port-file",
                port,
                "--set",
                "grpc.listen=127.0.0.1:0",
            ],
            stdout=self.log.open("w"),
            stderr=subprocess.STDOUT,
        )
        while not (
            port.exists() and port.read_text().strip() and "over gRPC on port " in self.log.read_text()
        ):
            if self.process.poll() is not None:
                sys.exit(self.log.read_text())
            time.sleep(0.05)
        self.http = int(port.read_text())
        self.grpc = (
            "localhost:" + self.log.read_text().split("over gRPC on port ")[1].split(",")[0].split()[0]
        )

    def cpu_s(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def end(self):
        self.process.terminate()
        self.process.wait()


def measured(node, calls, one, in_flight):
    """Runs one(i) `calls` times from `in_flight` threads."""

    def timed(i):
        began = time.perf_counter()
        one(i)
        return time.perf_counter() - began

    cpu, began = node.cpu_s(), time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(in_flight) as pool:
        times = list(pool.map(timed, range(calls)))
    took = time.perf_counter() - began
    return {
        "cpu_us": (node.cpu_s() - cpu) / calls * 1e6,
        "p50_us": statistics.median(times) * 1e6,
        "per_s": calls / took,
    }


def over_grpc(node, messages, calls, in_flight):
    import grpc

    with grpc.insecure_channel(node.grpc) as channel:
        rank = channel.unary_unary("/troupe.v1.Troupe/Rank")
        rank(messages[0], timeout=10)
        return measured(node, calls, lambda i: rank(messages[i % len(messages)], timeout=10), in_flight)


def over_http(node, bodies, calls, in_flight):
    import threading

    local = threading.local()

    def one(i):
        if not hasattr(local, "link"):
            local.link = http.client.HTTPConnection("127.0.0.1", node.http, timeout=10)
        local.link.request("POST", "/v1/rank", bodies[i % len(bodies)], {"content-type": "application/json"})
        answer = local.link.getresponse()
        if answer.status != 200:
            raise RuntimeError(answer.read())
        answer.read()

    return measured(node, calls, one, in_flight)


def medians(runs):
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def numbers(words):
    return [int(word) for word in words.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--old", required=True)
    parser.add_argument("--new", required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--candidates", type=numbers, default=[2, 50])
    parser.add_argument("--in-flight", type=numbers, default=[1, 16])
    parser.add_argument("--json")
    options = parser.parse_args()
    try:
        import grpc  # noqa: F401
    except ImportError:
        print("skipped: no python3-grpcio")
        sys.exit(77)
    cells = []
    with tempfile.TemporaryDirectory() as work:
        nodes = {}
        atexit.register(lambda: [node.end() for node in nodes.values()])
        for name in ("old", "new"):
            folder = pathlib.Path(work) / name
            folder.mkdir()
            nodes[name] = Node(str(pathlib.Path(getattr(options, name)).resolve()), folder)
        print("candidates in flight | CPU us a call: old new ratio HTTP | P50 us: old new | calls/s: old new")
        for candidates in options.candidates:
            messages, bodies = rankings(candidates)
            for in_flight in options.in_flight:
                runs = {"old": [], "new": [], "http": []}
                for number in range(options.rounds):
                    for name in sorted(nodes, reverse=number % 2 == 0):
                        runs[name].append(over_grpc(nodes[name], messages, options.calls, in_flight))
                    runs["http"].append(over_http(nodes["new"], bodies, options.calls, in_flight))
                ratios = [new["cpu_us"] / old["cpu_us"] for old, new in zip(runs["old"], runs["new"])]
                cell = {name: medians(of) for name, of in runs.items()}
                cell |= {
                    "candidates": candidates,
                    "in_flight": in_flight,
                    "cpu_ratio": statistics.median(ratios),
                }
                cells.append(cell)
                old, new = cell["old"], cell["new"]
                print(
                    f"{candidates:10} {in_flight:9} | {old['cpu_us']:6.0f} {new['cpu_us']:6.0f} "
                    f"{cell['cpu_ratio']:5.2f} {cell['http']['cpu_us']:5.0f} | {old['p50_us']:5.0f} "
                    f"{new['p50_us']:5.0f} | {old['per_s']:6.0f} {new['per_s']:6.0f}",
                    flush=True,
                )
    if options.json:
        host = {"machine": platform.processor() or platform.machine(), "cores": os.cpu_count()}
        pathlib.Path(options.json).write_text(
            json.dumps(
                {"host": host, "rounds": options.rounds, "calls": options.calls, "cells": cells}, indent=1
            )
        )


if __name__ == "__main__":
    main()
