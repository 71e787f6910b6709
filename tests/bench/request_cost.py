#!/usr/bin/env python3
"""Measures a warm ranking request in two builds of the program: CPU time, CPU time outside the kernels,
requests/s.

  tests/bench/request_cost.py --old LAB --new LAB --model RANKER --data CATALOG [--old-without-form]
                              [--policies item,recompute] [--candidates 100,1000] [--rounds 5] [--requests
                              2000] [--in-flight 4] [--json FILE]

LAB is the program troupe-lab of a build; of a build before the split it is the program troupe. Also
prints CPU time by component. `troupe-lab bench rank` runs a node in its own process, with all item
blocks cached, in a closed loop. Within a round the builds alternate, and the first one changes each
round; figures are medians over the rounds. CPU time is the process's own (getrusage) from the first
request to the last answer, including the client. The new build's kernels are measured in a separate run
(--profile), because profiling costs some time. The old build is assumed to need the same for its kernels.
More candidates than the evaluation file has come from the following rows; quality means nothing there.
With 1,000 candidates a tenth of the requests is sent. An old build whose forms declare no arrangements
needs --old-without-form. Its `recompute` computes the user first; that of a new build computes the form's
first arrangement."""
import argparse
import gzip
import json
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "forms"))
from forms import options_of


def read_rows(model, data):
    """Reads the rows that `bench rank` uses: eval.tsv.gz or requests.jsonl, beside the model or the data."""
    for folder in (model, data):
        if (folder / "eval.tsv.gz").exists():
            with gzip.open(folder / "eval.tsv.gz", "rt") as lines:
                cells = [line.rstrip("\n").split("\t") for line in lines][1:]
            return [
                {
                    "user": user,
                    "history": history.split(),
                    "candidates": candidates.split(),
                    "true_item": candidates.split()[int(truth)],
                }
                for user, history, candidates, truth in cells
            ]
        if (folder / "requests.jsonl").exists():
            return list(map(json.loads, (folder / "requests.jsonl").read_text().splitlines()))
    sys.exit(f"no eval.tsv.gz and no requests.jsonl in {model} or {data}; expected one")


def widen(rows, count):
    """Returns each row with up to `count` candidates: its own, then those of the following rows."""
    wide = []
    for i, row in enumerate(rows):
        chosen = dict.fromkeys([row["true_item"], *row["candidates"]])
        for k in range(1, len(rows)):
            if len(chosen) >= count:
                break
            chosen.update(dict.fromkeys(rows[(i + k) % len(rows)]["candidates"]))
        wide.append({**row, "candidates": list(chosen)[:count]})
    return wide


def write_rows(file, rows):
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


class Runs:
    def __init__(self, options, evaluation, requests):
        self.options, self.evaluation, self.requests = options, evaluation, requests
        self.form = options_of(options.model)

    def run(self, program, policy, *more):
        words = [
            program,
            "bench",
            "rank",
            "--model",
            self.options.model,
            "--data",
            self.options.data,
            "--evaluation",
            self.evaluation,
            "--policy",
            policy,
            "--requests",
            self.requests,
            "--in-flight",
            self.options.in_flight,
            "--json",
            "-",
            *([] if program == self.options.old and self.options.old_without_form else self.form),
            *more,
        ]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, words))}\n{done.stderr}")
        run = json.loads(done.stdout)["runs"][0]
        if run["errors"]:
            sys.exit(f"{program}: {run['errors']} of {run['requests']} requests failed; expected none")
        return {
            "cpu_ms": 1e3 * run["cpu_seconds"] / run["requests"],
            "qps": run["qps"],
            "p50_ms": run["p50_ms"],
            "rooms_us": {
                room: 1e6 * seconds / run["requests"] for room, seconds in run.get("profile", {}).items()
            },
        }


def race(runs, policy, options):
    """Returns the rounds of each build, and the profiles of the new one."""
    taken = {"old": [], "new": [], "profile": []}
    for number in range(options.rounds):
        turns = [("old", options.old, []), ("new", options.new, [])]
        for name, program, more in turns[::-1] if number % 2 else turns:
            taken[name].append(runs.run(program, policy, *more))
        taken["profile"].append(runs.run(options.new, policy, "--profile"))
    return taken


