"""Kills of each role, one after the other, and how long clients felt them: until the last request that failed, or took
longer than half a heartbeat, was over; in heartbeats since the kill."""
import itertools
import time

from cluster import HEARTBEAT, ROLES
from judge import share

PERIOD = 20 * HEARTBEAT  # of a kill, with its restart and what follows
AWAY = 5 * HEARTBEAT
SLOW = HEARTBEAT / 2
EDGES = (0, 1, 2, 3, 4, 5, 7, 10, 15, 20)  # of the histogram, in heartbeats
AGAIN = 0.3  # more kills, at most, for those that a busy machine spoils


class Recovery:
    def __init__(self, chaos, kills):
        self.chaos, self.cluster, self.load, self.kills = chaos, chaos.cluster, chaos.load, kills
        self.done = {role: [] for role in dict.fromkeys(ROLES.values())}  # times of kills
        self.spoiled = dict.fromkeys(self.done, 0)
        self.victims = {role: itertools.cycle([n for n in ROLES if ROLES[n] == role]) for role in self.done}

    def run(self):
        left = int(len(self.done) * self.kills * (1 + AGAIN))
        while left > 0 and any(len(done) < self.kills for done in self.done.values()):
            for role in self.done:
                if len(self.done[role]) < self.kills:
                    self._kill(role)
                    left -= 1

    def _kill(self, role):
        name = self.cluster.leader() if role == "cache_meta" else next(self.victims[role])
        self.load.away[name] = (time.monotonic(), None)
        self.chaos.writers.away.append([time.monotonic(), None])
        at = time.monotonic()
        self.cluster.kill(name)
        time.sleep(AWAY)
        self.cluster.start(name)
        self.load.away[name] = (at, time.monotonic())
        back = self.load.wait_until_ready(10)
        self.chaos.writers.away[-1][1] = time.monotonic()
        if back is None:
            raise RuntimeError(f"{name} was not ready again 10 s after its start: see {self.chaos.folder}")
        time.sleep(max(0, at + PERIOD - time.monotonic()))
        if self.load.starved(at, at + PERIOD):
            self.spoiled[role] += 1
        else:
            self.done[role].append(at)

    def _felt(self, at):
        """Heartbeats until the last failed or slow request was over."""
        ends = [o[0] + o[3] for o in self.chaos.outcomes(at, at + PERIOD) if o[1] != "ok" or o[3] > SLOW]
        return max(0.0, (max(ends) - at) / HEARTBEAT) if ends else 0.0

    def table(self):
        return {role: self._measure(role) for role in self.done if self.done[role]}

    def _measure(self, role):
        kills = self.done[role]
        felt = sorted(self._felt(at) for at in kills)
        quantile = lambda q: round(felt[min(len(felt) - 1, int(len(felt) * q))], 2)
        since = [(o[0] - at, o) for at in kills for o in self.chaos.outcomes(at, at + PERIOD)]
        buckets = {}
        for low, high in zip(EDGES, EDGES[1:]):
            some = [o for after, o in since if low * HEARTBEAT <= after < high * HEARTBEAT]
            buckets[f"{low}-{high}"] = {"requests": len(some), "answered": sum(1 for o in some if o[1] == "ok")}
        later = lambda heartbeats: [o for after, o in since if after >= heartbeats * HEARTBEAT]
        return {"kills": len(kills), "spoiled": self.spoiled[role], "not_felt": sum(1 for h in felt if h == 0),
                "p50_h": quantile(0.5), "p90_h": quantile(0.9), "p99_h": quantile(0.99), "max_h": round(felt[-1], 2),
                "after_5": share(later(5)), "n_5": len(later(5)), "after_10": share(later(10)), "n_10": len(later(10)),
                "answered_by_heartbeats_since": buckets}

    def judge(self):
        found = []
        print(f"\n{'killed':<11} {'kills':>5} {'unfelt':>6} {'p50 H':>6} {'p90 H':>6} {'p99 H':>6} {'max H':>6} {'5H+ %':>8} "
              f"{'10H+ %':>8}   answered by heartbeats since, %")
        for role, seen in self.table().items():
            shares = "  ".join(f"{edge}: {100 * b['answered'] / b['requests']:.1f}"
                               for edge, b in seen["answered_by_heartbeats_since"].items() if b["requests"])
            print(f"{role:<11} {seen['kills']:>5} {seen['not_felt']:>6} {seen['p50_h']:>6.1f} {seen['p90_h']:>6.1f} "
                  f"{seen['p99_h']:>6.1f} {seen['max_h']:>6.1f} {seen['after_5']:>8.3f} {seen['after_10']:>8.3f}   {shares}")
            if seen["kills"] < self.kills:
                found.append(f"{role}: {seen['kills']} kills on a machine with time for us, expected {self.kills}")
            if seen["after_5"] < 99 or seen["after_10"] < 99.9:
                found.append(f"{role}: {seen['after_5']:.2f} % answered 5 heartbeats after a kill, "
                             f"{seen['after_10']:.2f} % 10 after; expected 99 % and 99.9 %")
        return found
