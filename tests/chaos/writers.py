"""Clients that write while others read. Each has a user and an item of its own, writes one or the other through one
router, and asks through all, all the time. Each content of the user with each content of the item was asked for before of
a box that nothing happened to, so an answer shows which contents it was made of. Judged by version: what was
acknowledged is what every router serves next; never older, never a mix, never what nobody wrote (promise 4)."""
import http.client
import json
import random
import threading
import time

from asking import Ranking, find_fault
from load import ask

HISTORIES, CONTENTS = 4, 3
FORGOTTEN = 60.0  # seconds after which a write without an outcome is lost for good


class Subject:
    """One user, one item, and all that may be asked about them."""

    def __init__(self, number, requests, vocabulary, asking, attempt=0):
        self.asking = asking
        chance = random.Random(number + 1000 * attempt)
        items = requests[number]["candidates"]
        self.user, self.item = f"writer-{number}", f"written-{number}"
        self.histories = [chance.sample(items, 6) for _ in range(HISTORIES)]
        codes = {level: [vocabulary[f"<{level}_{code}>"] for code in range(20) if f"<{level}_{code}>" in vocabulary]
                 for level in "abc"}
        self.contents = [[chance.choice(codes[level]) for level in "abc"] for _ in range(CONTENTS)]
        self.identifier = vocabulary[f"<item_{number}>"]
        self.request = asking.request_of(self.user, [*items[:8], self.item])
        self.right = {}  # by history, content and plan

    def write_of(self, kind, which):
        """Path and body."""
        if kind == "user":
            return f"/v1/users/{self.user}{self.asking.routes}", {"history": self.histories[which]}
        return f"/v1/items/{self.item}{self.asking.routes}", {"title": f"content {which}", "tokens": self.contents[which],
                                          "identifier": self.identifier}

    @staticmethod
    def told_apart(number, requests, vocabulary, asking, box):
        """One whose contents each give other answers."""
        for attempt in range(20):
            subject = Subject(number, requests, vocabulary, asking, attempt)
            if subject.learn(box):
                return subject
        raise RuntimeError(f"writer-{number}: two contents give the same answers: nothing could be judged")

    def learn(self, box):
        """False if two contents give the same answers."""
        for content in range(CONTENTS):
            box.ask("PUT", *self.write_of("item", content))
            for history in range(HISTORIES):
                box.ask("PUT", *self.write_of("user", history))
                for plan in self.asking.plans:
                    self.right[history, content, plan] = self.asking.scores(box, self.request, plan)
        for plan in self.asking.plans:
            answers = [self.right[h, c, plan] for h in range(HISTORIES) for c in range(CONTENTS)]
            for i, one in enumerate(answers):
                for other in answers[:i]:
                    apart = max(abs(one[item] - other[item]) / max(1, abs(one[item])) for item in one)
                    if apart < 4 * self.asking.tolerance:
                        return False
        return True


class Known:
    """What is known of the versions of one user, or of one item."""

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


