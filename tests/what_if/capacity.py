#!/usr/bin/env python3
"""Checks `troupe-lab plan --serve` against a real node: the same trace at rising speeds, planned, measured.

  tests/what_if/capacity.py --model RANKER --data CATALOG --trace TRACE --profiled FOLDER --memory BYTES
                            [--item-share 0.93] [--p99 25] [--policies recompute,item,planner]
                            [--shares 0.3,…] [--rounds 3] [--json FILE]

FOLDER is an output folder of what_if.py: it has a profile of one core with the host's work
(ranker.device), and the machine's pace at the time of the fit. The memory is divided alike for both.
Speeds are shares of the node's throughput in a closed loop. The node is measured --rounds times and meets
the target if the median P99 does. `plan` then tries one node and more at that speed, on a machine with
the pace measured during those runs. Run this on an otherwise idle machine.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import what_if

ROOT = pathlib.Path(__file__).resolve().parents[2]
ONE_CORE = ["--set", "inference.executors=1", "--set", "inference.cores=1"]


def run(words, codes=(0,)):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode not in codes:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
    return done.stdout


class Capacity:
    def __init__(self, options):
        self.options = options
        self.served = [
            "--model",
            options.model,
            *what_if.options_of(options.model),
            "--data",
            options.data,
            *ONE_CORE,
            "--memory",
            options.memory,
        ]
        self.bench = what_if.Bench(options.lab, options.profiled, options.model)
        self.pace_then = self.bench.pace_at(sorted(options.profiled.glob("fit-*.json")))

    def asked(self, policy, *loop):
        words = [
            self.options.lab,
            "bench",
            "rank",
            *self.served,
            "--trace",
            self.options.trace,
            "--policy",
            policy,
            "--item-share",
            self.options.item_share,
            *loop,
        ]
        return json.loads(run([*words, "--json", "-"]))["runs"][0]

    def planned(self, policy, speed, slower):
        settings = {
            "router.policy": policy,
            "router.deadline": "60s",
            "router.deadline_max": "60s",
            "pool.store_item_blocks": "false",
            "pool.item_share": self.options.item_share,
            "pool.precompute_items": "false" if policy in ("recompute", "user") else "true",
        }
        with tempfile.TemporaryDirectory() as folder:
            device = what_if.at_pace(
                self.options.profiled / "ranker.device", slower, pathlib.Path(folder) / "device"
            )
            words = [
                self.options.lab,
                "plan",
                *self.served,
                "--serve",
                self.options.trace,
                "--cores",
                2,
                *[word for key, value in settings.items() for word in ("--set", f"{key}={value}")],
                "--speed",
                f"{speed:.4f}",
                "--node",
                f"{device}=1",
                "--p99",
                self.options.p99,
                "--nodes-max",
                4,
            ]
            return self.told(words)

    def told(self, words):
        found = json.loads(run([*words, "--json", "-"], codes=(0, 1)))["types"][0]
        return found["least"]["nodes"] if "least" in found else None, found["trials"][0]["p99_ms"]

    def rows(self, policy, rate):
        closed = statistics.median(
            self.asked(policy, "--closed", "--in-flight", 4)["qps"] for _ in range(self.options.rounds)
        )
        for share in self.options.shares:
            speed = share * closed / rate
            paces, p99 = [self.bench.pace()], []
            for _ in range(self.options.rounds):
                p99.append(self.asked(policy, "--speed", f"{speed:.4f}")["p99_ms"])
                paces.append(self.bench.pace())
            slower = statistics.mean(paces) / self.pace_then
            nodes, foreseen = self.planned(policy, speed, slower)
            seen = statistics.median(p99)
            yield {
                "policy": policy,
                "share": share,
                "per_second": share * closed,
                "nodes": nodes,
                "foreseen_p99_ms": foreseen,
                "slower": slower,
                "p99_ms": p99,
                "one_holds": seen <= self.options.p99,
                "agree": (seen <= self.options.p99) == (nodes == 1),
            }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lab", type=pathlib.Path, default=ROOT / "build/deploy/troupe-lab")
    for name in ("model", "data", "trace", "memory"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--profiled", type=pathlib.Path, required=True)
    parser.add_argument("--item-share", type=float, default=0.93, help="share of the memory for items")
    parser.add_argument(
        "--rate", type=float, default=100, help="requests a second of the trace, before --speed"
    )
    parser.add_argument("--p99", type=float, default=25, help="target in milliseconds")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--policies", type=lambda text: text.split(","), default=["recompute", "item", "planner"]
    )
    parser.add_argument(
        "--shares",
        type=lambda text: [float(share) for share in text.split(",")],
        default=[0.3, 0.5, 0.6, 0.7, 0.8, 0.9],
    )
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    capacity = Capacity(options)
    rows = []
    print(
        f"{'policy':12}{'share':>7}{'a second':>10}{'planned':>9}{'predicted':>10}{'P99, ms':>10}"
        f"{'one node':>10}"
    )
    for policy in options.policies:
        for row in capacity.rows(policy, options.rate):
            rows.append(row)
            print(
                f"{policy:12}{row['share']:>7.2f}{row['per_second']:>10.0f}"
                f"{row['nodes'] or '> 4':>9}{row['foreseen_p99_ms']:>10.1f}"
                f"{statistics.median(row['p99_ms']):>10.1f}{'holds' if row['one_holds'] else 'does not':>10}"
                f"{'' if row['agree'] else '   not as planned'}",
                flush=True,
            )
    print(f"as planned: {sum(row['agree'] for row in rows)} of {len(rows)}")
    if options.json:
        options.json.write_text(json.dumps({"p99_ms": options.p99, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
