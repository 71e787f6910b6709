#!/usr/bin/env python3
"""Compares the policies on traces of real histories, with three sizes of key-value memory, on nodes of
this machine.

  tests/bench/policies.py --games FOLDER --movies FOLDER --model RANKER --titles TOKENS.jsonl.gz
                          [--lab build/deploy/troupe-lab] [--rounds 3] [--requests 800] [--only NAME,...]
                          [--sizes NAME,...] [--json FILE]

Measures throughput, hit rate, computed tokens and P99. Traces come from `troupe-lab trace convert`: users
take what they took in the data, each time after three requests on average:

  games      semantic IDs; users are drawn, and half of the requests are soon followed by another of that
  user movies     items are the tokens of their titles (--titles: lines with "set", "item_id", "ids");
  drawn likewise sessions   movies at the times of their ratings: few users at a time, each for long

The model is a ranker of games. Its form must list item first and user first as interchangeable; that of
tiny-ranker-games is in tests/forms. On movies its cost is that of any model of its shape; its scores mean
nothing. Memory is a quarter of all item blocks (short), half of them (middle), and all of them with all
user blocks (all fits).

`bench rank` gives items what they need of the memory, which may leave nothing for users. So `bat` and
`larger` run again with the best static split, which is searched first (fewest computed tokens, one run of
each share). They run once more undivided (router.shared_areas): users and items share the memory, and items
are admitted by their popularity, as with the planner.

Within a round every policy and size runs once, in a new order in each round. Figures are medians over the
rounds; the spread is (largest - smallest) / median of the throughput. Cells are compared by throughput,
by CPU time, which other jobs on the machine disturb less, and by tokens, though tokens that attend to
more cost more. Requests have no deadline that they could miss. Exit status 1: in a cell the planner's
throughput is below the best other's by more than the spread."""
import argparse
import gzip
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "forms"))
from forms import options_of

POLICIES = ["recompute", "user", "item", "larger", "bat", "planner"]
SPLITS = [0.2, 0.4, 0.6, 0.8, 0.9]  # shares of the memory for items, besides the one of `bench rank`
VARIANTS = {f"{policy}, {how}": policy for policy in ["larger", "bat"] for how in ["best split", "undivided"]}
SYSTEMS = [*POLICIES, *VARIANTS]
SIZES = {"short": 0.25, "middle": 0.5, "all fits": None}  # share of the item blocks' bytes
RETURNING = ["--return-share", "0.5", "--return-after", "10"]
TRACES = {
    "games": ["--start", "4", *RETURNING],
    "movies": ["--start", "20", *RETURNING],
    "sessions": ["--start", "20", "--arrivals", "own"],
}


def run(words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stderr}")
    return done.stdout


def make_movies(folder, options):
    """Makes a catalog for import: the titles' tokens, folded into the model's vocabulary, and the users."""
    names = json.loads((options.model / "vocab.json").read_text())
    first = names["<item_0>"]
    room = len(names) - first
    folder.mkdir()
    with gzip.open(options.titles, "rt") as titles, open(folder / "items.jsonl", "w") as items:
        for line in map(json.loads, titles):
            if not line["set"].startswith("movielens"):
                continue
            tokens = [first + token % room for token in line["ids"]]
            items.write(
                json.dumps(
                    {
                        "id": str(line["item_id"]),
                        "title": line["text"],
                        "tokens": tokens,
                        "identifier": names[f"<item_{line['item_id']}>"],
                    }
                )
                + "\n"
            )
    for name in ["ratings.tsv.gz", "sequences.tsv.gz"]:
        (folder / name).symlink_to((options.movies / name).resolve())


