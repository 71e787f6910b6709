#!/usr/bin/env python3
"""Serves a node under a mixed load that touches every thread, and reports what a sanitizer says of it.

  tests/server/under_load.py --troupe build-tsan/deploy/troupe --seconds 60

Clients rank by several policies, put and delete users, append events, put items anew one by one and by
lines, score, and read metrics, the cluster and the slowest requests. Meanwhile keys and certificate are read
again (SIGHUP), the pool is too small for the catalog, the scrubber runs each second, every request is logged,
and a few connections break off. Exit status 1 if a request fails in a way that this load does not explain, if
a kind of request never succeeds, if the node ends by itself or with another status than 0, or if it printed a
report of a sanitizer; the reports are printed.
"""
import argparse
import collections
import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORLD = f"{ROOT}/deploy/demo/world"
START_S, ANSWER_S, END_S = 300, 300, 300  # a sanitizer is slow
SETTINGS = [
    "http.access_log=all",
    "pool.memory=2MiB",
    "pool.scrub_interval=1s",
    "pool.check_reads=1",
    "verify.share=0.05",
    "router.deadline=10min",
    "router.deadline_max=10min",
    "router.tenant_work_max=10min",
]
POLICIES = ["recompute", "user", "item", "larger", "bat", "planner"]
# Full queues, and rows that another client has deleted, are part of this load.
EXPLAINED = {200, 404, 412, 422, 429, 503}
REPORT = re.compile(r"^(WARNING: ThreadSanitizer|==\d+==ERROR: |.*: runtime error: )", re.M)


def jsonl(name, count):
    with open(f"{WORLD}/{name}.jsonl") as lines:
        return [json.loads(line) for line, _ in zip(lines, range(count))]


