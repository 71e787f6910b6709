#!/usr/bin/env python3
"""Checks approximate answers of a serving node: who gets them, how approximate they claim to be, and what
is exact.

  tests/repair/served.py --troupe build/deploy/troupe

Makes prototypes of the demo world's histories, serves the demo's ranker with them, and ranks users'
candidates. Requests that allow no approximation must get exact answers. Others may get plans with blocks,
within their limits, if they name the arrangement `causal`, which these plans approximate. Budgets that
recompute everything must be exact. Then the prototypes are read through pages of the pool (model.tables:
mapped), with the same answers. A node without prototypes and one with a damaged prototype file are checked
as well. Exit status 1 on any fault.
"""
import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time

DEMO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../deploy/demo")
MODEL, WORLD = os.path.join(DEMO, "model"), os.path.join(DEMO, "world")
TOLERANCE, UP_LIMIT_S, USERS, CANDIDATES = 1e-4, 60, 12, 30
REPAIR = "30:tail:mean:layer2"


class Node:
    def __init__(self, troupe, folder, *settings):
        port_file = os.path.join(folder, "port")
        if os.path.exists(port_file):
            os.remove(port_file)
        command = [
            troupe,
            "serve",
            "--model",
            MODEL,
            "--data-dir",
            os.path.join(folder, "data"),
            "--port",
            "0",
            "--port-file",
            port_file,
        ]
        for setting in settings:
            command += ["--set", setting]
        self.errors = open(os.path.join(folder, "errors"), "w+")
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=self.errors)
        end = time.monotonic() + UP_LIMIT_S
        while not os.path.exists(port_file) or not open(port_file).read().strip():
            if time.monotonic() > end or self.process.poll() is not None:
                self.process.kill()
                self.process.wait(30)
                self.errors.seek(0)
                raise RuntimeError("the node did not start: " + self.errors.read()[-500:])
            time.sleep(0.05)
        self.port = int(open(port_file).read())

    def rank(self, user, candidates, policy, approximate=None, arrangement=None):
        body = {"user": user, "candidates": candidates, "policy": policy}
        if arrangement:
            body["arrangement"] = arrangement
        if approximate is not None:
            body["approximate"] = approximate
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request("POST", "/v1/rank", json.dumps(body))
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def rows(self, what):
        """Returns a counter of the inference worker: rows_hit or rows_missed."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request("GET", "/v1/cluster")
            actors = json.loads(connection.getresponse().read())["actors"]
        finally:
            connection.close()
        return sum(
            float(field["value"]) for actor in actors for field in actor["fields"] if field["name"] == what
        )

    def close(self):
        self.process.terminate()
        self.process.wait(30)


def scores(reply):
    return {item["id"]: item["score"] for item in reply["items"]}


def apart(a, b):
    return max(abs(scores(a)[item] - score) for item, score in scores(b).items())


class Check:
    def __init__(self, node):
        self.node, self.faults, self.plans, self.overlaps = node, [], set(), []

    def expect(self, true, what):
        if not true:
            self.faults.append(what)

    def ask(self, request, policy, approximate=None, arrangement=None):
        status, reply = self.node.rank(
            request["user"], request["candidates"][:CANDIDATES], policy, approximate, arrangement
        )
        if status != 200:
            raise RuntimeError(f"{policy}: {status} {reply}")
        allowed = approximate if approximate is not None else 0 if policy.startswith("planner") else 1
        self.expect(
            reply["approximate"] <= allowed, f"{policy} leaves {reply['approximate']}, allowed {allowed}"
        )
        return reply

    def user(self, request):
        where = "user " + request["user"]
        full = self.ask(request, "causal")
        # Exact: requests that allow no approximation, and budgets that recompute everything.
        self.expect(self.ask(request, "planner")["plan"] in ("item", "user"), where + ": unasked for")
        reply = self.ask(request, "planner", arrangement="causal")
        self.expect(
            reply["plan"] == "causal" and apart(full, reply) < TOLERANCE,
            f"{where}: the planner's plan of a plain prompt is {reply['plan']}, or differs",
        )
        for policy, approximate in (
            (f"all_blocks+{REPAIR}:prototypes", 0),
            ("all_blocks+100:tail:history100:prototypes", None),
        ):
            reply = self.ask(request, policy, approximate)
            self.expect(
                reply["approximate"] == 0 and apart(full, reply) < TOLERANCE,
                f"{where}: {policy} is not exact",
            )
        # A window over all reused tokens recomputes all of them.
        reply = self.ask(request, "all_blocks+0:window100000:prototypes")
        self.expect(
            reply["approximate"] == 0 and apart(full, reply) < TOLERANCE,
            where + ": a window over all is not exact",
        )
        for policy in (
            f"all_blocks+{REPAIR}:history20:window8:prototypes",
            f"all_blocks+{REPAIR}:history0:prototypes",
        ):
            first, second = self.ask(request, policy), self.ask(request, policy)
            self.expect(first["approximate"] > 0, f"{where}: {policy} is exact")
            self.expect(
                apart(first, second) < TOLERANCE, f"{where}: {policy} answers differently from cached blocks"
            )
        best = {
            name: {item["id"] for item in reply["items"][:10]}
            for name, reply in (("full", full), ("other", first))
        }
        self.overlaps.append(len(best["full"] & best["other"]) / 10)
        for approximate in (1, 0.2):
            reply = self.ask(request, "planner", approximate, "causal")
            self.expect(
                reply["arrangement"] == "causal", f"{where}: the planner's plan is of {reply['arrangement']}"
            )
            self.plans.add(reply["plan"])
            reply = self.ask(request, "planner", approximate)
            self.expect(
                reply["plan"] in ("item", "user"), f"{where}: {reply['plan']} is no interchangeable plan"
            )
        left = [
            self.ask(request, f"all_blocks+{REPAIR}:prototypes", share)["approximate"] for share in (0.1, 0.4)
        ]
        self.expect(left[0] < left[1] or left[1] == 0, f"{where}: {left} remain approximate with 0.1 and 0.4")


def main(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    args = parser.parse_args(argv)
    requests = [json.loads(line) for line in open(os.path.join(WORLD, "requests.jsonl"))][:USERS]
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "prototypes")
        made = subprocess.run(
            [args.troupe, "prototypes", "--model", MODEL, "--data", WORLD, "--out", file],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
        subprocess.run(
            [
                args.troupe,
                "import",
                "--model",
                MODEL,
                "--data-dir",
                os.path.join(folder, "data"),
                "--data",
                WORLD,
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        node = Node(args.troupe, folder, "model.prototypes=" + file)
        check = Check(node)
        try:
            for request in requests:
                check.user(request)
        finally:
            node.close()
        policy = f"all_blocks+{REPAIR}:history0:prototypes"
        node = Node(args.troupe, folder, "model.prototypes=" + file)
        try:
            from_file = [
                node.rank(request["user"], request["candidates"][:CANDIDATES], policy)[1]
                for request in requests
            ]
            check.expect(
                node.rows("rows_hit") + node.rows("rows_missed") == 0,
                "rows in the pool without model.tables: mapped",
            )
        finally:
            node.close()
        # Pages for some of the rows only, so that rows must be evicted.
        node = Node(
            args.troupe,
            folder,
            "model.prototypes=" + file,
            "model.tables=mapped",
            "pool.row_share=0.02",
            "pool.memory=4MiB",
        )
        try:
            for again in range(2):
                for request, expected in zip(requests, from_file):
                    status, reply = node.rank(request["user"], request["candidates"][:CANDIDATES], policy)
                    check.expect(
                        status == 200 and apart(expected, reply) < TOLERANCE,
                        f"user {request['user']}: a different answer through the pool",
                    )
            check.expect(
                node.rows("rows_hit") > 0 and node.rows("rows_missed") > 0,
                "expected prototype rows found in the pool and rows missed",
            )
        finally:
            node.close()
        node = Node(args.troupe, folder)
        try:
            status, reply = node.rank(
                requests[0]["user"], requests[0]["candidates"], "all_blocks+30:prototypes"
            )
            check.expect(
                status == 400 and "no_prototypes" in json.dumps(reply),
                f"without prototypes: {status} {reply}",
            )
        finally:
            node.close()
        with open(file, "r+b") as damaged:
            damaged.seek(-1000, os.SEEK_END)
            byte = damaged.read(1)
            damaged.seek(-1000, os.SEEK_END)
            damaged.write(bytes([byte[0] ^ 1]))
        try:
            Node(args.troupe, folder, "model.prototypes=" + file).close()
            check.expect(False, "a damaged file of prototypes is served")
        except RuntimeError as error:
            check.expect("checksum" in str(error), f"expected a refusal that names the checksum: {error}")
    for fault in check.faults:
        print(fault)
    print(made.strip())
    print(
        f"{len(requests)} users; the planner took {', '.join(sorted(check.plans))} where it was "
        "allowed more; of the ten best "
        f"{100 * sum(check.overlaps) / len(check.overlaps):.0f} % are those of the whole prompt with "
        "prototypes; "
        f"{len(check.faults)} faults"
    )
    return 1 if check.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