def median(runs, key):
    return statistics.median(run[key] for run in runs)


def summary(taken):
    kernels_ms = statistics.median(run["rooms_us"]["kernels"] for run in taken["profile"]) / 1e3
    cell = {"kernels_ms": kernels_ms}
    for build in ("old", "new"):
        cpu = median(taken[build], "cpu_ms")
        cell[build] = {
            "cpu_ms": cpu,
            "outside_ms": cpu - kernels_ms,
            "qps": median(taken[build], "qps"),
            "p50_ms": median(taken[build], "p50_ms"),
            "rounds_cpu_ms": [r["cpu_ms"] for r in taken[build]],
            "rounds_qps": [r["qps"] for r in taken[build]],
        }
    cell["outside_ratio"] = cell["old"]["outside_ms"] / cell["new"]["outside_ms"]
    cell["qps_ratio"] = cell["new"]["qps"] / cell["old"]["qps"]
    cell["kernels_share"] = kernels_ms / cell["new"]["cpu_ms"]
    cell["rooms_us"] = {
        room: statistics.median(run["rooms_us"][room] for run in taken["profile"])
        for room in taken["profile"][0]["rooms_us"]
    }
    return cell


def show(policy, candidates, cell):
    old, new = cell["old"], cell["new"]
    print(
        f"{policy}, {candidates} candidates: CPU {old['cpu_ms']:.3f} -> {new['cpu_ms']:.3f} ms a "
        "request, outside the "
        f"kernels ({cell['kernels_ms']:.3f} ms) {old['outside_ms']:.3f} -> {new['outside_ms']:.3f} ms, "
        f"{cell['outside_ratio']:.2f} times less; requests/s {old['qps']:.0f} -> {new['qps']:.0f}, "
        f"x{cell['qps_ratio']:.2f}; "
        f"kernels {100 * cell['kernels_share']:.0f} % of the new build's"
    )
    for room, us in cell["rooms_us"].items():
        if us >= 0.05:
            print(f"    {room:18} {us:9.1f} us")
    sys.stdout.flush()


def version(program):
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()


def named(options):
    """Returns the options of a run for the report: programs by version, files and folders by name only."""
    named = {
        key: value.name if isinstance(value, pathlib.Path) else value for key, value in vars(options).items()
    }
    for build in ("old", "new"):
        named[build] = version(getattr(options, build))
    return named


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("--old", "--new", "--model", "--data"):
        parser.add_argument(name, type=pathlib.Path, required=True)
    parser.add_argument(
        "--old-without-form",
        action="store_true",
        help="give the form of a shared ranker (tests/forms) to the new build only",
    )
    parser.add_argument("--policies", default="item,recompute")
    parser.add_argument("--candidates", default="100,1000")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--in-flight", type=int, default=4)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    result = {"machine": platform.machine(), "options": named(options), "cells": {}}
    rows = read_rows(options.model, options.data)
    with tempfile.TemporaryDirectory() as folder:
        for candidates in map(int, options.candidates.split(",")):
            evaluation = pathlib.Path(folder) / f"eval-{candidates}.jsonl"
            write_rows(evaluation, widen(rows, candidates))
            requests = options.requests if candidates < 1000 else max(1, options.requests // 10)
            cells = result["cells"][str(candidates)] = {}
            for policy in options.policies.split(","):
                cells[policy] = summary(race(Runs(options, evaluation, requests), policy, options))
                show(policy, candidates, cells[policy])
            if {"item", "recompute"} <= cells.keys():
                cells["item_of_recompute"] = (
                    cells["item"]["new"]["cpu_ms"] / cells["recompute"]["new"]["cpu_ms"]
                )
                print(
                    f"{candidates} candidates: item takes {cells['item_of_recompute']:.3f} of "
                    "recompute's CPU time"
                )
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
