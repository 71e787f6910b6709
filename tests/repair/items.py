#!/usr/bin/env python3
"""Checks repaired item-first answers ("item+25", BAT §4.2) of a serving node.

  tests/repair/items.py --troupe build/deploy/troupe      # as ctest runs it; troupe-lab is beside it

Serves the demo's ranker with `router.policy: item+25`. Small requests are compared, for several shares,
selections and corrections, with the repair as its definition says (item_model.py): scores to 1e-4, and the
approximate share, the first time and from cached blocks. Limits on that share must be kept, and names that
make no sense are refused with the reason. Then whole candidate lists are ranked, and the NDCG and the
overlap with the plain prompt must be those of `troupe-lab bench plans`. Exit status 1 on any fault.
"""
import argparse
import http.client
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from item_model import ItemModel

DEMO = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "demo"
MODEL, WORLD = DEMO / "model", DEMO / "world"
TOLERANCE, CLOSE, UP_LIMIT_S = 1e-4, 1e-3, 60
USERS, CANDIDATES, EVENTS = 3, 6, 12
USUAL = "item+25"
REPAIRS = (
    "34",
    "50:window2",
    "100",
    "50:tail",
    "30:attention",
    "40:deviation",
    "30:importance:mean",
    "20:tail:layer2",
    "30:tail:mean:layer2:window4",
)
REFUSED = {
    "user+25": "would have no blocks of items",
    "recompute+25": "would have no blocks of items",
    "item+25:best": "best",
    "item+0": "repairs nothing",
    "item+25:history20": "is of histories, which are no blocks in its plans",
}
# Variants of `bench plans`, and their policies.
BENCHED = {
    ("item", "none", "none"): "item",
    ("item +25 %", "first", "none"): "item+25",
    ("item +50 %", "first", "none"): "item+50",
    ("item +25 %", "tail", "none"): "item+25:tail",
    ("item +50 %", "tail", "mean+layer2"): "item+50:tail:mean:layer2",
    ("item +50 %", "importance", "none"): "item+50:importance",
    ("item +100 %", "tail", "none"): "item+100:tail",
}


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def scores_of(reply):
    return {item["id"]: item["score"] for item in reply["items"]}


def items_fault(reply, candidates):
    """Returns "" if the reply has each candidate once and no other item, or what is wrong with its items."""
    ids = [item["id"] for item in reply["items"]]
    wrong = {
        "missing": sorted(set(candidates) - set(ids)),
        "foreign": sorted(set(ids) - set(candidates)),
        "repeated": sorted(item for item in set(ids) if ids.count(item) > 1),
    }
    named = [f"{what} are {items}" for what, items in wrong.items() if items]
    return f"items {', '.join(named)}; expected the candidates, once each" if named else ""


def scores_fault(reply, expected):
    """Returns "" if the reply has these scores by item, to TOLERANCE, or what differs."""
    if fault := items_fault(reply, expected):
        return fault
    off = {item: abs(score - expected[item]) for item, score in scores_of(reply).items()}
    wrong = {item: difference for item, difference in off.items() if not difference < TOLERANCE}
    return f"scores differ by item by {wrong}; expected less than {TOLERANCE}" if wrong else ""


