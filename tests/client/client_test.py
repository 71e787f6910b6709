#!/usr/bin/env python3
"""Checks deploy/client/troupe.py against a node, and the node's answers against /openapi.json.

  tests/client/client_test.py --troupe build/deploy/troupe [--bodies 2000] [--seed 1]

A node serves the demo world. Each function of the client is called, and each path of the document must have
one. A client that openapi_client.py generates from the document is compiled and sends its examples. The codes
of its error types are those of docs/reference/errors.md. Then valid and mangled bodies go to every path. Each
answer is checked against its schema: status 200 against that of the path, others against that of the status,
whose codes it must have. Exit status 1 on any difference.
"""
import argparse
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "deploy" / "client"))
from troupe import OPERATIONS, Client, TroupeError

import openapi_client

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
    if "allOf" in schema:
        return next((f for one in schema["allOf"] if (f := fault_of(value, one, schemas, where))), "")
    if "const" in schema and value != schema["const"]:
        return f"{where} is {value!r:.60}, expected {schema['const']!r}"
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
        elif isinstance(others := schema.get("additionalProperties"), dict):
            if fault := fault_of(member, others, schemas, f"{where}.{name}"):
                return fault
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
        response = responses.get(str(reply.status), responses["default"])
        content = openapi_client.resolved(self.api, response)["content"]
        schema = content["application/json"]["schema"]
        fault = fault_of(json.loads(text), schema, self.schemas)
        if not fault and "$ref" in response:
            code = json.loads(text)["error"]["code"]
            if code not in openapi_client.codes_of(self.api, response):
                fault = f"has the code {code}, which the status does not list"
        elif not fault and reply.status != 200:
            fault = f"has the status {reply.status}, which the path does not list"
        expect(not fault, f"{method} {target} {body!r:.80}: {reply.status} {fault}")
        self.counts[reply.status] = self.counts.get(reply.status, 0) + 1
        return reply.status, json.loads(text)


