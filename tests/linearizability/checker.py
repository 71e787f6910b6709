"""Is a history of reads and writes of one user or item linearizable: is there an order of its operations, each at one
moment between its call and its return, in which every answer is what a single copy would have said? Wing and Gong's
search, an operation taken as late as possible (Lowe), configurations remembered; exact both ways. Operations without an
outcome stay open for ever: each may happen once, at any time after its call, or never.

A promotion (a replica of Redis takes the primary's place) may undo what nobody was told is stored: the newest writes
without an outcome, as far back as to the last acknowledged one. So a state is the last acknowledged value and those of
writes without an outcome on top of it; the last of them is what is seen."""
import bisect
import collections
import math

ABSENT = None
READ, PUT, DELETE, PROMOTION = "read", "put", "delete", "promotion"


class Operation:
    """`value`: of a put; of a read the set of those values that its answer may stand for. `end` is infinite where there
    was no outcome."""

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
    """The states in which `operation` may leave this one; none: it cannot happen here."""
    if operation.what == READ:
        return [state] if state[-1] in operation.value else []
    if operation.what == PROMOTION:
        return [state[:kept] for kept in range(1, len(state) + 1)]
    if operation.what == DELETE and state[-1] is ABSENT:
        return []  # it is answered as unknown: a read
    return [(*state, operation.value)] if operation.is_open else [(operation.value,)]


class Search:
    def __init__(self, operations, limit):
        self.operations, self.limit = operations, limit
        self.seen = set().union(*(o.value for o in operations if o.what == READ))  # by anybody, ever
        self.promotions = sum(o.what == PROMOTION for o in operations)  # to come
        self.pending = set()  # called, and neither returned nor known as happened in every configuration
        self.configurations = {((ABSENT,), frozenset())}

    def run(self):
        """The operation whose answer no order explains; none: there is an order."""
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
        """All configurations in which it has happened, it last of those that happen now."""
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
                        state_then = state_then[-1:]  # nothing is undone any more
                    then = (state_then, happened | {other})
                    if other == which:
                        done.add((state_then, happened))
                    elif then not in seen:
                        seen.add(then)
                        todo.append(then)
            if len(seen) > self.limit:
                raise RuntimeError(
                    f"more than {self.limit} configurations: fewer operations without an outcome, please"
                )
        return self.least(done)

    def candidates(self, state, happened):
        """What may happen next. An operation without an outcome only where somebody waits who needs it, for it can
        happen later; and of those that nobody can tell from each other, one."""
        left = self.pending - happened
        waiting = [i for i in left if not self.operations[i].is_open]
        yield from waiting
        wanted = set().union(*(self.operations[i].value for i in waiting if self.operations[i].what == READ))
        open_puts = [i for i in left - set(waiting) if self.operations[i].what == PUT]
        unseen = [i for i in open_puts if self.operations[i].value not in self.seen]
        is_absent = state[-1] is ABSENT
        needs_any = is_absent and any(self.operations[i].what == DELETE for i in waiting)
        if needs_any and unseen:
            yield min(unseen)  # rather than one that somebody may want to see later
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
        """Without those in which more of the open ones have happened to come to the same."""
        kept = collections.defaultdict(list)
        for state, happened in sorted(configurations, key=lambda c: len(c[1])):
            closed = frozenset(i for i in happened if not self.operations[i].is_open)
            if not any(less <= happened for less in kept[state, closed]):
                kept[state, closed].append(happened)
        return {(state, happened) for (state, _), sets in kept.items() for happened in sets}


def find_violation(operations, limit=200_000):
    """Of one key. The operation that cannot be explained, or none."""
    return Search(list(operations), limit).run()


# ---- numbers ----


class Numbered:
    """An operation that named a place in the one order that the store gives to all writes of a kind: a write with its
    version, or a read of all that has versions up to this one."""

    __slots__ = ("version", "is_write", "start", "end", "note")

    def __init__(self, version, is_write, start, end, note=None):
        self.version, self.is_write, self.start, self.end, self.note = version, is_write, start, end, note

    def __repr__(self):
        return f"{'write' if self.is_write else 'read at'} {self.version} [{self.start}, {self.end}] {self.note or ''}".rstrip()


def find_disorder(operations, reads_bind=True):
    """Two operations, one of which was over before the other began, whose versions say that they happened the other way
    round; or two writes of one version. `reads_bind`: no later operation stands before a read either."""
    by_version = {}
    for operation in operations:
        if operation.is_write and by_version.setdefault(operation.version, operation) is not operation:
            return by_version[operation.version], operation
    newest = []  # (end, the operation with the greatest version of those that ended until then)
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
