#!/usr/bin/env python3
"""Clients append events to users through two routers over one Redis, and read them, while processes are
killed.

  tests/linearizability/appends.py [--troupe build/deploy/troupe] [--seconds 60] [--every 4] [--clients 8]
                                   [--json FILE]

Redis and the routers are killed. A client that does not know whether an append was done repeats it. A
user's events only grow, so the history is judged exactly. There is one final list, and:
  - each read is a prefix of it
  - an append with an answer is in it, once; an append without an answer is in it once or never
  - an operation that ended before another began comes before it in the list, and the later one sees it
Exit status 1 if this is broken, or if the judge misses an injected fault; 77 without etcd or Redis."""
import argparse
import collections
import json
import math
import pathlib
import random
import shutil
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
from linearizability import ASK_LIMIT, FRONTS, PAUSE, ROOT, Asker, World, drive
import loopback

USERS = 12
EVENTS_MAX = 700  # events of a user: the model's positions, with a margin
Did = collections.namedtuple(
    "Did", "user what start end seen"
)  # `seen`: the id of an append, the list of a read


class Client(Asker):
    def __init__(self, run, number):
        super().__init__(run, number)
        self.made = 0
        self.chance = random.Random(f"{run.seed}/{number}")
        self.done, self.repeated, self.refused, self.fault = [], 0, collections.Counter(), None

    def run(self):
        try:
            while self.run_of.goes_on():
                user = f"list-{self.chance.randrange(USERS)}"
                self.append(user) if self.chance.random() < 0.6 and self.run_of.may_append(
                    user
                ) else self.read(user)
        except Exception as error:  # an outcome that the interface does not document
            self.fault = f"client {self.number}: {type(error).__name__}: {error}"

    def append(self, user):
        """Repeats the append at either router until it is answered or the run ends."""
        self.made += 1
        event, start = f"c{self.number}-{self.made}", time.monotonic()
        body = {"events": [{"id": event, "tokens": [5 + self.number]}]}
        tries = 0
        while self.run_of.goes_on():
            status, reply = self.ask(self.chance.choice(FRONTS), "POST", f"/v1/users/{user}/events", body)
            tries += status is not None
            if status == 200:
                if (
                    reply["appended"] + reply["repeated"] != 1
                    or (reply["repeated"] and tries == 1)
                    or reply["dropped"]
                ):
                    raise RuntimeError(f"an append gave {reply} after {tries} tries")
                self.repeated += reply["repeated"]
                self.done.append(Did(user, "append", start, time.monotonic(), event))
                return
            self.note(status, reply)
        self.done.append(Did(user, "append", start, math.inf, event))

    def read(self, user):
        start = time.monotonic()
        status, reply = self.ask(self.chance.choice(FRONTS), "GET", f"/v1/users/{user}")
        if status == 200:
            self.done.append(Did(user, "read", start, time.monotonic(), reply["event_ids"]))
        elif status == 404:
            self.done.append(Did(user, "read", start, time.monotonic(), []))
        else:
            self.note(status, reply)

    def note(self, status, reply):
        if status and status < 500:
            raise RuntimeError(f"{status} {reply}")
        self.refused[reply["error"]["code"] if reply else "no outcome"] += 1
        time.sleep(PAUSE)


class Run:
    def __init__(self, cluster, clients, seconds, seed):
        self.cluster, self.seed, self.until, self.stopping = cluster, seed, time.monotonic() + seconds, False
        self.failovers, self.promotions = collections.Counter(), []
        self.appends, self.lock = collections.Counter(), threading.Lock()
        self.clients = [Client(self, number) for number in range(clients)]
        for client in self.clients:
            client.start()

    def goes_on(self):
        return not self.stopping and time.monotonic() < self.until

    def may_append(self, user):
        with self.lock:
            self.appends[user] += 1
            return self.appends[user] <= EVENTS_MAX

    def end(self):
        self.stopping = True
        for client in self.clients:
            client.join(ASK_LIMIT + 5)

    def faults(self):
        return [client.fault for client in self.clients if client.fault]

    def final(self, user):
        for _ in range(100):
            status, text = loopback.ask(self.cluster.http_port[FRONTS[0]], "GET", f"/v1/users/{user}")
            if status in (200, 404):
                return json.loads(text)["event_ids"] if status == 200 else []
            time.sleep(0.1)
        raise RuntimeError(f"{user} cannot be read at the end: {status} {text}")


