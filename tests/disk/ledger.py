"""What a box has acknowledged, which of it was named as lost, and whether what it says now agrees."""
import re

ABSENT = 0  # the version of who was deleted


class Row:
    """A user or an item: what was acknowledged last, and what was asked for since without an answer."""

    def __init__(self, version, content=None):
        self.version, self.content = version, content  # of the last acknowledged write
        self.present = content is not None
        self.open = []  # contents of writes that nobody answered; None: a deletion

    def may_be(self, seen):
        if seen == (self.content if self.present else None):
            return True
        return any(seen == content for content in self.open)


def unescape(text):
    return re.sub(
        rb"\\x([0-9a-f]{2})", lambda found: bytes([int(found.group(1), 16)]), text.encode("latin-1")
    )


def key_of(kind, name):
    """As the store has it: users behind the length of their tenant, which is empty."""
    return (b"\0\0\0\0" if kind == "users" else b"") + name.encode()


class Losses:
    """The lines `store_lost` of a start."""

    def __init__(self, lines):
        self.lines = [line for line in lines if line.get("event") == "store_lost"]

    def names(self, kind, name, version):
        return any(self._names(line, kind, name, version) for line in self.lines if line["of"] == kind)

    def names_note(self, note):
        """Of the store's own, such as "made_for"."""
        return any(line["of"] == "meta" and unescape(line["from"]) == note.encode() for line in self.lines)

    @staticmethod
    def _names(line, kind, name, version):
        if "last_version" in line:
            return int(line["first_version"]) <= version <= int(line["last_version"])
        first, end = unescape(line["from"]), unescape(line["to"])
        return first <= key_of(kind, name) and (not end or key_of(kind, name) < end)


class Ledger:
    def __init__(self):
        self.rows = {"users": {}, "items": {}}
        self.newest = {"users": 0, "items": 0}  # versions that were ever answered
        self.given = {"users": set(), "items": set()}  # by single writes: each has one of its own

    def asked(self, kind, name, content):
        """The newest version that was known: the answer has a later one."""
        self.rows[kind].setdefault(name, Row(ABSENT)).open.append(content)
        return self.newest[kind]

    def imported(self, kind, name, version, content):
        self.acknowledged(kind, name, version, content, 0)
        self.given[kind].discard(version)

    def acknowledged(self, kind, name, version, content, after):
        """Says what is wrong with the answer, or nothing."""
        fault = None
        if version <= after or version in self.given[kind]:
            fault = f"{kind} {name}: version {version} was given out after {after}, or twice"
        self.given[kind].add(version)
        self.newest[kind] = max(self.newest[kind], version)
        row = self.rows[kind].setdefault(name, Row(ABSENT))
        row.version, row.content, row.present, row.open = version, content, content is not None, []
        return fault

    def judge(self, kind, name, seen, losses):
        """`seen`: the content that is there now, None: nothing. "kept", "named" or "silent"; it is believed then."""
        row = self.rows[kind][name]
        if row.may_be(seen):
            verdict = "kept"
        elif losses.names(kind, name, row.version) or (row.version == ABSENT and not row.present):
            verdict = "named"
        else:
            verdict = "silent"
        row.present, row.content, row.open = seen is not None, seen, []
        return verdict
