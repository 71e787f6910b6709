"""Runs a cluster of real processes that is changed while clients ask it.

Two fronts (routers and cache-metas), workers, a Redis and an etcd serve the demo's ranker. Clients ask at
both fronts at a steady rate. Each answer must be that of a single node.
"""
import collections
import contextlib
import http.client
import itertools
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent / part) for part in ("bench", "linearizability", "chaos")]
import loopback
from asking import find_fault
from cluster import Redis
from stores import until

DEMO = HERE.parent.parent / "deploy" / "demo"
FRONTS = ("front-1", "front-2")
USERS, CLIENTS, SKIPPED = 60, 6, 77
IDLE_S = 2  # the server closes connections that are idle for long
POLICIES = ("item", "user")


def demo_requests():
    with open(DEMO / "world" / "requests.jsonl") as file:
        return [
            {key: json.loads(line)[key] for key in ("user", "candidates")}
            for line, _ in zip(file, range(USERS))
        ]


class Truth:
    """The answers of single nodes that serve one version each, by version, user and plan."""

    def __init__(self, troupe, directories, folder, requests):
        self.answers, self.versions = {}, []
        for number, directory in enumerate(directories):
            data = f"{folder}/box-{number}"
            loopback.run(troupe, "import", "--model", directory, "--data-dir", data, "--data", DEMO / "world")
            port = loopback.free_ports(1)[0]
            node = subprocess.Popen(
                [
                    troupe,
                    "serve",
                    "--model",
                    directory,
                    "--data-dir",
                    data,
                    "--port",
                    str(port),
                    "--set",
                    "pool.precompute_items=false",
                ],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            try:
                until(
                    "the node is ready",
                    lambda: loopback.ask(port, "GET", "/v2/health/ready")[0] == 200,
                    limit=60,
                )
                self._learn(port, requests)
            finally:
                node.terminate()
                node.wait()

    def _learn(self, port, requests):
        for request, policy in itertools.product(requests, POLICIES):
            reply = self._ask(port, {**request, "policy": policy})
            self.answers[reply["model_version"], request["user"], reply["plan"]] = {
                i["id"]: i["score"] for i in reply["items"]
            }
        self.versions.append(reply["model_version"])

    @staticmethod
    def _ask(port, request):
        """Returns the answer; a machine that is busy with other things may take several attempts."""
        for _ in range(10):
            status, text = loopback.ask(port, "POST", "/v1/rank", request, limit=20)
            if status == 200:
                return json.loads(text)
            time.sleep(1)
        raise RuntimeError(f"a single node answers {status}: {text}")

    def fault(self, user, reply):
        right = self.answers.get((reply["model_version"], user, reply["plan"]))
        return (
            find_fault(reply, right) if right else f"version {reply['model_version']}, plan {reply['plan']}"
        )


def is_closed(link):
    """Returns whether the server has closed an idle connection, such as one that has restarted."""
    return link.sock is not None and bool(select.select([link.sock], [], [], 0)[0])


class Client(threading.Thread):
    """Sends its share of the requests at a steady rate, alternating between the load's fronts."""

    def __init__(self, load, number):
        super().__init__(daemon=True)
        self.load, self.number, self.links = load, number, {}
        self.start()

    def run(self):
        for turn in itertools.count(self.number, CLIENTS):
            if self.load.stopping:
                return
            time.sleep(max(0.0, self.load.began + turn / self.load.rate - time.monotonic()))
            self._ask(turn)

    def _ask(self, turn):
        request = self.load.requests[turn // 2 % len(self.load.requests)]
        fronts = self.load.fronts
        front, policy = (
            fronts[turn % len(fronts)],
            POLICIES[(turn // 2 + turn // (2 * len(self.load.requests))) % 2],
        )
        sent = time.monotonic()
        try:
            link, used = self.links.get(front, (None, 0))
            if link is None or sent - used > IDLE_S or is_closed(link):
                link = http.client.HTTPConnection(loopback.ADDRESS, self.load.http_port[front], timeout=5)
            self.links[front] = link, sent
            link.request("POST", "/v1/rank", json.dumps({**request, "policy": policy}))
            answer = link.getresponse()
            status, reply = answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException) as error:
            self.links.pop(front, None)
            return self.load.note(sent, "lost", request["user"], front, f"{type(error).__name__}: {error}")
        if status != 200:
            return self.load.note(
                sent,
                "refused",
                request["user"],
                front,
                f"{status} {reply['error']['code']}: {reply['error']['message']}",
            )
        fault = self.load.truth.fault(request["user"], reply)
        self.load.note(
            sent, "wrong" if fault else "ok", request["user"], front, fault or reply["model_version"]
        )


class Load:
    def __init__(self, truth, requests, http_port, rate):
        self.truth, self.requests, self.http_port, self.rate = truth, requests, http_port, rate
        self.outcomes, self.lock, self.stopping = [], threading.Lock(), False
        self.fronts = FRONTS
        self.began = time.monotonic() + 0.2
        self.clients = [Client(self, number) for number in range(CLIENTS)]

    def note(self, sent, *what):
        with self.lock:
            self.outcomes.append((sent, time.monotonic() - sent, *what))

    def between(self, since, until):
        """Returns (time, seconds, kind, user, front, detail) of each request in this interval."""
        with self.lock:
            return [outcome for outcome in self.outcomes if since <= outcome[0] < until]

    def stop(self):
        self.stopping = True
        for client in self.clients:
            client.join(timeout=10)


def percentile(outcomes, share):
    took = sorted(outcome[1] for outcome in outcomes if outcome[2] == "ok")
    return 1e3 * took[int(len(took) * share)] if took else 0.0


def judge(what, outcomes, faults, lossless):
    counts = collections.Counter(outcome[2] for outcome in outcomes)
    print(
        f"{what}: {dict(counts)}, P50 {percentile(outcomes, 0.5):.1f} ms, P99 "
        f"{percentile(outcomes, 0.99):.1f} ms"
    )
    for kind in ("wrong", *(("refused", "lost") if lossless else ())):
        bad = [outcome for outcome in outcomes if outcome[2] == kind]
        if bad:
            faults.append(f"{what}: {len(bad)} {kind}: {bad[0][3:]}")
    untyped = [
        o for o in outcomes if o[2] == "refused" and not o[5].startswith(("429", "503", "504", "422 poison"))
    ]
    if untyped:
        faults.append(f"{what}: refusals of an undocumented kind: {untyped[0][5]}")
    return counts


@contextlib.contextmanager
def served(options, folder, settings_of):
    """Creates a cluster, not started yet; `settings_of` maps its Redis to its settings. Removes it
    afterwards."""
    redis = Redis(folder)
    cluster = loopback.Cluster(options.troupe, folder, options.workers, settings_of(redis), FRONTS)
    try:
        yield cluster
    finally:
        cluster.end()
        redis.end()


@contextlib.contextmanager
def asked(cluster, truth, requests, rate):
    cluster.up(DEMO / "world")
    load = Load(truth, requests, cluster.http_port, rate)
    try:
        yield load
        load.stop()
    finally:
        load.stopping = True


def main(parser, run):
    """Parses options, sets up a folder, and calls `run(options, folder)`, which returns (measurements,
    faults)."""
    parser.add_argument("--troupe", required=True, type=os.path.abspath)
    parser.add_argument("--rate", type=float, default=60, help="requests per second")
    parser.add_argument("--json", help="write what was measured here")
    parser.add_argument("--folder", help="keep logs here")
    options = parser.parse_args()
    lacks = [program for program in ("etcd", "redis-server") if not shutil.which(program)]
    if lacks:
        print("skipped: no", lacks[0])
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix=f"troupe-{pathlib.Path(sys.argv[0]).stem}-") as folder:
        if options.folder:
            os.makedirs(folder := options.folder)
        found, faults = run(options, folder)
    if options.json:
        pathlib.Path(options.json).write_text(
            json.dumps(
                {"workers": options.workers, "rate": options.rate, **found, "faults": faults}, indent=1
            )
            + "\n"
        )
    for fault in faults:
        print(fault)
    return 1 if faults else 0
