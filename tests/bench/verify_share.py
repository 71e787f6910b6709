#!/usr/bin/env python3
"""Measures whether verified answers delay requests: one node per share of `verify.share`, loaded in turn.

  tests/bench/verify_share.py --troupe build/deploy/troupe --rate 40 --rounds 10 --json results.json

Each round sends the same drawn rankings to each node with `troupe-lab bench serve`, at a constant mean rate
with Poisson arrivals. The nodes take turns and the order alternates, so that the machine's other work meets
all of them. The other nodes are idle meanwhile; they finish what they still have to verify before the first
request of the next turn only if `--pause` is long enough. P99 counts from a request's due time. Choose a rate
at which workers are sometimes idle, such as half of what `bench serve --closed` reaches: above it nothing is
verified. The figures of one run are comparable with each other alone.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from served_node import await_port

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEMO = os.path.join(ROOT, "deploy", "demo")
VERIFIED = re.compile(r'^troupe_verified_answers_total\{result="(\w+)"\} (\S+)$', re.M)


class Node:
    def __init__(self, args, folder, share):
        at = lambda name: os.path.join(folder, f"share-{share}.{name}")
        common = ["--model", args.model, "--data-dir", at("data")]
        subprocess.run(
            [args.troupe, "import", *common, "--data", args.data], check=True, stdout=subprocess.DEVNULL
        )
        words = [word for setting in (f"verify.share={share}", *args.set) for word in ("--set", setting)]
        self.process = subprocess.Popen(
            [args.troupe, "serve", *common, "--port", "0", "--port-file", at("port"), *words],
            stdout=open(at("log"), "w"),
            stderr=subprocess.STDOUT,
        )
        port = await_port(self.process, at("port"), lambda: open(at("log")).read())
        self.server = f"127.0.0.1:{port}"

    def verified(self):
        text = urllib.request.urlopen(f"http://{self.server}/metrics", timeout=10).read().decode()
        return {result: float(count) for result, count in VERIFIED.findall(text)}


def ask(args, node, seed):
    words = [args.lab, "bench", "serve", "--server", node.server, "--data", args.data, "--json", "-"]
    words += ["--rate", str(args.rate), "--requests", str(args.requests), "--seed", str(seed)]
    words += ["--candidates", str(args.candidates)]
    run = subprocess.run(words, capture_output=True, text=True)
    if run.returncode != 0:
        raise RuntimeError("bench serve ended: " + run.stderr[-300:])
    return json.loads(run.stdout)


def find(result, name):
    """Returns the first value of this name, wherever it is in the result."""
    if isinstance(result, dict):
        if name in result:
            return result[name]
        result = list(result.values())
    if isinstance(result, list):
        for part in result:
            if (value := find(part, name)) is not None:
                return value
    return None


def measure(args, folder):
    nodes = {share: Node(args, folder, share) for share in args.shares}
    rows = {share: [] for share in args.shares}
    try:
        for number in range(args.rounds + 1):
            for share in args.shares if number % 2 else reversed(args.shares):
                result = ask(args, nodes[share], seed=number)
                time.sleep(args.pause)
                if number > 0:  # round 0 warms up
                    rows[share].append(find(result, "latency"))
        verified = {share: node.verified() for share, node in nodes.items()}
    finally:
        for node in nodes.values():
            node.process.terminate()
        for node in nodes.values():
            node.process.wait(40)
    return rows, verified


def main(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    parser.add_argument("--lab", help="troupe-lab; default: beside troupe")
    parser.add_argument("--model", default=os.path.join(DEMO, "model"))
    parser.add_argument("--data", default=os.path.join(DEMO, "world"))
    parser.add_argument("--set", action="append", default=[], metavar="SETTING=VALUE")
    parser.add_argument("--shares", type=float, nargs="+", default=[0, 0.01])
    parser.add_argument("--rate", type=float, default=40)
    parser.add_argument("--requests", type=int, default=2000, help="of one node in one round")
    parser.add_argument("--candidates", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--pause", type=float, default=2, help="seconds after each turn")
    parser.add_argument("--json")
    args = parser.parse_args(argv)
    args.lab = args.lab or os.path.join(os.path.dirname(args.troupe), "troupe-lab")
    with tempfile.TemporaryDirectory(prefix="troupe-verify-share-") as folder:
        rows, verified = measure(args, folder)
    result = {"what": "verify_share", "load_average": os.getloadavg()[0], "verified": {}, "runs": {}}
    for name in ("rate", "requests", "candidates", "rounds", "pause", "set"):
        result[name] = getattr(args, name)
    for share in args.shares:
        result["verified"][str(share)], result["runs"][str(share)] = verified[share], rows[share]
        ratios = [row["p99_ms"] / base["p99_ms"] for row, base in zip(rows[share], rows[args.shares[0]])]
        medians = {name: statistics.median(row[name] for row in rows[share]) for name in ("p50_ms", "p99_ms")}
        counts = ", ".join(f"{count:.0f} {word}" for word, count in sorted(verified[share].items()))
        print(
            f"share {share:<6} p50 {medians['p50_ms']:7.2f} ms  p99 {medians['p99_ms']:7.2f} ms  "
            f"x {statistics.median(ratios):.3f} p99 of share {args.shares[0]}  ({counts})"
        )
    if args.json:
        json.dump(result, open(args.json, "w"), indent=1)
    different = sum(counts.get("different", 0) + counts.get("unstable", 0) for counts in verified.values())
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
