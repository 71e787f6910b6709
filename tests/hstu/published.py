#!/usr/bin/env python3
"""Checks that a checkpoint of Meta's research code (HSTU, SASRec), converted and served, ranks as that code.

  tests/hstu/published.py --troupe build/deploy/troupe [--model meta-sasrec-ml100k] [--all-users]

Converts each checkpoint of ../shared/models/MODEL, serves the directory, imports the 50 golden users, and
ranks the whole catalogue for each of them over HTTP at the time of their target, cold and then warm. Every
golden similarity must be met within 1e-5, the best 20 items must be the same, of all items and of those not
seen, and the warm answer must have reused the history but its last event. Probabilities must be those of the
similarities divided by the temperature. A user without events is refused. A request with the history of a
stored user has the same answer, from the same blocks.

With --all-users: ranks the catalogue for all 943 users, and compares HR@10, NDCG@10 and the rank of each
user's target with metrics.json. Needs numpy, whose unstable sort puts events of one time into the order that
Meta's preprocessor gave them.

Exit status 1 on any difference; 77 if the data is not beside the checkout.
"""
import argparse
import collections
import gzip
import http.client
import json
import math
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "tests"))
from python_packages import SKIPPED, restart_or_skip
from served_node import ServedNode

MODELS = os.path.join(ROOT, "..", "shared", "models")
MOVIES = os.path.join(ROOT, "..", "shared", "data", "movielens-100k")
ITEMS, HISTORY, TEMPERATURE, RANK_MAX = 1682, 200, 0.05, 1001
TOLERANCE = 1e-5


