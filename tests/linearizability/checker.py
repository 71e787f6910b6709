"""Decides whether a history of reads and writes of one user or item is linearizable.

That means: there is an order of the operations, each at one moment between its call and its return, in
which every answer is that of a single copy. The search is that of Wing and Gong, takes operations as late
as possible (Lowe), and remembers configurations; it is exact both ways. Operations without an outcome
stay open for ever: each may happen once, at any time after its call, or never.

A promotion (a replica of Redis replaces the primary) may undo writes without an outcome: the newest ones,
back to the last acknowledged write. So a state is the last acknowledged value and, on top of it, the
values of writes
without an outcome. Reads see the last of them."""
import bisect
import collections
import math

ABSENT = None
READ, PUT, DELETE, PROMOTION = "read", "put", "delete", "promotion"


class Operation:
    """One operation. `value`: of a put its value; of a read the set of values that its answer may stand for.

    `end` is infinite without an outcome.
    """

    __slots__ = ("what", "value", "start", "end", "note")

    def __init__(self, what, value, start, end=math.inf, note=None):
        self.what, self.value, self.start, self.end, self.note = what, value, start, end, note

    @property
    def is_open(self):
        return self.end == math.inf

    def __repr__(self):
        return f"{self.what} {self.value!r} [{self.start}, {self.end}] {self.note or ''}".rstrip()


def read(values, start, end, note=None):
    return Operation(READ, frozenset(values), start, end, note)


def put(value, start, end=math.inf, note=None):
    return Operation(PUT, value, start, end, note)


def delete(start, end=math.inf, note=None):
    return Operation(DELETE, ABSENT, start, end, note)


def promotion(start, end, note=None):
    return Operation(PROMOTION, ABSENT, start, end, note)


def after(state, operation):
    """Returns the states to which `operation` may lead from this one; none = it cannot happen here."""
    if operation.what == READ:
        return [state] if state[-1] in operation.value else []
    if operation.what == PROMOTION:
        return [state[:kept] for kept in range(1, len(state) + 1)]
    if operation.what == DELETE and state[-1] is ABSENT:
        return []  # answered as unknown; that counts as a read
    return [(*state, operation.value)] if operation.is_open else [(operation.value,)]


class Search:
    def __init__(self, operations, limit):
        self.operations, self.limit = operations, limit
        self.seen = set().union(*(o.value for o in operations if o.what == READ))  # values that any read sees
        self.promotions = sum(o.what == PROMOTION for o in operations)  # promotions still to happen
        self.pending = set()  # called; not returned, and not done in every configuration
        self.configurations = {((ABSENT,), frozenset())}

    def run(self):
        """Returns the operation whose answer no order explains; None = there is an order."""
        moments = [(o.start, 0, i) for i, o in enumerate(self.operations)]
        moments += [(o.end, 1, i) for i, o in enumerate(self.operations) if not o.is_open]
        for _, returns, which in sorted(moments):
            if not returns:
                self.pending.add(which)
                continue
            self.configurations = self.until_done(which)
            self.pending.discard(which)
            self.promotions -= self.operations[which].what == PROMOTION
            if not self.configurations:
                return self.operations[which]
        return None

    def until_done(self, which):
        """Returns all configurations in which `which` has happened, as the last of the operations that
        happen now."""
        done, seen = set(), set()
        todo = list(self.configurations)
        while todo:
            state, happened = todo.pop()
            if which in happened:
                done.add((state, happened - {which}))
                continue
            for other in self.candidates(state, happened):
                for state_then in after(state, self.operations[other]):
                    if not self.promotions:
                        state_then = state_then[-1:]  # nothing can be undone any more
                    then = (state_then, happened | {other})
                    if other == which:
                        done.add((state_then, happened))
                    elif then not in seen:
                        seen.add(then)
                        todo.append(then)
            if len(seen) > self.limit:
                raise RuntimeError(
                    f"more than {self.limit} configurations: expected fewer operations without an outcome"
                )
        return self.least(done)

    def candidates(self, state, happened):
        """Yields what may happen next.

        An operation without an outcome is taken only if a waiting operation needs it, because it can
        happen later. Of operations that no read can distinguish, only one is taken.
        """
        left = self.pending - happened
        waiting = [i for i in left if not self.operations[i].is_open]
        yield from waiting
        wanted = set().union(*(self.operations[i].value for i in waiting if self.operations[i].what == READ))
        open_puts = [i for i in left - set(waiting) if self.operations[i].what == PUT]
        unseen = [i for i in open_puts if self.operations[i].value not in self.seen]
        is_absent = state[-1] is ABSENT
        needs_any = is_absent and any(self.operations[i].what == DELETE for i in waiting)
        if needs_any and unseen:
            yield min(unseen)  # prefer one that no later read needs
        yield from (
            i
            for i in open_puts
            if self.operations[i].value in wanted
            or (needs_any and not unseen and self.operations[i].value in self.seen)
        )
        if ABSENT in wanted and not is_absent:
            yield from sorted(
                i for i in left if self.operations[i].is_open and self.operations[i].what == DELETE
            )[:1]

    def least(self, configurations):
        """Removes configurations that reached the same state with more open operations done."""
        kept = collections.defaultdict(list)
        for state, happened in sorted(configurations, key=lambda c: len(c[1])):
            closed = frozenset(i for i in happened if not self.operations[i].is_open)
            if not any(less <= happened for less in kept[state, closed]):
                kept[state, closed].append(happened)
        return {(state, happened) for (state, _), sets in kept.items() for happened in sets}


def find_violation(operations, limit=200_000):
    """Returns an operation of one key that no order explains, or None."""
    return Search(list(operations), limit).run()


# ---- version numbers ----


class Numbered:
    """An operation with a position in the order that the store gives to all writes of a kind.

    A write has its own version; a read sees all writes up to its version.
    """

    __slots__ = ("version", "is_write", "start", "end", "note")

    def __init__(self, version, is_write, start, end, note=None):
        self.version, self.is_write, self.start, self.end, self.note = version, is_write, start, end, note

    def __repr__(self):
        what = "write" if self.is_write else "read at"
        return f"{what} {self.version} [{self.start}, {self.end}] {self.note or ''}".rstrip()


def find_disorder(operations, reads_bind=True):
    """Returns two operations whose versions contradict their times, or two writes of one version; else None.

    Versions contradict times if the operation that ended before the other began has the later version.
    `reads_bind`: this also holds for an operation after a read.
    """
    by_version = {}
    for operation in operations:
        if operation.is_write and by_version.setdefault(operation.version, operation) is not operation:
            return by_version[operation.version], operation
    newest = []  # (end, operation with the greatest version among those that ended until then)
    for operation in sorted(operations, key=lambda o: o.end):
        if operation.is_write or reads_bind:
            if not newest or newest[-1][1].version < operation.version:
                newest.append((operation.end, operation))
    ends = [end for end, _ in newest]
    for operation in operations:
        at = bisect.bisect_left(ends, operation.start)
        if at == 0:
            continue
        before = newest[at - 1][1]
        is_late = (
            before.version >= operation.version if operation.is_write else before.version > operation.version
        )
        if is_late and before is not operation:
            return before, operation
    return None
