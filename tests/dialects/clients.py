#!/usr/bin/env python3
"""Checks that Cohere's own client and requests of the Open Inference Protocol get the demo's rankings.

  tests/dialects/clients.py --troupe build/deploy/troupe --install
  TROUPE_COHERE=FOLDER tests/dialects/clients.py --troupe build/deploy/troupe

The node requires keys. clients.mjs uses versions 1 and 2 of rerank in the npm package `cohere-ai`. The
other checks need no package: /v2, a model's metadata, readiness and infer, and those of texts.py and
calls.py. --install gets the package from the registry into a temporary folder; without it, TROUPE_COHERE
names its folder. Exit status 1 on any difference; 77 if node or the package is missing, after the checks
that need neither.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

import texts as texts_test
from served import ServedDemo
from npm_packages import install  # from the folder above, which served adds

PACKAGE, SKIPPED = "cohere-ai@8.1.0", 77


class Node(ServedDemo):
    def __init__(self, troupe):
        super().__init__(troupe, "router.policy=item")


def texts(name, values):
    return {"name": name, "shape": [len(values)], "datatype": "BYTES", "data": values}


def try_protocol(node):
    """Returns the names of the checks that failed."""
    wrong = []

    def check(holds, what):
        print(("ok      " if holds else "FAILED  ") + what)
        wrong.extend([] if holds else [what])

    check(node.ask("/v2/health/ready", headers={}) == (200, {"ready": True}), "health needs no key")
    check(node.ask("/v2", headers={})[0] == 401, "other paths need a key")
    status, server = node.ask("/v2")
    check(status == 200 and server["name"] == "troupe" and server["extensions"] == [], "GET /v2: the server")
    version = node.ask("/v1/models")[1]["data"][0]["id"]
    for name in (version, "troupe"):
        status, model = node.ask("/v2/models/" + name)
        check(
            status == 200
            and model["versions"] == [version]
            and {"name": "candidates", "datatype": "BYTES", "shape": [-1]} in model["inputs"],
            f"GET /v2/models/{name[:9]}: inputs and outputs",
        )
    check(
        node.ask("/v2/models/troupe/ready") == (200, {"name": "troupe", "ready": True}),
        "GET /v2/models/troupe/ready",
    )
    check(node.ask("/v2/models/other")[0] == 404, "an unknown model is 404")
    candidates = ["camp-0001", "camp-0002", "camp-0003"]
    ranked = {
        item["id"]: item["score"]
        for item in node.ask("/v1/rank", {"user": "ana", "candidates": candidates})[1]["items"]
    }
    asked = {"id": "17", "inputs": [texts("user", ["ana"]), texts("candidates", candidates)]}
    for path in ("/v2/models/troupe/infer", f"/v2/models/troupe/versions/{version}/infer"):
        status, reply = node.ask(path, asked)
        outputs = {output["name"]: output for output in reply.get("outputs", [])}
        check(
            status == 200
            and reply["id"] == "17"
            and reply["model_name"] == "troupe"
            and reply["model_version"] == version
            and outputs["items"]["data"] == candidates
            and outputs["scores"]["shape"] == [3]
            and all(
                abs(score - ranked[item]) < 1e-4 for item, score in zip(candidates, outputs["scores"]["data"])
            ),
            f"POST {path[:23]}…: the scores of /v1/rank, in the order of the candidates",
        )
    try_published(node, asked, check)
    try_other_servers(node, candidates, check)
    check(node.ask("/v2/models/other/infer", asked)[0] == 404, "an infer of an unknown model is 404")
    status, reply = node.ask(
        "/v2/models/troupe/infer",
        {"inputs": [texts("user", ["ana"]), {**texts("candidates", ["a"]), "shape": [2]}]},
    )
    check(
        status == 400 and reply["error"]["where"] == "inputs[1].shape",
        "a shape that differs from the data's is 400 and names its position",
    )
    return wrong


def try_published(node, asked, check):
    """Requests as the protocol's text and its clients (kserve, tritonclient) write them."""
    infer = "/v2/models/troupe/infer"
    wanted = [{"name": "scores", "parameters": {"binary_data": False}}]
    more = {"parameters": {"timeout": 5_000_000, "priority": 0, "binary_data_output": False}}
    nested = [
        asked["inputs"][0],
        {**asked["inputs"][1], "shape": [1, 3], "data": [asked["inputs"][1]["data"]]},
    ]
    status, reply = node.ask(infer, {**asked, **more, "inputs": nested, "outputs": wanted})
    check(
        status == 200 and [output["name"] for output in reply["outputs"]] == ["scores"],
        "parameters, a nested tensor and wanted outputs",
    )
    status, reply = node.ask(infer, {**asked, "parameters": {"binary_data_output": True}})
    check(
        status == 400 and reply["error"]["where"] == "parameters.binary_data_output",
        "binary outputs are refused by name",
    )
    sized = {
        "name": "user",
        "shape": [1],
        "datatype": "BYTES",
        "parameters": {"binary_data_size": 7},
    }
    request = urllib.request.Request(
        node.url + infer,
        json.dumps({"inputs": [sized]}).encode() + b"\x03\x00\x00\x00ana",
        {**node.headers, "Inference-Header-Content-Length": "1"},
    )
    try:
        urllib.request.urlopen(request, timeout=60)
        check(False, "binary inputs are refused")
    except urllib.error.HTTPError as error:
        reply = json.loads(error.read())["error"]
        check(
            "binary" in reply["message"] and "JSON" in reply["expected"], "binary inputs are refused by name"
        )
    unknown = texts("candidates", ["camp-0001", "nothing"])
    status, reply = node.ask(infer, {"inputs": [asked["inputs"][0], unknown]})
    check(
        status == 404 and reply["error"]["where"] == "inputs[1].data[1]",
        "an unknown candidate is named by its position in the tensor",
    )


