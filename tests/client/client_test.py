#!/usr/bin/env python3
"""Checks deploy/client/troupe.py against a node, and the node's answers against /openapi.json.

  tests/client/client_test.py --troupe build/deploy/troupe [--bodies 2000] [--seed 1]

A node serves the demo world. Each function of the client is called. Then valid and mangled bodies go to
every path. Each answer is checked against its schema: status 200 against that of the path, others against
that of errors. Exit status 1 on any difference.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "deploy" / "client"))
from troupe import Client, TroupeError

DEMO = ROOT / "deploy" / "demo"
faults = []


def expect(holds, what):
    if not holds:
        faults.append(what)
        print("WRONG " + what)


# ---- JSON Schema, as far as /openapi.json uses it ----

KINDS = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def is_kind(value, kind):
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, KINDS[kind])


def fault_of(value, schema, schemas, where="body"):
    """Returns what violates the schema, or an empty text."""
    if "$ref" in schema:
        return fault_of(value, schemas[schema["$ref"].rsplit("/", 1)[1]], schemas, where)
    if "anyOf" in schema:
        faults = [fault_of(value, one, schemas, where) for one in schema["anyOf"]]
        return "" if "" in faults else faults[0]
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(is_kind(value, kind) for kind in kinds):
        return f"{where} is {value!r:.60}, not {kinds}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where} is {value!r:.60}, expected one of {schema['enum']}"
    if "minimum" in schema and value < schema["minimum"] or "maximum" in schema and value > schema["maximum"]:
        return f"{where} is {value}"
    if isinstance(value, list):
        return next(
            (
                f
                for i, v in enumerate(value)
                if (f := fault_of(v, schema.get("items", {}), schemas, f"{where}[{i}]"))
            ),
            "",
        )
    if not isinstance(value, dict):
        return ""
    for name in schema.get("required", []):
        if name not in value:
            return f"{where} has no {name}"
    known = schema.get("properties", {})
    for name, member in value.items():
        if name in known:
            if fault := fault_of(member, known[name], schemas, f"{where}.{name}"):
                return fault
        elif schema.get("additionalProperties") is False:
            return f"{where} has {name}, which is not in the schema"
    return ""


class Checked:
    """Sends requests, and compares each answer with its schema."""

    def __init__(self, client):
        self.client, self.api, self.counts = client, client.openapi(), {}
        self.schemas = self.api["components"]["schemas"]

    def ask(self, method, path, target, body):
        responses = self.api["paths"][path][method.lower()]["responses"]
        connection = self.client._make()
        connection.request(method, target, body, {"content-type": "application/json"})
        reply = connection.getresponse()
        text = reply.read()
        connection.close()
        schema = responses.get(str(reply.status), responses["default"])["content"]["application/json"][
            "schema"
        ]
        fault = fault_of(json.loads(text), schema, self.schemas)
        expect(not fault, f"{method} {target} {body!r:.80}: {reply.status} {fault}")
        self.counts[reply.status] = self.counts.get(reply.status, 0) + 1
        return reply.status, json.loads(text)


def use_client(troupe, ids):
    expect(troupe.put_user("eve/é", history=ids[:3]) > 0, "a user is stored")
    reply = troupe.rank("eve/é", ids[3:9], top_k=2, policy="item")
    expect(len(reply["items"]) == 2 and reply["plan"] == "item", "two items come back")
    expect(len(troupe.request_id) == 32, "a request has an id")
    troupe.ask(
        "POST",
        "/v1/rank",
        {"user": "eve/é", "candidates": ids[3:5]},
        traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
    )
    expect(
        troupe.traceparent.startswith("00-4bf92f3577b34da6a3ce929d0e0e4736-"), "a trace context is continued"
    )
    scores = troupe.score([1, 2, 3], [[4, 5], [6]], [7, 8], apply_softmax=True)
    expect(abs(sum(scores["items"][0]["scores"]) - 1) < 1e-6, "scores are probabilities")
    expect(troupe.put_item("new/one", [5, 6], 7, title="a new one") > 0, "an item is stored")
    expect(
        "new/one" in [item["id"] for item in troupe.rank("eve/é", ["new/one", ids[0]])["items"]],
        "the item is ranked",
    )
    expect(
        troupe.delete_item("new/one") > 0 and troupe.delete_user("eve/é") > 0,
        "the item and the user are deleted",
    )
    try:
        troupe.rank("eve/é", ids[:2])
        expect(False, "a deleted user is refused")
    except TroupeError as error:
        expect(
            (error.status, error.code, error.where) == (404, "unknown_user", "user"),
            f"the refusal has its code: {error}",
        )
    expect(
        troupe.models()[0]["object"] == "model" and troupe.is_ready() and troupe.slowest(),
        "status requests are answered",
    )
    expect(
        {a["role"] for a in troupe.cluster()["actors"]}
        == {"router", "cache_meta", "kv_worker", "inference_worker", "allocator"},
        "actors answer",
    )
    troupe._connection.sock.close()  # simulates a broken connection
    expect(troupe.is_ready() or troupe.models(), "a broken connection is reopened")


def mangled(draw, body):
    """Returns a valid body, or a mangled one."""
    kind = draw.randrange(8)
    if kind == 0:
        return json.dumps(body)[: draw.randrange(1, 40)]
    if kind <= 4:
        body = json.loads(json.dumps(body))
        name = draw.choice(list(body) or ["x"])
        body[draw.choice([name, name, "budget_us", "no_such", "top_k", "policy"])] = draw.choice(
            [
                None,
                -1,
                0,
                1e9,
                2**70,
                "",
                "ana",
                "é",
                [],
                [[]],
                {},
                True,
                [1, 2],
                ["a", "a"],
                "blocks+30",
                [{"tokens": [1]}],
            ]
        )
        if draw.random() < 0.2:
            body.pop(name, None)
    return json.dumps(body)


def fuzz(checked, ids, bodies, seed):
    draw = random.Random(seed)
    sound = [
        (
            "POST",
            "/v1/rank",
            "/v1/rank",
            lambda: {
                "user": draw.choice(["ana", "bo", "nobody"]),
                "candidates": draw.sample(ids, draw.randrange(1, 9)),
            },
        ),
        (
            "POST",
            "/v1/score",
            "/v1/score",
            lambda: {"query": [1, 2], "items": [{"tokens": [3]}], "label_tokens": [4, 5]},
        ),
        (
            "POST",
            "/v1/score",
            "/v1/score",
            lambda: {"query": [1, 2], "items": [[3]], "label_token_ids": [4, 5], "apply_softmax": True},
        ),
        ("POST", "/score", "/score", lambda: {"text_1": "ana", "text_2": ["camp-0001", "camp-0002"]}),
        (
            "POST",
            "/generative_scoring",
            "/generative_scoring",
            lambda: {"query": [1], "items": [[2], [3]], "label_token_ids": [4, 5]},
        ),
        ("POST", "/v1/generate", "/v1/generate", lambda: {"user": "ana", "top_k": 3}),
        ("POST", "/v1/completions", "/v1/completions", lambda: {"prompt": [1, 2], "max_tokens": 2}),
        ("PUT", "/v1/users/{id}", "/v1/users/bo", lambda: {"history": draw.sample(ids, 2)}),
        ("DELETE", "/v1/users/{id}", "/v1/users/cy", lambda: {}),
        (
            "PUT",
            "/v1/items/{id}",
            "/v1/items/extra",
            lambda: {"title": "t", "tokens": [1, 2], "identifier": 3},
        ),
        ("POST", "/v1/models/reload", "/v1/models/reload", lambda: {"model": "x"}),
    ]
    for _ in range(bodies):
        method, path, target, body = draw.choice(sound)
        checked.ask(method, path, target, mangled(draw, body()) if method != "DELETE" else None)
    for path in (
        "/v1/models",
        "/v1/cluster",
        "/v1/slowest",
        "/v2/health/live",
        "/v2/health/ready",
        "/openapi.json",
    ):
        expect(checked.ask("GET", path, path, None)[0] == 200, f"GET {path}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    parser.add_argument("--bodies", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    ids = [json.loads(line)["id"] for line in (DEMO / "world" / "items.jsonl").read_text().splitlines()[:40]]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model = ["--model", DEMO / "model", "--data-dir", folder / "data"]
        subprocess.run(
            [arguments.troupe, "import", *model, "--data", DEMO / "world"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        node = subprocess.Popen(
            [arguments.troupe, "serve", *model, "--port", "0", "--port-file", folder / "port"],
            stdout=subprocess.DEVNULL,
        )
        try:
            while not (folder / "port").exists() or not (folder / "port").read_text().strip():
                time.sleep(0.05)
            with Client("127.0.0.1:" + (folder / "port").read_text().strip()) as troupe:
                while not troupe.is_ready():
                    time.sleep(0.05)
                use_client(troupe, ids)
                checked = Checked(troupe)
                fuzz(checked, ids, arguments.bodies, arguments.seed)
                print(
                    f"{sum(checked.counts.values())} answers checked (seed {arguments.seed}), by "
                    f"status: {dict(sorted(checked.counts.items()))}"
                )
                expect(
                    checked.counts.get(200, 0) > arguments.bodies / 10 and len(checked.counts) > 3,
                    "answers of several statuses were seen",
                )
        finally:
            node.terminate()
            node.wait(40)
    print(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
