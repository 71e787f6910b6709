#!/usr/bin/env python3
"""Checks that a served HSTU model answers over HTTP what an independent program computed.

  tests/hstu/golden.py --troupe build/deploy/troupe

Serves the trained model with its data imported, and the model of serving size in both layers. Stores the
items and users of the golden files, and ranks: each candidate's score must be within 1e-4 of its task
logit. Each request is sent twice, so that the second answer uses cached blocks, and once more with a
later time if the model uses times, which must reuse as much. A user whose history grows must reuse its
whole blocks. Then the same with nodes that keep the item embedding in its file and a twentieth of its
rows in the pool: rows must be found there and missed, and no block is evicted for them. Exit status 1 on
any difference; 77 if the data is not beside the checkout.
"""
import argparse
import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from served_node import ServedNode

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODELS = os.path.join(ROOT, "..", "shared", "models")
MOVIES = os.path.join(ROOT, "..", "shared", "data", "movielens-100k")
TOLERANCE, SKIPPED, BLOCK = 1e-4, 77, 64


class Node(ServedNode):
    def __init__(self, troupe, model, imported="", settings=()):
        super().__init__("troupe-hstu-")
        data = self.at("data")
        if imported:
            subprocess.run(
                [troupe, "import", "--model", model, "--data-dir", data, "--data", imported],
                check=True,
                stdout=subprocess.DEVNULL,
            )
        sets = [part for setting in ("pool.memory=256MiB", *settings) for part in ("--set", setting)]
        port = self.start([troupe, "serve", "--model", model, "--data-dir", data, *sets])
        self.link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.items = set(range(1, 1683)) if imported else set()

    def ask(self, method, path, body):
        try:
            self.link.request(method, path, json.dumps(body))
            reply = self.link.getresponse()
        except ConnectionError:  # the server closed an idle connection; every request here may be repeated
            self.link.close()
            self.link.request(method, path, json.dumps(body))
            reply = self.link.getresponse()
        return reply.status, json.loads(reply.read())

    def send(self, method, path, body):
        status, reply = self.ask(method, path, body)
        if status != 200:
            raise RuntimeError(f"{method} {path}: {status} {json.dumps(reply)[:300]}")
        return reply

    def put(self, user, case, timed):
        for item in {*case["item_ids"], *case["candidate_ids"]} - self.items:
            self.send("PUT", f"/v1/items/{item}", {"tokens": [item], "identifier": item})
            self.items.add(item)
        self.send("PUT", f"/v1/users/{user}", history_of(case, timed))

    def metrics(self):
        self.link.request("GET", "/metrics")
        lines = self.link.getresponse().read().decode().splitlines()
        return {
            name: float(value)
            for name, value in (line.rsplit(" ", 1) for line in lines if line and line[0] != "#")
        }

    def rank(self, user, case, now):
        """user: an id, or the members of a history in place of a stored one."""
        candidates = list(dict.fromkeys(str(item) for item in case["candidate_ids"]))
        asker = user if isinstance(user, dict) else {"user": user}
        return self.send("POST", "/v1/rank", {**asker, "candidates": candidates, "request_timestamp": now})


def history_of(case, timed):
    """Returns the members of a history, as of a stored user."""
    history = {"history": [str(item) for item in case["item_ids"]]}
    if timed:
        history["features"] = [{"name": "timestamps", "values": case["timestamps"]}]
    return history


def worst(reply, case, logits):
    wanted = dict(zip((str(item) for item in case["candidate_ids"]), logits))
    return max(abs(item["score"] - wanted[item["id"]]) for item in reply["items"])


def apart(model):
    """Returns settings that keep the table in its file, and the number of pages for a twentieth of its
    rows."""
    config = json.load(open(os.path.join(model, "config.json")))
    width = config["num_attention_heads"] * config["attention_dim"]
    page = 4 * config["num_hidden_layers"] * 2 * width * 4
    rows = page // (4 * config["hidden_size"])
    pages = (config["num_items"] + 1) // 20 // rows
    return ("model.tables=mapped", f"pool.row_share={(pages + 0.5) / ((256 << 20) // page)}"), pages


