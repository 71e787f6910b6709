#!/usr/bin/env python3
"""Measures what repaired item blocks leave of a ranker's quality, offline and through HTTP.

  tests/bench/served_plans.py [--troupe build/deploy/troupe] [--rankers games,titles] [--requests 0]
                              [--json FILE]

`troupe-lab bench plans` ranks the model's own test requests by the plain prompt and by item blocks of which
30 % are recomputed. Then a node serves the same model under `causal` alone and allows approximate answers.
Once all items are precomputed, each request is sent three times: for the exact plan, with the policy of that
repair, and with the planner's own choice. Both measure NDCG@10 to the plain prompt's, and the share of the
ten best that the plain prompt also has. Exit status 1 if the repaired plan keeps less than BOUNDS in either;
77 if a model or its data is not beside the checkout."""
import argparse
import collections
import csv
import gzip
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "forms"))
import loopback
from forms import form_of

SHARED = ROOT.parent / "shared"
RANKERS = {  # model, data
    "games": (SHARED / "models/tiny-ranker-games", SHARED / "data/amazon-games"),
    "titles": (SHARED / "models/tiny-ranker-titles", SHARED / "models/tiny-ranker-titles"),
}
REPAIRED = "blocks+30:tail:mean:layer2"
SYSTEMS = {
    "exact": {"policy": "causal"},
    REPAIRED: {"policy": REPAIRED},
    "planner": {"approximate": 1},  # the configured policy
}
BOUNDS = {"ndcg@10 to full": 0.96, "overlap@10": 0.91}
BEST, UP_WITHIN_S, PRECOMPUTED_WITHIN_S = 10, 60, 300


def read_requests(model, limit):
    with gzip.open(model / "eval.tsv.gz", "rt") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    requests = []
    for row in rows[:limit] if limit else rows:
        candidates = row["candidates"].split(" ")
        body = {"history": row["history"].split(" "), "candidates": candidates, "top_k": BEST}
        requests.append((body, candidates[int(row["true_index"])]))
    return requests


def causal_form(folder, model):
    """Writes the model's form with `causal` as its only arrangement, which blocks approximate."""
    form = json.loads(pathlib.Path(form_of(model)).read_text())
    form.pop("interchangeable", None)
    (folder / "form.json").write_text(json.dumps(form | {"arrangements": ["causal"]}))
    return folder / "form.json"


def measure_offline(options, folder, model, data, form):
    """Returns what `bench plans` measures of the repaired plan."""
    answered = folder / "plans.json"
    words = ["bench", "plans", "--model", model, "--data", data, "--prompt", form]
    words += ["--plans", f"causal,{REPAIRED}", "--events", options.requests, "--json", answered]
    loopback.run(f"{options.troupe}-lab", *words)
    _, repaired = json.loads(answered.read_text())["runs"]
    return {name: repaired[name] for name in BOUNDS}


class Node:
    """One node with all roles, once it has all item blocks."""

    def __init__(self, troupe, folder, model, data, form):
        common = ["--model", model, "--data-dir", folder / "data", "--set", f"model.prompt={form}"]
        loopback.run(troupe, "import", *common, "--data", data)
        settings = ["router.policy=planner", "router.approximate=1", "pool.memory=1GiB"]
        more = [word for setting in settings for word in ("--set", setting)]
        port, self.log = folder / "port", open(folder / "log", "w")
        self.process = subprocess.Popen(
            [troupe, "serve", *common, "--port", "0", "--port-file", port, *more],
            stdout=self.log,
            stderr=self.log,
        )
        try:
            self._await("the node", UP_WITHIN_S, lambda: port.exists() and port.read_text().strip())
            self.port = int(port.read_text())
            self._await("the precomputed blocks", PRECOMPUTED_WITHIN_S, self._is_precomputed)
        except BaseException:
            self.end()
            raise

    def _await(self, what, limit, is_there):
        until = time.monotonic() + limit
        while not is_there():
            if time.monotonic() > until or self.process.poll() is not None:
                raise RuntimeError(f"{what} did not come: {pathlib.Path(self.log.name).read_text()[-500:]}")
            time.sleep(0.05)

    def _is_precomputed(self):
        actors = json.loads(loopback.ask(self.port, "GET", "/v1/cluster")[1])["actors"]
        return any(
            field["name"] == "precompute" and field["value"] == "done"
            for actor in actors
            for field in actor["fields"]
        )

    def rank(self, body):
        status, text = loopback.ask(self.port, "POST", "/v1/rank", body, limit=60)
        if status != 200:
            raise RuntimeError(f"/v1/rank: {status} {text[:300]}")
        return json.loads(text)

    def end(self):
        self.process.terminate()
        self.process.wait(30)
        self.log.close()


