#!/usr/bin/env python3
"""Clients put, delete and rank users and items through two routers over one Redis, while processes are
killed.

  tests/linearizability/linearizability.py --operations 100000 [--failover restart|promote] [--every 6]
                                           [--clients 12] [--troupe build/deploy/troupe] [--history FILE]
                                           [--json FILE] [--seconds 280]
  tests/linearizability/linearizability.py --check FILE    # judge a history again
  tests/linearizability/linearizability.py --plant lost    # lose acknowledged writes; or split
  tests/linearizability/linearizability.py --short         # for ctest: a few seconds, and the injected fault

Redis and the routers are killed; then the history is judged (README.md). Exit status 1 if a promise is
broken; 77
without etcd or Redis."""
import argparse
import collections
import gzip
import http.client
import itertools
import json
import os
import pathlib
import random
import shutil
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))
import loopback
from history import Record, judge
from stores import Stores

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO = ROOT / "deploy/demo"
FRONTS = ("front-1", "front-2")
FIXED_USER, FIXED_ITEM = "ana", "camp-0000"  # of the demo world; no client writes them
KEYS = 8  # keys of users, and of items
PAUSE = 0.01  # pause of a client after a refusal
LENGTHS = 90  # token counts of users, which distinguish a user's writes without an outcome
ASK_LIMIT = 4.0
SURELY_NOT = ("features_unavailable",)  # error codes that mean that a write was not stored


class Asker(threading.Thread):
    """A client of the servers of a run's cluster, with a persistent connection to each."""

    def __init__(self, run, number):
        super().__init__(daemon=True)
        self.run_of, self.number, self.connections = run, number, {}

    def ask(self, router, method, path, body=None):
        """Returns status and reply. Status 0 = no outcome; None = nothing was sent."""
        try:
            if router not in self.connections:
                connection = http.client.HTTPConnection(
                    loopback.ADDRESS, self.run_of.cluster.http_port[router], timeout=ASK_LIMIT
                )
                connection.connect()
                self.connections[router] = connection
        except OSError:
            return None, None
        try:
            self.connections[router].request(method, path, None if body is None else json.dumps(body))
            answer = self.connections[router].getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError):
            self.connections.pop(router).close()
            return 0, None


class Client(Asker):
    def __init__(self, run, number):
        super().__init__(run, number)
        self.chance = random.Random(f"{run.seed}/{run.name}/{number}")
        self.records, self.refused = [], collections.Counter()
        self.fault = None

    def run(self):
        try:
            while self.run_of.goes_on():
                self.one()
        except Exception as error:  # an outcome that the interface does not document
            self.fault = f"client {self.number}: {type(error).__name__}: {error}"

    def one(self):
        kind = self.chance.choice(("user", "item"))
        key = f"{kind}-{self.run_of.name}-{min(self.chance.randrange(KEYS), self.chance.randrange(KEYS))}"
        what = self.chance.choices(("read", "put", "delete"), (55, 35, 10))[0]
        router = self.chance.choice(FRONTS)
        value = self.run_of.next_value(kind, key) if what == "put" else None
        start = time.monotonic()
        status, reply = self.ask(router, *self.request(kind, key, what, value))
        record = Record(kind, key, what, value, None, start, time.monotonic(), "open", router)
        if self.settle(record, status, reply):
            self.records.append(record)
            self.run_of.count()

    @staticmethod
    def request(kind, key, what, value):
        path = f"/v1/{kind}s/{key}"
        if what == "delete":
            return "DELETE", path, None
        if what == "read":
            wanted = (
                {"user": key, "candidates": [FIXED_ITEM]}
                if kind == "user"
                else {"user": FIXED_USER, "candidates": [key]}
            )
            return "POST", "/v1/rank", {**wanted, "policy": "item"}
        number, last = value.split("/")[1:] if kind == "user" else (value.split("/")[1], None)
        if kind == "user":
            return "PUT", path, {"tokens": [int(number) % 100] * int(last)}
        return "PUT", path, {"title": value, "tokens": [5, 6, 7], "identifier": 7}

    def settle(self, record, status, reply):
        """Sets the outcome of a record; returns whether to keep it."""
        code = reply["error"]["code"] if reply and "error" in reply else ""
        if status == 200:
            record.outcome = "ok"
            if record.what != "read":
                record.version = reply["version"]
            elif record.kind == "user":
                record.version, record.value = (
                    reply["profile_version"],
                    reply["tokens_total"] - self.run_of.frame,
                )
            else:
                record.version, record.value = int(reply["catalog_version"][1:]), reply["items"][0]["title"]
            return True
        if code == f"unknown_{record.kind}" and record.what != "put":
            record.outcome = "absent"
            return True
        if status is None or code in SURELY_NOT or record.what == "read":
            self.refused[code or "no connection"] += 1
            time.sleep(PAUSE)
            if status is not None and 400 <= status < 500:
                raise RuntimeError(f"{record.what} of {record.key}: {status} {reply}")
            return False
        if 0 < status < 500:
            raise RuntimeError(f"{record.what} of {record.key}: {status} {reply}")
        self.refused[code or "no outcome"] += 1
        return True  # the outcome is unknown