class Node:
    """A node with all roles that serves a model, with settings such as "router.policy=item"."""

    def __init__(self, troupe, folder, model, data, *settings):
        port = pathlib.Path(folder) / "port"
        common = ["--model", model, "--data-dir", os.path.join(folder, "data")]
        words = [word for setting in settings for word in ("--set", setting)]
        of_model = [word for s in settings if s.startswith("model.") for word in ("--set", s)]
        subprocess.run(
            [troupe, "import", *common, *of_model, "--data", data], check=True, stdout=subprocess.DEVNULL
        )
        self.process = subprocess.Popen(
            [troupe, "serve", *common, *words, "--port", "0", "--port-file", port],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + UP_LIMIT_S
        while not port.exists() or not port.read_text().strip():
            if time.monotonic() > end or self.process.poll() is not None:
                self.close()
                raise RuntimeError("the node did not start")
            time.sleep(0.05)
        self.port = int(port.read_text())

    def rank(self, user, candidates, policy=None, **more):
        body = {"candidates": candidates, **more}
        if user is not None:
            body["user"] = user
        if policy:
            body["policy"] = policy
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("POST", "/v1/rank", json.dumps(body))
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def close(self):
        self.process.terminate()
        self.process.wait(30)


class World:
    def __init__(self):
        rows = json.loads((MODEL / "vocab.json").read_text())
        numbers = lambda words: [rows[word] for word in words]
        form = json.loads((MODEL / "prompt.json").read_text())
        self.form = {part: numbers(form[part]) for part in ("system", "user", "instruction", "discriminant")}
        items = read_lines(WORLD / "items.jsonl")
        self.tokens = {item["id"]: numbers(item["tokens"]) for item in items}
        self.identifiers = {item["id"]: rows[item["identifier"]] for item in items}
        self.histories = {user["id"]: user["history"] for user in read_lines(WORLD / "users.jsonl")}
        self.requests = read_lines(WORLD / "requests.jsonl")

    def expected(self, model, user, candidates, repair):
        history = [token for item in self.histories[user] for token in self.tokens[item]]
        items = [self.tokens[item] for item in candidates]
        closing = self.form["instruction"] + self.form["discriminant"]
        (state,), spans = model.item_first(
            self.form["system"], items, self.form["user"] + history, closing, False, repair
        )
        return {item: model.logit(state, self.identifiers[item]) for item in candidates}, spans


class Check:
    def __init__(self, node, world):
        self.node, self.world, self.faults, self.compared = node, world, [], 0

    def expect(self, true, what):
        if not true:
            self.faults.append(what)

    def ask(self, user, candidates, policy=None, **more):
        status, reply = self.node.rank(user, candidates, policy, **more)
        if status != 200:
            raise RuntimeError(f"{policy}: {status} {reply}")
        return reply

    def repaired(self, model, user, candidates, repair):
        """One request is answered as the definition says, whether its blocks are cached or not."""
        expected, spans = self.world.expected(model, user, candidates, repair)
        where = f"user {user}, item+{repair}"
        for again in (False, True):
            reply = self.ask(user, candidates, f"item+{repair}")
            named = (reply["plan"], reply["policy"])
            self.expect(named == ("item", f"item+{repair}"), f"{where}: it is named {named}")
            self.expect(reply["arrangement"] == "item_first", f"{where}: {reply['arrangement']}")
            share = spans.changed() / reply["tokens_total"]
            self.expect(
                abs(reply["approximate"] - share) < 1e-9,
                f"{where}: approximate is {reply['approximate']}; expected {share}",
            )
            if again and spans.choice.share < 1:
                self.expect(reply["blocks_reused"] > len(candidates), where + ": its blocks are not reused")
            if spans.gap < CLOSE:
                return  # rounding decides which token is chosen
            fault = scores_fault(reply, expected)
            self.expect(not fault, f"{where}, again: {again}: {fault}")
            self.compared += 1

    def limits(self, user, candidates):
        """A limit lowers the repair, down to the exact answer."""
        exact = self.ask(user, candidates, "item")
        self.expect(exact["approximate"] == 0, "item is approximate")
        fault = items_fault(exact, candidates)
        self.expect(not fault, f"item: {fault}")
        for policy in ("item+50", "item+60:tail", "item+100", "item+50:tail:mean"):
            for most in (0, 0.02, 0.2, 1):
                reply = self.ask(user, candidates, policy, approximate=most)
                self.expect(reply["approximate"] <= most, f"{policy} has more than {most}")
                if reply["approximate"] == 0:
                    fault = scores_fault(reply, scores_of(exact))
                    self.expect(not fault, f"{policy}, at most {most}: exact, but not as item is: {fault}")
        reply = self.ask(user, candidates)
        self.expect(
            reply["policy"] == USUAL and reply["approximate"] > 0, f"without a policy: {reply['policy']}"
        )
        reply = self.ask(user, candidates, "bat+50:tail")
        self.expect(
            (reply["approximate"] > 0) == (reply["plan"] == "item"),
            f"bat+50:tail took {reply['plan']} with {reply['approximate']} approximate",
        )

    def refusals(self, user, candidates):
        for policy, why in REFUSED.items():
            status, reply = self.node.rank(user, candidates, policy)
            error = reply.get("error", {})
            self.expect(
                status == 400 and error.get("code") == "unknown_policy" and why in error.get("message", ""),
                f"{policy}: {status} {reply}",
            )
        status, reply = self.node.rank(user, candidates, "item+25", arrangement="causal")
        self.expect(
            status == 400 and reply["error"]["code"] == "other_policy", f"item+25 of causal: {status} {reply}"
        )

    def order(self, request, policy):
        """Returns the candidates of a request, best first."""
        reply = self.ask(request["user"], request["candidates"], policy)
        if fault := items_fault(reply, request["candidates"]):
            raise RuntimeError(f"user {request['user']}, {policy}: {fault}")
        return [item["id"] for item in reply["items"]]

    def quality(self, lab, folder):
        """Whole lists have the quality that the lab measures in its own process."""
        file = os.path.join(folder, "plans.json")
        subprocess.run(
            [lab, "bench", "plans", "--model", MODEL, "--data", WORLD]
            + ["--eval", WORLD / "requests.jsonl", "--events", str(EVENTS), "--plans", "item,causal"]
            + ["--selection", "first,tail,importance", "--correction", "none,mean+layer2"]
            + ["--repair", "25,50,100", "--json", file],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        runs = {
            (run["plan"], run["selection"], run["correction"]): run for run in json.load(open(file))["runs"]
        }
        requests = self.world.requests[:EVENTS]
        plain = [self.order(request, "causal") for request in requests]
        for variant, policy in BENCHED.items():
            ndcg = overlap = 0
            for request, full in zip(requests, plain):
                order = self.order(request, policy)
                rank = order.index(request["true_item"]) + 1
                ndcg += 1 / math.log2(1 + rank) / EVENTS if rank <= 10 else 0
                overlap += len(set(order[:10]) & set(full[:10])) / 10 / EVENTS
            for name, served in (("ndcg@10", ndcg), ("overlap@10", overlap)):
                lab_says = runs[variant][name]["mean"]
                # Scores that differ by rounding may change places in one list.
                self.expect(
                    abs(served - lab_says) < 0.15 / EVENTS,
                    f"{policy}: {name} is {served}; bench plans says {lab_says}",
                )
            print(f"{policy}: NDCG@10 {ndcg:.4f}, overlap@10 {overlap:.3f}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    troupe = pathlib.Path(parser.parse_args().troupe).resolve()
    world, model = World(), ItemModel(MODEL)
    with tempfile.TemporaryDirectory() as folder:
        node = Node(troupe, folder, MODEL, WORLD, f"router.policy={USUAL}")
        check = Check(node, world)
        try:
            for number, request in enumerate(world.requests[:USERS]):
                candidates = request["candidates"][:CANDIDATES]
                for repair in REPAIRS if number == 0 else REPAIRS[number::3]:
                    check.repaired(model, request["user"], candidates, repair)
                check.limits(request["user"], candidates)
            check.refusals(request["user"], candidates)
            check.quality(troupe.with_name("troupe-lab"), folder)
        finally:
            node.close()
    check.expect(check.compared >= 2 * len(REPAIRS), f"only {check.compared} answers were compared")
    for fault in check.faults:
        print(fault)
    print(f"{check.compared} repaired answers compared; {len(check.faults)} faults")
    return 1 if check.faults else 0


if __name__ == "__main__":
    sys.exit(main())
