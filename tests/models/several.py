#!/usr/bin/env python3
"""Checks that one node serves several models, each under its name, on one pool, with the answers of each
alone.

  tests/models/several.py --troupe build/deploy/troupe

Imports the data of a ranker, a generator, an HSTU and a Climber model, each into its own folder, and
serves them by one file, the ranker with the form that declares its arrangements (tests/forms). Golden
users of all models are requested over HTTP in rotation, twice, so that the second answers use cached
blocks. The pool is small, so that blocks of one model evict those of another. One model gets another
version, for half of its users, for all, through a restart, and back (several_versions.py), while the
others stay as they are. Then invalid requests must be refused: wrong operations, unknown model names, a
missing name where several models fit, files with an invalid list of models. The metrics must have the
rows of each model under its name. After a restart the node must answer as before. Exit status 1 on any
difference; 77 if the data is not beside the checkout.
"""
import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from served_node import await_port

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "tests", "forms"))
from forms import member_of, options_of

SHARED = os.path.join(ROOT, "..", "shared")
TOLERANCE, SKIPPED, CASES = 1e-4, 77, 6
# Served name, model, data.
MODELS = [
    ("games", "tiny-ranker-games", "amazon-games"),
    ("goods", "tiny-onerec", "amazon-industrial"),
    ("films", "tiny-hstu-movielens", "movielens-100k"),
    ("clips", "tiny-climber", "movielens-100k"),
]


def model_folder(model):
    return os.path.join(SHARED, "models", model)


def data_folder(data):
    return os.path.join(SHARED, "data", data)


class Node:
    def __init__(self, troupe, config, port_file):
        if os.path.exists(port_file):
            os.remove(port_file)
        self.process = subprocess.Popen(
            [troupe, "serve", "--config", config, "--port", "0", "--port-file", port_file],
            stdout=subprocess.DEVNULL,
        )
        port = await_port(self.process, port_file)
        self.link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for _ in range(600):  # the port is open before workers with the served versions are ready
            if self.ask("GET", "/v2/health/ready")[0] == 200:
                return
            time.sleep(0.05)
        raise RuntimeError("the node was not ready within 30 s")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(40)

    def text(self, method, path, body=""):
        self.link.request(method, path, body)
        reply = self.link.getresponse()
        return reply.status, reply.read().decode()

    def ask(self, method, path, body=None):
        status, text = self.text(method, path, "" if body is None else json.dumps(body))
        return status, json.loads(text)

    def send(self, method, path, body=None):
        status, reply = self.ask(method, path, body)
        if status != 200:
            raise RuntimeError(f"{method} {path}: {status} {json.dumps(reply)[:300]}")
        return reply


# ---- golden answers: each function takes a node and a case, and returns the deviation of the answer ----


def apart(items, wanted):
    """Returns the largest difference between scores of items and the expected ones, by id."""
    if set(item["id"] for item in items) != set(wanted):
        return float("inf")
    return max(abs(item["score"] - wanted[item["id"]]) for item in items)


