#!/usr/bin/env python3
"""Checks that the precomputed item blocks are those that requests look up.

  tests/precompute/precomputed.py --troupe build/deploy/troupe                     # as ctest runs it
  tests/precompute/precomputed.py --troupe build/deploy/troupe --all --sets 500 --json FILE

For each policy that reuses blocks of items, on a ranker with a discriminant (the demo) and on one that
scores each candidate behind its own tokens (tiny-ranker-titles, if it is beside the checkout): a node is
started, and once it says that all items are precomputed, it ranks fresh candidate sets for one user. After
the first requests, which may write the user's own blocks, no request may write a block, and each must find
its items. Where the configured policy looks up no item blocks, none may be computed. With --cluster, two
cases run on a router and two workers that both have all items. With --all, the policies that choose between
both prefixes run, too, and with --cluster every case. Exit status 1 if a case is wrong.
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import gzip
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "bench"))
import loopback

DEMO = ROOT / "deploy" / "demo"
TITLES = ROOT.parent / "shared" / "models" / "tiny-ranker-titles"
UP_WITHIN_S, PRECOMPUTED_WITHIN_S, WARM_UP_MAX, CANDIDATES, EVENTS = 60, 120, 20, 20, 8
# Blocks that a plan reuses beside its items: the system prompt, and the history as one block or by events.
OTHER_BLOCKS = {"item": 1, "blocks": 2, "all_blocks": 1 + EVENTS}
PREFIXES = {
    "arrangements": ["user_first", "item_first", "causal"],
    "interchangeable": ["user_first", "item_first"],
}
CAUSAL = {"arrangements": ["causal"]}


@dataclasses.dataclass
class Case:
    ranker: str
    policy: str
    form: dict
    approximate: float = 0
    looked_up: bool = True  # whether requests look up blocks of items
    workers: int = 0  # of a cluster; 0 = one node has all roles

    def __str__(self):
        where = f", {self.workers} workers" if self.workers else ""
        form = self.form["arrangements"][0]
        return f"{self.ranker}, {self.policy}, approximate {self.approximate}, {form} first{where}"


CASES = [
    Case("demo", "item", PREFIXES),
    Case("demo", "planner", PREFIXES),
    Case("demo", "blocks+30", CAUSAL),
    Case("demo", "all_blocks+30:tail:mean", CAUSAL),
    Case("demo", "planner", CAUSAL, 0.9),
    Case("demo", "planner", CAUSAL, looked_up=False),
    Case("demo", "user", PREFIXES, looked_up=False),
    Case("demo", "item+25:tail", PREFIXES),
    Case("titles", "item", PREFIXES),
    Case("titles", "planner", PREFIXES),
    Case("titles", "blocks+30", CAUSAL),
    Case("titles", "all_blocks+30:attention", CAUSAL),
    Case("titles", "planner", CAUSAL, 0.9),
    Case("titles", "planner", CAUSAL, looked_up=False),
    Case("demo", "item", PREFIXES, workers=2),
    Case("titles", "all_blocks+30:attention", CAUSAL, workers=2),
]
# The candidates of these requests have more tokens than the history, so both policies choose items.
BY_LENGTH = [Case(ranker, policy, PREFIXES) for ranker in ("demo", "titles") for policy in ("larger", "bat")]


@dataclasses.dataclass
class Ranker:
    model: pathlib.Path
    data: pathlib.Path
    form: pathlib.Path

    def items(self):
        if (lines := self.data / "items.jsonl").exists():
            return [json.loads(line)["id"] for line in lines.read_text().splitlines()]
        with gzip.open(self.data / "items.tsv.gz", "rt") as table:
            return [line.split("\t")[0] for line in table][1:]


RANKERS = {
    "demo": Ranker(DEMO / "model", DEMO / "world", DEMO / "model" / "prompt.json"),
    "titles": Ranker(TITLES, TITLES, ROOT / "tests" / "forms" / "titles.json"),
}


def write_form(folder, case):
    form = json.loads(RANKERS[case.ranker].form.read_text())
    form.pop("interchangeable", None)
    (folder / "form.json").write_text(json.dumps(form | case.form))
    return folder / "form.json"


class Node:
    """One node with all roles."""

    def __init__(self, troupe, folder, case):
        ranker = RANKERS[case.ranker]
        form = f"model.prompt={write_form(folder, case)}"
        common = ["--model", ranker.model, "--data-dir", folder / "data", "--set", form]
        loopback.run(troupe, "import", *common, "--data", ranker.data)
        settings = [
            f"router.policy={case.policy}",
            f"router.approximate={case.approximate}",
            "pool.memory=1GiB",
        ]
        self.log = open(folder / "log", "w")
        self.process = subprocess.Popen(
            [troupe, "serve", *common, "--port", "0", "--port-file", folder / "port"]
            + [word for setting in settings for word in ("--set", setting)],
            stdout=self.log,
            stderr=self.log,
        )
        try:
            self.await_port(folder / "port")
        except BaseException:
            self.end()
            raise

    def await_port(self, port):
        end = time.monotonic() + UP_WITHIN_S
        while not port.exists() or not port.read_text().strip():
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError(
                    "the node did not start: " + pathlib.Path(self.log.name).read_text()[-500:]
                )
            time.sleep(0.05)
        self.port = int(port.read_text())

    def end(self):
        self.process.terminate()
        self.process.wait(30)
        self.log.close()


class Cluster:
    """A router and workers, each with the blocks of all items."""

    def __init__(self, troupe, folder, case):
        ranker = RANKERS[case.ranker]
        settings = [
            "pool: {memory: 1GiB, placement: replicate}",
            f'router: {{policy: "{case.policy}", approximate: {case.approximate}}}',
            f"model: {{directory: {ranker.model}, prompt: {write_form(folder, case)}}}",
        ]
        self.cluster = loopback.Cluster(troupe, folder, case.workers, settings)
        self.port = self.cluster.http_port["front"]
        try:
            self.cluster.start_all(ranker.data)
        except BaseException:
            self.end()
            raise

    def end(self):
        self.cluster.end()


def ask(served, path, body=None):
    method = "GET" if body is None else "POST"
    status, text = loopback.ask(served.port, method, path, body, limit=60)
    if status != 200:
        raise RuntimeError(f"{path}: {status} {text[:300]}")
    return json.loads(text)


def precompute(served):
    """Returns the router's state of precomputing and the number of blocks; equal items share one."""
    for actor in ask(served, "/v1/cluster")["actors"]:
        if actor["role"] == "router":
            fields = {field["name"]: field["value"] for field in actor["fields"]}
            return fields["precompute"], int(fields["items_precomputed"])
    raise RuntimeError("no router in the status")