class Writers:
    asking = Ranking()

    def __init__(self, load, subjects, limit, strict, seed=1):
        """`strict`: routers that refuse when their store is away; the others may then answer from what they know."""
        self.load, self.subjects, self.limit, self.strict = load, subjects, limit, strict
        self.asking = load.asking
        self.known = {s.user: {"user": Known(), "item": Known()} for s in subjects}
        self.away = []  # [since, until]: when the store may have been away for a router that is not strict
        self.lock = threading.Lock()
        self.outcomes = []  # (when, kind, what)
        self.seed = seed
        self.stopping = False
        self.threads = [threading.Thread(target=work, args=(s,), daemon=True) for s in subjects
                        for work in (self._write_on, self._read_on)]
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.stopping = True
        for thread in self.threads:
            thread.join(timeout=20)

    def count(self, kind):
        return sum(1 for outcome in self.outcomes if outcome[1] == kind)

    def _note(self, at, kind, what=""):
        with self.lock:
            self.outcomes.append((at, kind, what))

    def _routers(self):
        return [router for router in self.load.routers if self.load.ready[router]] or list(self.load.routers)

    def _write_on(self, subject):
        self.load.hosts.enter(self.load.at)
        chance = random.Random(f"{self.seed} {subject.user}")
        first = ["user", "item"]  # before anybody asks
        while not self.stopping:
            kind = first[0] if first else chance.choice(("user", "item"))
            count = HISTORIES if kind == "user" else CONTENTS
            router = chance.choice(self._routers())
            if self._write(subject, kind, chance.randrange(count), router):
                if first:
                    first.pop(0)
                for other in self._routers():
                    if other != router and not first:
                        self._read(subject, other, chance.choice(self.asking.plans))
            time.sleep(0.4)

    def _read_on(self, subject):
        self.load.hosts.enter(self.load.at)
        chance = random.Random(f"{self.seed} reader of {subject.user}")
        while not self.stopping:
            if all(known.floor for known in self.known[subject.user].values()):
                self._read(subject, chance.choice(self._routers()), chance.choice(self.asking.plans))
            time.sleep(0.2)

    def _ask(self, router, method, path, body):
        """Status and reply; none: there was no answer, and that was noted."""
        sent = time.monotonic()
        try:
            status, text = ask(self.load.hosts.address[router], method, path, json.dumps(body), self.limit)
            return sent, status, json.loads(text)
        except ConnectionRefusedError:
            self._note(sent, "nobody")
        except TimeoutError:
            was_away = self.load._was_away(router, sent)
            self._note(sent, "lost" if was_away else "hung", f"{router}: {method} {path}")
        except (OSError, http.client.HTTPException) as error:
            self._note(sent, "lost", f"{router}: {error}")
        return sent, None, None

    def _write(self, subject, kind, which, router):
        known = self.known[subject.user][kind]
        with self.lock:
            entry = known.begin(which)
        sent, status, reply = self._ask(router, "PUT", *subject.write_of(kind, which))
        if status == 200:
            with self.lock:
                known.acknowledge(entry, reply["version"])
            self._note(sent, "written", kind)
        elif status:
            self._note(sent, "write refused", f"{status} {reply}")
        return status == 200

    def _read(self, subject, router, plan):
        with self.lock:
            floors = {kind: known.floor for kind, known in self.known[subject.user].items()}
        sent, status, reply = self._ask(router, "POST", self.asking.path, self.asking.with_plan(subject.request, plan))
        if status is None:
            return
        if status != 200:
            return self._note(sent, "refused", f"{status} {reply}")
        self._note(sent, *self._judge(subject, router, sent, floors, reply))

    def _judge(self, subject, router, sent, floors, reply):
        profile, catalog = reply["profile_version"], int(reply["catalog_version"][1:])
        known = self.known[subject.user]
        with self.lock:
            histories, contents = known["user"].exactly(profile), known["item"].as_of(catalog)
            fits = [(h, c) for h in histories for c in contents
                    if not find_fault(reply, subject.right[h, c, self.asking.plan_of(reply)], self.asking.tolerance)]
            if fits and profile not in known["user"].by_version:
                known["user"].by_version[profile] = fits[0][0]
        if not fits:
            return "mixed", (f"{router}: profile {profile} of {sorted(histories)}, catalog {catalog} of "
                             f"{sorted(contents)} for {subject.user}; it is {self._resemblance(subject, reply)}")
        if profile >= floors["user"] and catalog >= floors["item"]:
            return "right", ""
        if router not in self.strict and self._may_be_old(sent):
            return "last known", ""
        return "older", (f"{router}: profile {profile}, catalog {catalog} for {subject.user}, acknowledged before it was "
                         f"asked: {floors['user']}, {floors['item']}")

    def _may_be_old(self, sent):
        was_away = any(since <= sent and (until is None or sent < until + 2) for since, until in self.away)
        return was_away or self.load.starved(sent - 2, sent + 1)

    def _resemblance(self, subject, reply):
        return [(h, c) for (h, c, plan), right in subject.right.items()
                if plan == self.asking.plan_of(reply) and not find_fault(reply, right, self.asking.tolerance)] or "of no content that was ever written"
