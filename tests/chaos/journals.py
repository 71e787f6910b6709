"""Clients that only append, as shops send clicks. Each event has an id, is sent again through any router
until it is answered, and is read back through all routers. A journal must have each answered event once
and in order, whatever
was lost on the way. No key may open another tenant's journal (promise 14)."""
import itertools
import random
import threading
import time

USER = "journal"  # the user of each tenant
PAUSE = 0.15
OLD = "the newest event is"
STRANGER = "tk-000000000000-" + "0" * 64


def find_fault(ids, least, most):
    """Checks these event ids: those below `least` were answered, those below `most` were sent. Returns
    the fault."""
    numbers = [int(id.rsplit("-", 1)[1]) for id in ids]
    if not numbers:
        return "" if least == 0 else f"no events, though {least} were answered"
    if numbers != list(range(numbers[0], numbers[-1] + 1)):
        return f"events are doubled, lost or in another order: {numbers[-20:]}"
    if not least - 1 <= numbers[-1] < most:
        return f"{OLD} {numbers[-1]}; expected {least - 1}..{most - 1}"
    return ""


class Journal:
    def __init__(self, writers, tenant, requests):
        self.writers, self.tenant, self.load = writers, tenant, writers.load
        self.items = [item for request in requests for item in request["candidates"]]
        self.answered = self.sent = 0  # events
        self.routes = writers.asking.routes
        self.stopping = False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def stop(self):
        self.stopping = True
        self.thread.join(timeout=20)

    def _run(self):
        self.load.hosts.enter(self.load.at)
        chance = random.Random(self.tenant)
        for turn in itertools.count():
            if self.stopping:
                return
            self._append(chance.choice(self.writers.routers()))
            if turn % 4 == 1:
                self._read_back(chance.choice(self.writers.routers()))
            if turn % 16 == 7:
                self._try_the_lock(chance.choice(self.writers.routers()))
            time.sleep(PAUSE)

    def _ask(self, router, method, path, body=None, **headers):
        return self.writers.ask(
            router, method, path + self.routes, body, {**self.writers.headers(self.tenant), **headers}
        )

    def _append(self, router):
        self.sent = self.answered + 1
        event = {"id": f"{self.tenant}-{self.answered}", "item": self.items[self.answered % len(self.items)]}
        sent, status, reply = self._ask(router, "POST", f"/v1/users/{USER}/events", {"events": [event]})
        if status == 200:
            self.answered += 1
            self.writers.note(sent, "journal")
        elif status:
            self.writers.note(sent, "write refused", f"{status} {reply}")

    def _read_back(self, router):
        least = self.answered
        sent, status, reply = self._ask(router, "GET", f"/v1/users/{USER}")
        if status == 200:
            fault = find_fault(reply["event_ids"], least, self.sent)
            may_be_old = (
                fault.startswith(OLD) and router not in self.writers.strict and self.writers.may_be_old(sent)
            )
            kind = "last known" if may_be_old else "journal wrong" if fault else "journal right"
            self.writers.note(sent, kind, f"{router}: {self.tenant}: {fault}")
        elif status and (status != 404 or least):
            self.writers.note(sent, "refused", f"{status} {reply}")

    def _try_the_lock(self, router):
        """Tries the name of another tenant, an invalid key, and no key."""
        for expected, headers in (
            ("not_your_tenant", {"x-troupe-tenant": "another"}),
            ("bad_key", {"authorization": f"Bearer {STRANGER}"}),
            ("no_key", {"authorization": ""}),
        ):
            sent, status, reply = self._ask(router, "GET", f"/v1/users/{USER}", **headers)
            if status is None:
                continue
            code = reply.get("error", {}).get("code", "")
            self.writers.note(
                sent, "kept out" if code == expected else "let in", f"{router}: {headers}: {status} {reply}"
            )