class Golden:
    def __init__(self):
        read = lambda model: json.load(open(os.path.join(model_folder(model), "golden.json")))
        self.ranker, self.generator = read("tiny-ranker-games")["requests"], read("tiny-onerec")
        self.hstu, self.climber = read("tiny-hstu-movielens")["cases"], read("tiny-climber")["cases"]

    def put(self, node, number):
        strings = lambda items: [str(item) for item in items]
        user = f"golden-{number}"  # the same id for all models: each has its own users
        node.send(
            "PUT", f"/v1/users/{user}?model=games", {"history": strings(self.ranker[number]["history"])}
        )
        node.send(
            "PUT",
            f"/v1/users/{user}?model=goods",
            {"history": strings(self.generator["cases"][number]["history"])},
        )
        for name, case, feature, values in (
            ("films", self.hstu[number], "timestamps", "timestamps"),
            ("clips", self.climber[number], "actions", "actions"),
        ):
            node.send(
                "PUT",
                f"/v1/users/{user}?model={name}",
                {
                    "history": strings(case["item_ids"]),
                    "features": [{"name": feature, "values": case[values]}],
                },
            )

    def games(self, node, number):
        case, most, reused = self.ranker[number], 0.0, 0
        for policy, plan in (("user", "up"), ("item", "ip")):
            reply = node.send(
                "POST",
                "/v1/rank",
                {
                    "model": "games",
                    "user": f"golden-{number}",
                    "policy": policy,
                    "candidates": [str(item) for item in case["candidates"]],
                },
            )
            wanted = dict(zip((str(item) for item in case["candidates"]), case["plans"][plan]["logits"]))
            most, reused = max(most, apart(reply["items"], wanted)), reused + reply["tokens_reused"]
        return most, reused

    def goods(self, node, number):
        case, width = self.generator["cases"][number], self.generator["beam_width"]
        # No model is named, because only one generates.
        reply = node.send(
            "POST", "/v1/generate", {"user": f"golden-{number}", "width": width, "top_k": width}
        )
        found = []
        for item in reply["items"]:
            if not found or found[-1][0] != item["tokens"]:
                found.append((item["tokens"], item["log_probability"]))
        beams = [(beam["tokens"], beam["logprob"]) for beam in case["beams"]][: len(found)]
        if [tokens for tokens, _ in found] != [tokens for tokens, _ in beams]:
            return float("inf"), 0
        return max(abs(a - b) for (_, a), (_, b) in zip(found, beams)), reply["tokens_reused"]

    def films(self, node, number):
        case = self.hstu[number]
        candidates = list(dict.fromkeys(str(item) for item in case["candidate_ids"]))
        reply = node.send(
            "POST",
            "/v1/rank",
            {
                "user": f"golden-{number}",
                "candidates": candidates,
                "model": "films",
                "request_timestamp": case["request_timestamp"],
            },
        )
        wanted = dict(zip((str(item) for item in case["candidate_ids"]), case["target_aware"]["task_logits"]))
        return apart(reply["items"], wanted), reply["tokens_reused"]

    def clips(self, node, number):
        case = self.climber[number]
        candidates = list(dict.fromkeys(str(item) for item in case["candidate_ids"]))
        reply = node.send(
            "POST",
            "/v1/rank",
            {
                "user": f"golden-{number}",
                "candidates": candidates,
                "scenario": case["scenario"],
                "model": "clips",
            },
        )
        wanted = dict(zip((str(item) for item in case["candidate_ids"]), case["logits"]["click"]))
        return apart(reply["items"], wanted), reply["tokens_reused"]


def rows_of(node):
    return dict(
        line.rsplit(" ", 1)
        for line in node.text("GET", "/metrics")[1].splitlines()
        if not line.startswith("#")
    )


def await_full(node, faults):
    """Waits until precomputed blocks fill the items' area, so that later blocks must evict others."""
    for _ in range(600):
        rows = rows_of(node)
        if float(rows['troupe_pages_used{kind="item"}']) >= 0.99 * float(rows['troupe_pages{kind="item"}']):
            return
        time.sleep(0.05)
    faults.append("the items' area did not fill in 30 s")


def check_golden(node, faults, models=tuple(name for name, *_ in MODELS)):
    golden = Golden()
    most, reused = {}, {}
    for number in range(CASES):
        golden.put(node, number)
    for again in (False, True):
        for number in range(CASES):
            for name in models:
                off, tokens = getattr(golden, name)(node, number)
                most[name] = max(most.get(name, 0), off)
                reused[name] = reused.get(name, 0) + tokens * again
    for name in models:
        print(
            f"{name}: {CASES} cases twice, largest difference {most[name]:.2g}, {reused[name]} tokens reused"
        )
        if most[name] > TOLERANCE:
            faults.append(f"{name}: the largest difference is {most[name]:.2g}")
        if reused[name] == 0:
            faults.append(f"{name}: nothing was reused")


