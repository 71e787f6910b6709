"""Converts records of requests and answers into histories that checker.py can judge.

Each operation is of one user or item, named by its kind and key. A ranking shows a user's value as the
profile's version and its number of tokens, and an item's value as its title. Both also have versions over
all writes: of the
profiles, or of the catalog."""
import collections
import json
import math

from checker import ABSENT, Numbered, delete, find_disorder, find_violation, promotion, put, read


class Record:
    """A request and its outcome.

    `what`: read, put or delete. `value`: what a put writes, or what a read saw (for a user: its number of
    tokens). `version`: that of the answer; None = the answer had none. `outcome`: ok, absent (404), or
    open (unknown).
    """

    __slots__ = ("kind", "key", "what", "value", "version", "start", "end", "outcome", "router")

    def __init__(self, kind, key, what, value, version, start, end, outcome, router=""):
        self.kind, self.key, self.what, self.value, self.version = kind, key, what, value, version
        self.start, self.end, self.outcome, self.router = start, end, outcome, router

    def line(self):
        return json.dumps({name: getattr(self, name) for name in self.__slots__})

    @staticmethod
    def of(line):
        return Record(**json.loads(line))


def tokens_of(value):
    """Returns the number of tokens of a user's value: the last part of "user-3/17/5"."""
    return int(value.rsplit("/", 1)[1])


def values_seen(record, puts):
    """Returns which of the puts of its key a read may have seen."""
    if record.outcome == "absent":
        return {ABSENT}
    if record.kind == "item":
        return {record.value}
    known = {p.version: p.value for p in puts if p.version is not None}
    if record.version in known:
        value = known[record.version]
        return {value} if tokens_of(value) == record.value else set()
    return {p.value for p in puts if p.outcome == "open" and tokens_of(p.value) == record.value}


def operations_of(records):
    """Returns the operations of one key."""
    puts = [r for r in records if r.what == "put"]
    operations = []
    for r in records:
        end = math.inf if r.outcome == "open" else r.end
        if r.what == "read" or r.outcome == "absent":  # a deletion of something absent
            operations.append(read(values_seen(r, puts), r.start, r.end, r))
        elif r.what == "put":
            operations.append(put(r.value, r.start, end, r))
        else:
            operations.append(delete(r.start, end, r))
    return operations


def tell(record):
    return (
        f"{record.what} of {record.kind} {record.key} by {record.router or 'nobody'}: {record.outcome} "
        f"{record.value!r} "
        f"version {record.version}, {record.start:.6f} to {record.end:.6f}"
    )


def judge_key(records, promotions):
    operations = operations_of(records) + [promotion(since, until) for since, until in promotions]
    found = find_violation(operations)
    if found is None:
        return None
    before = sorted((r for r in records if r.what != "read" and r.start < found.end), key=lambda r: r.start)
    told = [
        f"no order of acknowledged writes explains this: {tell(found.note)}"
        if found.note
        else f"no order explains the reads before {found}"
    ]
    return "\n  ".join(told + [tell(r) for r in before[-6:]])


def numbered(records, kind):
    """Returns writes by their versions; for items also reads, which see the whole catalog of one version."""
    for r in records:
        if r.kind != kind or r.version is None or r.outcome != "ok":
            continue
        if r.what != "read":
            yield Numbered(r.version, True, r.start, r.end, r)
        elif kind == "item":
            yield Numbered(r.version, False, r.start, r.end, r)


def judge_item_reads(records):
    """Checks that a read at catalog version c shows an item as the last write up to c made it."""
    writes = collections.defaultdict(dict)
    may_be = collections.defaultdict(set)  # values of writes without an outcome
    for r in records:
        if r.kind == "item" and r.what != "read":
            if r.outcome == "ok":
                writes[r.key][r.version] = r.value if r.what == "put" else ABSENT
            elif r.outcome == "open":
                may_be[r.key].add(r.value if r.what == "put" else ABSENT)
    faults = []
    for r in records:
        if r.kind != "item" or r.what != "read" or r.outcome != "ok":
            continue
        last = max((v for v in writes[r.key] if v <= r.version), default=None)
        right = may_be[r.key] | {writes[r.key][last] if last is not None else ABSENT}
        if r.value not in right:
            faults.append(
                f"differs from the catalog of its version: {tell(r)}; expected one of "
                f"{sorted(map(str, right))}"
            )
    return faults


def judge(records, promotions=()):
    """Returns the violations as texts; `promotions`: (since, until) of each."""
    keys = collections.defaultdict(list)
    for r in records:
        keys[r.kind, r.key].append(r)
    faults = [fault for _, of_key in sorted(keys.items()) if (fault := judge_key(of_key, promotions))]
    for kind in ("user", "item"):
        pair = find_disorder(list(numbered(records, kind)), reads_bind=not promotions)
        if pair:
            faults.append(
                f"versions of {kind}s contradict time:\n  {tell(pair[0].note)}\n  {tell(pair[1].note)}"
            )
    return faults + judge_item_reads(records)[:5]