class Node:
    def __init__(self, troupe, folder):
        self.folder, self.stopped = folder, False
        common = ["--model", f"{ROOT}/deploy/demo/model", "--data-dir", f"{folder}/data"]
        self.keys = {
            kind: self.make_key(troupe, *flags)
            for kind, flags in {
                "admin": ["--admin"],
                "tenant": ["--tenant", "acme"],
                "scrape": ["--scrape"],
            }.items()
        }
        subprocess.run([troupe, "import", *common, "--data", WORLD], check=True, capture_output=True)
        port = f"{folder}/port"
        sets = [w for setting in [*SETTINGS, f"http.api_keys={folder}/keys"] for w in ("--set", setting)]
        self.log = open(f"{folder}/log", "wb")
        self.process = subprocess.Popen(
            [troupe, "serve", *common, "--port", "0", "--port-file", port, *sets],
            stdout=subprocess.DEVNULL,
            stderr=self.log,
        )
        end = time.monotonic() + START_S
        while not os.path.exists(port) or not open(port).read().strip():
            if time.monotonic() > end or self.process.poll() is not None:
                self.process.kill()
                raise RuntimeError("the node did not start: " + self.text()[-2000:])
            time.sleep(0.05)
        self.server = ("127.0.0.1", int(open(port).read()))

    def make_key(self, troupe, *flags):
        made = subprocess.run(
            [troupe, "keys", "add", f"{self.folder}/keys", *flags], check=True, capture_output=True, text=True
        )
        return made.stdout.strip()

    def end(self):
        """Returns the exit status; kills a node that does not end."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return f"none within {END_S} s"

    def text(self):
        with open(f"{self.folder}/log", errors="replace") as log:
            return log.read()


class Client(threading.Thread):
    """Sends requests of random kinds until the end; counts statuses by kind."""

    def __init__(self, node, seed, end):
        super().__init__(daemon=True)
        self.node, self.end, self.random = node, end, random.Random(seed)
        self.statuses, self.faults = collections.Counter(), []
        self.items, self.users = jsonl("items", 200), jsonl("users", 20)
        self.link = http.client.HTTPConnection(*node.server, timeout=ANSWER_S)

    def run(self):
        kinds = [name for name in dir(self) if name.startswith("do_")]
        while time.monotonic() < self.end:
            kind = self.random.choice(kinds)
            try:
                getattr(self, kind)()
            except (OSError, http.client.HTTPException) as error:
                self.faults.append(f"{kind}: {error!r}")
                self.link.close()
                time.sleep(0.1)  # of a node that is gone there would be thousands

    def ask(self, kind, method, path, body=None, key="admin", lines=False):
        headers = {"authorization": f"Bearer {self.node.keys[key]}"}
        if lines:
            headers["content-type"] = "application/x-ndjson"
        data = body if body is None or isinstance(body, str) else json.dumps(body)
        self.link.request(method, path, data, headers)
        reply = self.link.getresponse()
        text = reply.read().decode(errors="replace")
        self.statuses[kind, reply.status] += 1
        if reply.status not in EXPLAINED:
            self.faults.append(f"{kind}: {reply.status} {text[:200]}")

    def ids(self, count):
        return [item["id"] for item in self.random.sample(self.items, count)]

    def ranking(self):
        user = self.random.choice(self.users)["id"]
        return {"user": user, "candidates": self.ids(10), "policy": self.random.choice(POLICIES)}

    def changed_item(self):
        item = dict(self.random.choice(self.items))
        return {"item": item.pop("id"), **item, "title": f"seen {self.random.random()}"}

    def own_user(self):
        return f"own-{self.random.randrange(20)}"

    def do_rank(self):
        self.ask("rank", "POST", "/v1/rank", self.ranking())

    do_rank_again = do_rank  # rankings are most of the load

    def do_rank_lines(self):
        body = "".join(json.dumps(self.ranking()) + "\n" for _ in range(8))
        self.ask("rank_lines", "POST", "/v1/rank", body, lines=True)

    def do_rank_own(self):
        body = {"user": self.own_user(), "candidates": self.ids(5)}
        self.ask("rank_own", "POST", "/v1/rank", body, key="tenant")

    def do_score(self):
        body = {"query": [1, 2, 3], "items": [{"tokens": [5, 6]}, {"tokens": [7]}], "label_tokens": [8, 9]}
        self.ask("score", "POST", "/v1/score", body)

    def do_put_user(self):
        self.ask("put_user", "PUT", f"/v1/users/{self.own_user()}", {"history": self.ids(6)}, key="tenant")

    def do_delete_user(self):
        self.ask("delete_user", "DELETE", f"/v1/users/{self.own_user()}", key="tenant")

    def do_events(self):
        body = {"events": [{"item": item} for item in self.ids(2)]}
        self.ask("events", "POST", f"/v1/users/{self.own_user()}/events", body, key="tenant")

    def do_put_item(self):
        item = self.changed_item()
        self.ask("put_item", "PUT", f"/v1/items/{item['item']}", item)

    def do_item_lines(self):
        body = "".join(json.dumps(self.changed_item()) + "\n" for _ in range(4))
        self.ask("item_lines", "POST", "/v1/items", body, lines=True)

    def do_reads(self):
        self.ask("metrics", "GET", "/metrics", key="scrape")
        self.ask("cluster", "GET", "/v1/cluster")
        self.ask("slowest", "GET", "/v1/slowest", key="tenant")
        self.ask("ready", "GET", "/v2/health/ready")
        self.ask("user", "GET", f"/v1/users/{self.random.choice(self.users)['id']}")

    def do_break_off(self):
        other = http.client.HTTPConnection(*self.node.server, timeout=ANSWER_S)
        headers = {"authorization": f"Bearer {self.node.keys['admin']}"}
        other.request("POST", "/v1/rank", json.dumps(self.ranking()), headers)
        other.close()

    def do_reload(self):
        if self.random.random() < 0.1:
            self.node.process.send_signal(signal.SIGHUP)


def judge(node, clients, status):
    faults = [fault for client in clients for fault in client.faults][:20]
    statuses = sum((client.statuses for client in clients), collections.Counter())
    for (kind, code), count in sorted(statuses.items()):
        print(f"{kind:<12} {code} {count:7}")
    kinds = {kind for kind, _ in statuses}
    faults += [f"{kind}: never answered with 200" for kind in sorted(kinds) if not statuses[kind, 200]]
    if status != 0:
        faults.append(f"the node ended with {status}; expected 0")
    text = node.text()
    found = list(REPORT.finditer(text))
    if found:
        faults.append(f"{len(found)} reports of a sanitizer")
        for report in found[:20]:
            print(text[report.start() : report.start() + 4000].split("\n==================")[0])
    return faults


def main(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="troupe-load-") as folder:
        node = Node(args.troupe, folder)
        clients = [Client(node, args.seed + i, time.monotonic() + args.seconds) for i in range(args.clients)]
        for client in clients:
            client.start()
        for client in clients:
            client.join(args.seconds + 2 * ANSWER_S)
        gone = node.process.poll()
        faults = judge(node, clients, node.end() if gone is None else f"{gone}, before it was asked to")
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
