#!/usr/bin/env python3
"""Checks that a node answers what the user's own model answers, whatever the node has cached.

  tests/answers/answers.py --troupe build/deploy/troupe [--requests 20000] [--json FILE]

Serves tiny-ranker-games twice. As its directory is, it declares no arrangement, so each default answer
must be that of the plain causal prompt. With a form that declares three arrangements, each answer must be
that of the arrangement that its reply names, and of the one that the request names.

Golden scores (float64, computed by the model's authors) are compared first. Random requests of 2 to 100
candidates are then compared with a computation of this folder (plain_model.py), while the node is cold
and warm, while its pool is too small for the blocks of all users, and after it was killed and started
again. Exit status 1 on any difference; 77 if the model is not beside the checkout.
"""
import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
SHARED = os.path.join(HERE, "../../../shared")
MODEL, DATA = os.path.join(SHARED, "models/tiny-ranker-games"), os.path.join(SHARED, "data/amazon-games")
FORM = os.path.join(HERE, "../forms/games.json")
TOLERANCE, SKIPPED, UP_WITHIN_S = 1e-4, 77, 60
GOLDEN = {"causal": "causal", "user_first": "up", "item_first": "ip"}
INTERCHANGEABLE = json.load(open(FORM))["interchangeable"]
EVENTS_MAX = 60  # of the histories in the evaluation file


class Node:
    def __init__(self, troupe, folder, settings=(), form=None):
        self.troupe, self.folder, self.settings = troupe, folder, list(settings)
        if form:
            self.settings.append(f"model.prompt={form}")
        self.common = ["--model", MODEL, "--data-dir", os.path.join(folder, "data")]
        if not os.path.exists(os.path.join(folder, "data")):
            subprocess.run([troupe, "import", *self.common, "--data", DATA], check=True, capture_output=True)
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
        end = time.monotonic() + UP_WITHIN_S
        while not os.path.exists(port) or not open(port).read().strip():
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError("the node did not start: " + open(log.name).read()[-500:])
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
        self.process.wait(60)

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
        return reply, {item["id"]: item["score"] for item in reply["items"]}


def largest_difference(scores, candidates, expected):
    off = [abs(scores[str(item)] - score) for item, score in zip(candidates, expected)]
    return max(off) if all(one < float("inf") for one in off) else float("inf")  # also for NaN


class Check:
    def __init__(self):
        self.compared, self.largest, self.faults = {}, {}, []

    def add(self, kind, off, what):
        self.compared[kind] = self.compared.get(kind, 0) + 1
        self.largest[kind] = max(self.largest.get(kind, 0.0), off)
        if not off < TOLERANCE:
            self.faults.append(f"{kind}: {what}: scores differ by {off:.6f}")

    def served(self, kind, served, named, declares, what):
        """Checks the arrangement of a reply: the named one, or one that the form serves without a name."""
        allowed = [named] if named else INTERCHANGEABLE if declares else ["causal"]
        if served not in allowed:
            self.faults.append(f"{kind}: {what}; expected {' or '.join(allowed)}")


def check_golden(node, golden, check, declares):
    """Asks for the golden requests: the default answer, and every declared arrangement by its name."""
    for request in golden:
        node.put(request["user_id"], request["history"])
    for request in golden:
        for named in ["", *GOLDEN] if declares else [""]:
            for state in ("computed", "reused"):
                members = {"arrangement": named} if named else {}
                reply, scores = node.rank(request["user_id"], request["candidates"], **members)
                served = reply["arrangement"]
                what = f"user {request['user_id']}, {named or 'default'}, {state}, served {served}"
                check.served("golden", served, named, declares, what)
                if state == "reused" and not reply["tokens_reused"]:
                    check.faults.append(f"golden: {what}: nothing was reused")
                expected = request["plans"][GOLDEN[served]]["logits"]
                kind = f"golden {'declared' if declares else 'undeclared'} {named or 'default'}"
                check.add(kind, largest_difference(scores, request["candidates"], expected), what)


class World:
    """Draws requests, and knows the plain answer to each."""

    def __init__(self, form):
        sys.path.insert(0, HERE)
        import plain_model

        self.plain, self.model, self.form = plain_model, plain_model.PlainModel(MODEL), form
        self.rows = {}
        vocabulary = json.load(open(os.path.join(MODEL, "vocab.json")))
        self.form = {name: [vocabulary[word] for word in words] for name, words in form.items()}
        self.identifiers = {item: vocabulary[f"<item_{item}>"] for item in range(16859)}
        self.tokens = read_items(vocabulary)
        self.random = random.Random(17)
        self.items = sorted(self.tokens)
        self.users = {}

    def history(self, user):
        if user not in self.users:
            count = self.random.randint(1, EVENTS_MAX)
            self.users[user] = [self.random.choice(self.items) for _ in range(count)]
        return self.users[user]

    def candidates(self):
        # Popular items come often, so that item blocks are reused.
        count = self.random.choice((2, 5, 10, 20, 50, 100))
        pool = self.items[:300] if self.random.random() < 0.7 else self.items
        return self.random.sample(pool, count)

    def expected(self, user, candidates, arrangement):
        history = [token for item in self.history(user) for token in self.tokens[item]]
        items = [self.tokens[item] for item in candidates]
        prompt = self.plain.discriminant_prompt(self.form, arrangement, history, items)
        state = self.model.hidden(prompt.tokens, prompt.positions, prompt.mask())[-1]
        return self.model.rows(state, [self.identifiers[item] for item in candidates])


