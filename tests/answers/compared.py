"""Compares answers with the plain computation, and counts what was compared."""
import collections

TOLERANCE = 1e-4


def largest_difference(scores, candidates, expected):
    """Returns the largest difference; infinity if an item is missing or a score is not a number."""
    if len(scores) != len(candidates) or any(str(item) not in scores for item in candidates):
        return float("inf")
    off = [abs(scores[str(item)] - score) for item, score in zip(candidates, expected)]
    return max(off) if all(one < float("inf") for one in off) else float("inf")  # also for NaN


class Compared:
    """Answers by kind, with the largest difference of each kind, and all faults."""

    def __init__(self):
        self.answers, self.arrangements = collections.Counter(), collections.Counter()
        self.largest, self.faults, self.notes = {}, [], {}

    def scores(self, kind, off, what):
        self.answers[kind] += 1
        self.largest[kind] = max(self.largest.get(kind, 0.0), float(off))
        if not off < TOLERANCE:
            self.faults.append(f"{kind}: {what}: scores differ by {off:.6f}")

    def reply(self, kind, reply, candidates, allowed, expected_of, what):
        """Compares a reply. `allowed`: arrangements that may serve it; `expected_of`: gives the scores of
        an arrangement."""
        served = reply.get("arrangement", "none")
        what = f"{what}, served {served}"
        self.arrangements[served] += 1
        if served not in allowed:
            self.answers[kind] += 1
            self.faults.append(f"{kind}: {what}; expected {' or '.join(allowed)}")
            return
        if reply.get("approximate"):
            self.faults.append(f"{kind}: {what}: it is approximate; expected an exact answer")
        scores = {item["id"]: item["score"] for item in reply["items"]}
        self.scores(kind, largest_difference(scores, candidates, expected_of(served)), what)

    def add(self, other):
        self.answers += other.answers
        self.arrangements += other.arrangements
        for kind, off in other.largest.items():
            self.largest[kind] = max(self.largest.get(kind, 0.0), off)
        self.faults += other.faults
        self.notes.update(other.notes)

    def table(self):
        return {
            "answers": dict(self.answers),
            "arrangements": dict(self.arrangements),
            "largest": self.largest,
            "differences": self.faults,
            **self.notes,
        }