def gain(best, truth):
    """Returns the NDCG of a list in which one item is relevant."""
    return 1 / math.log2(best.index(truth) + 2) if truth in best else 0


def ratio(mine, full):
    """Returns the ratio of two means over the same requests, and its standard error (delta method)."""
    of_full = statistics.mean(full)
    mean = statistics.mean(mine) / of_full
    apart = [a - mean * b for a, b in zip(mine, full)]
    return {"mean": mean, "standard_error": statistics.stdev(apart) / math.sqrt(len(apart)) / of_full}


def measure_served(node, requests):
    """Returns system → what its answers keep of the exact ones, and the plans that it had."""
    lists = {system: [] for system in SYSTEMS}
    plans = {system: collections.Counter() for system in SYSTEMS}
    left = {system: [] for system in SYSTEMS}  # share of the prompt that is approximate
    for body, _ in requests:
        for system, more in SYSTEMS.items():
            reply = node.rank(body | more)
            lists[system].append([item["id"] for item in reply["items"]])
            plans[system][reply["plan"]] += 1
            left[system].append(reply["approximate"])
    truths = [truth for _, truth in requests]
    gains = {system: [gain(best, truth) for best, truth in zip(lists[system], truths)] for system in SYSTEMS}
    result = {}
    for system in SYSTEMS:
        kept = [len(set(a) & set(b)) / BEST for a, b in zip(lists[system], lists["exact"])]
        error = statistics.stdev(kept) / math.sqrt(len(kept))
        result[system] = {
            "ndcg@10": statistics.mean(gains[system]),
            "ndcg@10 to full": ratio(gains[system], gains["exact"]),
            "overlap@10": {"mean": statistics.mean(kept), "standard_error": error},
            "approximate": statistics.mean(left[system]),
            "plans": plans[system],
        }
    return result


def measure(options, ranker):
    model, data = RANKERS[ranker]
    requests = read_requests(model, options.requests)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        form = causal_form(folder, model)
        offline = measure_offline(options, folder, model, data, form)
        node = Node(options.troupe, folder, model, data, form)
        try:
            served = measure_served(node, requests)
        finally:
            node.end()
    return {"ranker": ranker, "requests": len(requests), "offline": offline, "served": served}


def show(result):
    print(f"{result['ranker']}, {result['requests']} requests")
    rows = [("bench plans", REPAIRED, result["offline"])]
    rows += [("HTTP", system, measured) for system, measured in result["served"].items()]
    for where, system, measured in rows:
        of = {name: measured[name] for name in BOUNDS}
        numbers = [f"{name} {one['mean']:.3f} ± {one['standard_error']:.3f}" for name, one in of.items()]
        plans = f"plans {dict(measured['plans'])}" if "plans" in measured else ""
        print(f"  {where:<12}{system:<28}{'  '.join(numbers)}  {plans}", flush=True)


def misses(result):
    return [
        f"{result['ranker']}, {where}: {name} is {measured[name]['mean']:.3f}; expected at least {bound}"
        for where, measured in (("bench plans", result["offline"]), ("HTTP", result["served"][REPAIRED]))
        for name, bound in BOUNDS.items()
        if measured[name]["mean"] < bound
    ]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", default=str(ROOT / "build/deploy/troupe"))
    parser.add_argument("--rankers", default=",".join(RANKERS), help="some of %(default)s")
    parser.add_argument("--requests", type=int, default=0, help="of each ranker, from the first; 0 = all")
    parser.add_argument("--json", help="file for the results")
    options = parser.parse_args()
    options.troupe = os.path.abspath(options.troupe)
    results = []
    for ranker in options.rankers.split(","):
        if ranker not in RANKERS:
            parser.error(f"--rankers: \"{ranker}\" is unknown; expected some of {', '.join(RANKERS)}")
        for path in RANKERS[ranker]:
            if not path.exists():
                print(f"skipped: {path} is not there", file=sys.stderr)
                return 77
        results.append(measure(options, ranker))
        show(results[-1])
    missed = [miss for result in results for miss in misses(result)]
    print("\n".join(missed) or "all bounds hold")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