class Workload:
    def __init__(self, name, folder, options):
        self.name, self.folder, self.options = name, folder, options
        self.data = options.games if name == "games" else folder / "catalog"
        if name != "games":
            make_movies(self.data, options)
        self.trace = folder / "trace.jsonl.gz"
        run(
            [
                options.lab,
                "trace",
                "convert",
                "--data",
                self.data,
                "--out",
                self.trace,
                "--rate",
                "10",
                "--views",
                "3",
                "--requests",
                options.requests,
                *TRACES[name],
            ]
        )
        stats = folder / "stats.json"
        run([options.lab, "trace", "stats", self.trace, "--json", stats])
        self.stats = json.loads(stats.read_text())
        sizes = self.bench("item", None)
        self.item_bytes, self.user_bytes = sizes["item_bytes"], sizes["user_bytes"]
        self.runs, self.splits = {}, {}

    def bench(self, policy, memory, *more):
        words = [
            self.options.lab,
            "bench",
            "rank",
            "--model",
            self.options.model,
            *options_of(self.options.model),
            "--data",
            self.data,
            "--trace",
            self.trace,
            "--closed",
            "--in-flight",
            "4",
            "--policy",
            policy,
            "--json",
            self.folder / "run.json",
        ]
        for setting in ["router.deadline", "router.deadline_max"]:  # late counts as slow, not lost
            words += ["--set", f"{setting}=10min"]
        run([*words, *(["--memory", memory] if memory else []), *more])
        return json.loads((self.folder / "run.json").read_text())

    def memory(self, size):
        share = SIZES[size]
        return int(self.item_bytes * share) if share else self.item_bytes + self.user_bytes

    def search_split(self, size, policy):
        """Returns the item share with the fewest computed tokens; None = the share that `bench rank`
        gives."""
        if (size, policy) not in self.splits:
            tried = {
                share: self.bench(policy, self.memory(size), *(["--item-share", share] if share else []))[
                    "runs"
                ][0]["tokens_computed"]
                for share in [None, *SPLITS]
            }
            self.splits[size, policy] = min(tried, key=tried.get), tried
        return self.splits[size, policy][0]

    def more_for(self, size, system):
        if system.endswith(", undivided"):
            return ["--set", "router.shared_areas=true", "--item-share", 0.5]
        if system.endswith(", best split") and self.search_split(size, VARIANTS[system]):
            return ["--item-share", self.search_split(size, VARIANTS[system])]
        return []

    def measure(self, size, system):
        policy = VARIANTS.get(system, system)
        result = self.bench(policy, self.memory(size), *self.more_for(size, system))["runs"][0]
        if result["errors"]:
            sys.exit(f"{self.name}, {system}: {result['errors']} requests failed")
        self.runs.setdefault((size, system), []).append(result)


def cells(sizes):
    """Yields the cells. Recomputing needs no memory: it runs once a round, for all sizes."""
    return [
        (size, system) for size in sizes for system in SYSTEMS if system != "recompute" or size == sizes[0]
    ]


def median(runs, key):
    return statistics.median(one[key] for one in runs)


def row_of(workload, sizes, size, policy):
    runs = workload.runs[(sizes[0], policy) if policy == "recompute" else (size, policy)]
    keys = [
        "qps",
        "hit_rate",
        "tokens_computed",
        "tokens_total",
        "cpu_seconds",
        "p99_ms",
        "plans_user",
        "prediction_p10",
        "prediction_p50",
        "prediction_p90",
    ]
    row = {
        "workload": workload.name,
        "size": size,
        "memory_bytes": workload.memory(size),
        "policy": policy,
        **{key: median(runs, key) for key in keys},
    }
    speeds = [one["qps"] for one in runs]
    row["spread"] = (max(speeds) - min(speeds)) / row["qps"]
    row["rounds"] = runs
    if policy.endswith(", best split"):
        row["split"], tried = workload.splits[size, VARIANTS[policy]]
        row["splits"] = {str(share): tokens for share, tokens in tried.items()}
    return row


def compare(rows):
    """Compares the planner with the other systems in one cell; a figure above 1 means that the planner is
    better."""
    planner = next(row for row in rows if row["policy"] == "planner")
    others = [row for row in rows if row is not planner]
    user = next(row for row in rows if row["policy"] == "user")
    best = max(others, key=lambda row: row["qps"])
    return {
        "best_other": best["policy"],
        "planner_over_best": planner["qps"] / best["qps"],
        "planner_over_user": planner["qps"] / user["qps"],
        "planner_over_best_cpu": min(row["cpu_seconds"] for row in others) / planner["cpu_seconds"],
        "planner_over_user_cpu": user["cpu_seconds"] / planner["cpu_seconds"],
        "planner_over_best_tokens": min(row["tokens_computed"] for row in others)
        / planner["tokens_computed"],
        "spread": max(planner["spread"], best["spread"]),
    }


