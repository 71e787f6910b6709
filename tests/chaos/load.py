"""A client that asks at a steady rate, at any router that a load balancer would choose, and compares each
answer with
that of an undisturbed node."""
import collections
import http.client
import itertools
import json
import threading
import time

CONNECT_LIMIT = 0.3  # seconds that a load balancer waits


def ask(address, method, path, body, limit, headers=None):
    connection = http.client.HTTPConnection(address, 8080, timeout=CONNECT_LIMIT)
    try:
        connection.connect()
    except OSError as error:
        connection.close()
        raise ConnectionRefusedError(str(error)) from error
    connection.sock.settimeout(limit)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


class Node:
    """The reference node, which is never disturbed."""

    def __init__(self, address, port):
        self.address, self.port = address, port

    def ask(self, method, path, body):
        connection = http.client.HTTPConnection(self.address, self.port, timeout=20)
        connection.request(method, path, None if body is None else json.dumps(body))
        answer = connection.getresponse()
        reply = json.loads(answer.read())
        connection.close()
        if answer.status != 200:
            raise RuntimeError(f"the reference node answers {answer.status}: {reply}")
        return reply


class Load:
    """Sends requests and notes outcomes: (time sent, kind, detail, seconds, router).

    Kinds: ok, wrong, refused (a typed error), lost (with the connection), nobody (no router is ready), hung.
    """

    def __init__(
        self, hosts, at, nodes, routers, requests, asking, rate, deadline, grace, threads=12, headers=None
    ):
        """`headers`: those of all requests."""
        self.hosts, self.at, self.routers, self.headers = hosts, at, routers, headers or {}
        self.requests, self.asking = requests, asking  # `asking` knows the right answers
        self.rate, self.deadline, self.grace = rate, deadline, grace
        self.outcomes, self.lock = [], threading.Lock()
        self.ready = dict.fromkeys(nodes, True)
        self.why_not = dict.fromkeys(nodes, "")  # reason, from a node that says that it is not ready
        self.insisted = set()  # routers that get requests though they say that they are not ready
        self.away = {}  # router: the interval in which clients cannot reach it
        self.stopping = False
        self.count = itertools.count()
        self.began = time.monotonic() + 1.0  # by then readiness is known
        self.threads = [threading.Thread(target=self._ask_on, daemon=True) for _ in range(threads)]
        self.checks = {
            name: threading.Thread(target=self._check, args=(name,), daemon=True) for name in nodes
        }
        self.lags = []  # (time, delay of this process): measures the machine
        self.threads.append(threading.Thread(target=self._feel_lag, daemon=True))
        for thread in (*self.threads, *self.checks.values()):
            thread.start()

    def stop(self):
        self.stopping = True
        for thread in (*self.threads, *self.checks.values()):
            thread.join(timeout=20)

    def add_router(self, name):
        """Adds a router that joined."""
        self.ready[name], self.why_not[name] = True, ""
        self.checks[name] = threading.Thread(target=self._check, args=(name,), daemon=True)
        self.checks[name].start()
        self.routers = [*self.routers, name]

    def remove_router(self, name):
        """Removes a router that will leave; returns when it has answered all requests."""
        self.routers = [router for router in self.routers if router != name]
        time.sleep(self.deadline)
        self.checks.pop(name).join(timeout=20)
        self.ready.pop(name)
        self.why_not.pop(name)
        self.away.pop(name, None)

    def lately(self, seconds=3.0):
        """Returns how many requests each node ran in the last seconds, by node number."""
        since = time.monotonic() - seconds
        with self.lock:
            lately = [o for o in self.outcomes[-1000:] if o[1] == "ok" and o[0] > since]
        return collections.Counter(int(o[2].split()[-1]) for o in lately)

    def busiest(self, nodes):
        """Returns the number of the node among the first `nodes` that ran most requests lately; 0 = none
        did."""
        ran_at = collections.Counter({node: count for node, count in self.lately().items() if node <= nodes})
        return ran_at.most_common(1)[0][0] if ran_at else 0

    def ran_at(self, node):
        return self.lately()[node]

    def asked_at(self, router, since):
        """Returns how many requests it answered that were sent since then."""
        with self.lock:
            return sum(1 for o in self.outcomes if o[1] == "ok" and o[4] == router and o[0] >= since)

    def _feel_lag(self):
        while not self.stopping:
            before = time.monotonic()
            time.sleep(0.02)
            self.lags.append((before, time.monotonic() - before - 0.02))

    def starved(self, since, until):
        """Returns whether the machine gave this process no time for more than a twentieth of that
        interval."""
        late = sum(lag for at, lag in self.lags if since <= at < until and lag > 0.1)
        return late > 0.05 * (until - since)

    def _check(self, name):
        self.hosts.enter(self.at)
        while not self.stopping and name in self.checks:
            try:
                status, text = ask(self.hosts.address[name], "GET", "/v2/health/ready", None, 0.5)
                self.why_not[name] = "" if status == 200 else text.decode()
                self.ready[name] = status == 200
            except (OSError, http.client.HTTPException) as error:
                self.why_not[name] = f"no answer: {error}"
                self.ready[name] = False
            time.sleep(0.1 if name in self.routers else 0.4)

    def wait_until_ready(self, limit):
        """Waits until all nodes are ready; returns the seconds, or None if it did not happen."""
        began = time.monotonic()
        time.sleep(0.5)  # an older answer about readiness may still be in flight
        while not all(self.ready.values()):
            if time.monotonic() > began + limit:
                return None
            time.sleep(0.05)
        return time.monotonic() - began

    def not_ready(self):
        """Returns the nodes that are not ready, with their reasons."""
        return {name: self.why_not[name] for name, ready in self.ready.items() if not ready}

    def _ask_on(self):
        self.hosts.enter(self.at)
        while not self.stopping:
            number = next(self.count)
            due = self.began + number / self.rate
            time.sleep(max(0, due - time.monotonic()))
            turn, which = divmod(number, len(self.requests))
            request = self.requests[which]
            sent = time.monotonic()
            kind, what, router = self._outcome(number, request, turn + which, sent)
            with self.lock:
                self.outcomes.append((sent, kind, what, time.monotonic() - sent, router))

    def _was_away(self, router, sent):
        since, until = self.away.get(router, (None, None))
        return since is not None and (until is None or until > sent)

    def _order(self, number):
        """Returns the routers in rotation; those that are not ready come last, unless insisted on."""
        routers = self.routers
        turn = (number + number // len(self.requests)) % len(routers)
        order = routers[turn:] + routers[:turn]
        return sorted(
            order, key=lambda router: router not in self.insisted and not self.is_ready(router)
        )  # a stable sort

    def is_ready(self, name):
        return self.ready.get(name, False)

    def _outcome(self, number, request, turn, sent):
        limit = self.deadline + self.grace
        body = json.dumps({**self.asking.body(request, turn), "budget_us": int(self.deadline * 1e6)})
        for router in self._order(number):
            try:
                status, text = ask(
                    self.hosts.address[router],
                    "POST",
                    self.asking.path_of(request),
                    body,
                    limit,
                    self.headers,
                )
            except ConnectionRefusedError:
                if router in self.ready:
                    self.ready[router] = False
                continue  # nothing was sent; try the next router
            except TimeoutError:
                if self._was_away(router, sent):
                    return "lost", f"{router} could not be reached", router
                return "hung", f"no outcome from {router} in {limit} s", router
            except (OSError, http.client.HTTPException) as error:
                return "lost", f"{router}: {error}", router
            reply = json.loads(text)
            if status != 200:
                return "refused", f"{status} {text.decode()[:300]}", router
            fault = self.asking.fault(request, turn, reply)
            return (
                ("wrong", fault, router)
                if fault
                else ("ok", f"{self.asking.told(request, reply)} at {reply['node']}", router)
            )
        return "nobody", "no router takes a connection", ""