def check_errors():
    """Programs before a server have errors of other forms."""
    for error, message in [
        ("bad gateway", "bad gateway"),
        (["x"], "['x']"),
        ({"message": "no"}, "no"),
        ({}, ""),
    ]:
        made = TroupeError(502, error, {})
        expect((made.message, made.code) == (message, ""), f"{error!r} becomes {made.message!r}")


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
    troupe.put_user("eve/é", history=ids[:3], event_ids=["e1", "e2", "e3"])
    got = troupe.get_user("eve/é")
    expect(got["history"] == ids[:3], "a user is read")
    appended = troupe.append_events("eve/é", [{"item": ids[3], "id": "e4"}, {"item": ids[0], "id": "e1"}])
    expect((appended["appended"], appended["repeated"]) == (1, 1), "events are appended once")
    try:
        troupe.put_user("eve/é", history=[], if_match=got["version"])
        expect(False, "a condition that does not hold is refused")
    except TroupeError as error:
        expect(error.code == "changed_meanwhile", "a conditional write says that the user has changed")
    users = [{"user": f"u{i}", "history": ids[:2]} for i in range(1500)]
    expect([row["status"] for row in troupe.put_users(users)] == [200] * 1500, "many users are put")
    rows = list(troupe.append_many([{"user": "u1", "events": [{"item": i}]} for i in (ids[4], "no such")]))
    expect([row["status"] for row in rows] == [200, 422], "each line of many events has its result")
    rows = list(troupe.put_items([{"item": "x/1", "tokens": [5], "identifier": 7}]))
    expect(
        rows[0]["status"] == 200 and troupe.get_item("x/1")["tokens"] == [5],
        "many items are put, one is read",
    )
    rows = list(troupe.rank_many([{"user": "u1", "candidates": ids[:2]}, {"user": "u0", "candidates": []}]))
    expect([row["status"] for row in rows] == [200, 400], "many rankings")
    anyone = troupe.rank(history=ids[:2], candidates=ids[3:5])
    expect(len(anyone["items"]) == 2 and anyone["user"] == "", "a history is ranked without a profile")
    stored = troupe.rank("u0", ids[3:5], policy="user")
    own = troupe.rank(history=ids[:2], candidates=ids[3:5], policy="user")
    scores = [[item["score"] for item in reply["items"]] for reply in (own, stored)]
    expect(
        all(abs(a - b) < 1e-4 for a, b in zip(*scores)) and own["blocks_reused"] > 0,
        "a history is answered as a stored one is, from its blocks",
    )
    visitor = troupe.rank(history=[], candidates=ids[:2])
    cold = troupe.rank("no one yet", ids[:2], unknown_user="cold")
    expect(
        (cold["items"], cold["unknown_user"]) == (visitor["items"], "cold") and "unknown_user" not in visitor,
        "an unknown user is answered as one without events, and the reply says so",
    )
    try:
        troupe.rank("u0", ids[3:5], history=ids[:2])
        expect(False, "a user beside a history is refused")
    except TroupeError as error:
        expect(error.code == "ambiguous_history", f"a user beside a history is refused by name: {error}")
    reranked = troupe.rerank("u1", ids[:3], top_n=1, return_documents=True)
    expect(reranked["results"][0]["document"]["text"] != "", "documents are reranked")
    try:
        troupe.rerank("u1", [*ids[:3], "no such"])
        expect(False, "an unknown document is refused")
    except TroupeError as error:
        expect(error.where == "documents[3]", "one bad document of many is named")
    expect(len(troupe.score_texts("u1", ids[:2])["data"]) == 2, "scores in vLLM's form")
    vectors = [row["embedding"] for row in troupe.embed([[1, 2, 3], [4]])["data"]]
    expect(
        len(vectors) == 2 and all(abs(sum(x * x for x in vector) - 1) < 1e-4 for vector in vectors),
        "embeddings of token ids have length 1",
    )
    expect(len(troupe.generative_score([1], [[2], [3]], [4, 5])["data"]) == 2, "generative scores")
    tensors = [
        {"name": "user", "shape": [1], "datatype": "BYTES", "data": ["u1"]},
        {"name": "candidates", "shape": [2], "datatype": "BYTES", "data": ids[:2]},
    ]
    expect(len(troupe.infer("troupe", tensors)["outputs"]) == 3, "tensors are answered")
    for refused, code in (
        (lambda: troupe.generate("u1"), "not_a_generator"),
        (lambda: troupe.complete([1, 2]), "not_a_generator"),
        (lambda: troupe.tokenize("a"), "no_tokenizer"),
        (lambda: troupe.reload_model("x"), "admin_routes_off"),
        (lambda: troupe.reload_catalog("c2"), "admin_routes_off"),
        (lambda: troupe.replay("r-1"), "replay_off"),
    ):
        try:
            refused()
            expect(False, f"a ranker answers {code}")
        except TroupeError as error:
            expect(error.code == code, f"a ranker refuses with {code}: {error}")
    version = troupe.models()[0]["id"]
    expect(troupe.model_metadata(version)["versions"] == [version], "a model has metadata")
    expect(
        troupe.info()["model_sha"] == version and troupe.server()["name"] == "troupe", "the server says who"
    )
    expect(troupe.is_live() and troupe.is_model_ready(), "health is told")
    expect(
        "troupe_http_requests_total" in troupe.metrics() and "<html" in troupe.page(), "texts are returned"
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


def compare_operations(api):
    """Checks that the client has a method for each operation, and no others."""
    served = {f"{method} {path}" for path, of in api["paths"].items() for method in of}
    expect(served == set(OPERATIONS), f"the client has every operation: {sorted(served ^ set(OPERATIONS))}")
    missing = [name for name in OPERATIONS.values() if not callable(getattr(Client, name, None))]
    expect(not missing, f"the client's methods exist: {missing}")
    for name in set(OPERATIONS.values()):
        hints = getattr(Client, name).__annotations__
        expect("return" in hints, f"{name} has types")


# Codes of errors.md that no response over HTTP has: those of gRPC.
ONLY_GRPC = {
    "bad_message",
    "bad_timeout",
    "unknown_service",
    "answers_unread",
    "unknown_method",
    "compressed",
}
ONLY_GRPC |= {"bad_message_count"}


def compare_codes(api):
    """Checks that the codes of the document's errors are those of docs/reference/errors.md."""
    text = (ROOT / "docs" / "reference" / "errors.md").read_text().split("## Codes that only logs show")[0]
    told, status = set(), ""
    for line in text.splitlines():
        if found := re.match(r"## (\d{3})", line):
            status = found[1]
        if not line.startswith("| ") or not status:
            continue
        cells = line.split(" | ")
        of = cells[0].strip("| ") if re.match(r"\| \d{3} ", line) else status
        column = cells[1] if of == cells[0].strip("| ") else cells[0]
        told |= {(of, code) for code in re.findall(r"`(\w+)`", column)}
    told = {(of, code) for of, code in told if code not in ONLY_GRPC}
    listed = {
        (name.removeprefix("Error"), code)
        for name, response in api["components"]["responses"].items()
        for code in openapi_client.codes_of(api, response)
    }
    expect(told == listed, f"errors.md and the document have the same codes: {sorted(told ^ listed)}")


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
        (
            "POST",
            "/v1/rank",
            "/v1/rank",
            lambda: {"history": draw.sample(ids, 2), "candidates": draw.sample(ids, 3), "features": "wait"},
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
        ("POST", "/v1/rerank", "/v1/rerank", lambda: {"query": "ana", "documents": draw.sample(ids, 3)}),
        ("POST", "/rerank", "/rerank", lambda: {"query": "ana", "texts": draw.sample(ids, 3)}),
        ("POST", "/tokenize", "/tokenize", lambda: {"prompt": "a"}),
        ("POST", "/v1/embeddings", "/v1/embeddings", lambda: {"input": [[1, 2], [3]]}),
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
        "/info",
        "/livez",
        "/healthz",
        "/readyz",
        "/health",
        "/ping",
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
    check_errors()
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
                api = troupe.openapi()
                compare_operations(api)
                compare_codes(api)
                use_client(troupe, ids)
                openapi_client.use(
                    "http://127.0.0.1:" + (folder / "port").read_text().strip(), api, fault_of, expect
                )
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