def show(workload, table, sizes):
    print(
        f"\n{workload.name}: {workload.options.requests} requests; item blocks "
        f"{workload.item_bytes / 1e6:.0f} MB, "
        f"users' {workload.user_bytes / 1e6:.0f} MB"
    )
    print(
        f"{'memory':18} {'policy':18} {'a second':>8} {'spread':>7} {'P99 ms':>7} {'CPU s':>6} "
        f"{'computed':>9} "
        f"{'hit rate':>8} {'user plans':>10}   observed / predicted (p10 p50 p90)"
    )
    for size in sizes:
        rows = [row for row in table if row["size"] == size]
        for row in rows:
            memory = f"{size} ({row['memory_bytes'] / 2**20:.0f} MiB)"
            print(
                f"{memory:18} {row['policy']:18} {row['qps']:8.1f} {row['spread']:7.1%} {row['p99_ms']:7.1f} "
                f"{row['cpu_seconds']:6.1f} {row['tokens_computed']:9.0f} {row['hit_rate']:8.3f} "
                f"{row['plans_user']:10.0f}   {row['prediction_p10']:.2f} {row['prediction_p50']:.2f} "
                f"{row['prediction_p90']:.2f}"
                + (f"   items {row['split'] or 'as usual'}" if "split" in row else "")
            )
        cell = compare(rows)
        print(
            f"{'':18} planner ÷ best other ({cell['best_other']}): {cell['planner_over_best']:.2f} (by "
            "processor time "
            f"{cell['planner_over_best_cpu']:.2f}, by tokens {cell['planner_over_best_tokens']:.2f}; spread "
            f"{cell['spread']:.1%}); ÷ user: {cell['planner_over_user']:.2f} "
            f"({cell['planner_over_user_cpu']:.2f})"
        )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ["games", "movies", "model", "titles"]:
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--lab", type=pathlib.Path, default=ROOT / "build/deploy/troupe-lab")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=800)
    parser.add_argument("--only", default=",".join(TRACES), help="some of " + ", ".join(TRACES))
    parser.add_argument("--sizes", default=",".join(SIZES), help="some of " + ", ".join(SIZES))
    parser.add_argument("--seed", type=int, default=1, help="seed of the order within a round")
    parser.add_argument("--json")
    options = parser.parse_args()
    order, sizes = random.Random(options.seed), options.sizes.split(",")
    with tempfile.TemporaryDirectory(prefix="troupe-policies-") as name:
        workloads = []
        for each in options.only.split(","):
            folder = pathlib.Path(name) / each
            folder.mkdir()
            workloads.append(Workload(each, folder, options))
        for number in range(options.rounds):
            todo = [(workload, *cell) for workload in workloads for cell in cells(sizes)]
            order.shuffle(todo)
            for done, (workload, size, policy) in enumerate(todo):
                print(
                    f"\rround {number + 1} of {options.rounds}: {done} of {len(todo)} ",
                    end="",
                    file=sys.stderr,
                )
                workload.measure(size, policy)
        print(file=sys.stderr)
        result = []
        for workload in workloads:
            table = [row_of(workload, sizes, size, policy) for size in sizes for policy in SYSTEMS]
            show(workload, table, sizes)
            result.append(
                {
                    "workload": workload.name,
                    "trace": workload.stats,
                    "item_bytes": workload.item_bytes,
                    "user_bytes": workload.user_bytes,
                    "rows": table,
                    "cells": {size: compare([row for row in table if row["size"] == size]) for size in sizes},
                }
            )
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=1) + "\n")
    return 1 if behind(result) else 0


def behind(result):
    """Prints the cells where the planner is below the best other system by more than the spread."""
    count = 0
    for workload in result:
        for size, cell in workload["cells"].items():
            if cell["planner_over_best"] < 1 - cell["spread"]:
                count += 1
                print(
                    f"{workload['workload']}, {size}: the planner is at {cell['planner_over_best']:.3f} of "
                    f"{cell['best_other']}; expected at least 1 less the spread of {cell['spread']:.3f}"
                )
    return count


if __name__ == "__main__":
    sys.exit(main())
