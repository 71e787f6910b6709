"""Records what a node acknowledged and what it named as lost; judges whether its present state agrees."""
import re

ABSENT = 0  # version of a deleted row


class Row:
    """A user or an item: the last acknowledged content, and the writes since without an answer."""

    def __init__(self, version, content=None):
        self.version, self.content = version, content  # of the last acknowledged write
        self.present = content is not None
        self.open = []  # contents of writes without an answer; None = a deletion

    def may_be(self, seen):
        if seen == (self.content if self.present else None):
            return True
        return any(seen == content for content in self.open)


def unescape(text):
    return re.sub(
        rb"\\x([0-9a-f]{2})", lambda found: bytes([int(found.group(1), 16)]), text.encode("latin-1")
    )


def key_of(kind, name):
    """Returns the key in the store: users have a prefix with the length of their tenant, which is empty."""
    return (b"\0\0\0\0" if kind == "users" else b"") + name.encode()


class Losses:
    """The `store_lost` lines in the log of a start."""

    def __init__(self, lines):
        self.lines = [line for line in lines if line.get("event") == "store_lost"]

    def names(self, kind, name, version):
        return any(self._names(line, kind, name, version) for line in self.lines if line["of"] == kind)

    def names_note(self, note):
        """Returns whether a record of the store itself, such as "made_for", is named."""
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
        self.newest = {"users": 0, "items": 0}  # newest version in any answer
        self.given = {"users": set(), "items": set()}  # versions given to single writes; each is unique

    def asked(self, kind, name, content):
        """Notes a write that is being sent; returns the newest version known. The answer must have a
        later one."""
        self.rows[kind].setdefault(name, Row(ABSENT)).open.append(content)
        return self.newest[kind]

    def imported(self, kind, name, version, content):
        self.acknowledged(kind, name, version, content, 0)
        self.given[kind].discard(version)

    def acknowledged(self, kind, name, version, content, after):
        """Notes an acknowledged write; returns what is wrong with the answer, or None."""
        fault = None
        if version <= after or version in self.given[kind]:
            fault = f"{kind} {name}: version {version} was given out after {after}, or twice"
        self.given[kind].add(version)
        self.newest[kind] = max(self.newest[kind], version)
        row = self.rows[kind].setdefault(name, Row(ABSENT))
        row.version, row.content, row.present, row.open = version, content, content is not None, []
        return fault

    def judge(self, kind, name, seen, losses):
        """Judges the content that is there now (None = nothing), and expects it from then on.

        Returns "kept", "named" (as lost) or "silent" (lost without being named).
        """
        row = self.rows[kind][name]
        if row.may_be(seen):
            verdict = "kept"
        elif losses.names(kind, name, row.version) or (row.version == ABSENT and not row.present):
            verdict = "named"
        else:
            verdict = "silent"
        row.present, row.content, row.open = seen is not None, seen, []
        return verdict
