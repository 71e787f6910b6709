#!/usr/bin/env python3
"""Checks that served models of next items answer over HTTP what Meta's own code computed.

  tests/sasrec/golden.py --troupe build/deploy/troupe

Converts the published SASRec and HSTU checkpoints, serves each, and stores the items and the users of the
golden file. For each user, cold and warm: /v1/rank must give every similarity within 1e-5, and
/v1/generate the same 20 best items of the whole catalog, and of those that the user has not seen. A denied
item must be missing, and an allow list must be ordered by similarity. A request with the history of a stored
user must have the same answers, from the same blocks. Exit status 1 on any difference; 77
if the data is not beside the checkout.
"""
import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(HERE, "..", "..", "..", "shared", "models")
TOLERANCE, SKIPPED = 1e-5, 77


def hstu_golden():
    """Returns the module with the node of HSTU's golden test."""
    spec = importlib.util.spec_from_file_location(
        "hstu_golden", os.path.join(HERE, "..", "hstu", "golden.py")
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def convert(troupe, source, out):
    command = [troupe, "convert", "--from", "meta-research", "--out", out]
    command += ["--checkpoint", os.path.join(source, "checkpoint.pt")]
    command += ["--config", os.path.join(source, "config.gin")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def gaps(items, wanted):
    """Returns the largest difference of the items' scores from those wanted by id."""
    return max(abs(item["score"] - wanted[int(item["id"])]) for item in items)


class User:
    """One case of a golden file, asked of a node."""

    def __init__(self, node, name, case, asker=None):
        """asker: the members of a history, for requests without the stored user."""
        self.node, self.name, self.case, self.asker = node, name, case, asker
        self.wanted = dict(zip(case["item_ids_scored"], case["similarity"]))
        self.wanted.update(zip(case["top20"], case["top20_similarity"]))
        self.faults, self.gap = [], 0.0

    def generate(self, **options):
        body = {"top_k": 20, "request_timestamp": self.case["request_timestamp"]}
        asker = self.asker or {"user": self.name}
        reply = self.node.send("POST", "/v1/generate", {**asker, **body, **options})
        return reply, [int(item["id"]) for item in reply["items"]]

    def expect(self, what, found, wanted):
        if found != wanted:
            self.faults.append(f"{self.name}: {what} is {found}; expected {wanted}")

    def check_rank(self, warm):
        reply = self.node.rank(
            self.asker or self.name,
            {"candidate_ids": self.case["item_ids_scored"]},
            self.case["request_timestamp"],
        )
        self.gap = max(self.gap, gaps(reply["items"], self.wanted))
        if warm:
            self.expect("tokens reused", reply["tokens_reused"], len(self.case["item_ids"]) - 1)

    def check_best(self):
        reply, best = self.generate()
        self.expect("top 20", best, self.case["top20"])
        self.gap = max(self.gap, gaps(reply["items"], self.wanted))
        _, unseen = self.generate(exclude_seen=True)
        self.expect("top 20 less seen", unseen, self.case["top20_unseen"])

    def check_lists(self):
        top = self.case["top20"]
        _, rest = self.generate(deny=[str(top[0]), "no such item"], top_k=19)
        self.expect("top 20 less the first", rest, top[1:])
        _, allowed = self.generate(allow=[str(item) for item in reversed(top[3:9])])
        self.expect("six allowed", allowed, top[3:9])


def check(troupe, name, golden, node_of, timed, history_of):
    cases = golden["cases"]
    faults, gap = [], 0.0
    with node_of(troupe) as node:
        first, last = map(int, golden["all_item_ids"].split(".."))
        for item in range(first, last + 1):
            node.send("PUT", f"/v1/items/{item}", {"tokens": [item], "identifier": item})
            node.items.add(item)
        for number, case in enumerate(cases):
            user = User(node, f"golden-{number}", case)
            node.put(user.name, {**case, "candidate_ids": []}, timed)
            for warm in (False, True):
                user.check_rank(warm)
                user.check_best()
            user.check_lists()
            own = User(node, f"the history of {user.name}", case, history_of(case, timed))
            own.check_rank(warm=True)
            own.check_best()
            gap = max(gap, user.gap, own.gap)
            faults += user.faults + own.faults
        node.send("PUT", "/v1/users/none", {"history": []})
        for asker in {"user": "none"}, {"user": "unknown", "unknown_user": "cold"}, {"history": []}:
            status, reply = node.ask("POST", "/v1/generate", asker)
            if (status, reply.get("error", {}).get("code")) != (422, "empty_history"):
                faults.append(f"{asker}, without events: {status} {reply}")
    print(f"{name}: {len(cases)} users, largest difference {gap:.2g}, {len(faults)} faults")
    if not gap <= TOLERANCE:
        faults.append(f"largest difference {gap:.2g}; expected at most {TOLERANCE}")
    return [f"{name}: {fault}" for fault in faults]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--troupe", required=True)
    troupe = parser.parse_args().troupe
    hstu = hstu_golden()
    faults = []
    for name, timed in (("meta-sasrec-ml100k", False), ("meta-hstu-ml100k", True)):
        source = os.path.join(MODELS, name)
        if not os.path.isdir(source):
            print("skipped: no", source)
            return SKIPPED
        with tempfile.TemporaryDirectory(prefix="troupe-next-items-") as folder:
            model = os.path.join(folder, "model")
            convert(troupe, source, model)
            with open(os.path.join(source, "golden.json")) as file:
                golden = json.load(file)
            faults += check(troupe, name, golden, lambda t: hstu.Node(t, model), timed, hstu.history_of)
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