def check_models(node, faults):
    listed = {model["id"]: model["serves"] for model in node.send("GET", "/v1/models")["data"]}
    expected = {
        "games": "rank, score",
        "goods": "generate, complete, score",
        "films": "rank",
        "clips": "rank",
    }
    if listed != expected:
        faults.append(f"/v1/models lists {listed}")
    ready = node.ask("GET", "/v2/health/ready")
    if ready != (200, {"ready": True}):
        faults.append(f"ready: {ready}")
    done = node.send(
        "POST", "/v1/completions", {"model": "goods", "prompt": [1], "max_tokens": 3, "items": True}
    )
    if done["model"] != "goods" or len(done["choices"]) != 1:
        faults.append(f"a completion: {done}")
    actors = node.send("GET", "/v1/cluster")["actors"]
    of = sorted(
        (actor["role"], field["value"])
        for actor in actors
        for field in actor["fields"]
        if field["name"] == "model"
    )
    names = sorted(name for name, *_ in MODELS)
    if (
        [value for role, value in of if role == "router"] != names
        or len(of) != 2 * len(names)
        or len(actors) != 2 * len(names) + 3
    ):
        faults.append(f"/v1/cluster has {len(actors)} actors, of models {of}")


# A request, and what the answer must have: status, code, and words of message, where and expected.
MISTAKES = [
    (
        "POST",
        "/v1/generate",
        {"model": "games", "user": "golden-0"},
        422,
        "not_a_generator",
        ['"games" does not generate items', "it serves rank, score", "model", "one of goods"],
    ),
    (
        "POST",
        "/v1/rank",
        {"model": "goods", "user": "golden-0", "candidates": ["1"]},
        422,
        "not_a_ranker",
        ['"goods" does not rank', "model", "one of games, films, clips"],
    ),
    (
        "POST",
        "/v1/score",
        {"model": "clips", "query": [1], "items": [{"tokens": [2]}], "label_tokens": [3]},
        422,
        "not_a_scorer",
        ['"clips" does not score', "games, goods"],
    ),
    (
        "POST",
        "/v1/rank",
        {"user": "golden-0", "candidates": ["1"]},
        400,
        "which_model",
        ["no model is named", "one of games, films, clips", "`model` in the body"],
    ),
    (
        "POST",
        "/v1/score",
        {"query": [1], "items": [], "label_tokens": [3]},
        400,
        "which_model",
        ["games, goods"],
    ),
    (
        "PUT",
        "/v1/users/x",
        {"history": []},
        400,
        "which_model",
        ["games, goods, films, clips", "?model=NAME"],
    ),
    ("DELETE", "/v1/items/1", None, 400, "which_model", ["?model=NAME"]),
    (
        "POST",
        "/v1/rank",
        {"model": "gmaes", "user": "golden-0", "candidates": ["1"]},
        404,
        "unknown_model",
        ['"gmaes"', "one of games, goods, films, clips"],
    ),
    (
        "POST",
        "/v1/completions",
        {"model": "films", "prompt": [1]},
        422,
        "not_a_generator",
        ['"films"', "goods"],
    ),
    ("PUT", "/v1/users/x?model=nosuch", {"history": []}, 404, "unknown_model", ['"nosuch"']),
    (
        "POST",
        "/v1/rank",
        {"model": 7, "user": "u", "candidates": ["1"]},
        400,
        "wrong_type",
        ["model", "as text"],
    ),
    # The requests from here on reach the model; its own limits, users and items give the answer.
    (
        "POST",
        "/v1/rank",
        {"model": "games", "user": "golden-0", "candidates": ["nosuch"]},
        404,
        "unknown_item",
        ["nosuch"],
    ),
    (
        "POST",
        "/v1/rank",
        {"model": "films", "user": "golden-0", "candidates": ["16061"]},
        404,
        "unknown_item",
        ["16061"],
    ),
    ("POST", "/v1/rank", {"model": "films", "user": "25374", "candidates": ["1"]}, 404, "unknown_user", []),
    ("PUT", "/v1/users/x?model=films", {"history": ["1"]}, 422, "missing_feature", ["timestamps"]),
]