class Run:
    """A run of `clients` until `operations` are done, or for `seconds` at most."""

    def __init__(self, cluster, name, operations, clients, seconds, seed):
        self.cluster, self.name, self.seed = cluster, name, seed
        self.operations, self.done = operations, 0
        self.until = time.monotonic() + seconds
        self.stopping = False
        self.numbers = collections.defaultdict(itertools.count)
        self.lock = threading.Lock()
        self.frame = find_frame(cluster)
        self.failovers, self.promotions = collections.Counter(), []
        self.began = time.monotonic()
        self.clients = [Client(self, number) for number in range(clients)]
        for client in self.clients:
            client.start()

    def goes_on(self):
        return not self.stopping and self.done < self.operations and time.monotonic() < self.until

    def count(self):
        with self.lock:
            self.done += 1

    def next_value(self, kind, key):
        with self.lock:
            number = next(self.numbers[key])
        return f"{key}/{number}" + (f"/{4 + number % LENGTHS}" if kind == "user" else "")

    def end(self):
        self.stopping = True
        for client in self.clients:
            client.join(ASK_LIMIT + 5)
        self.seconds = time.monotonic() - self.began

    def records(self):
        return [record for client in self.clients for record in client.records]

    def faults(self):
        """Returns faults of the run itself, not of its history."""
        return [client.fault for client in self.clients if client.fault]

    def refused(self):
        return sum((client.refused for client in self.clients), collections.Counter())


def find_frame(cluster):
    """Returns how many tokens of a ranking are not the user's."""
    totals = []
    for length in (10, 20):
        loopback.ask(cluster.http_port[FRONTS[0]], "PUT", "/v1/users/frame", {"tokens": [1] * length})
        status, text = loopback.ask(
            cluster.http_port[FRONTS[0]],
            "POST",
            "/v1/rank",
            {"user": "frame", "candidates": [FIXED_ITEM], "policy": "item"},
        )
        if status != 200:
            raise RuntimeError(f"ranking for a stored user: {status} {text}")
        totals.append(json.loads(text)["tokens_total"] - length)
    if totals[0] != totals[1]:
        raise RuntimeError(
            f"tokens of a ranking that are not the user's: {totals}; expected the same for each user"
        )
    return totals[0]