def read_items(vocabulary):
    """Returns the tokens of each item: its semantic ID, by level."""
    import gzip

    path = os.path.join(DATA, "items.tsv.gz")
    tokens = {}
    with gzip.open(path, "rt") if os.path.exists(path) else open(path[:-3]) as rows:
        names = next(rows).rstrip("\n").split("\t")
        for row in rows:
            values = dict(zip(names, row.rstrip("\n").split("\t")))
            codes = values["sid"].split(",")
            tokens[int(values["item_id"])] = [
                vocabulary[f"<{level}_{code}>"] for level, code in zip("abcd", codes)
            ]
    return tokens


def check_many(node, world, check, requests, kind, arrangements, users=0):
    """`users`: number of users that requests are drawn for; 0 = few, so that they return."""
    users, reused = users or max(4, requests // 8), 0
    for number in range(requests):
        user = f"r{world.random.randrange(users)}"
        if user not in world.users:
            node.put(user, world.history(user))
        candidates = world.candidates()
        named = world.random.choice(arrangements)
        reply, scores = node.rank(user, candidates, **({"arrangement": named} if named else {}))
        what = f"request {number}, {named or 'default'}, served {reply['arrangement']}"
        check.served(kind, reply["arrangement"], named, len(arrangements) > 1, what)
        expected = world.expected(user, candidates, reply["arrangement"])
        check.add(kind, largest_difference(scores, candidates, expected), what)
        reused += reply["tokens_reused"]
    if not reused:
        check.faults.append(f"{kind}: nothing was reused in {requests} requests")


def run(args):
    golden = json.load(open(os.path.join(MODEL, "golden.json")))["requests"]
    form = json.load(open(FORM))
    tokens_of_form = {name: form[name] for name in ("system", "user", "instruction", "discriminant")}
    check, per_phase = Check(), max(1, args.requests // 8)
    for declares in (False, True):
        label = "declared" if declares else "undeclared"
        arrangements = ["", *GOLDEN] if declares else [""]
        with tempfile.TemporaryDirectory(prefix="troupe-answers-") as folder:
            node = Node(args.troupe, folder, ["pool.memory=256MiB"], FORM if declares else None)
            try:
                check_golden(node, golden, check, declares)
                world = World(tokens_of_form)
                check_many(node, world, check, per_phase, f"{label} cold", arrangements)
                check_many(node, world, check, per_phase, f"{label} warm", arrangements)
                node.kill()
                node.start()
                check_many(node, world, check, per_phase, f"{label} restarted", arrangements)
                node.close()
                node.settings[0] = "pool.memory=1MiB"
                node.start()
                kind = f"{label} evicting"
                check_many(node, world, check, per_phase, kind, arrangements, users=2 * per_phase)
                if not node.evicted():
                    check.faults.append(f"{kind}: nothing was evicted")
            finally:
                if node.process.poll() is None:
                    node.close()
    return check


def main(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    parser.add_argument("--requests", type=int, default=120, help="random requests in all")
    parser.add_argument("--json", help="file for the numbers")
    args = parser.parse_args(argv)
    if not os.path.exists(os.path.join(MODEL, "golden.json")) or not os.path.exists(DATA):
        print("skipped: tiny-ranker-games or amazon-games is not beside the checkout")
        return SKIPPED
    try:
        import numpy  # noqa: F401
    except ImportError:
        debian = "/usr/bin/python3"  # its packages are invisible to another Python
        if os.path.exists(debian) and not os.environ.get("TROUPE_DEBIAN_PYTHON"):
            os.environ["TROUPE_DEBIAN_PYTHON"] = "tried"
            os.execv(debian, [debian, "-B", *sys.argv])
        print("skipped: python3-numpy is not installed")
        return SKIPPED
    check = run(args)
    for kind, count in check.compared.items():
        print(f"{kind}: {count} answers, largest difference {check.largest[kind]:.2e}")
    print(*check.faults[:20], sep="\n")
    if args.json:
        with open(args.json, "w") as out:
            json.dump({"answers": check.compared, "largest": check.largest, "differences": check.faults}, out)
    print(f"{sum(check.compared.values())} answers, {len(check.faults)} differences")
    return 1 if check.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
