#!/usr/bin/env python3
"""Checks that the item blocks that are computed ahead are those that requests look up.

  tests/precompute/precomputed.py --troupe build/deploy/troupe                     # as ctest runs it
  tests/precompute/precomputed.py --troupe build/deploy/troupe --sets 500 --json FILE

For each policy that reuses blocks of items, on a ranker with a discriminant (the demo) and on one that
scores each candidate behind its own tokens (tiny-ranker-titles, if it is beside the checkout): a node is
started, and once it says that all items are precomputed, it ranks fresh candidate sets for one user. After
the first request, which may write the user's own blocks, no request may write a block, and each must find
its items. Where the configured policy looks up no item blocks, none may be computed. Exit status 1 if a
case is wrong.
"""
import argparse
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
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO = ROOT / "deploy" / "demo"
TITLES = ROOT.parent / "shared" / "models" / "tiny-ranker-titles"
UP_WITHIN_S, PRECOMPUTED_WITHIN_S, CANDIDATES = 60, 120, 20
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


CASES = [
    Case("demo", "item", PREFIXES),
    Case("demo", "planner", PREFIXES),
    Case("demo", "blocks+30", CAUSAL),
    Case("demo", "all_blocks+30:tail:mean", CAUSAL),
    Case("demo", "planner", CAUSAL, 0.9),
    Case("demo", "planner", CAUSAL, looked_up=False),
    Case("demo", "user", PREFIXES, looked_up=False),
    Case("titles", "blocks+30", CAUSAL),
    Case("titles", "all_blocks+30:attention", CAUSAL),
    Case("titles", "planner", CAUSAL, 0.9),
    Case("titles", "planner", CAUSAL, looked_up=False),
]


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


class Node:
    def __init__(self, troupe, folder, case):
        ranker = RANKERS[case.ranker]
        form = json.loads(ranker.form.read_text())
        form.pop("interchangeable", None)
        form_file = folder / "form.json"
        form_file.write_text(json.dumps(form | case.form))
        common = [
            "--model",
            ranker.model,
            "--data-dir",
            folder / "data",
            "--set",
            f"model.prompt={form_file}",
        ]
        subprocess.run([troupe, "import", *common, "--data", ranker.data], check=True, capture_output=True)
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
        self.await_port(folder / "port")

    def await_port(self, port):
        end = time.monotonic() + UP_WITHIN_S
        while not port.exists() or not port.read_text().strip():
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError(
                    "the node did not start: " + pathlib.Path(self.log.name).read_text()[-500:]
                )
            time.sleep(0.05)
        self.url = "http://127.0.0.1:" + port.read_text().strip()

    def ask(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(self.url + path, data), timeout=60) as reply:
            return json.loads(reply.read())

    def precompute(self):
        """Returns the router's state of precomputing and the number of blocks; equal items share one."""
        for actor in self.ask("/v1/cluster")["actors"]:
            if actor["role"] == "router":
                fields = {field["name"]: field["value"] for field in actor["fields"]}
                return fields["precompute"], int(fields["items_precomputed"])
        raise RuntimeError("no router in the status")

    def close(self):
        self.process.terminate()
        self.process.wait(30)
        self.log.close()


def run(case, node, sets, draw):
    """Returns what is counted, and what is wrong."""
    items = RANKERS[case.ranker].items()
    end = time.monotonic() + PRECOMPUTED_WITHIN_S
    while (state := node.precompute())[0] not in ("done", "off"):
        if time.monotonic() > end:
            return {}, [f"not precomputed: {state}"]
        time.sleep(0.05)
    wrong = []
    if (state[1] > 0) != case.looked_up:
        wrong.append(f"{state[1]} blocks of {len(items)} items are precomputed")
    counted = {"precomputed": state[1], "sets": sets, "blocks_written": 0, "blocks_reused": 0}
    if not case.looked_up:
        return counted, wrong
    body = {"history": draw.sample(items, 8), "top_k": 3}
    node.ask("/v1/rank", body | {"candidates": draw.sample(items, CANDIDATES)})
    least = CANDIDATES
    for _ in range(sets):
        reply = node.ask("/v1/rank", body | {"candidates": draw.sample(items, CANDIDATES)})
        counted["blocks_written"] += reply["blocks_written"]
        counted["blocks_reused"] += reply["blocks_reused"]
        least = min(least, reply["blocks_reused"])
    if counted["blocks_written"]:
        wrong.append(f"{counted['blocks_written']} blocks are written by {sets} requests")
    if least < CANDIDATES:
        wrong.append(f"a request reused {least} blocks; expected at least its {CANDIDATES} items'")
    return counted, wrong


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    parser.add_argument("--sets", type=int, default=20, help="candidate sets per case")
    parser.add_argument("--json", help="file for the counts")
    options = parser.parse_args()
    results, failed = [], 0
    for case in CASES:
        name = f"{case.ranker}, {case.policy}, approximate {case.approximate}, {case.form['arrangements'][0]}"
        if not RANKERS[case.ranker].model.exists():
            print(f"skipped: {name}: {RANKERS[case.ranker].model.name} is not beside the checkout")
            continue
        with tempfile.TemporaryDirectory() as folder:
            node = Node(os.path.abspath(options.troupe), pathlib.Path(folder), case)
            try:
                counted, wrong = run(case, node, options.sets, random.Random(44))
            finally:
                node.close()
        failed += bool(wrong)
        results.append({"case": name, **counted})
        print(f"{name}: {counted}" + "".join(f"\n  wrong: {fault}" for fault in wrong), flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