def convert(troupe, folder, checkpoint, out):
    command = [troupe, "convert", "--from", "meta-research", "--checkpoint", os.path.join(folder, checkpoint)]
    subprocess.run(
        [*command, "--config", os.path.join(folder, "config.gin"), "--out", out],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def write_lines(path, rows):
    with open(path, "w") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")


class Server(ServedNode):
    """Serves a model with the catalogue and these users, {"id", "item_ids", "timestamps"}."""

    def __init__(self, troupe, model, users):
        super().__init__("troupe-published-")
        base, data = self.folder.name, self.at("data")
        with open(os.path.join(model, "config.json")) as file:
            timed = json.load(file)["model_type"] == "hstu"
        write_lines(
            os.path.join(base, "items.jsonl"),
            ({"id": str(n), "tokens": [n], "identifier": n} for n in range(1, ITEMS + 1)),
        )
        write_lines(
            os.path.join(base, "users.jsonl"),
            (
                {"id": user["id"], "history": [str(item) for item in user["item_ids"]]}
                | ({"timestamps": user["timestamps"]} if timed else {})
                for user in users
            ),
        )
        subprocess.run(
            [troupe, "import", "--model", model, "--data-dir", data, "--data", base],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        settings = ("pool.memory=256MiB", f"router.candidates_max={ITEMS}")
        sets = [part for setting in settings for part in ("--set", setting)]
        self.port = self.start([troupe, "serve", "--model", model, "--data-dir", data, *sets])

    def ask(self, method, path, body):
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        link.request(method, path, json.dumps(body) if body is not None else None)
        reply = link.getresponse()
        return reply.status, json.loads(reply.read())

    def rank_all(self, user, now):
        body = {"user": user, "candidates": [str(n) for n in range(1, ITEMS + 1)], "request_timestamp": now}
        status, reply = self.ask("POST", "/v1/rank", body)
        if status != 200:
            raise RuntimeError(f"user {user}: {status} {json.dumps(reply)[:300]}")
        return reply


def differences(case, reply):
    """Returns the largest difference of a similarity, and what else differs."""
    scores = {int(item["id"]): item["score"] for item in reply["items"]}
    most = max(abs(scores[i] - s) for i, s in zip(case["item_ids_scored"], case["similarity"]))
    order = [int(item["id"]) for item in reply["items"]]
    seen = set(case["item_ids"])
    faults = [] if order[:20] == case["top20"] else ["other best 20 items"]
    if [item for item in order if item not in seen][:20] != case["top20_unseen"]:
        faults.append("other best 20 items that were not seen")
    weights = [math.exp(item["score"] / TEMPERATURE) for item in reply["items"]]
    if abs(reply["items"][0]["probability"] - weights[0] / sum(weights)) > TOLERANCE:
        faults.append("the first item's probability is not that of the similarities over the temperature")
    return most, faults


def own_history_faults(server, user, case):
    """Returns how answers differ for a stored user and for a request with the same history, which must find
    the user's blocks."""
    stored = server.ask("GET", f"/v1/users/{user}", None)[1]
    own = {name: stored[name] for name in ("history", "features") if name in stored}
    faults = []
    for path, more in (
        ("/v1/rank", {"candidates": [str(n) for n in range(1, 101)]}),
        ("/v1/generate", {"top_k": 20, "exclude_seen": True}),
    ):
        more["request_timestamp"] = case["request_timestamp"]
        answers = [server.ask("POST", path, {**asker, **more}) for asker in ({"user": user}, own)]
        if [status for status, _ in answers] != [200, 200]:
            faults.append(f"{path} of a history: {answers[1][0]} {json.dumps(answers[1][1])[:300]}")
            continue
        if answers[0][1]["items"] != answers[1][1]["items"]:
            faults.append(f"{path} of a history has other items")
        if answers[1][1]["tokens_reused"] != len(case["item_ids"]) - 1:
            faults.append(f"{path} of a history reused {answers[1][1]['tokens_reused']} tokens")
    vectors = [
        server.ask("POST", "/v1/embeddings", {"input": asked, "request_timestamp": case["request_timestamp"]})
        for asked in (user, own)
    ]
    if vectors[0][0] != 200 or vectors[0][1]["data"] != vectors[1][1].get("data"):
        faults.append(f"/v1/embeddings of a history: {vectors[1][0]} {json.dumps(vectors[1][1])[:300]}")
    return faults


def check_golden(troupe, folder, model, name):
    cases = json.load(open(os.path.join(folder, "golden.json")))["cases"]
    users = [{"id": str(case["user_id"]), **case} for case in cases]
    users.append({"id": "nobody", "item_ids": [], "timestamps": []})
    most, faults = 0.0, []
    with Server(troupe, model, users) as server:
        for case in cases:
            user = str(case["user_id"])
            for warm in (False, True):
                reply = server.rank_all(user, case["request_timestamp"])
                off, others = differences(case, reply)
                most = max(most, off)
                faults += [f"user {user}: {fault}" for fault in others]
                reused = len(case["item_ids"]) - 1 if warm else 0
                if reply["tokens_reused"] != reused:
                    faults.append(f"user {user} reused {reply['tokens_reused']} tokens; expected {reused}")
            faults += [f"user {user}: {fault}" for fault in own_history_faults(server, user, case)]
        for asker in {"user": "nobody"}, {"user": "unknown", "unknown_user": "cold"}, {"history": []}:
            status, reply = server.ask("POST", "/v1/rank", {**asker, "candidates": ["1"]})
            if status != 422 or reply["error"]["code"] != "empty_history":
                faults.append(f"{asker}, without events: {status} {reply}")
        status, reply = server.ask("POST", "/v1/rank", {"user": "unknown", "candidates": ["1"]})
        if status != 404:
            faults.append(f"a user that is not stored: {status} {reply}")
    if most > TOLERANCE:
        faults.append(f"largest difference {most:.2g}")
    print(f"{name}: {len(cases)} users, cold and warm, largest difference of a similarity {most:.2g}")
    return faults


def all_histories():
    """Returns [(time, item)] of each user, in the order that Meta's preprocessor gave them."""
    import numpy

    with gzip.open(os.path.join(MOVIES, "ratings.tsv.gz"), "rt") as file:
        rows = numpy.array([list(map(int, line.split())) for line in list(file)[1:]])
    histories = collections.defaultdict(list)
    for user, item, _, when in rows[numpy.argsort(rows[:, 3], kind="quicksort")]:
        histories[int(user)].append((int(when), int(item)))
    return histories


def rank_of_target(reply, past, target):
    scores = {int(item["id"]): item["score"] for item in reply["items"]}
    better = sum(1 for item, score in scores.items() if item not in past and score > scores[target])
    return min(better + 1, RANK_MAX)


def check_all_users(troupe, folder, model):
    wanted = json.load(open(os.path.join(folder, "metrics.json")))
    histories = all_histories()
    past = {user: events[:-1][-HISTORY:] for user, events in histories.items()}
    users = [
        {
            "id": str(user),
            "item_ids": [item for _, item in events],
            "timestamps": [when for when, _ in events],
        }
        for user, events in past.items()
    ]
    ranks = {}
    with Server(troupe, model, users) as server:
        for user, events in histories.items():
            reply = server.rank_all(str(user), events[-1][0])
            ranks[user] = rank_of_target(reply, {item for _, item in past[user]}, events[-1][1])
    found = {
        "hr@10": sum(rank <= 10 for rank in ranks.values()) / len(ranks),
        "ndcg@10": sum(1 / math.log2(rank + 1) for rank in ranks.values() if rank <= 10) / len(ranks),
    }
    same = sum(rank == wanted["rank_of_target_by_user"][str(user)] for user, rank in ranks.items())
    print(f"{len(ranks)} users: {same} targets at Meta's rank", end="")
    print("".join(f", {name} {value:.6f} of {wanted['metrics'][name]:.6f}" for name, value in found.items()))
    return [
        f"{name} is {value}; expected {wanted['metrics'][name]}"
        for name, value in found.items()
        if abs(value - wanted["metrics"][name]) > 1e-6
    ]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--troupe", required=True)
    parser.add_argument("--model", default="meta-hstu-ml100k")
    parser.add_argument("--all-users", action="store_true")
    options = parser.parse_args()
    folder = os.path.join(MODELS, options.model)
    for needed in (folder, *([MOVIES] if options.all_users else [])):
        if not os.path.isdir(needed):
            print("skipped: no", needed)
            return SKIPPED
    if options.all_users:
        restart_or_skip("numpy")  # of all_histories
    faults = []
    for checkpoint in sorted(name for name in os.listdir(folder) if name.endswith(".pt")):
        with tempfile.TemporaryDirectory(prefix="troupe-published-model-") as model:
            convert(options.troupe, folder, checkpoint, model)
            if options.all_users:
                faults += check_all_users(options.troupe, folder, model)
            else:
                faults += check_golden(options.troupe, folder, model, f"{options.model}/{checkpoint}")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
