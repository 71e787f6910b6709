#!/usr/bin/env python3
"""Checks that a history that grows by appended events keeps its cached blocks.

  tests/users/appends.py --troupe build/deploy/troupe [--json FILE]

For a generator and an HSTU model: stores a user's first events, then appends one event at a time and asks
for the user after each. Then does the same with policy `recompute`, which reuses nothing. The answers
must be the same, and all whole parts of the former history (router.history_part) must have been reused. A
repeated append must change nothing, and GET must return what was appended. Prints the tokens computed and
reused. Exit status 1 on any difference; 77 if the models are not beside the checkout.
"""
import argparse
import json
import os
import subprocess
import sys
import http.client

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from served_node import ServedNode

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHARED = os.path.join(ROOT, "..", "shared")
CASES = {"generator": ("tiny-onerec", "amazon-industrial"), "hstu": ("tiny-hstu-movielens", "movielens-100k")}
PART, SKIPPED = 16, 77
SPAN = {
    "generator": (4, 20),
    "hstu": (20, 60),
}  # events at the start, at the end


class Node(ServedNode):
    def __init__(self, troupe, model, data):
        super().__init__("troupe-appends-")
        common = ["--model", os.path.join(SHARED, "models", model), "--data-dir", self.at("data")]
        subprocess.run(
            [troupe, "import", *common, "--data", os.path.join(SHARED, "data", data)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        sets = ["--set", f"router.history_part={PART}", "--set", "pool.precompute_items=false"]
        port = self.start([troupe, "serve", *common, *sets], stderr=subprocess.DEVNULL)
        self.link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def send(self, method, path, body=None):
        self.link.request(method, path, None if body is None else json.dumps(body))
        reply = self.link.getresponse()
        text = reply.read()
        if reply.status != 200:
            raise RuntimeError(f"{method} {path}: {reply.status} {text[:300]}")
        return json.loads(text)


def history_of(kind, count):
    """Returns items, and times if the model uses them."""
    if kind == "hstu":
        return [str(1 + i * 37 % 1600) for i in range(count)], [880000000 + 60 * i for i in range(count)]
    import gzip

    with gzip.open(os.path.join(SHARED, "data", CASES[kind][1], "items.tsv.gz"), "rt") as lines:
        names = next(lines).rstrip("\n").split("\t")
        ids = [line.rstrip("\n").split("\t")[names.index("item_id")] for line in lines]
    return [ids[i * 131 % len(ids)] for i in range(count)], None


def ask(node, kind, user, policy, now):
    if kind == "generator":
        reply = node.send("POST", "/v1/generate", {"user": user, "width": 20, "top_k": 10})
        return reply, [(item["id"], round(item["log_probability"], 3)) for item in reply["items"]]
    reply = node.send(
        "POST",
        "/v1/rank",
        {
            "user": user,
            "candidates": ["1", "50", "181"],
            "request_timestamp": now,
            **({"policy": policy} if policy else {}),
        },
    )
    return reply, sorted((item["id"], round(item["score"], 3)) for item in reply["items"])


def event_of(items, times, at):
    return {"id": f"e{at}", "item": items[at], **({"timestamp": times[at]} if times else {})}


def is_same(answer, expected):
    """Returns whether both have the same items and scores, up to rounding of equal scores."""
    mine, theirs = dict(answer), dict(expected)
    common = mine.keys() & theirs.keys()
    return len(common) + 2 >= max(len(mine), len(theirs)) and all(
        abs(mine[item] - theirs[item]) < 2e-3 for item in common
    )


def run(troupe, kind):
    first, count = SPAN[kind]
    items, times = history_of(kind, count)
    faults, computed, reused, again = [], 0, 0, 0
    with Node(troupe, *CASES[kind]) as node:
        profile = {"history": items[:first], "event_ids": [f"e{i}" for i in range(first)]}
        if times:
            profile["features"] = [{"name": "timestamps", "values": times[:first]}]
        node.send("PUT", "/v1/users/grows", profile)
        ask(node, kind, "grows", "", times[first] if times else 0)
        for at in range(first, count):
            told = node.send("POST", "/v1/users/grows/events", {"events": [event_of(items, times, at)]})
            if (told["appended"], told["events"]) != (1, at + 1):
                faults.append(f"event {at}: {told}")
            now = times[at] + 30 if times else 0
            reply, answer = ask(node, kind, "grows", "", now)
            # A new user with the same history, so that nothing is cached for it.
            whole = {"history": items[: at + 1]}
            if times:
                whole["features"] = [{"name": "timestamps", "values": times[: at + 1]}]
            node.send("PUT", f"/v1/users/new-{at}", whole)
            fresh, expected = ask(node, kind, f"new-{at}", "recompute", now)
            if not is_same(answer, expected):
                faults.append(f"after event {at}: {answer[:3]} and not {expected[:3]}")
            computed, reused = computed + reply["tokens_computed"], reused + reply["tokens_reused"]
            again += reply["tokens_total"]
            # Whole parts of the history that was there before the append.
            least = (at - 1) // PART * PART if kind == "hstu" else 3 * at // PART * PART
            if reply["history_cut"] == 0 and reply["tokens_reused"] < least:
                faults.append(
                    f"after event {at} {reply['tokens_reused']} tokens are reused, expected at least {least}"
                )
        repeated = node.send(
            "POST", "/v1/users/grows/events", {"events": [event_of(items, times, count - 1)]}
        )
        stored = node.send("GET", "/v1/users/grows")
        if (
            repeated["repeated"] != 1
            or stored["version"] != repeated["version"]
            or stored["history"] != items[:count]
            or stored["event_ids"] != [f"e{i}" for i in range(count)]
        ):
            faults.append(f"the stored profile differs from what was appended: {json.dumps(stored)[:200]}")
    print(
        f"{kind}: {count - first} appends to a history of {first} events, asked after each: {computed} "
        f"tokens computed of {again}, "
        f"{reused} reused ({100 * reused / again:.0f} %)"
    )
    return {
        "kind": kind,
        "model": CASES[kind][0],
        "history_part": PART,
        "first_events": first,
        "appends": count - first,
        "tokens_total": again,
        "tokens_computed": computed,
        "tokens_reused": reused,
    }, faults


def main(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    parser.add_argument("--json")
    args = parser.parse_args(argv)
    for model, data in CASES.values():
        for folder in (os.path.join(SHARED, "models", model), os.path.join(SHARED, "data", data)):
            if not os.path.isdir(folder):
                print(f"skipped: {os.path.basename(folder)} is not beside the checkout")
                return SKIPPED
    runs, faults = [], []
    for kind in CASES:
        figures, wrong = run(args.troupe, kind)
        runs.append(figures)
        faults += wrong
    for fault in faults:
        print("FAILED", fault)
    if args.json:
        json.dump(runs, open(args.json, "w"), indent=1)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
