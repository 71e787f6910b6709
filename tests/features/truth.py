"""Knows what was stored for each user and when it could be read, and so which answers are valid.

Times are of one monotonic clock. A profile used for an answer was read at some moment. The feature mode
bounds it:
  exact   during the request wait    at most the expiry before the request behind  the same, or, where the
  reply says `stale`, up to stale_for longer; where it says `missing`, never read
Any other answer is wrong: older than it says, newer than stale can be, or never stored."""
import dataclasses
import math


@dataclasses.dataclass
class Stored:
    history: int  # number of the history; answers tell histories apart
    version: int | None  # None = any
    begin: float
    end: float  # time of the acknowledgement; infinite = never


@dataclasses.dataclass
class Outcome:
    row: str
    user: str
    sent: float
    done: float
    code: str  # "" = answered; else status and code of the refusal
    history: int = -1  # history of the answer; -1 = no known history
    version: int = 0
    stale: int = 0
    missing: int = 0


@dataclasses.dataclass
class Bounds:
    expiry: float
    stale_for: float
    unknown_expiry: float
    jitter: float
    reading: float  # maximum duration of a read


EMPTY = 0  # the history that has no events
PROMISED = ("429 ", "503 ", "504 ")
GONE = ("404 unknown_user", "404 unknown_item")


class Truth:
    def __init__(self, bounds):
        self.bounds = bounds
        self.stored = {}  # stored versions, by user
        self.alive = []  # intervals in which the store could be read
        self.emptied = []  # intervals in which the store was empty

    def put(self, user, history, version, begin, end):
        self.stored.setdefault(user, []).append(Stored(history, version, begin, end))

    def _last(self, user, one):
        """Returns the last moment at which this version could be read."""
        later = [other.end for other in self.stored[user] if other.begin >= one.end]
        return min(later + [since for since, _ in self.emptied if since >= one.begin], default=math.inf)

    def may_read(self, outcome, since, until):
        """Returns whether such a profile could be read within this interval."""
        for one in self.stored.get(outcome.user, []):
            if one.history != outcome.history or one.version not in (None, outcome.version):
                continue
            low, high = max(since, one.begin), min(until, self._last(outcome.user, one))
            if any(max(low, a) <= min(high, b) for a, b in self.alive):
                return True
        return False

    def fault(self, outcome, mode, last_known):
        """Returns what is wrong, or an empty text. `last_known`: the router may use what it read at any
        time."""
        bounds = self.bounds
        if outcome.code in GONE:
            since = outcome.sent - max(bounds.expiry, bounds.unknown_expiry)
            there = not any(since <= b and a <= outcome.done for a, b in self.emptied)
            return f"{outcome.code} of something that is there" if there else ""
        if outcome.code:
            return "" if outcome.code.startswith(PROMISED) else f"{outcome.code} is not documented"
        if outcome.missing:
            made_up = outcome.history != EMPTY or outcome.version != 0 or mode != "behind" or outcome.stale
            return "missing, but not answered as a user without events" if made_up else ""
        if outcome.stale:
            if mode != "behind" and not last_known:
                return "stale, but the request did not allow it"
            since = -math.inf if last_known else outcome.sent - bounds.expiry - bounds.stale_for
            until = (
                outcome.done
                if last_known
                else outcome.done - bounds.expiry * (1 - bounds.jitter) + bounds.reading
            )
            return "" if self.may_read(outcome, since, until) else "stale, but was not stored at that time"
        since = outcome.sent - (0 if mode == "exact" else bounds.expiry)
        return (
            ""
            if self.may_read(outcome, since, outcome.done)
            else "older than the reply says, or never stored"
        )

    def lost_sight(self, outcomes):
        """Returns answers in mode `behind` that lack a user's profile although it was read recently
        enough."""
        found, seen = [], {}
        forgets = [(a, b + self.bounds.unknown_expiry + 2 * self.bounds.expiry) for a, b in self.emptied]
        for outcome in sorted(outcomes, key=lambda o: o.done):
            if outcome.code:
                continue
            known = seen.get(outcome.user, -math.inf)
            if (
                outcome.missing
                and outcome.done < known + self.bounds.stale_for - self.bounds.jitter * self.bounds.expiry
                and not any(a <= outcome.done and known <= b for a, b in forgets)
            ):
                found.append(outcome)
            elif not outcome.stale and not outcome.missing:
                seen[outcome.user] = max(known, outcome.sent)
        return found
