"""Kills processes of each role, one after the other, and measures how long clients notice: from the kill
to the end of the last request that failed or took longer than half a heartbeat, in heartbeats. Control
rounds kill nothing, to
measure the machine's share."""
import itertools
import time

from cluster import HEARTBEAT, ROLES
from judge import share

PERIOD = 20 * HEARTBEAT  # of a kill, its restart and the recovery
PAUSE = 3 * HEARTBEAT  # after a period, so that its last request ends before the next kill
AWAY = 5 * HEARTBEAT
SLOW = HEARTBEAT / 2
EDGES = (0, 1, 2, 3, 4, 5, 7, 10, 15, 20)  # bins of the histogram, in heartbeats
NOBODY = "nobody"
ROUNDS_PER_CONTROL = 5
AGAIN = 0.3  # maximum share of additional kills, in place of those that a busy machine spoils


class Recovery:
    def __init__(self, chaos, kills):
        self.chaos, self.cluster, self.load, self.kills = chaos, chaos.cluster, chaos.load, kills
        self.done = {role: [] for role in dict.fromkeys([*ROLES.values(), NOBODY])}  # times of kills, by role
        self.wanted = {role: kills for role in self.done}
        self.wanted[NOBODY] = kills // ROUNDS_PER_CONTROL
        self.stuck = []  # nodes that were not ready again in time
        self.spoiled = dict.fromkeys(self.done, 0)
        self.routers = itertools.cycle([name for name in ROLES if ROLES[name] == "router"])

    def run(self):
        left = int(sum(self.wanted.values()) * (1 + AGAIN))
        turns = itertools.count(1)
        while left > 0 and any(len(done) < self.wanted[role] for role, done in self.done.items()):
            turn = next(turns)
            for role in self.done:
                is_turn = role != NOBODY or turn % ROUNDS_PER_CONTROL == 0
                if is_turn and len(self.done[role]) < self.wanted[role]:
                    self._round(role)
                    left -= 1

    def _round(self, role):
        at = time.monotonic()
        if role == NOBODY:
            time.sleep(PERIOD)
        else:
            at = self._kill(role)
        time.sleep(PAUSE)
        if self.load.starved(at, at + PERIOD):
            self.spoiled[role] += 1
        else:
            self.done[role].append(at)

    def _kill(self, role):
        name = self._victim(role)
        self.load.away[name] = (time.monotonic(), None)
        at = time.monotonic()
        self.cluster.kill(name)
        time.sleep(AWAY)
        self.cluster.start(name)
        self.load.away[name] = (at, time.monotonic())
        back = self.load.wait_until_ready(10)
        if back is None:
            self.stuck.append(name)
            self.load.wait_until_ready(60)
        time.sleep(max(0, at + PERIOD - time.monotonic()))
        return at

    def _victim(self, role):
        """Returns the leading cache-meta, the busiest worker, or the routers alternately."""
        if role == "cache_meta":
            return self.cluster.leader()
        return self.chaos.busiest() if role == "worker" else next(self.routers)

    def _felt(self, at, slow):
        """Returns the heartbeats until the end of the last request that failed (or was slow, if `slow`)."""
        ends = [
            o[0] + o[3]
            for o in self.chaos.outcomes(at, at + PERIOD)
            if o[1] != "ok" or (slow and o[3] > SLOW)
        ]
        return max(0.0, (max(ends) - at) / HEARTBEAT) if ends else 0.0

    def _quantiles(self, kills, slow):
        felt = sorted(self._felt(at, slow) for at in kills)
        quantile = lambda q: round(felt[min(len(felt) - 1, int(len(felt) * q))], 2)
        return {
            "unfelt": sum(1 for h in felt if h == 0),
            "p50_h": quantile(0.5),
            "p90_h": quantile(0.9),
            "p99_h": quantile(0.99),
            "max_h": round(felt[-1], 2),
        }

    def table(self):
        return {role: self._measure(role) for role in self.done if self.done[role]}

    def _measure(self, role):
        kills = self.done[role]
        since = [(o[0] - at, o) for at in kills for o in self.chaos.outcomes(at, at + PERIOD)]
        buckets = {}
        for low, high in zip(EDGES, EDGES[1:]):
            some = [o for after, o in since if low * HEARTBEAT <= after < high * HEARTBEAT]
            buckets[f"{low}-{high}"] = {
                "requests": len(some),
                "answered": sum(1 for o in some if o[1] == "ok"),
            }
        later = lambda heartbeats: [o for after, o in since if after >= heartbeats * HEARTBEAT]
        return {
            "kills": len(kills),
            "spoiled": self.spoiled[role],
            "until_none_failed": self._quantiles(kills, False),
            "until_none_was_slow": self._quantiles(kills, True),
            "after_5": share(later(5)),
            "n_5": len(later(5)),
            "after_10": share(later(10)),
            "n_10": len(later(10)),
            "answered_by_heartbeats_since": buckets,
        }

    def judge(self):
        found = [f"{name} was not ready again 10 s after its start" for name in self.stuck]
        print(f"\n{'killed':<11} {'kills':>5} {'5H+ %':>8} {'10H+ %':>8}   answered by heartbeats since, %")
        for role, seen in self.table().items():
            shares = "  ".join(
                f"{edge}: {100 * b['answered'] / b['requests']:.1f}"
                for edge, b in seen["answered_by_heartbeats_since"].items()
                if b["requests"]
            )
            print(
                f"{role:<11} {seen['kills']:>5} {seen['after_5']:>8.3f} {seen['after_10']:>8.3f}   {shares}"
            )
            if seen["kills"] < self.wanted[role]:
                found.append(
                    f"{role}: {seen['kills']} kills on a machine that was not too busy, expected "
                    f"{self.wanted[role]}"
                )
            if seen["after_5"] < 99 or seen["after_10"] < 99.9:
                found.append(
                    f"{role}: {seen['after_5']:.2f} % answered 5 heartbeats after a kill, "
                    f"{seen['after_10']:.2f} % 10 after; expected 99 % and 99.9 %"
                )
        print(
            f"{'killed':<11} {'heartbeats until':<20} {'unfelt':>6} {'p50':>6} {'p90':>6} {'p99':>6} "
            f"{'max':>6}"
        )
        for role, seen in self.table().items():
            for what in ("until_none_failed", "until_none_was_slow"):
                words = " ".join(what.split("_")[1:])
                print(
                    f"{role:<11} {words:<20} {seen[what]['unfelt']:>6} "
                    + " ".join(f"{seen[what][q]:>6.1f}" for q in ("p50_h", "p90_h", "p99_h", "max_h"))
                )
        return found
