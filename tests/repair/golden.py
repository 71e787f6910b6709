#!/usr/bin/env python3
"""Checks that the scores of a served ranker are those that an independent program computed.

  tests/repair/golden.py --troupe build/deploy/troupe

Serves tiny-ranker-titles with its catalog and the form that declares its arrangement (tests/forms). Stores
the histories of the golden file's users, and requests their candidates' scores in four ways: the plain
prompt; candidates reused; candidates and history reused; the same with 30 % of the tokens recomputed,
selected by the attention that they receive. Each score must be within 1e-4, also the second time, from
cached blocks, and each reply must name the arrangement and the approximate share of its prompt. Exit status
1 on any difference; 77 if the model is not beside the checkout.
"""
import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, ".."), os.path.join(HERE, "..", "forms")]
from forms import options_of
from served_node import await_port

TOLERANCE, SKIPPED, UP_LIMIT_S = 1e-4, 77, 60
MODEL = os.path.join(HERE, "../../../shared/models/tiny-ranker-titles")
# Policy, key of the scores in the golden file, share of the reused tokens that is not recomputed.
ASKED = (
    ("causal", None, 0.0),
    ("blocks", "reuse_candidates", 1.0),
    ("all_blocks", "reuse_all", 1.0),
    ("all_blocks+30:attention", "reuse_all_repair_30", 0.7),
)


class Node:
    def __init__(self, troupe, folder):
        common = ["--model", MODEL, "--data-dir", os.path.join(folder, "data"), *options_of(MODEL)]
        port_file = os.path.join(folder, "port")
        subprocess.run([troupe, "import", *common, "--data", MODEL], check=True, stdout=subprocess.DEVNULL)
        self.process = subprocess.Popen(
            [troupe, "serve", *common, "--port", "0", "--port-file", port_file],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.port = await_port(self.process, port_file, within_s=UP_LIMIT_S)

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def close(self):
        self.process.terminate()
        self.process.wait(30)


def expected_share(request, name, left):
    kinds = {None: "", "reuse_candidates": "c"}.get(name, "hc")
    reused = sum(length for kind, _, _, length in request["blocks"] if kind in kinds)
    chosen = 0 if left == 1.0 else int(reused * (1 - left) + 0.5)
    return (reused - chosen) / len(request["tokens"]) if kinds else 0.0


def faults_of(node, request, policy, name, left):
    golden = request["scores"] if name is None else request[name]["scores"]
    body = {
        "user": str(request["user_id"]),
        "candidates": [str(item) for item in request["candidates"]],
        "policy": policy,
    }
    for again in ("computed", "reused"):
        status, text = node.ask("POST", "/v1/rank", body)
        where = f"user {request['user_id']}, {policy}, {again}"
        if status != 200:
            yield f"{where}: {status} {text}"
            return
        reply = json.loads(text)
        scores = {item["id"]: item["score"] for item in reply["items"]}
        off = max(abs(scores[str(item)] - score) for item, score in zip(request["candidates"], golden))
        if not off < TOLERANCE:
            yield f"{where}: scores differ by {off}"
        if reply["arrangement"] != "causal":
            yield f"{where}: arrangement is {reply['arrangement']}; expected causal"
        share = expected_share(request, name, left)
        if abs(reply["approximate"] - share) > 1e-9:
            yield f"{where}: approximate is {reply['approximate']}; expected {share}"
        if again == "reused" and reply["tokens_reused"] == 0:
            yield f"{where}: nothing was reused"


def main(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    args = parser.parse_args(argv)
    if not os.path.exists(os.path.join(MODEL, "golden.json")):
        print("skipped: tiny-ranker-titles is not beside the checkout")
        return SKIPPED
    requests = json.load(open(os.path.join(MODEL, "golden.json")))["requests"]
    with tempfile.TemporaryDirectory() as folder:
        node = Node(args.troupe, folder)
        try:
            faults = []
            for request in requests:
                status, text = node.ask(
                    "PUT",
                    f"/v1/users/{request['user_id']}",
                    {"history": [str(item) for item in request["history"]]},
                )
                if status != 200:
                    faults.append(f"user {request['user_id']}: {status} {text}")
            for request in requests:
                for policy, name, left in ASKED:
                    faults += faults_of(node, request, policy, name, left)
        finally:
            node.close()
    for fault in faults:
        print(fault)
    print(f"tiny-ranker-titles: {len(requests)} requests, {len(ASKED)} plans, {len(faults)} differences")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
