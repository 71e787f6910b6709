#!/usr/bin/env python3
"""Does a history that grows by appended events keep what is cached of it?

  tests/users/appends.py --troupe build/deploy/troupe [--json FILE]

For a generator, and for an HSTU model: a user's first events are put, then one event after the other is appended, and after each the
user is asked for. The same is done with policy `recompute`, which reuses nothing: the answers must be the same, and whole parts of the
history (router.history_part) must have been reused, but for the part that was not whole before. An append that is repeated changes
nothing; GET says what was appended. Prints tokens computed with and without. Exit status 1 on any difference, 77 where the models are
not beside the checkout.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import http.client

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHARED = os.path.join(ROOT, "..", "shared")
CASES = {"generator": ("tiny-onerec", "amazon-industrial"), "hstu": ("tiny-hstu-movielens", "movielens-100k")}
PART, SKIPPED = 16, 77
SPAN = {"generator": (4, 20), "hstu": (20, 60)}  # events at first and at last: the generator reads no more


class Box:
    def __init__(self, troupe, model, data):
        self.folder = tempfile.TemporaryDirectory(prefix="troupe-appends-")
        port_file = os.path.join(self.folder.name, "port")
        common = [
            "--model",
            os.path.join(SHARED, "models", model),
            "--data-dir",
            os.path.join(self.folder.name, "data"),
        ]
        subprocess.run(
            [troupe, "import", *common, "--data", os.path.join(SHARED, "data", data)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        self.process = subprocess.Popen(
            [
                troupe,
                "serve",
                *common,
                "--port",
                "0",
                "--port-file",
                port_file,
                "--set",
                f"router.history_part={PART}",
                "--set",
                "pool.precompute_items=false",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while not os.path.exists(port_file) or not open(port_file).read().strip():
            if self.process.poll() is not None:
                raise RuntimeError("troupe serve ended with " + str(self.process.returncode))
            time.sleep(0.05)
        self.link = http.client.HTTPConnection("127.0.0.1", int(open(port_file).read()), timeout=60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(40)
        self.folder.cleanup()

    def send(self, method, path, body=None):
        self.link.request(method, path, None if body is None else json.dumps(body))
        reply = self.link.getresponse()
        text = reply.read()
        if reply.status != 200:
            raise RuntimeError(f"{method} {path}: {reply.status} {text[:300]}")
        return json.loads(text)


def history_of(kind, count):
    """Items, and times where the model knows them."""
    if kind == "hstu":
        return [str(1 + i * 37 % 1600) for i in range(count)], [880000000 + 60 * i for i in range(count)]
    import gzip

    with gzip.open(os.path.join(SHARED, "data", CASES[kind][1], "items.tsv.gz"), "rt") as lines:
        names = next(lines).rstrip("\n").split("\t")
        ids = [line.rstrip("\n").split("\t")[names.index("item_id")] for line in lines]
    return [ids[i * 131 % len(ids)] for i in range(count)], None


def ask(box, kind, user, policy, now):
    if kind == "generator":
        reply = box.send("POST", "/v1/generate", {"user": user, "width": 20, "top_k": 10})
        return reply, [(item["id"], round(item["log_probability"], 3)) for item in reply["items"]]
    reply = box.send(
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
    """The same items with the same scores, but for those that are equal up to rounding."""
    mine, theirs = dict(answer), dict(expected)
    common = mine.keys() & theirs.keys()
    return len(common) + 2 >= max(len(mine), len(theirs)) and all(
        abs(mine[item] - theirs[item]) < 2e-3 for item in common
    )


def run(troupe, kind):
    first, count = SPAN[kind]
    items, times = history_of(kind, count)
    faults, computed, reused, again = [], 0, 0, 0
    with Box(troupe, *CASES[kind]) as box:
        profile = {"history": items[:first], "event_ids": [f"e{i}" for i in range(first)]}
        if times:
            profile["features"] = [{"name": "timestamps", "values": times[:first]}]
        box.send("PUT", "/v1/users/grows", profile)
        ask(box, kind, "grows", "", times[first] if times else 0)
        for at in range(first, count):
            told = box.send("POST", "/v1/users/grows/events", {"events": [event_of(items, times, at)]})
            if (told["appended"], told["events"]) != (1, at + 1):
                faults.append(f"event {at}: {told}")
            now = times[at] + 30 if times else 0
            reply, answer = ask(box, kind, "grows", "", now)
            # A user of the same history that nothing is known of: put whole, under a name of its own.
            whole = {"history": items[: at + 1]}
            if times:
                whole["features"] = [{"name": "timestamps", "values": times[: at + 1]}]
            box.send("PUT", f"/v1/users/new-{at}", whole)
            fresh, expected = ask(box, kind, f"new-{at}", "recompute", now)
            if not is_same(answer, expected):
                faults.append(f"after event {at}: {answer[:3]} and not {expected[:3]}")
            computed, reused = computed + reply["tokens_computed"], reused + reply["tokens_reused"]
            again += reply["tokens_total"]
            least = (
                (at - 1) // PART * PART if kind == "hstu" else 3 * at // PART * PART
            )  # whole parts of what was there before
            if reply["history_cut"] == 0 and reply["tokens_reused"] < least:
                faults.append(
                    f"after event {at} only {reply['tokens_reused']} tokens are reused, and not {least}"
                )
        repeated = box.send("POST", "/v1/users/grows/events", {"events": [event_of(items, times, count - 1)]})
        stored = box.send("GET", "/v1/users/grows")
        if (
            repeated["repeated"] != 1
            or stored["version"] != repeated["version"]
            or stored["history"] != items[:count]
            or stored["event_ids"] != [f"e{i}" for i in range(count)]
        ):
            faults.append(f"what is stored is not what was appended: {json.dumps(stored)[:200]}")
    print(
        f"{kind}: {count - first} appends to a history of {first} events, asked after each: {computed} tokens computed of {again}, "
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