def check_mistakes(node, faults):
    for method, path, body, status, code, words in MISTAKES:
        got, reply = node.ask(method, path, body)
        error = reply.get("error", {})
        text = " ".join(str(error.get(part, "")) for part in ("message", "where", "expected"))
        lacking = [word for word in words if word not in text]
        if got != status or error.get("code") != code or lacking:
            faults.append(f"{method} {path} {body}: {got} {error}; expected {status} {code} with {lacking}")
    got, text = node.text("POST", "/v1/rank", '{"model":"games","user":"golden-0",]')
    if got != 400 or "malformed_json" not in text or "byte 36" not in text:
        faults.append(f"a body that is no JSON: {got} {text}")


def check_metrics(node, faults):
    text, rows = node.text("GET", "/metrics")[1], rows_of(node)
    expect = {
        'troupe_requests_total{model="games",kind="rank"}': 4 * CASES,
        'troupe_requests_total{model="goods",kind="generate"}': 2 * CASES,
        'troupe_requests_total{model="goods",kind="rank"}': 0,
    }
    for row, least in expect.items():
        if row not in rows or float(rows[row]) < least:
            faults.append(f"{row} is {rows.get(row)}; expected {least} or more")
    for name, *_ in MODELS:
        if float(rows.get(f'troupe_tokens_reused_total{{model="{name}"}}', 0)) == 0:
            faults.append(f"{name} the metrics show no reused tokens")
    for row in ('troupe_pages_used{kind="user"}', 'troupe_pages{kind="item"}', "troupe_http_requests_total"):
        if float(rows.get(row, 0)) == 0:
            faults.append(f"{row} is {rows.get(row)}")
    for kind in ("user", "item"):
        if float(rows[f'troupe_pages_used{{kind="{kind}"}}']) > float(rows[f'troupe_pages{{kind="{kind}"}}']):
            faults.append(f"more {kind} pages are used than exist")
    if float(rows["troupe_blocks_corrupt_total"]) or float(rows["troupe_protocol_errors_total"]):
        faults.append("there are corrupt blocks or invalid messages")
    if float(rows['troupe_blocks_evicted_total{kind="item"}']) == 0:
        faults.append("no item block was evicted: the pool is too large for this test")
    if "troupe_requests_total{kind=" in text or text.count("# TYPE troupe_requests_total") != 1:
        faults.append("requests are counted twice")


# ---- invalid files ----