def try_other_servers(node, candidates, check):
    """What clients of TEI and vLLM ask for."""
    ranked = node.ask("/v1/rerank", {"query": "ana", "documents": candidates})[1]["results"]
    status, reply = node.ask("/rerank", {"query": "ana", "texts": candidates, "raw_scores": False})
    check(
        status == 200 and [row["index"] for row in reply] == [row["index"] for row in ranked],
        "TEI's /rerank: a list of positions and scores",
    )
    status, reply = node.ask("/rerank", {"query": "ana", "texts": candidates, "return_text": True})
    check(status == 200 and all(row["text"] for row in reply), "with texts, if they are wanted")
    status, reply = node.ask("/rerank", {"query": "ana", "texts": candidates, "raw_scores": True})
    check(status == 400 and reply["error"]["where"] == "raw_scores", "raw scores are refused by name")
    status, reply = node.ask("/rerank", {"model": "troupe", "query": "ana", "documents": candidates})
    check(status == 200 and len(reply["results"]) == 3, "vLLM's /rerank")
    version = node.ask("/v1/models")[1]["data"][0]["id"]
    status, reply = node.ask("/info")
    check(status == 200 and reply["model_sha"] == version, "TEI's /info")
    check(node.ask("/health", headers={})[0] == 200, "their /health, without a key")
    status, reply = node.ask("/tokenize", {"prompt": "a"})
    check(status == 422 and reply["error"]["code"] == "no_tokenizer", "/tokenize wants a tokenizer")


def calls_fail(troupe):
    """Runs calls.py with the system's Python, which has Debian's package; returns 77 without the package."""
    python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
    return subprocess.run(
        [
            python,
            "-B",
            os.path.join(os.path.dirname(os.path.abspath(__file__)), "calls.py"),
            "--troupe",
            troupe,
        ]
    ).returncode not in (0, 77)


def why_no_client(args, folder):
    for program in ("node", "npm") if args.install else ("node",):
        if not shutil.which(program):
            return program + " is not installed"
    if args.install and (why := install(folder, PACKAGE)):
        return why
    there = os.path.isdir(os.path.join(folder, "node_modules", "cohere-ai"))
    return "" if there else "no package cohere-ai; expected --install, or TROUPE_COHERE=FOLDER"


def main(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    parser.add_argument("--install", action="store_true")
    args = parser.parse_args(argv)
    if texts_test.main(["--troupe", args.troupe]) or calls_fail(args.troupe):
        return 1
    with tempfile.TemporaryDirectory(prefix="troupe-cohere-") as temporary, Node(args.troupe) as node:
        if try_protocol(node):
            return 1
        folder = temporary if args.install else os.path.abspath(os.environ.get("TROUPE_COHERE", temporary))
        if why := why_no_client(args, folder):
            print("skipped: " + why)
            return SKIPPED
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "clients.mjs")
        return 1 if subprocess.run(["node", script, folder, node.url, node.key]).returncode else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
