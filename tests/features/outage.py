#!/usr/bin/env python3
"""Kills, empties, slows and silences Redis while clients ask at a steady rate for answers from cached
features.

  tests/features/outage.py --troupe build/deploy/troupe [--cluster] [--seconds 10] [--rate 100] [--json FILE]
                           [--short]

Two routers, of single nodes or of one cluster (--cluster), share a Redis behind a link (link.py). One
refuses while Redis is away; the other continues with what it read last. There are four groups of clients
with their own users: `exact`, `wait` and `behind` at the first router, `wait` at the second. A third
router, which has a direct connection to Redis, writes their profiles all the time.

Each answer is compared with the answer of an undisturbed node for the same history, and with what was
stored at that time (truth.py): no answer may be wrong, or older than the reply says. The counts of stale
and missing profiles in replies must equal the router's counts. Prints the outcomes by phase, and the time
from the end of the fault to the last request that was refused, missing, or stale twice in a row. Exit
status 1 on any fault, or if the judge misses an injected one; 77 without Redis (etcd).
"""
import argparse
import collections
import dataclasses
import http.client
import itertools
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests" / part) for part in ("bench", "chaos", "linearizability")]
import loopback
from asking import TOLERANCE, find_fault
from link import Link
from stores import talk, until
from truth import EMPTY, Bounds, Outcome, Truth

DEMO = ROOT / "deploy/demo"
ASK_LIMIT = 1.6  # the deadline, two heartbeats, and a margin because clients share the machine
HISTORIES, CANDIDATES, WRITES = 24, 8, 10  # writes a second, over all users
NEAR = {"bytes_per_second": 2e6, "delay_ms": 0.5, "silent": False}
FAR = {"bytes_per_second": 2e5, "delay_ms": 5.0}
Row = collections.namedtuple("Row", "name router mode last_known")
ROWS = [
    Row("exact, refuses", "strict", "exact", False),
    Row("waits, refuses", "strict", "wait", False),
    Row("waits, last known", "known", "wait", True),
    Row("behind", "strict", "behind", False),
]
Phase = collections.namedtuple("Phase", "name mended", defaults=(0.0,))


