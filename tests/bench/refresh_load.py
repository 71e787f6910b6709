"""The load of refresh.py, its answers, and the nodes' counters meanwhile."""
import collections
import http.client
import itertools
import json
import math
import random
import threading
import time

import loopback
from refresh_world import CANDIDATES, NEW

THREADS = 48
LOOK_EVERY = 0.03  # seconds
COUNTERS = {
    "items_refreshed": "troupe_items_refreshed_total",
    "bytes_moved": "troupe_item_bytes_moved_total",
    "blocks_computed_ahead": "troupe_item_blocks_precomputed_total",
    "evicted": "troupe_blocks_evicted_total",
}


Answer = collections.namedtuple("Answer", "due ms server_ms status item local kind node code")


class Watch:
    """Reads the counters of all nodes all the time, so that it costs the same before, during and after a
    change."""

    def __init__(self, cluster, clock):
        self.cluster, self.clock = cluster, clock
        self.seen = []  # (time, each node's process and counters)
        self.stopping = False
        self.thread = threading.Thread(target=self._look_on, daemon=True)
        self.thread.start()

    def stop(self):
        self.stopping = True
        self.thread.join(timeout=20)

    def _look_on(self):
        while not self.stopping:
            counts = {}
            for node in self.cluster.names:
                try:
                    process = self.cluster.processes[node].pid
                    counts[node] = (process, self.cluster.metrics(node))
                except (KeyError, OSError, http.client.HTTPException):
                    pass  # the node was killed, or has not started yet
            self.seen.append((self.clock(), counts))
            time.sleep(LOOK_EVERY)

    def looks(self, since, until=math.inf):
        """Returns the readings of this interval, with the last one before it."""
        first = max((i for i, (at, _) in enumerate(self.seen) if at <= since), default=0)
        return [(at, counts) for at, counts in self.seen[first:] if at <= until]

    def growth(self, since, until):
        """Returns the growth over all nodes, by counter; counters of a restarted node begin at zero."""
        grown = collections.Counter()
        (_, last), *later = self.looks(since, until)
        last = dict(last)
        for _, counts in later:
            for node, (process, counters) in counts.items():
                had = last[node][1] if node in last and last[node][0] == process else {}
                for name in COUNTERS.values():
                    grown[name] += counters.get(name, 0) - had.get(name, 0)
            last.update(counts)
        return grown

    def last_growth(self, since, until):
        """Returns when a block was last computed or moved by precomputation; None = never."""
        looks = self.looks(since, until)
        for (before, _), (at, _) in reversed(list(itertools.pairwise(looks))):
            grown = self.growth(before, at)
            if grown[COUNTERS["bytes_moved"]] > 0 or grown[COUNTERS["blocks_computed_ahead"]] > 0:
                return at
        return None

    def when_grown(self, node, name, since, amount):
        """Returns when that counter was first seen higher by `amount`; None = not yet."""
        values = [(at, counts[node][1].get(name, 0)) for at, counts in self.looks(since) if node in counts]
        return next((at for at, value in values if value >= values[0][1] + amount), None)


class Load:
    """Sends requests and collects answers. kind: witness (items that are on every worker, and `item`) or
    popular."""

    def __init__(self, port, world, plan, rate, seed):
        self.port, self.world, self.rate = port, world, rate
        self.everywhere = plan.hottest(world)
        self.chance = random.Random(seed)
        self.lock = threading.Lock()
        self.item = None  # the changed item, requested by witnesses
        self.answers, self.all_blocks = [], 0
        self.stopping = False
        self.sent = 0
        self.began = time.monotonic() + 0.2
        self.threads = [threading.Thread(target=self._ask_on, daemon=True) for _ in range(THREADS)]
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.stopping = True
        for thread in self.threads:
            thread.join(timeout=20)

    def now(self):
        return time.monotonic() - self.began

    def _next(self):
        with self.lock:
            number, self.sent = self.sent, self.sent + 1
            user = self.chance.choice(self.world.users)
            if number % 2:
                return number / self.rate, "popular", user, self.world.draw(self.chance)
            return number / self.rate, "witness", user, self.chance.sample(self.everywhere, CANDIDATES)

    def _ask_on(self):
        connection = http.client.HTTPConnection(loopback.ADDRESS, self.port, timeout=20)
        while not self.stopping:
            due, kind, user, candidates = self._next()
            time.sleep(max(0, due - self.now()))
            if self.stopping:
                return
            item = self.item if kind == "witness" else None
            if item is not None:
                candidates = [*candidates[1:], item]
            body = json.dumps({"user": user, "candidates": candidates, "policy": "item", "top_k": 1})
            self._ask(connection, due, kind, item, body)

    def _ask(self, connection, due, kind, item, body):
        try:
            connection.request("POST", "/v1/rank", body)
            answer = connection.getresponse()
            status, reply = answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            status, reply = 0, {"error": {"code": str(error)}}
        ms = (self.now() - due) * 1e3
        with self.lock:
            if status != 200:
                self.answers.append(Answer(due, ms, 0, status, item, False, kind, 0, reply["error"]["code"]))
                return
            self.all_blocks = max(
                self.all_blocks, reply["blocks_reused"]
            )  # every item, and the system segment
            local = reply["timings"]["pull"] == 0 and reply["blocks_reused"] == self.all_blocks
            server_ms = reply["timings"]["total"] / 1e3
            self.answers.append(Answer(due, ms, server_ms, status, item, local, kind, reply["node"], ""))

    def failures(self):
        """Returns failures by their text. An unknown item that was deleted is no failure."""
        codes = [
            a.code for a in self.answers if a.status != 200 and (a.item, a.code) != (NEW, "unknown_item")
        ]
        return dict(collections.Counter(codes))

    def between(self, since, until):
        with self.lock:
            return [answer for answer in self.answers if since <= answer.due < until]


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0


def window(answers):
    good = [answer for answer in answers if answer.status == 200]
    popular = [answer for answer in good if answer.kind == "popular"]
    return {
        "requests": len(answers),
        "failed": len(answers) - len(good),
        "p50_ms": percentile([a.ms for a in good], 0.5),
        "p99_ms": percentile([a.ms for a in good], 0.99),
        "worst_ms": max((a.ms for a in good), default=0),
        "server_p99_ms": percentile([a.server_ms for a in good], 0.99),
        "requests_all_local": sum(a.local for a in popular) / max(1, len(popular)),
    }


def timeline(load):
    """Returns shares by second of the run."""
    seconds = collections.defaultdict(list)
    for answer in load.between(0, load.now()):
        seconds[int(answer.due)].append(answer)
    share = lambda some: sum(a.local for a in some) / len(some) if some else None
    return [
        {
            "second": second,
            "p99_ms": percentile([a.ms for a in some if a.status == 200], 0.99),
            "item_local": share([a for a in some if a.item is not None and a.status == 200]),
            "all_local": share([a for a in some if a.kind == "popular" and a.status == 200]),
        }
        for second, some in sorted(seconds.items())
    ]