class World:
    """The cluster and its stores. `replicas`: how many must have a write before it is acknowledged."""

    def __init__(self, options, folder, replicas=0):
        ports = loopback.free_ports(2)
        self.stores = Stores(folder, ports)
        settings = [
            f"features: {{store: \"{self.stores.url}\", on_outage: refuse, time_limit: 400ms, "
            f"wait_replicas: {replicas}}}",
            f"model: {{directory: {DEMO}/model}}",
            "pool: {memory: 16MiB, precompute_items: false}",
            "inference: {executors: 1, cores: 1}",
        ]
        self.cluster = loopback.Cluster(options.troupe, folder, 1, settings, FRONTS)
        self.has_replica = replicas > 0

    def up(self):
        self.stores.start_primary()
        if self.has_replica:
            self.stores.start_replica()
        self.cluster.start_all(DEMO / "world")

    def down(self):
        self.cluster.end()
        self.stores.end()

    # ---- disturbances ----

    def restart_store(self, run):
        self.stores.kill_primary()
        time.sleep(0.2)
        self.stores.start_primary()
        run.failovers["Redis killed and restarted"] += 1

    def promote(self, run, detached_s=0.0):
        if detached_s:
            self.stores.detach()
            time.sleep(detached_s)
        since = time.monotonic()
        self.stores.kill_primary()
        self.stores.promote()
        run.promotions.append((since, time.monotonic()))
        run.failovers["replica promoted"] += 1

    def restart_front(self, run, name):
        self.cluster.kill(name)
        time.sleep(0.2)
        self.cluster.start(name)
        self.cluster.wait_until_ready(name)
        run.failovers["router and cache-meta killed and restarted"] += 1

    def split(self, name):
        """Restarts this router with a replica that believes to be the primary."""
        self.cluster.kill(name)
        self.stores.detach()
        self.cluster.start(name, "--set", f"features.store={self.stores.replica_url}")
        self.cluster.wait_until_ready(name)

    def fail_over(self, run, how, number):
        """Alternates: the store, a router with its cache-meta, the store, the other router."""
        if number % 2 == 1:
            return self.restart_front(run, FRONTS[number // 2 % 2])
        if how == "restart":
            return self.restart_store(run)
        self.promote(run)
        self.stores.start_replica()


def drive(world, run, how, every):
    number, due = 0, time.monotonic() + every / 2
    while run.goes_on() and not run.faults():
        time.sleep(0.05)
        if time.monotonic() >= due:
            world.fail_over(run, how, number)
            number, due = number + 1, time.monotonic() + every
    run.end()


def together(records):
    """Returns how many operations of a key were in flight when one of its operations began, on average."""
    keys = collections.defaultdict(list)
    for r in records:
        keys[r.key].append(r)
    count = 0
    for of_key in keys.values():
        moments = sorted([(r.start, 1) for r in of_key] + [(r.end, -1) for r in of_key])
        under_way = 0
        for _, step in moments:
            count += under_way if step > 0 else 0
            under_way += step
    return count / max(1, len(records))


def show(run, found, took):
    records = run.records()
    outcomes = collections.Counter(f"{r.what} of {r.kind}s" for r in records)
    open_ones = sum(r.outcome == "open" for r in records)
    summary = {
        "operations": len(records),
        "by_what": dict(sorted(outcomes.items())),
        "seconds": round(run.seconds, 1),
        "keys": len({r.key for r in records}),
        "others_of_the_key_under_way": round(together(records), 2),
        "writes_without_an_outcome": open_ones,
        "failovers": dict(run.failovers),
        "not_done": dict(run.refused()),
        "violations": len(found),
        "judged_in_s": round(took, 1),
    }
    for what, value in summary.items():
        print(f"{what.replace('_', ' ')}: {value}")
    for fault in found[:10]:
        print("FAILED:", fault)
    return summary


def judge_run(run):
    began = time.monotonic()
    found = run.faults() + judge(run.records(), run.promotions)
    return show(run, found, time.monotonic() - began), found


def save(options, run, summary):
    if options.history:
        with gzip.open(options.history, "wt") as file:
            file.write(json.dumps({"promotions": run.promotions}) + "\n")
            file.writelines(record.line() + "\n" for record in run.records())
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(summary, indent=1) + "\n")


def check(path):
    with gzip.open(path, "rt") as file:
        promotions = json.loads(next(file))["promotions"]
        records = [Record.of(line) for line in file]
    found = judge(records, promotions)
    print(f"{len(records)} operations, {len(found)} violations")
    for fault in found[:10]:
        print("FAILED:", fault)
    return 1 if found else 0


# ---- runs ----


def run_long(options, folder):
    world = World(options, folder, 1 if options.failover == "promote" and not options.plant else 0)
    try:
        world.up()
        if options.plant:
            world.stores.start_replica()
        run = Run(world.cluster, "a", options.operations, options.clients, options.seconds, options.seed)
        if options.plant:
            plant(world, run, options.plant)
        else:
            drive(world, run, options.failover, options.every)
        summary, found = judge_run(run)
        save(options, run, summary)
        return 1 if found else 0
    finally:
        world.down()


def plant(world, run, what):
    """Injects a fault that the judge must find, after two seconds."""
    time.sleep(2)
    if what == "lost":
        world.promote(run, detached_s=0.3)
    else:
        world.split(FRONTS[1])
    time.sleep(2)
    run.end()


def run_short(options, folder):
    """Runs without a fault, when nothing must be found, then with an injected fault."""
    world = World(options, folder)
    try:
        world.up()
        run = Run(world.cluster, "a", 1_000_000, 8, 7, options.seed)
        drive(world, run, "restart", 2)
        _, found = judge_run(run)
        world.stores.start_replica()
        planted = Run(world.cluster, "b", 1_000_000, 8, 20, options.seed)
        plant(world, planted, "lost")
        lost = judge(planted.records(), planted.promotions)
        print(
            f"injected fault: {len(lost)} violations by lost acknowledged writes, the first: "
            f"{(lost or ['none'])[0]}"
        )
        if len(run.failovers) < 2 or len(run.records()) < 200:
            found.append(
                f"{len(run.records())} operations with {dict(run.failovers)}: too few to be meaningful"
            )
        return 1 if found or not lost else 0
    finally:
        world.down()


def read_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", default=str(ROOT / "build/deploy/troupe"))
    parser.add_argument("--operations", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=280, help="maximum duration")
    parser.add_argument("--failover", choices=("restart", "promote"), default="restart")
    parser.add_argument("--every", type=float, default=6, help="seconds from one failover to the next")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plant", choices=("lost", "split"))
    parser.add_argument("--history", help="write the history here, as .jsonl.gz")
    parser.add_argument("--json", help="write the summary here")
    parser.add_argument("--check", help="judge this history")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--folder", help="keep logs and data here")
    return parser.parse_args()


def main():
    options = read_options()
    if options.check:
        return check(options.check)
    for program in ("etcd", "redis-server"):
        if shutil.which(program) is None:
            print(f"skipped: linearizability needs {program}")
            return 77
    folder = pathlib.Path(options.folder or tempfile.mkdtemp(prefix="troupe-linear-"))
    folder.mkdir(parents=True, exist_ok=True)
    status = 1
    try:
        status = run_short(options, folder) if options.short else run_long(options, folder)
    finally:
        if not options.folder and status == 0:
            shutil.rmtree(folder, ignore_errors=True)
        elif status:
            print(f"logs in {folder}")
    return status


if __name__ == "__main__":
    sys.exit(main())
