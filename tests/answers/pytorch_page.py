#!/usr/bin/env python3
"""Checks that the code of docs/guides/same-numbers-in-pytorch.md gives the scores of a served node.

  tests/answers/pytorch_page.py --troupe build/deploy/troupe

Takes the code block from the page as it is, and runs it on replies of nodes that explain themselves: of
the demo's ranker, and of the shared rankers under every arrangement that they can have, each once computed
and once with reused blocks. Two changed replies show that the comparison bites: one with another score, and
one in which a part of the prompt sees less. Exit status 1 on any difference; 77 if PyTorch is not
installed. Without the models beside the checkout, the demo alone is compared.
"""
import argparse
import contextlib
import copy
import io
import json
import os
import re
import sys
import tempfile
import types

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "../..")
sys.path.append(os.path.join(ROOT, "tests"))
from python_packages import restart_or_skip

PAGE = os.path.join(ROOT, "docs/guides/same-numbers-in-pytorch.md")
DEMO = os.path.join(ROOT, "deploy/demo")
TOLERANCE = 1e-4  # of the largest score of a reply
CANDIDATES = 20


def code_of(page):
    """Returns the page's only block of Python."""
    with open(page) as file:
        blocks = re.findall(r"^```python\n(.*?)^```$", file.read(), re.M | re.S)
    if len(blocks) != 1:
        raise RuntimeError(f"{page} has {len(blocks)} blocks of Python; expected one")
    return compile(blocks[0], page, "exec")


def run_page(code, model, reply, folder):
    """Runs the page's code as a reader does, and returns the difference that it prints."""
    path, printed, argv = os.path.join(folder, "reply.json"), io.StringIO(), sys.argv
    with open(path, "w") as file:
        json.dump(reply, file)
    sys.argv = ["same.py", model, path]
    try:
        with contextlib.redirect_stdout(printed):
            exec(code, {"__name__": "__main__"})
    finally:
        sys.argv = argv
    found = re.fullmatch(r"(\d+) scores, largest difference (\S+)\n", printed.getvalue())
    if not found or int(found[1]) != len(reply["items"]):
        raise RuntimeError(f"the page printed {printed.getvalue()!r}")
    return float(found[2])


def largest_score(reply):
    return max(abs(item["score"]) for item in reply["items"])


class Check:
    def __init__(self, code):
        self.code, self.faults, self.compared = code, [], 0

    def reply(self, what, model, reply, folder):
        off = run_page(self.code, model, reply, folder)
        self.compared += 1
        print(f"{what}: {len(reply['items'])} scores, largest difference {off:.1e}", flush=True)
        if not off <= TOLERANCE * largest_score(reply):
            self.faults.append(f"{what}: scores differ by {off}")

    def cold_and_warm(self, name, node, world, user, candidates, arrangement):
        """Compares a request twice. The second time, blocks of the first are reused."""
        members = {"arrangement": arrangement} if arrangement else {}
        for state in ("computed", "reused"):
            reply = node.rank(user, candidates, explain=True, **members)
            what = f"{name}, {reply['arrangement']}, {state}"
            self.reply(what, world.directory, reply, node.folder)
            segments = reply["explanation"]["segments"]
            reused = [segment for segment in segments if segment["source"] == "cached"]
            if bool(reused) != bool(reply["tokens_reused"]):
                self.faults.append(
                    f"{what}: {len(reused)} cached parts, reused {reply['tokens_reused']} tokens"
                )
            if state == "reused" and not reused:
                self.faults.append(f"{what}: nothing was reused")
            if sum(len(segment["tokens"]) for segment in segments) != reply["tokens_total"]:
                self.faults.append(f"{what}: the parts do not have the {reply['tokens_total']} tokens")
            named = [score["item"] for score in reply["explanation"]["scores"]]
            if named != [str(item) for item in candidates]:
                self.faults.append(f"{what}: scores are not in the order of the candidates")
        return reply

    def bites(self, name, world, reply, folder):
        """Changes a reply in two ways, each of which the page's code has to show."""
        other_score, sees_less = copy.deepcopy(reply), copy.deepcopy(reply)
        other_score["items"][0]["score"] += 0.01 * largest_score(reply)
        sees_less["explanation"]["segments"][-1]["sees"] = [{"begin": 0, "end": 1}]
        for changed, what in ((other_score, "another score"), (sees_less, "a part that sees less")):
            if run_page(self.code, world.directory, changed, folder) <= TOLERANCE * largest_score(reply):
                self.faults.append(f"{name}: {what} was not noticed")


def check_demo(node_of, check):
    world = types.SimpleNamespace(
        directory=os.path.join(DEMO, "model"), data=os.path.join(DEMO, "world"), form_file=None
    )
    with open(os.path.join(DEMO, "world/requests.jsonl")) as rows:
        request = json.loads(next(rows))
    candidates = request["candidates"][:CANDIDATES]
    with node_of(world) as node:
        for arrangement in ("", "item_first", "user_first", "causal"):
            reply = check.cold_and_warm("demo", node, world, request["user"], candidates, arrangement)
        check.bites("demo", world, reply, node.folder)
        if "explanation" in node.rank(request["user"], candidates):
            check.faults.append("demo: a reply has an explanation that nobody asked for")


def check_shared(node_of, check, folder):
    """Compares the rankers beside the checkout, under the default and under each arrangement of a form."""
    import worlds

    forms = worlds.write_forms(folder)
    for name, kind in (("games", worlds.Games), ("titles", worlds.Titles)):
        for form in (None, forms[name]):
            world = kind(form)
            with node_of(world) as node:
                history, candidates = world.draw_history(), world.random.sample(world.items, CANDIDATES)
                node.put("page", history)
                for arrangement in world.arrangements if form else [""]:
                    what = f"{name}, {'declared' if form else 'default'}"
                    check.cold_and_warm(what, node, world, "page", candidates, arrangement)


def nodes_of(troupe):
    """Returns a function that serves a world for the length of a `with`."""
    from single_node import Node

    @contextlib.contextmanager
    def node_of(world):
        with tempfile.TemporaryDirectory(prefix="troupe-pytorch-") as folder:
            node = Node(troupe, folder, world)
            try:
                yield node
            finally:
                node.close()

    return node_of


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    args = parser.parse_args()
    restart_or_skip("numpy", "torch")
    import torch
    import worlds

    torch.set_num_threads(1)  # servers need the other cores

    check, node_of = Check(code_of(PAGE)), nodes_of(os.path.abspath(args.troupe))
    check_demo(node_of, check)
    if worlds.missing():
        print(f"skipped: {worlds.missing()} is not beside the checkout; the demo alone was compared")
    else:
        with tempfile.TemporaryDirectory(prefix="troupe-forms-") as folder:
            check_shared(node_of, check, folder)
    print(*check.faults, sep="\n")
    print(f"{check.compared} replies, {len(check.faults)} differences")
    return 1 if check.faults else 0


if __name__ == "__main__":
    sys.exit(main())