class Routers:
    """Routers with their HTTP servers. `settings`: common to all, and of each."""

    def __init__(self, args, folder, store, far):
        common = {
            "pool": "{memory: 24MiB, precompute_items: false}",
            "inference": "{executors: 1, cores: 1}",
            "router": "{deadline: 1s}",
        }
        features = lambda url, away: (
            f"{{store: \"{url}\", on_outage: {away}, time_limit: 200ms, expiry: {args.expiry_ms}ms, "
            f"stale_for: {args.stale_ms}ms, unknown_expiry: {args.unknown_ms}ms}}"
        )
        own = {
            "strict": features(far, "refuse"),
            "known": features(far, "last_known"),
            "writer": features(store, "refuse"),
        }
        self.args, self.folder, self.common, self.own = args, folder, common, own
        self.processes, self.routers, self.cluster = [], {}, None

    def start(self):
        (self._start_cluster if self.args.cluster else self._start_boxes)(self.common, self.own)

    def _start_boxes(self, common, own):
        for name, features in own.items():
            data, file = self.folder / name, self.folder / f"{name}.yaml"
            sections = {
                **common,
                "features": features,
                "model": f"{{directory: {DEMO}/model}}",
                "node": f"{{data_dir: {data}, log_file: {data}.log}}",
            }
            file.write_text("".join(f"{section}: {values}\n" for section, values in sections.items()))
            self.processes.append(
                subprocess.Popen(
                    [
                        self.args.troupe,
                        "serve",
                        "--config",
                        file,
                        "--port",
                        "0",
                        "--port-file",
                        data.with_suffix(".port"),
                    ],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
        for name in own:
            port = (self.folder / name).with_suffix(".port")
            until(f"{name} listens", lambda: port.exists() and port.read_text().strip(), limit=60)
            self.routers[name] = int(port.read_text())
            until(
                f"{name} is ready",
                lambda: loopback.ask(self.routers[name], "GET", "/v2/health/ready")[0] == 200,
                limit=60,
            )

    def _start_cluster(self, common, own):
        settings = [f"{section}: {values}" for section, values in common.items()]
        settings += [f"features: {own['strict']}", f"model: {{directory: {DEMO}/model}}"]
        self.cluster = loopback.Cluster(
            self.args.troupe,
            self.folder,
            2,
            settings,
            tuple(own),
            {name: f"features: {features}" for name, features in own.items()},
        )
        self.cluster.start_etcd()
        for name in self.cluster.names:
            self.cluster.start(name)
        for name in self.cluster.names:
            self.cluster.wait_until_ready(name)
        self.routers = self.cluster.router

    def counted(self, router, where):
        for line in loopback.ask(self.routers[router], "GET", "/metrics")[1].splitlines():
            if line.startswith(f'troupe_features_total{{from="{where}"}}'):
                return float(line.split()[-1])
        return 0.0

    def ended(self):
        return [str(process.args) for process in self.processes if process.poll() is not None]

    def end(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(40)
        if self.cluster:
            self.cluster.end()


class Redis:
    """A Redis that keeps what it acknowledged, unless it is emptied. Tells `truth` when it could be read."""

    def __init__(self, folder, port, truth):
        self.folder, self.port, self.truth, self.process = folder, port, truth, None

    def start(self):
        self.folder.mkdir(exist_ok=True)
        self.truth.alive.append([time.monotonic(), float("inf")])
        self.process = subprocess.Popen(
            [
                "redis-server",
                "--bind",
                loopback.ADDRESS,
                "--port",
                str(self.port),
                "--dir",
                self.folder,
                "--appendonly",
                "yes",
                "--appendfsync",
                "always",
                "--save",
                "",
            ],
            stdout=subprocess.DEVNULL,
        )
        until("Redis answers", lambda: talk(self.port, "PING") == "+PONG")

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.truth.alive[-1][1] = time.monotonic()

    def end(self):
        if self.process:
            self.process.kill()
            self.process.wait()

    def empty(self):
        since = time.monotonic()
        self.kill()
        shutil.rmtree(self.folder)
        self.truth.emptied.append([since, float("inf")])


class World:
    def __init__(self, args, folder):
        self.args, self.folder, self.chance = args, folder, random.Random(args.seed)
        seconds = lambda ms: ms / 1e3
        self.truth = Truth(
            Bounds(seconds(args.expiry_ms), seconds(args.stale_ms), seconds(args.unknown_ms), 0.1, 0.4)
        )
        items = [json.loads(line) for line in open(DEMO / "world/items.jsonl")]
        self.items = [item["id"] for item in items]
        self.candidates = self.chance.sample(self.items, CANDIDATES)
        self.users = {
            row.name: [f"{i}-of-{number}" for i in range(args.users)] for number, row in enumerate(ROWS)
        }
        self.first = {
            user: 1 + i % (HISTORIES - 1) for i, user in enumerate(itertools.chain(*self.users.values()))
        }
        self._learn()
        self._write_data()
        redis_port, link_port = loopback.free_ports(2)
        self.redis = Redis(folder / "redis", redis_port, self.truth)
        self.store, self.far = (f"redis://{loopback.ADDRESS}:{port}" for port in (redis_port, link_port))
        self.link = Link(link_port, redis_port, **NEAR)
        self.routers = Routers(args, folder, self.store, self.far)

    def start(self):
        self.redis.start()
        self.import_all()
        self.routers.start()

    # ---- expected answers ----

    def _learn(self):
        """Asks an undisturbed node for the scores of each history; all must differ from each other."""
        folder, port = self.folder / "reference", self.folder / "reference.port"
        loopback.run(
            self.args.troupe,
            "import",
            "--model",
            DEMO / "model",
            "--data-dir",
            folder,
            "--data",
            DEMO / "world",
        )
        node = subprocess.Popen(
            [
                self.args.troupe,
                "serve",
                "--model",
                DEMO / "model",
                "--data-dir",
                folder,
                "--port",
                "0",
                "--port-file",
                port,
                "--set",
                "pool.precompute_items=false",
                "--set",
                "pool.memory=24MiB",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            until("the reference node listens", lambda: port.exists() and port.read_text().strip(), limit=60)
            http_port = int(port.read_text())
            until(
                "it is ready", lambda: loopback.ask(http_port, "GET", "/v2/health/ready")[0] == 200, limit=60
            )
            self.histories, self.right = [], []
            while len(self.histories) < HISTORIES:
                history = self.chance.sample(self.items, 6) if self.histories else []
                assert loopback.ask(http_port, "PUT", "/v1/users/somebody", {"history": history})[0] == 200
                scores = self.scores(
                    json.loads(
                        loopback.ask(http_port, "POST", "/v1/rank", self.request("somebody", "exact"))[1]
                    )
                )
                if all(
                    max(abs(scores[i] - other[i]) for i in scores) > 8 * TOLERANCE for other in self.right
                ):
                    self.histories.append(history)
                    self.right.append(scores)
        finally:
            node.terminate()
            node.wait(40)

    @staticmethod
    def scores(reply):
        return {item["id"]: item["score"] for item in reply["items"]}

    def request(self, user, mode):
        return {"user": user, "candidates": self.candidates, "policy": "item", "features": mode}

    def history_of(self, reply):
        return next((i for i, right in enumerate(self.right) if not find_fault(reply, right)), -1)

    # ---- stored data ----

    def _write_data(self):
        data = self.folder / "data"
        data.mkdir()
        shutil.copy(DEMO / "world/items.jsonl", data)
        with open(data / "users.jsonl", "w") as file:
            for user, history in self.first.items():
                file.write(json.dumps({"id": user, "history": self.histories[history]}) + "\n")

    def import_all(self):
        begin = time.monotonic()
        loopback.run(
            self.args.troupe,
            "import",
            "--model",
            DEMO / "model",
            "--data-dir",
            self.folder / "import",
            "--data",
            self.folder / "data",
            "--set",
            f"features.store={self.store}",
            "--set",
            f"cluster.name={'loopback' if self.args.cluster else 'troupe'}",
        )
        for user, history in self.first.items():
            self.truth.put(user, history, None, begin, time.monotonic())
        if self.truth.emptied:
            self.truth.emptied[-1][1] = time.monotonic()

    def write_on(self, goes_on):
        for count in itertools.count():
            if not goes_on():
                return
            user = self.chance.choice(list(self.first))
            history = self.chance.randrange(1, HISTORIES)
            begin = time.monotonic()
            status, reply = ask(
                self.routers.routers["writer"],
                "PUT",
                f"/v1/users/{user}",
                {"history": self.histories[history]},
            )
            code = reply.get("error", {}).get("code")
            if status == 200:
                self.truth.put(user, history, reply["version"], begin, time.monotonic())
            elif code != "features_unavailable":  # the write may be stored, now or later
                self.truth.put(user, history, None, begin, float("inf"))
            time.sleep(1 / WRITES)

    def end(self):
        for one in (self.routers, self.link, self.redis):
            one.end()


def ask(port, method, path, body):
    """Returns status and reply; status 0 = no outcome in time."""
    try:
        status, text = loopback.ask(port, method, path, body, ASK_LIMIT)
        return status, json.loads(text)
    except (OSError, http.client.HTTPException) as error:
        return 0, {"error": {"code": type(error).__name__}}


class Load:
    """Sends each request when it is due, whatever the outcome of earlier ones."""

    def __init__(self, world, rate):
        self.world, self.rate = world, rate
        self.outcomes, self.lock, self.tickets, self.stopping = [], threading.Lock(), itertools.count(), False
        self.late = 0
        self.began = time.monotonic() + 0.1
        self.threads = [
            threading.Thread(target=self._ask_on, daemon=True) for _ in range(max(16, int(rate * 0.6)))
        ]
        self.threads.append(
            threading.Thread(target=world.write_on, args=(lambda: not self.stopping,), daemon=True)
        )
        for thread in self.threads:
            thread.start()

    def _ask_on(self):
        while not self.stopping:
            with self.lock:
                number = next(self.tickets)
            at = self.began + number / self.rate
            time.sleep(max(0.0, at - time.monotonic()))
            row = ROWS[number % len(ROWS)]
            users = self.world.users[row.name]
            outcome = self._ask(row, users[number // len(ROWS) % len(users)])
            with self.lock:
                self.outcomes.append(outcome)
                self.late += outcome.sent > at + 0.1

    def _ask(self, row, user):
        sent = time.monotonic()
        status, reply = ask(
            self.world.routers.routers[row.router], "POST", "/v1/rank", self.world.request(user, row.mode)
        )
        done = time.monotonic()
        if status != 200:
            return Outcome(row.name, user, sent, done, f"{status} {reply['error']['code']}")
        return Outcome(
            row.name,
            user,
            sent,
            done,
            "",
            self.world.history_of(reply),
            reply["profile_version"],
            reply["features_stale"],
            reply["features_missing"],
        )

    def stop(self):
        self.stopping = True
        for thread in self.threads:
            thread.join()


def run_phases(world, seconds):
    """Runs the phases; waits until the events that end a fault have happened."""
    phases = []

    def phase(name, mended=False):
        phases.append((Phase(name, time.monotonic() if mended else 0.0), time.monotonic()))
        time.sleep(seconds)

    phase("nothing happens")
    phases.append((Phase("Redis killed"), time.monotonic()))
    world.redis.kill()
    time.sleep(seconds)
    world.redis.start()
    phase("started with its file", True)
    phases.append((Phase("Redis restarted empty"), time.monotonic()))
    world.redis.empty()
    world.redis.start()
    time.sleep(seconds)
    world.import_all()
    phase("imported again", True)
    world.link.set(**FAR)
    phase("link ten times slower")
    world.link.set(**NEAR)
    phase("link as before", True)
    world.link.set(silent=True)
    phase("Redis silent")
    world.link.set(silent=False)
    phase("Redis speaks again", True)
    return phases


def table(phases, outcomes, faults_of):
    """Returns the rows of the table, by phase and group of clients.

    The recovery time reaches from the end of the fault to the end of the last request that was refused,
    answered without a profile, or answered with a stale one after the same user's previous answer was
    stale, too.
    """
    ends = [at for _, at in phases[1:]] + [float("inf")]
    rows, before = [], {}
    for (phase, since), until_ in zip(phases, ends):
        for row in ROWS:
            some = [o for o in outcomes if o.row == row.name and since <= o.sent < until_]
            last = phase.mended
            for o in some:
                if o.done < until_ and (o.code or o.missing or (o.stale and before.get(o.user))):
                    last = max(last, o.done)
                before[o.user] = o.stale
            good = [o for o in some if not o.code and not faults_of.get(id(o))]
            took = sorted(1e3 * (o.done - o.sent) for o in good) or [0.0]
            rows.append(
                {
                    "phase": phase.name,
                    "row": row.name,
                    "requests": len(some),
                    "new": sum(1 for o in good if not o.stale and not o.missing),
                    "stale": sum(o.stale for o in good),
                    "missing": sum(o.missing for o in good),
                    "refused": dict(collections.Counter(o.code for o in some if o.code)),
                    "wrong": sum(1 for o in some if faults_of.get(id(o))),
                    "p50_ms": took[len(took) // 2],
                    "p99_ms": took[len(took) * 99 // 100],
                    "recovered_s": last - phase.mended if phase.mended else None,
                }
            )
    return rows


def show(rows):
    print(
        f"{'phase':<22} {'clients':<18} {'asked':>6} {'new':>6} {'stale':>6} {'miss.':>6} {'ref.':>6} "
        f"{'wrong':>5} {'p50 ms':>7} "
        f"{'p99 ms':>7} {'recovered s':>12}  refusals"
    )
    for row in rows:
        refused = ", ".join(f"{count} × {code}" for code, count in sorted(row["refused"].items()))
        after = "" if row["recovered_s"] is None else f"{row['recovered_s']:.2f}"
        print(
            f"{row['phase']:<22} {row['row']:<18} {row['requests']:>6} {row['new']:>6} "
            f"{row['stale']:>6} {row['missing']:>6} "
            f"{sum(row['refused'].values()):>6} {row['wrong']:>5} {row['p50_ms']:>7.1f} "
            f"{row['p99_ms']:>7.1f} {after:>12}  {refused}"
        )


# ---- judging ----


def faults_by_outcome(truth, outcomes):
    rows = {row.name: row for row in ROWS}
    found = {id(o): truth.fault(o, rows[o.row].mode, rows[o.row].last_known) for o in outcomes}
    found.update(
        {
            id(o): "missing, but was known"
            for o in truth.lost_sight([o for o in outcomes if o.row == "behind"])
        }
    )
    return {key: fault for key, fault in found.items() if fault}


def judge_counts(world, outcomes):
    """Compares the counts in replies with the routers' counts; requests without a reply may be counted."""
    faults = []
    for router in sorted({row.router for row in ROWS}):
        names = {row.name for row in ROWS if row.router == router}
        refused = sum(1 for o in outcomes if o.row in names and o.code)
        for where in ("stale", "missing"):
            said = sum(getattr(o, where) for o in outcomes if o.row in names)
            counted = world.routers.counted(router, where)
            print(f"{router}: {said} replies say {where}; the router counted {counted:.0f}")
            if not said <= counted <= said + refused:
                faults.append(f"{router}: replies say {where} {said} times, the router counted {counted:.0f}")
    return faults


def judge_shown(rows):
    faults = []
    for row in rows:
        calm = row["phase"] in (
            "nothing happens",
            "link as before",
            "started with its file",
            "imported again",
            "Redis speaks again",
        )
        if calm and row["new"] == 0:
            faults.append(f"{row['phase']}, {row['row']}: no answer used a new profile")
        if (
            row["row"] == "behind"
            and row["phase"] in ("Redis killed", "Redis silent")
            and row["stale"] + row["new"] == 0
        ):
            faults.append(f"{row['phase']}, behind: there were no answers")
    return faults


def judge_judge(world, outcomes):
    """Checks the judge on injected faults: unmarked stale answers, and profiles of other users."""
    untold = [dataclasses.replace(o, stale=0) for o in outcomes]
    swapped = [
        dataclasses.replace(o, history=1 + o.history % (HISTORIES - 1))
        for o in outcomes
        if not o.code and not o.missing
    ]
    found = [len(faults_by_outcome(world.truth, planted)) for planted in (untold, swapped)]
    print(
        f"injected faults: {found[0]} found for unmarked stale answers, {found[1]} of {len(swapped)} for "
        "answers of another history"
    )
    return ["injected faults were not found"] if found[0] == 0 or found[1] < 0.5 * len(swapped) else []


def run(args, folder):
    world = World(args, folder)
    try:
        world.start()
        load = Load(world, args.rate)
        try:
            phases = run_phases(world, args.seconds)
        finally:
            load.stop()
        outcomes = sorted(load.outcomes, key=lambda o: o.sent)
        wrong = faults_by_outcome(world.truth, outcomes)
        rows = table(phases, outcomes, wrong)
        show(rows)
        faults = judge_counts(world, outcomes) + judge_shown(rows) + judge_judge(world, outcomes)
        faults += [f"{process} ended by itself" for process in world.routers.ended()]
        faults += [f"{wrong[id(o)]}: {o}" for o in outcomes if id(o) in wrong][:10]
    finally:
        world.end()
    print(f"{len(outcomes)} requests, {len(wrong)} wrong; {load.late} were sent more than 0.1 s late")
    for fault in faults:
        print("FAILED:", fault)
    if args.json:
        with open(args.json, "w") as file:
            json.dump(
                {
                    "options": {
                        key: value
                        for key, value in vars(args).items()
                        if key not in ("troupe", "json", "folder")
                    },
                    "rows": rows,
                    "wrong": len(wrong),
                    "late": load.late,
                    "failed": faults,
                },
                file,
                indent=1,
            )
            file.write("\n")
    return 1 if faults else 0


def read_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    parser.add_argument(
        "--cluster", action="store_true", help="routers and two workers of a cluster instead of single nodes"
    )
    parser.add_argument("--seconds", type=float, default=10, help="seconds of each phase")
    parser.add_argument("--rate", type=float, default=100, help="requests per second, over all groups")
    parser.add_argument("--users", type=int, default=12, help="users of each group")
    parser.add_argument("--expiry-ms", type=int, default=1000)
    parser.add_argument("--stale-ms", type=int, default=4000)
    parser.add_argument("--unknown-ms", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--short", action="store_true", help="for ctest: 1.5 seconds of each phase")
    parser.add_argument("--folder", help="folder for logs; kept")
    parser.add_argument("--json")
    args = parser.parse_args()
    if args.short:
        args.seconds, args.rate, args.users, args.expiry_ms, args.stale_ms, args.unknown_ms = (
            1.4,
            80,
            4,
            500,
            700,
            300,
        )
    args.troupe = os.path.abspath(args.troupe)
    return args


def main():
    args = read_options()
    lacks = [program for program in ("redis-server", "etcd")[: 1 + args.cluster] if not shutil.which(program)]
    if lacks:
        print("skipped: no", lacks[0])
        return 77
    with tempfile.TemporaryDirectory(prefix="troupe-outage-") as folder:
        if args.folder:
            folder = args.folder
            os.makedirs(folder)
        return run(args, pathlib.Path(folder))


if __name__ == "__main__":
    sys.exit(main())
