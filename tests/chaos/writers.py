"""Clients that write while others read.

Each client belongs to a tenant and has a user (other tenants have users of the same name) and an item.
Through one router it replaces the user's history, appends events to it, stores the item or deletes it. It
ranks through all routers, all the time. The answers for each content of the user with each content of the
item were learnt from an undisturbed node, so an answer shows which contents it used. Answers are judged
by version: every router must serve what was acknowledged; never older or mixed contents, what nobody
wrote, or what another tenant wrote (promises 4,
14)."""
import http.client
import json
import random
import threading
import time

from asking import Ranking, find_fault
from load import ask

HISTORIES, APPENDS, CONTENTS = 4, 2, 3
GONE = CONTENTS  # the content of an item that was deleted
USER = "writer"
FORGOTTEN = 60.0  # seconds after which a write without an outcome can no longer happen


class Subject:
    """One user, one item, and all requests about them.

    A user's content is a history and how many of its events were appended.
    """

    def __init__(self, number, tenant, requests, vocabulary, asking, attempt=0):
        self.asking, self.tenant = asking, tenant
        chance = random.Random(number + 1000 * attempt)
        items = requests[number]["candidates"]
        self.name, self.user, self.item = f"writer-{number}", USER, f"written-{number}"
        drawn = [chance.sample(items, 6 + APPENDS) for _ in range(HISTORIES)]
        self.histories, self.events = [items[:6] for items in drawn], [items[6:] for items in drawn]
        codes = {
            level: [
                vocabulary[f"<{level}_{code}>"] for code in range(20) if f"<{level}_{code}>" in vocabulary
            ]
            for level in "abc"
        }
        self.contents = [[chance.choice(codes[level]) for level in "abc"] for _ in range(CONTENTS)]
        self.identifier = vocabulary[f"<item_{number}>"]
        self.request = asking.request_of(self.user, [*items[:8], self.item])
        self.right = {}  # right answers, by user content, item content and what was computed

    def user_contents(self):
        return [(history, appended) for history in range(HISTORIES) for appended in range(APPENDS + 1)]

    def item_contents(self):
        return [*range(CONTENTS), *([GONE] if self.asking.deletes else [])]

    def history_of(self, content):
        return self.histories[content[0]] + self.events[content[0]][: content[1]]

    def write_of(self, kind, which):
        """Returns method, path and body of a write."""
        if kind == "user":
            return "PUT", f"/v1/users/{self.user}{self.asking.routes}", {"history": self.history_of(which)}
        path = f"/v1/items/{self.item}{self.asking.routes}"
        if which == GONE:
            return "DELETE", path, None
        return (
            "PUT",
            path,
            {"title": f"content {which}", "tokens": self.contents[which], "identifier": self.identifier},
        )

    def append_of(self, content, id):
        """Returns the event that leads from the previous content to this one."""
        event = {"id": id, "item": self.events[content[0]][content[1] - 1]}
        return "POST", f"/v1/users/{self.user}/events{self.asking.routes}", {"events": [event]}

    @staticmethod
    def told_apart(number, tenant, requests, vocabulary, asking, node):
        """Returns a subject whose contents all give different answers."""
        for attempt in range(20):
            subject = Subject(number, tenant, requests, vocabulary, asking, attempt)
            if subject.learn(node):
                return subject
        raise RuntimeError(f"writer-{number}: two contents give the same answers")

    def learn(self, node):
        """Learns the answers; returns False if two contents give the same answers."""
        truths = set()
        for content in self.item_contents():
            node.ask(*self.write_of("item", content))
            for user in self.user_contents():
                node.ask(*self.write_of("user", user))
                for plan in self.asking.plans:
                    truth, scores = self.asking.right(node, self.request, plan)
                    self.right[user, content, truth] = scores
                    truths.add(truth)
        for truth in truths:
            answers = [self.right[u, c, truth] for u in self.user_contents() for c in self.item_contents()]
            for i, one in enumerate(answers):
                if any(not self._apart(one, other) for other in answers[:i]):
                    return False
        return True

    def _apart(self, one, other):
        if one.keys() != other.keys():
            return True
        return (
            max(abs(one[item] - other[item]) / max(1, abs(one[item])) for item in one)
            >= 4 * self.asking.tolerance
        )


class Known:
    """The known versions of one user or of one item."""

    def __init__(self):
        self.by_version, self.open, self.floor = {}, [], 0

    def begin(self, which):
        self.open.append((time.monotonic(), which))
        return self.open[-1]

    def acknowledge(self, entry, version):
        self.open.remove(entry)
        self.by_version[version] = entry[1]
        self.floor = max(self.floor, version)

    def pending(self):
        now = time.monotonic()
        self.open = [entry for entry in self.open if now < entry[0] + FORGOTTEN]
        return {which for _, which in self.open}

    def exactly(self, version):
        return {self.by_version[version]} if version in self.by_version else self.pending()

    def as_of(self, version):
        before = [v for v in self.by_version if v <= version]
        return self.pending() | ({self.by_version[max(before)]} if before else set())