def check_rows(node, pages):
    seen = node.metrics()
    count = {name: seen[f'troupe_rows_total{{from="{name}"}}'] for name in ("pool", "table")}
    print("  rows from the pool: {pool:.0f}, from the table: {table:.0f}".format(**count))
    faults = [f"no rows from the {name}" for name in count if count[name] == 0]
    used = seen['troupe_pages_used{kind="row"}']
    if used != pages:
        faults.append(f"{used:.0f} pages of rows; expected {pages}")
    return faults + [
        f"{name} is {seen[name]}; expected 0"
        for name in ("troupe_boundary_bytes_copied_total", "troupe_rows_corrupt_total")
        if seen[name] != 0
    ]


def check(troupe, name, model, cases, timed, chain=(), imported="", settings=(), row_pages=0):
    most, faults = 0.0, []
    with Node(troupe, model, imported, settings) as node:
        if imported:  # user 1 of the data has 272 events; the model reads 200
            known = node.send("POST", "/v1/rank", {"user": "1", "candidates": ["50", "181", "1682"]})
            if known["history_cut"] != 72 or known["tokens_total"] != 203:
                faults.append(f"an imported user's ranking: {known}")
        for number, (case, logits) in enumerate(cases):
            user = "chain" if number in chain else f"golden-{number}"
            node.put(user, case, timed)
            now, events = case["request_timestamp"], len(case["item_ids"])
            first = node.rank(user, case, now)
            second = node.rank(user, case, now)
            most = max(most, worst(first, case, logits), worst(second, case, logits))
            grown = number in chain and number - 1 in chain
            reused = (len(cases[number - 1][0]["item_ids"]) - 1) // BLOCK * BLOCK if grown else 0
            if first["tokens_reused"] < reused or first["plan"] != "history":
                faults.append(
                    f"case {number} reused {first['tokens_reused']} tokens; expected at least {reused}"
                )
            if second["tokens_reused"] != events - 1:
                faults.append(
                    f"case {number} asked again reused {second['tokens_reused']}; expected {events - 1}"
                )
            own = node.rank(history_of(case, timed), case, now)
            most = max(most, worst(own, case, logits))
            if own["tokens_reused"] != events - 1:
                faults.append(f"case {number} in the request reused {own['tokens_reused']} tokens")
            if timed and node.rank(user, case, now + 86400)["tokens_reused"] != events - 1:
                faults.append(f"case {number} a day later did not reuse its history")
        if timed:
            status, reply = node.ask("PUT", "/v1/users/none", {"history": [str(cases[0][0]["item_ids"][0])]})
            if status != 422 or reply["error"]["code"] != "missing_feature":
                faults.append(f"a history without times: {status} {reply}")
        if row_pages:
            faults += check_rows(node, row_pages)
    if most > TOLERANCE:
        faults.append(f"largest difference {most:.2g}")
    print(f"{name}: {len(cases)} cases, largest difference {most:.2g}")
    return [f"{name}: {fault}" for fault in faults]


def golden(path):
    return json.load(open(path))["cases"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--troupe", required=True)
    troupe = parser.parse_args().troupe
    tiny, large = os.path.join(MODELS, "tiny-hstu-movielens"), os.path.join(MODELS, "random-hstu-512")
    for folder in (tiny, large, MOVIES):
        if not os.path.isdir(folder):
            print("skipped: no", folder)
            return SKIPPED
    logits = lambda cases: [(case, case["target_aware"]["task_logits"]) for case in cases]
    faults = check(
        troupe,
        "trained model",
        tiny,
        logits(golden(os.path.join(tiny, "golden.json"))),
        True,
        range(9, 14),
        MOVIES,
    )
    inputs = golden(os.path.join(large, "golden.json"))
    faults += check(troupe, "research layer", large, logits(inputs[:3]), True)
    faults += check(
        troupe,
        "trained model, rows apart",
        tiny,
        logits(golden(os.path.join(tiny, "golden.json"))),
        True,
        range(9, 14),
        MOVIES,
        *apart(tiny),
    )
    faults += check(
        troupe, "research layer, rows apart", large, logits(inputs[:3]), True, (), "", *apart(large)
    )
    plain = [
        case
        for case in golden(os.path.join(large, "golden-stu.json"))
        if not case["contextual_sequence_length"] and not case["max_attention_length"]
    ]
    with tempfile.TemporaryDirectory(prefix="troupe-hstu-model-") as model:
        shutil.copy(os.path.join(large, "config-stu.json"), os.path.join(model, "config.json"))
        shutil.copy(os.path.join(large, "generator.json"), model)
        cases = [(inputs[case["inputs_of_case"]], case["task_logits"]) for case in plain[:2]]
        faults += check(troupe, "production layer", model, cases, False)
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
