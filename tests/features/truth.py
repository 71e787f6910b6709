"""What was stored of each user and when it could be read, and so what an answer may be made of. Times are of one monotonic
clock. A reading that an answer is made of happened at some moment; each bound here is on that moment:
  exact   while the request was there;
  wait    at most the expiry before it;
  behind  the same, or, where the reply says `stale`, up to stale_for longer; where it says `missing`, never.
Whatever a reply says otherwise is wrong: older than it says, newer than stale can be, or nobody's."""
import dataclasses
import math


@dataclasses.dataclass
class Stored:
    history: int  # which of those that are told apart by their answers
    version: int | None  # none: whatever it may be
    begin: float
    end: float  # when it was acknowledged; infinite: never


@dataclasses.dataclass
class Outcome:
    row: str
    user: str
    sent: float
    done: float
    code: str  # "": answered; of a refusal its status and code
    history: int = -1  # of the answer; -1: nobody's
    version: int = 0
    stale: int = 0
    missing: int = 0


@dataclasses.dataclass
class Bounds:
    expiry: float
    stale_for: float
    unknown_expiry: float
    jitter: float
    reading: float  # that a reading takes at most


EMPTY = 0  # the history that has no events
PROMISED = ("429 ", "503 ", "504 ")
GONE = ("404 unknown_user", "404 unknown_item")


class Truth:
    def __init__(self, bounds):
        self.bounds = bounds
        self.stored = {}  # by user
        self.alive = []  # [since, until] that the store could be read
        self.emptied = []  # [since, until] that nothing was in it

    def put(self, user, history, version, begin, end):
        self.stored.setdefault(user, []).append(Stored(history, version, begin, end))

    def _last(self, user, one):
        """When it could be read last."""
        later = [other.end for other in self.stored[user] if other.begin >= one.end]
        return min(later + [since for since, _ in self.emptied if since >= one.begin], default=math.inf)

    def may_read(self, outcome, since, until):
        """Whether such a profile was there to be read within these bounds."""
        for one in self.stored.get(outcome.user, []):
            if one.history != outcome.history or one.version not in (None, outcome.version):
                continue
            low, high = max(since, one.begin), min(until, self._last(outcome.user, one))
            if any(max(low, a) <= min(high, b) for a, b in self.alive):
                return True
        return False

    def fault(self, outcome, mode, last_known):
        """Empty: it is as promised. `last_known`: the router goes on from what it read, whenever that was."""
        bounds = self.bounds
        if outcome.code in GONE:
            since = outcome.sent - max(bounds.expiry, bounds.unknown_expiry)
            there = not any(since <= b and a <= outcome.done for a, b in self.emptied)
            return f"{outcome.code} of what is there" if there else ""
        if outcome.code:
            return "" if outcome.code.startswith(PROMISED) else f"{outcome.code} was not promised"
        if outcome.missing:
            made_up = outcome.history != EMPTY or outcome.version != 0 or mode != "behind" or outcome.stale
            return "missing, and no answer for a user without events" if made_up else ""
        if outcome.stale:
            if mode != "behind" and not last_known:
                return "stale, and nobody asked for such"
            since = -math.inf if last_known else outcome.sent - bounds.expiry - bounds.stale_for
            until = (
                outcome.done
                if last_known
                else outcome.done - bounds.expiry * (1 - bounds.jitter) + bounds.reading
            )
            return "" if self.may_read(outcome, since, until) else "stale, and not as it was then"
        since = outcome.sent - (0 if mode == "exact" else bounds.expiry)
        return "" if self.may_read(outcome, since, outcome.done) else "older than the reply says, or nobody's"

    def lost_sight(self, outcomes):
        """Of `behind`: users that were missing although they had been read lately enough."""
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
