#!/usr/bin/env python3
"""Checks both prefix arrangements of a served ranker that scores each candidate (BAT §4.2).

  tests/repair/scored_prefixes.py --troupe build/deploy/troupe

Serves tiny-ranker-titles with a form that declares `item_first` and `user_first` as interchangeable, ranks
for histories of the request, and compares the scores with the definition (item_model.py), to 1e-4: item
first, each score behind the user; user first, each candidate in a prompt of its own; and item first with a
repair. The second time the answers come from cached blocks. Every policy that the form allows must give the
scores of the arrangement that its reply names. Exit status 1 on any fault; 77 if the model is not beside the
checkout.
"""
import argparse
import gzip
import json
import os
import pathlib
import sys
import tempfile

from item_model import ItemModel
from items import CLOSE, Node, scores_fault

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT.parent / "shared" / "models" / "tiny-ranker-titles"
SKIPPED, EVENTS, CANDIDATES = 77, 2, 4
DECLARED = {
    "arrangements": ["item_first", "user_first", "candidates_apart", "causal"],
    "interchangeable": ["item_first", "user_first"],
}
REPAIRS = ("50:tail", "40:importance:mean")
POLICIES = ("", "planner", "item", "user", "larger", "bat", "recompute")


class Titles:
    def __init__(self, model):
        form = json.loads((MODEL / "prompt.json").read_text())
        self.model, self.system, self.yes, self.no = model, form["instruction"], form["yes"], form["no"]
        self.event, _ = self.around(form["history_item"])
        self.mark, self.score = self.around(form["candidate"])
        with gzip.open(MODEL / "items.tsv.gz", "rt") as table:
            names = next(table).rstrip("\n").split("\t")
            rows = [dict(zip(names, line.rstrip("\n").split("\t"))) for line in table]
        self.tokens = {row["item_id"]: [int(word) for word in row["tokens"].split()] for row in rows}

    @staticmethod
    def around(tokens):
        at = tokens.index("{words}")
        return tokens[:at], tokens[at + 1 :]

    def read(self, state):
        return self.model.logit(state, self.yes) - self.model.logit(state, self.no)

    def parts(self, history, candidates):
        user = [token for item in history for token in self.event + self.tokens[item]]
        return user, [self.mark + self.tokens[item] for item in candidates]

    def item_first(self, history, candidates, repair="0"):
        user, items = self.parts(history, candidates)
        states, spans = self.model.item_first(self.system, items, user, self.score, True, repair)
        return {item: self.read(state) for item, state in zip(candidates, states)}, spans

    def user_first(self, history, candidates):
        user, items = self.parts(history, candidates)
        return {
            candidate: self.read(self.model.plain(self.system + user + item + self.score))
            for candidate, item in zip(candidates, items)
        }


def write_form(folder):
    form = json.loads((ROOT / "tests" / "forms" / "titles.json").read_text())
    file = os.path.join(folder, "form.json")
    with open(file, "w") as out:
        json.dump(form | DECLARED, out)
    return file


class Check:
    def __init__(self, node, titles):
        self.node, self.titles, self.faults, self.compared = node, titles, [], 0

    def expect(self, true, what):
        if not true:
            self.faults.append(what)

    def ask(self, history, candidates, policy="", **more):
        status, reply = self.node.rank(None, candidates, policy, history=history, **more)
        if status != 200:
            raise RuntimeError(f"{policy}: {status} {reply}")
        return reply

    def near(self, reply, expected, where):
        fault = scores_fault(reply, expected)
        self.expect(not fault, f"{where}: {fault}")
        self.compared += 1

    def exact(self, history, candidates):
        expected = {
            "item_first": self.titles.item_first(history, candidates)[0],
            "user_first": self.titles.user_first(history, candidates),
        }
        expected["candidates_apart"] = expected["user_first"]
        for policy in POLICIES:
            for again in (False, True):
                reply = self.ask(history, candidates, policy)
                where = f"{policy or 'no policy'}, {reply['arrangement']}, again: {again}"
                self.expect(reply["approximate"] == 0, where + ": it is approximate")
                if reply["arrangement"] not in expected:
                    self.expect(False, f"{where}: expected one of {', '.join(expected)}")
                    continue
                self.near(reply, expected[reply["arrangement"]], where)
                if policy == "item" and again:
                    self.expect(reply["blocks_reused"] == len(candidates) + 1, where + ": blocks are missing")
        for arrangement, scores in expected.items():
            reply = self.ask(history, candidates, arrangement=arrangement)
            self.expect(reply["arrangement"] == arrangement, f"{arrangement}: {reply['arrangement']}")
            self.near(reply, scores, arrangement)

    def repaired(self, history, candidates):
        for repair in REPAIRS:
            expected, spans = self.titles.item_first(history, candidates, repair)
            for again in (False, True):
                reply = self.ask(history, candidates, f"item+{repair}")
                where = f"item+{repair}, again: {again}"
                share = spans.changed() / reply["tokens_total"]
                self.expect(
                    abs(reply["approximate"] - share) < 1e-9,
                    f"{where}: approximate is {reply['approximate']}; expected {share}",
                )
                if spans.gap > CLOSE:  # else rounding decides which token is chosen
                    self.near(reply, expected, where)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    troupe = pathlib.Path(parser.parse_args().troupe).resolve()
    if not MODEL.exists():
        print("skipped: tiny-ranker-titles is not beside the checkout")
        return SKIPPED
    titles = Titles(ItemModel(MODEL))
    with tempfile.TemporaryDirectory() as folder:
        settings = [f"model.prompt={write_form(folder)}", "pool.precompute_items=false"]
        node = Node(troupe, folder, MODEL, MODEL, *settings)
        check = Check(node, titles)
        try:
            ids = sorted(titles.tokens, key=int)
            history, candidates = ids[10 : 10 + EVENTS], ids[30 : 30 + CANDIDATES]
            check.exact(history, candidates)
            check.repaired(history, candidates)
        finally:
            node.close()
    for fault in check.faults:
        print(fault)
    print(f"{check.compared} answers compared; {len(check.faults)} faults")
    return 1 if check.faults else 0


if __name__ == "__main__":
    sys.exit(main())
