#!/usr/bin/env python3
"""Measures the cost of TLS and tracing in the HTTP server: nodes of the demo side by side, loaded by wrk
in rotation.

  tests/bench/server_cost.py --troupe build/deploy/troupe --rounds 5 --json results.json

Nodes: `plain`; `tls`, with a self-signed certificate (P-256); `traced`, which records every request and
sends it to a collector that drops the spans. Each round requests rankings of three items from each node,
first on persistent connections, then with a new connection for each request. Requests a second and P99
are the client's; `cpu_us` is the CPU time of the node's process for a request. wrk uses another core
meanwhile, so only figures of one run are comparable. Needs wrk and openssl.
"""
import argparse
import http.server
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from served_node import await_port

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEMO = os.path.join(ROOT, "deploy", "demo")
BODY = '{"user":"ana","candidates":["camp-0001","camp-0002","camp-0003"]}'
BOXES = ("plain", "tls", "traced")


class Collector(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    spans = 0

    def do_POST(self):
        text = self.rfile.read(int(self.headers["content-length"]))
        Collector.spans += text.count(b'"spanId"')
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


class Node:
    def __init__(self, troupe, folder, kind, settings):
        at = lambda name: os.path.join(folder, kind + "." + name)
        common = ["--model", os.path.join(DEMO, "model"), "--data-dir", at("data")]
        subprocess.run(
            [troupe, "import", *common, "--data", os.path.join(DEMO, "world")],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        words = [
            word
            for setting in ("inference.executors=1", "router.policy=item", *settings)
            for word in ("--set", setting)
        ]
        self.process = subprocess.Popen(
            [troupe, "serve", *common, "--port", "0", "--port-file", at("port"), *words],
            stdout=open(at("log"), "w"),
            stderr=subprocess.STDOUT,
        )
        port = await_port(self.process, at("port"), lambda: open(at("log")).read())
        self.url = f"{'https' if kind == 'tls' else 'http'}://127.0.0.1:{port}/v1/rank"

    def cpu_s(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def seconds(text):
    number, unit = re.match(r"([0-9.]+)(us|ms|s|m)", text).groups()
    return float(number) * {"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60}[unit]


def ask(node, script, connections, duration, tries=3):
    before = node.cpu_s()
    run = subprocess.run(
        ["wrk", "-t1", f"-c{connections}", f"-d{duration}s", "--latency", "-s", script, node.url],
        capture_output=True,
        text=True,
        check=True,
    )
    cpu = node.cpu_s() - before
    if "Non-2xx" in run.stdout:
        raise RuntimeError("not every answer was 200:\n" + run.stdout)
    requests = int(re.search(r"(\d+) requests in", run.stdout).group(1))
    if requests == 0 and tries > 1:  # the machine was busy with other work
        return ask(node, script, connections, duration, tries - 1)
    return {
        "per_s": float(re.search(r"Requests/sec:\s+([0-9.]+)", run.stdout).group(1)),
        "requests": requests,
        "p50_ms": 1e3 * seconds(re.search(r"50%\s+(\S+)", run.stdout).group(1)),
        "p99_ms": 1e3 * seconds(re.search(r"99%\s+(\S+)", run.stdout).group(1)),
        "cpu_us": 1e6 * cpu / max(1, requests),
    }


def make_certificate(folder):
    chain, key = os.path.join(folder, "chain.pem"), os.path.join(folder, "key.pem")
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-keyout",
            key,
            "-out",
            chain,
            "-days",
            "2",
            "-subj",
            "/CN=127.0.0.1",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
        ],
        check=True,
        capture_output=True,
    )
    return [f"http.tls_certificate={chain}", f"http.tls_key={key}"]


def measure(args, folder):
    for name, more in (("kept", ""), ("new", 'wrk.headers["Connection"] = "close"\n')):
        open(os.path.join(folder, name + ".lua"), "w").write(
            f"wrk.method = \"POST\"\nwrk.body = '{BODY}'\n{more}"
        )
    collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    settings = {
        "plain": [],
        "tls": make_certificate(folder),
        "traced": [f"telemetry.collector=http://127.0.0.1:{collector.server_port}", "telemetry.sampled=1"],
    }
    nodes = {kind: Node(args.troupe, folder, kind, settings[kind]) for kind in BOXES}
    rows = {way: {kind: [] for kind in BOXES} for way in ("kept", "new")}
    try:
        for number in range(args.rounds + 1):
            for way in rows:
                for kind in BOXES if number % 2 else reversed(BOXES):
                    row = ask(nodes[kind], os.path.join(folder, way + ".lua"), args.connections, args.seconds)
                    if number > 0:  # round 0 warms up
                        rows[way][kind].append(row)
    finally:
        for node in nodes.values():
            node.process.terminate()
        for node in nodes.values():
            node.process.wait(40)
    return rows


def summary(rows):
    out = {}
    for way, kinds in rows.items():
        for kind, runs in kinds.items():
            row = {
                name: round(statistics.median(run[name] for run in runs), 2)
                for name in ("per_s", "p50_ms", "p99_ms", "cpu_us")
            }
            plain = rows[way]["plain"]
            row["cpu_ratio"] = round(
                statistics.median(a["cpu_us"] / b["cpu_us"] for a, b in zip(runs, plain)), 3
            )
            row["per_s_ratio"] = round(
                statistics.median(a["per_s"] / b["per_s"] for a, b in zip(runs, plain)), 3
            )
            out[f"{way} {kind}"] = row
    return out


def main(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--json")
    args = parser.parse_args(argv)
    for program in ("wrk", "openssl"):
        if not shutil.which(program):
            print("skipped: " + program + " is not installed")
            return 77
    with tempfile.TemporaryDirectory(prefix="troupe-server-cost-") as folder:
        rows = measure(args, folder)
    result = {
        "what": "door_cost",
        "rounds": args.rounds,
        "seconds": args.seconds,
        "connections": args.connections,
        "load_average": os.getloadavg()[0],
        "spans": Collector.spans,
        "medians": summary(rows),
        "runs": rows,
    }
    for name, row in result["medians"].items():
        print(
            f"{name:12} {row['per_s']:9.1f}/s  p50 {row['p50_ms']:7.2f} ms  p99 {row['p99_ms']:7.2f} "
            f"ms  cpu {row['cpu_us']:7.1f} us a request"
            f"  x {row['cpu_ratio']} cpu, x {row['per_s_ratio']} requests/s of plain's"
        )
    if args.json:
        json.dump(result, open(args.json, "w"), indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