def judge_user(did, final):
    """Returns what no order of one user's operations explains."""
    place = {event: at for at, event in enumerate(final)}
    if len(place) != len(final):
        return ["an event is in the list twice"]
    faults, asked = [], {d.seen for d in did if d.what == "append"}
    faults += [f"{event} was never appended" for event in final if event not in asked]
    # Each operation's point: the number of events before it.
    points = []
    for d in did:
        if d.what == "read":
            if d.seen != final[: len(d.seen)]:
                faults.append(f"a read of {len(d.seen)} events is no prefix of the final {len(final)}")
            points.append((d.start, d.end, len(d.seen), len(d.seen), d))
        elif d.seen in place:
            points.append((d.start, d.end, place[d.seen] + 1, place[d.seen], d))
        elif d.end != math.inf:
            faults.append(f"{d.seen} was answered, but is missing")
    # Order by time. An operation that has ended has at least `behind` events. An operation that begins later
    # must come after them; an append begins before its own event.
    moments = sorted(
        [(end, 0, behind, d) for _, end, behind, _, d in points if end != math.inf]
        + [(start, 1, before, d) for start, _, _, before, d in points],
        key=lambda m: m[:2],
    )
    least, by = 0, None
    for _, begins, count, d in moments:
        if not begins and count > least:
            least, by = count, d
        elif begins and count < least:
            faults.append(
                f"{d.what} {d.seen if d.what == 'append' else len(d.seen)} began after {by.what} had "
                f"seen {least} events, but comes after only {count}"
            )
    return faults


def judge(did, finals):
    faults = []
    for user in sorted({d.user for d in did} | set(finals)):
        faults += [
            f"{user}: {fault}" for fault in judge_user([d for d in did if d.user == user], finals[user])
        ]
    return faults


def planted_missed():
    """Returns the built-in histories that the judge gets wrong: sound ones, and ones with one fault each."""
    a = lambda event, start, end: Did("u", "append", start, end, event)
    r = lambda start, end, *seen: Did("u", "read", start, end, list(seen))
    sound = [
        ([a("x", 0, 1), a("y", 2, 3), r(4, 5, "x", "y")], ["x", "y"]),
        ([a("x", 0, 9), a("y", 1, 8), r(2, 3, "y")], ["y", "x"]),
        ([a("x", 0, math.inf), r(1, 2)], []),
        ([a("x", 0, math.inf), r(1, 2)], ["x"]),
    ]
    bad = [
        ([a("x", 0, 1)], []),
        ([a("x", 0, 1)], ["x", "x"]),
        ([], ["x"]),
        ([a("x", 0, 1), a("y", 2, 3)], ["y", "x"]),
        ([a("x", 0, 1), r(2, 3)], ["x"]),
        ([a("x", 5, 6), r(2, 3, "x")], ["x"]),
        ([a("x", 0, 9), r(1, 2, "x"), r(3, 4)], ["x"]),
        ([a("x", 0, 9), a("y", 0, 9), r(1, 2, "y")], ["x", "y"]),
    ]
    missed = [f"sound, but judged faulty: {did}" for did, final in sound if judge(did, {"u": final})]
    return missed + [
        f"faulty, but judged sound: {did} {final}" for did, final in bad if not judge(did, {"u": final})
    ]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", default=str(ROOT / "build/deploy/troupe"))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--every", type=float, default=4, help="seconds from one failover to the next")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json")
    options = parser.parse_args()
    if missed := planted_missed():
        print("\n".join("FAILED: " + one for one in missed))
        return 1
    for program in ("etcd", "redis-server"):
        if shutil.which(program) is None:
            print(f"skipped: appends need {program}")
            return 77
    folder = pathlib.Path(tempfile.mkdtemp(prefix="troupe-appends-"))
    world, faults = World(options, folder), ["the run did not finish"]
    try:
        world.up()
        run = Run(world.cluster, options.clients, options.seconds, options.seed)
        drive(world, run, "restart", options.every)
        did = [d for client in run.clients for d in client.done]
        faults = run.faults() + judge(did, {f"list-{i}": run.final(f"list-{i}") for i in range(USERS)})
        appends = [d for d in did if d.what == "append"]
        summary = {
            "appends": len(appends),
            "reads": len(did) - len(appends),
            "users": USERS,
            "appends_without_an_outcome": sum(d.end == math.inf for d in appends),
            "answered_as_repeated": sum(client.repeated for client in run.clients),
            "failovers": dict(run.failovers),
            "not_done": dict(sum((client.refused for client in run.clients), collections.Counter())),
            "violations": len(faults),
        }
        for what, value in summary.items():
            print(f"{what.replace('_', ' ')}: {value}")
        if len(appends) < 100 or not run.failovers:
            faults.append("too few operations to be meaningful")
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(summary, indent=1) + "\n")
    finally:
        world.down()
        for fault in faults[:10]:
            print("FAILED:", fault)
        if faults:
            print(f"logs in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