def check_files(troupe, folder, faults):
    ranker = model_folder("tiny-ranker-games")
    entry = lambda name, directory, data: (
        f"  - {{name: {name}, directory: {directory}, data_dir: {folder}/{data}}}\n"
    )
    start = f"node: {{data_dir: {folder}/box-bad}}\nmodels:\n"
    good = entry("games", ranker, "bad-1")
    cases = [
        (start + good + entry("games", ranker, "bad-2"), "bad.yaml:4", "two models are named games"),
        (start + good + entry("other", ranker, "bad-1"), "bad.yaml:4", "a folder of its own"),
        (
            start + good + f"  - {{directory: {ranker}, data_dir: {folder}/bad-2}}\n",
            "bad.yaml:4",
            "a model has no name",
        ),
        (start + good + entry("other", f"{folder}/nowhere", "bad-2"), "nowhere", "config.json"),
        (
            start + good + entry("other", ranker, "bad-2") + 'features: {store: "redis://127.0.0.1"}\n',
            "model games",
            "features.store",
        ),
        (
            start
            + good
            + entry("other", ranker, "bad-2")
            + 'cluster: {coordination: "http://127.0.0.1:1"}\n',
            "cluster.coordination",
            "on a single node",
        ),
    ]
    bad = os.path.join(folder, "bad.yaml")
    for text, *words in cases:
        with open(bad, "w") as file:
            file.write(text)
        run = subprocess.run(
            [troupe, "serve", "--config", bad, "--port", "0"], capture_output=True, text=True, timeout=60
        )
        if run.returncode == 0 or any(word not in run.stderr for word in words):
            faults.append(f"{text!r} gave {run.stderr!r}; expected {words}")
    with open(bad, "w") as file:
        file.write(
            start
            + good
            + "nodes:\n  - {node: 1, name: a, host: 127.0.0.1, port: 7001, "
            + "roles: [router, cache_meta, worker]}\n"
        )
    for words, command in (
        (
            ("--served is missing", "expected one of games"),
            ["import", "--config", bad, "--node", "a", "--data", folder],
        ),
        (
            ("--served is nosuch", "expected one of games"),
            ["import", "--config", bad, "--node", "a", "--served", "nosuch", "--data", folder],
        ),
        (("--node",), ["import", "--config", bad, "--served", "games", "--data", folder]),
        (("`troupe serve`", "--data-dir"), ["import", "--config", bad, "--data", folder]),
        (("differs between models", "in the list of models"), None),
    ):
        if command is None:
            with open(bad, "w") as file:
                file.write(start + good)
            command = ["serve", "--config", bad, "--model", ranker]
        run = subprocess.run([troupe, *command], capture_output=True, text=True, timeout=60)
        if run.returncode == 0 or any(word not in run.stderr for word in words):
            faults.append(f"{command[0]} with a list of models gave {run.stderr!r}; expected {words}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--troupe", required=True)
    troupe = parser.parse_args().troupe
    for _, model, data in MODELS:
        for folder in (model_folder(model), data_folder(data)):
            if not os.path.isdir(folder):
                print("skipped: no", folder)
                return SKIPPED
    from several_versions import Versions  # imported here, because it imports this module

    faults, others = [], [name for name, *_ in MODELS if name != "games"]
    with tempfile.TemporaryDirectory(prefix="troupe-models-") as folder:
        check_files(troupe, folder, faults)
        versions = Versions(troupe, folder)
        config = os.path.join(folder, "box.yaml")
        # Capacity for some of the games' items only, so that later blocks must evict them.
        with open(config, "w") as file:
            file.write(
                f"node: {{data_dir: {folder}/box}}\npool: {{memory: 24MiB}}\nhttp: {{admin_routes: "
                f"true}}\nmodels:\n"
            )
            for name, model, data in MODELS:
                subprocess.run(
                    [
                        troupe,
                        "import",
                        "--model",
                        model_folder(model),
                        "--data-dir",
                        f"{folder}/{name}",
                        "--data",
                        data_folder(data),
                        *options_of(model_folder(model)),
                    ],
                    check=True,
                    stdout=subprocess.DEVNULL,
                )
                more = {
                    "clips": ", settings: {router: {history_part: 16}}",
                    "games": f", settings: {{model: {{versions: {versions.folder}}}}}",
                }.get(name, "")
                file.write(
                    f"  - {{name: {name}, directory: {model_folder(model)}{member_of(model)}, data_dir: "
                    f"{folder}/{name}{more}}}\n"
                )
        port_file = os.path.join(folder, "port")
        with Node(troupe, config, port_file) as node:
            await_full(node, faults)
            check_golden(node, faults)
            check_models(node, faults)
            check_mistakes(node, faults)
            check_metrics(node, faults)
            versions.give([node], faults)
            check_golden(node, faults, others)
        with Node(troupe, config, port_file) as node:
            versions.check([node], "after a restart", {versions.new}, faults)
            versions.take_back([node], faults)
            check_golden(node, faults)
        if node.process.returncode != 0:
            faults.append(f"the node ended with {node.process.returncode}")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