class Append:
    """An event to append to a user's history, sent until it is known to be there.

    It is appended only to the last acknowledged version. So a history that was replaced by a write of unknown
    outcome does not get it.
    """

    def __init__(self, entry, id, version):
        self.entry, self.id, self.version = entry, id, version


class Writers:
    asking = Ranking()

    def __init__(self, load, subjects, limit, strict, headers=lambda tenant="": {}, seed=1):
        """`strict`: routers that refuse when their store is away; the others may then answer from what
        they know.

        `headers`: a function from tenant to its request headers.
        """
        self.load, self.subjects, self.limit, self.strict, self.headers = (
            load,
            subjects,
            limit,
            strict,
            headers,
        )
        self.asking = load.asking
        self.known = {s.name: {"user": Known(), "item": Known()} for s in subjects}
        self.last = {s.name: None for s in subjects}  # last acknowledged version and content of the user
        self.appends = {s.name: None for s in subjects}  # appends whose outcome is unknown
        self.away = []  # intervals in which the store may have been away from a router that is not strict
        self.lock = threading.Lock()
        self.outcomes = []  # (time, kind, detail)
        self.seed = seed
        self.stopping = False
        self.threads = [
            threading.Thread(target=work, args=(s,), daemon=True)
            for s in subjects
            for work in (self._write_on, self._read_on)
        ]
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.stopping = True
        for thread in self.threads:
            thread.join(timeout=20)

    def count(self, kind):
        return sum(1 for outcome in self.outcomes if outcome[1] == kind)

    def note(self, at, kind, what=""):
        with self.lock:
            self.outcomes.append((at, kind, what))

    def routers(self):
        return [router for router in self.load.routers if self.load.is_ready(router)] or list(
            self.load.routers
        )

    def _write_on(self, subject):
        self.load.hosts.enter(self.load.at)
        chance = random.Random(f"{self.seed} {subject.name}")
        first = ["user", "item"]  # written before the first read
        while not self.stopping:
            kind = first[0] if first else self._choose(subject, chance)
            router = chance.choice(self.routers())
            if kind == "events":
                done = self._append(subject, chance, router)
            else:
                contents = [(h, 0) for h in range(HISTORIES)] if kind == "user" else subject.item_contents()
                done = self._write(subject, kind, chance.choice(contents), router)
            if done:
                if first:
                    first.pop(0)
                for other in self.routers():
                    if other != router and not first:
                        self._read(subject, other, chance.choice(self.asking.plans))
            time.sleep(0.4)

    def _choose(self, subject, chance):
        """Chooses a write. An append of unknown outcome comes first: until then the user's content is
        unknown."""
        if self.appends[subject.name]:
            return "events"
        last = self.last[subject.name]
        may_append = last is not None and last[1][1] < APPENDS
        return chance.choice(("user", "item", "events", "events") if may_append else ("user", "item"))

    def _read_on(self, subject):
        self.load.hosts.enter(self.load.at)
        chance = random.Random(f"{self.seed} reader of {subject.name}")
        while not self.stopping:
            if all(known.floor for known in self.known[subject.name].values()):
                self._read(subject, chance.choice(self.routers()), chance.choice(self.asking.plans))
            time.sleep(0.2)

    def ask(self, router, method, path, body, headers):
        """Returns status and reply; None = there was no answer, which has been noted."""
        sent = time.monotonic()
        try:
            text = None if body is None else json.dumps(body)
            status, text = ask(self.load.hosts.address[router], method, path, text, self.limit, headers)
            return sent, status, json.loads(text)
        except ConnectionRefusedError:
            self.note(sent, "nobody")
        except TimeoutError:
            was_away = self.load._was_away(router, sent)
            self.note(sent, "lost" if was_away else "hung", f"{router}: {method} {path}")
        except (OSError, http.client.HTTPException) as error:
            self.note(sent, "lost", f"{router}: {error}")
        return sent, None, None

    def _write(self, subject, kind, which, router):
        """Writes; items belong to the tenant without a name."""
        known = self.known[subject.name][kind]
        with self.lock:
            entry = known.begin(which)
        if kind == "user":
            self.last[subject.name] = None
        sent, status, reply = self.ask(
            router, *subject.write_of(kind, which), self.headers(subject.tenant if kind == "user" else "")
        )
        gone_already = kind == "item" and which == GONE and status == 404
        if status == 200:
            with self.lock:
                known.acknowledge(entry, reply["version"])
            if kind == "user":
                self.last[subject.name] = (reply["version"], which)
            self.note(sent, "written", kind)
        elif gone_already:
            with self.lock:
                known.open.remove(entry)
            self.note(sent, "gone already")
        elif status:
            self.note(sent, "write refused", f"{status} {reply}")
        return status == 200

    def _append(self, subject, chance, router):
        known = self.known[subject.name]["user"]
        append = self.appends[subject.name]
        if append is None:
            version, (history, appended) = self.last[subject.name]
            with self.lock:
                entry = known.begin((history, appended + 1))
            append = self.appends[subject.name] = Append(entry, f"{subject.name}-{version}", version)
        sent, status, reply = self._send_append(subject, append, router)
        if status == 412:  # an earlier write with unknown outcome came between
            self.appends[subject.name] = self.last[subject.name] = None
            return self.note(sent, "overtaken")
        if status != 200:
            return status and self.note(sent, "write refused", f"{status} {reply}")
        self._note_append(subject, append, sent, reply)
        if chance.random() < 0.3:  # as a client does that lost the answer
            sent, status, again = self._send_append(subject, append, chance.choice(self.routers()))
            if status == 200:
                self._note_repeated(subject, append, sent, reply, again)
        return True

    def _send_append(self, subject, append, router):
        headers = {**self.headers(subject.tenant), "If-Match": f'"{append.version}"'}
        return self.ask(router, *subject.append_of(append.entry[1], append.id), headers)

    def _note_append(self, subject, append, sent, reply):
        content = append.entry[1]
        with self.lock:
            self.known[subject.name]["user"].acknowledge(append.entry, reply["version"])
        self.last[subject.name], self.appends[subject.name] = (reply["version"], content), None
        events = len(subject.history_of(content))
        if reply["appended"] + reply["repeated"] != 1 or reply["events"] != events:
            return self.note(sent, "doubled", f"{subject.name}: one event, {reply}; expected {events} events")
        self.note(sent, "appended")

    def _note_repeated(self, subject, append, sent, first, again):
        if again["appended"] or again["events"] != first["events"] or again["version"] != first["version"]:
            return self.note(
                sent,
                "doubled",
                f"{subject.name}: {append.id} was answered with {first}, and again with {again}",
            )
        self.note(sent, "repeated")

    def _read(self, subject, router, plan):
        with self.lock:
            floors = {kind: known.floor for kind, known in self.known[subject.name].items()}
        name = random.choice((self.asking.with_plan, self.asking.with_arrangement))
        body = name(subject.request, plan)
        sent, status, reply = self.ask(router, "POST", self.asking.path, body, self.headers(subject.tenant))
        if status is None:
            return
        if status != 200:
            return self.note(sent, "refused", f"{status} {reply}")
        if other := self.asking.find_other_arrangement(body, reply):
            return self.note(sent, "rearranged", f"{router}: {subject.name}: {other}")
        self.note(sent, *self._judge(subject, router, sent, floors, reply))

    def _judge(self, subject, router, sent, floors, reply):
        profile, catalog = reply["profile_version"], int(reply["catalog_version"][1:])
        known = self.known[subject.name]
        with self.lock:
            histories, contents = known["user"].exactly(profile), known["item"].as_of(catalog)
            fits = [
                (h, c)
                for h in histories
                for c in contents
                if (right := subject.right.get((h, c, self.asking.truth_of(reply))))
                is not None  # else no node serves this version
                and not find_fault(reply, right, self.asking.tolerance)
            ]
            if fits and profile not in known["user"].by_version:
                known["user"].by_version[profile] = fits[0][0]
        if not fits:
            return "mixed", (
                f"{router}: profile {profile} of {sorted(histories)}, catalog {catalog} of "
                f"{sorted(contents)} for {subject.name}; the answer is {self._resemblance(subject, reply)}"
            )
        if profile >= floors["user"] and catalog >= floors["item"]:
            return "right", ""
        if router not in self.strict and self.may_be_old(sent):
            return "last known", ""
        return "older", (
            f"{router}: profile {profile}, catalog {catalog} for {subject.name}, acknowledged before it was "
            f"asked: {floors['user']}, {floors['item']}"
        )

    def may_be_old(self, sent):
        was_away = any(since <= sent and (until is None or sent < until + 2) for since, until in self.away)
        return was_away or self.load.starved(sent - 2, sent + 1)

    def _resemblance(self, subject, reply):
        return [
            (h, c)
            for (h, c, truth), right in subject.right.items()
            if truth == self.asking.truth_of(reply) and not find_fault(reply, right, self.asking.tolerance)
        ] or "of no content that was written"