def rank(case, served, body, sets, draw_candidates):
    """Ranks fresh candidate sets; those of a cluster some at a time, so that all workers are used."""
    bodies = [body | {"candidates": draw_candidates()} for _ in range(sets)]
    with concurrent.futures.ThreadPoolExecutor(1 + 3 * case.workers) as pool:
        return list(pool.map(lambda each: ask(served, "/v1/rank", each), bodies))


def warm_up(case, served, body, draw_candidates):
    """Asks until each worker has ranked for the user several times."""
    at = collections.Counter()
    for _ in range(WARM_UP_MAX):
        at.update(reply["node"] for reply in rank(case, served, body, 8, draw_candidates))
        if len(at) == max(1, case.workers) and min(at.values()) >= 2:
            return
    raise RuntimeError(f"{case}: not every worker was used: {dict(at)}")


def run(case, served, sets, draw):
    """Returns what is counted, and what is wrong."""
    items = RANKERS[case.ranker].items()
    end = time.monotonic() + PRECOMPUTED_WITHIN_S
    while (state := precompute(served))[0] not in ("done", "off"):
        if time.monotonic() > end:
            return {}, [f"not precomputed: {state}"]
        time.sleep(0.05)
    wrong = []
    if (state[1] > 0) != case.looked_up:
        wrong.append(f"{state[1]} blocks of {len(items)} items are precomputed")
    counted = {"precomputed": state[1], "sets": sets, "blocks_written": 0, "blocks_reused": 0}
    if not case.looked_up:
        return counted, wrong
    body = {"history": draw.sample(items, EVENTS), "top_k": 3}
    draw_candidates = lambda: draw.sample(items, CANDIDATES)
    warm_up(case, served, body, draw_candidates)
    for reply in rank(case, served, body, sets, draw_candidates):
        counted["blocks_written"] += reply["blocks_written"]
        counted["blocks_reused"] += reply["blocks_reused"]
        expected = CANDIDATES + OTHER_BLOCKS[reply["plan"]]
        if reply["blocks_reused"] != expected and len(wrong) < 5:
            wrong.append(f"{reply['plan']} reused {reply['blocks_reused']} blocks; expected {expected}")
    if counted["blocks_written"]:
        wrong.append(f"{counted['blocks_written']} blocks are written by {sets} requests")
    return counted, wrong


def cases_of(options):
    """Returns the cases to run, all on one node or all on a cluster."""
    cases = [case for case in CASES if options.cluster == (case.workers > 0)]
    if not options.all:
        return cases
    on_node = [case for case in CASES if not case.workers] + BY_LENGTH
    return [dataclasses.replace(case, workers=2) for case in on_node] if options.cluster else on_node


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    parser.add_argument("--sets", type=int, default=20, help="candidate sets per case")
    parser.add_argument("--json", help="file for the counts")
    parser.add_argument("--cluster", action="store_true", help="run the cases of a cluster alone")
    parser.add_argument("--all", action="store_true", help="run every policy, with --cluster on a cluster")
    options = parser.parse_args()
    results, failed = [], 0
    for case in cases_of(options):
        if not RANKERS[case.ranker].model.exists():
            print(f"skipped: {case}: {RANKERS[case.ranker].model.name} is not beside the checkout")
            continue
        if case.workers and (lacking := loopback.missing()):
            print(f"skipped: {case}: no {lacking} on this machine")
            continue
        with tempfile.TemporaryDirectory() as folder:
            kind = Cluster if case.workers else Node
            served = kind(os.path.abspath(options.troupe), pathlib.Path(folder), case)
            try:
                counted, wrong = run(case, served, options.sets, random.Random(44))
            finally:
                served.end()
        failed += bool(wrong)
        results.append({"case": str(case), **counted})
        print(f"{case}: {counted}" + "".join(f"\n  wrong: {fault}" for fault in wrong), flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
