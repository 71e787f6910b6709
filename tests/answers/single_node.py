"""Compares one node's answers with the plain computation, while its cache is cold, warm, lost and too small.
"""
import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request

from compared import Compared

UP_WITHIN_S = 60
EVICTING_MIN = 10  # requests with different users, so that something is evicted
PLENTY, SCARCE = "pool.memory=256MiB", "pool.memory=1MiB"
# Writes wait for the disk, which other tests use, too.
PATIENT = ["router.deadline=20s", "router.deadline_max=40s"]


class Node:
    def __init__(self, troupe, folder, world):
        self.troupe, self.folder, self.settings = troupe, folder, [PLENTY, *PATIENT]
        if world.form_file:
            self.settings.append(f"model.prompt={world.form_file}")
        self.common = ["--model", world.directory, "--data-dir", os.path.join(folder, "data")]
        subprocess.run(
            [troupe, "import", *self.common, "--data", world.data], check=True, capture_output=True
        )
        self.start()

    def start(self):
        port, log = os.path.join(self.folder, "port"), open(os.path.join(self.folder, "log"), "a")
        if os.path.exists(port):
            os.remove(port)
        options = [word for setting in self.settings for word in ("--set", setting)]
        self.process = subprocess.Popen(
            [self.troupe, "serve", *self.common, "--port", "0", "--port-file", port, *options],
            stdout=log,
            stderr=log,
        )
        try:
            self.wait_until_ready(port, log.name)
        except BaseException:
            self.kill()
            raise

    def wait_until_ready(self, port, log):
        end = time.monotonic() + UP_WITHIN_S
        while not os.path.exists(port) or not open(port).read().strip():
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError("the node did not start: " + open(log).read()[-500:])
            time.sleep(0.05)
        self.url = "http://127.0.0.1:" + open(port).read().strip()
        while self.ask("GET", "/v2/health/ready")[0] != 200:
            if time.monotonic() > end:
                raise RuntimeError("the node is not ready")
            time.sleep(0.05)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(
                urllib.request.Request(self.url + path, data, method=method), timeout=60
            ) as reply:
                return reply.status, json.loads(reply.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def evicted(self):
        """Returns the number of blocks that were evicted since the start."""
        with urllib.request.urlopen(self.url + "/metrics", timeout=60) as reply:
            lines = reply.read().decode().splitlines()
        return sum(
            float(line.split()[-1]) for line in lines if line.startswith("troupe_blocks_evicted_total")
        )

    def put(self, user, history):
        status, reply = self.ask("PUT", f"/v1/users/{user}", {"history": [str(item) for item in history]})
        assert status == 200, reply

    def rank(self, user, candidates, **members):
        body = {"user": str(user), "candidates": [str(item) for item in candidates], **members}
        status, reply = self.ask("POST", "/v1/rank", body)
        assert status == 200, (status, reply)
        return reply


def check_golden(node, world, name, compared):
    """Requests what the model's authors computed: by default, and under each declared arrangement that the
    golden file has, once computed and once reused."""
    golden = {}
    for user, history, candidates, arrangement, scores in world.golden():
        if user not in golden:
            node.put(user, history)
        golden.setdefault(user, (candidates, {}))[1][arrangement] = scores
    for user, (candidates, scores) in golden.items():
        several = len(world.arrangements) > 1
        for named in ["", *(each for each in world.arrangements if several and each in scores)]:
            if not named and not set(world.served) <= set(scores):
                continue
            for state in ("computed", "reused"):
                reply = node.rank(user, candidates, **({"arrangement": named} if named else {}))
                what = f"user {user}, {named or 'default'}, {state}"
                kind = f"golden {name}, {named or 'default'}"
                compared.reply(kind, reply, candidates, world.allowed(named), scores.get, what)
                if state == "reused" and not reply["tokens_reused"]:
                    compared.faults.append(f"{kind}: {what}: nothing was reused")


def check_many(node, world, compared, requests, kind, users=0):
    """`users`: number of users that requests are drawn for; 0 = few, so that they return."""
    users, reused = users or max(4, requests // 8), 0
    for number in range(requests):
        user = f"r{world.random.randrange(users)}"
        if user not in world.users:
            node.put(user, world.history(user))
        candidates, named, members = world.draw()
        reply = node.rank(user, candidates, **members)
        expected = lambda served: world.expected(world.users[user], candidates, served)
        what = f"request {number}, {members or 'default'}"
        compared.reply(kind, reply, candidates, world.allowed(named), expected, what)
        reused += reply["tokens_reused"]
    if not reused:
        compared.faults.append(f"{kind}: nothing was reused in {requests} requests")


def check_node(troupe, folder, world, name, requests):
    """Returns what was compared in four states of the cache, a quarter of the requests in each."""
    compared, each = Compared(), max(1, requests // 4)
    node = Node(troupe, folder, world)
    try:
        check_golden(node, world, name, compared)
        check_many(node, world, compared, each, f"{name}, cold")
        check_many(node, world, compared, each, f"{name}, warm")
        node.kill()
        node.start()
        check_many(node, world, compared, each, f"{name}, restarted")
        node.close()
        node.settings[0] = SCARCE
        node.start()
        each = max(each, EVICTING_MIN)
        check_many(node, world, compared, each, f"{name}, evicting", users=2 * each)
        if not node.evicted():
            compared.faults.append(f"{name}, evicting: nothing was evicted")
    finally:
        if node.process.poll() is None:
            node.close()
    return compared
