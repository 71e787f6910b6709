#!/usr/bin/env python3
"""Compares the engines of two builds cell by cell: does the new one need no more CPU time for the same work?

    tests/bench/engine_builds.py --old TROUPE --new TROUPE [--shapes tiny,small,qwen05] [--weights f32,int8]
                                 [--turns 6] [--rounds 3] [--at-least 0.98] [--json FILE]

Runs `troupe-lab bench engine` of both builds --turns times, alternating which is first. A cell is a shape, a
weight format and a workload. Its figure is the median over the turns of the best round (tokens per CPU
second). Exit status 1 if a cell's ratio, new over old, is below --at-least.
"""
import argparse
import collections
import json
import pathlib
import platform
import statistics
import subprocess
import sys

from request_cost import version


def run(program, shape, weights, rounds):
    words = [
        program,
        "bench",
        "engine",
        "--shape",
        shape,
        "--weights",
        weights,
        "--kv",
        "f32",
        "--rounds",
        rounds,
        "--json",
        "-",
    ]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stderr}")
    return {run["workload"]: run["best_tokens_per_cpu_second"] for run in json.loads(done.stdout)["runs"]}


def race(options, shape, weights):
    """Returns, for each workload, the rates of both builds, one for each turn."""
    rates = collections.defaultdict(lambda: {"old": [], "new": []})
    for turn in range(options.turns):
        builds = [("old", options.old), ("new", options.new)]
        for name, program in builds[::-1] if turn % 2 else builds:
            for workload, rate in run(program, shape, weights, options.rounds).items():
                rates[workload][name].append(rate)
    return rates


def cells_of(options):
    for shape in options.shapes.split(","):
        for weights in options.weights.split(","):
            for workload, rates in race(options, shape, weights).items():
                old, new = (statistics.median(rates[build]) for build in ("old", "new"))
                print(
                    f"{shape:7} {weights:5} {workload:22} {old:12.0f} -> {new:12.0f} tokens/CPU-s  "
                    f"x{new / old:.3f}",
                    flush=True,
                )
                yield {
                    "shape": shape,
                    "weights": weights,
                    "workload": workload,
                    "old": old,
                    "new": new,
                    "ratio": new / old,
                    "turns": rates,
                }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--old", type=pathlib.Path, required=True)
    parser.add_argument("--new", type=pathlib.Path, required=True)
    parser.add_argument("--shapes", default="tiny,small,qwen05")
    parser.add_argument("--weights", default="f32,int8")
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--at-least", type=float, default=0.98)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    cells = list(cells_of(options))
    slow = [cell for cell in cells if cell["ratio"] < options.at_least]
    print(
        f"{len(cells)} cells, {len(slow)} below {options.at_least}; lowest ratio "
        f"{min(c['ratio'] for c in cells):.3f}"
    )
    if options.json:
        result = {
            "machine": platform.machine(),
            "old": version(options.old),
            "new": version(options.new),
            "rounds": options.rounds,
            "cells": cells,
        }
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    sys.exit(1 if slow else 0)


if __name__ == "__main__":
    main()
