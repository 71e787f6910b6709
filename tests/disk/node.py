"""A single node on a data folder that a test starts, asks, kills and checks."""
import http.client
import json
import os
import pathlib
import signal
import subprocess
import time
import urllib.parse

DEMO = pathlib.Path(__file__).resolve().parents[2] / "deploy/demo"
BUSY = (  # error codes of a node that has to wait for the machine
    "no_worker",
    "worker_lost",
    "no_answer",
    "overloaded",
    "tenant_overloaded",
    "deadline_exceeded",
)
READY_SECONDS = 60  # on a machine that is busy with other work it may take this long
SETTINGS = ["pool.memory=8MiB", "pool.precompute_items=false", "inference.executors=1", "router.policy=item"]


class Refused(Exception):
    """The node did not start; the text is its error output."""


NO_ITEMS = "is not ready: the catalog has no items"  # the readiness message of a node that lost all items


class Node:
    def __init__(self, troupe, folder):
        self.troupe, self.data, self.log = troupe, folder / "data", folder / "log"
        self.process = self.port = None
        self.has_items = True  # False: the node is not ready, because it has no items

    def command(self, *words, timeout=300):
        # The output must be text: invalid UTF-8 ends the run.
        return subprocess.run(
            [self.troupe, *map(str, words)], capture_output=True, encoding="utf-8", timeout=timeout
        )

    def start(self, on_damage):
        """Returns when the node is ready, or when it lacks nothing but items."""
        self.log.write_text("")
        words = [self.troupe, "serve", "--model", DEMO / "model", "--data-dir", self.data, "--port", "0"]
        for setting in [*SETTINGS, f"store.on_damage={on_damage}", f"node.log_file={self.log}"]:
            words += ["--set", setting]
        self.process = subprocess.Popen(
            list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        hello = self.process.stdout.readline()
        if "serves on" not in hello:
            said = self.process.stderr.read()
            self.process.wait()
            self.process = None
            raise Refused(said.strip())
        self.port = int(hello.split("http://127.0.0.1:")[1].split()[0])
        self.has_items = self.is_ready_but_for(NO_ITEMS)

    def is_ready_but_for(self, obstacle=None, client=None, seconds=READY_SECONDS):
        """Returns True once the node is ready, False once it says that `obstacle` is missing."""
        client, why = client or Client(self.port), "no answer"
        patience = time.monotonic() + seconds
        while time.monotonic() < patience:
            status, answer = client.ask("GET", "/v2/health/ready")
            if status == 200:
                return True
            why = answer["error"]["message"] if answer else why
            if obstacle and obstacle in why:
                return False
            time.sleep(0.01)
        raise RuntimeError(f"the node does not become ready: {why}")

    def kill(self):
        if not self.process:
            return
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()
        self.process = None

    def log_lines(self):
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]


def code_of(answer):
    """Returns the code of a refusal, else an empty text."""
    return answer["error"]["code"] if answer and "error" in answer else ""


class Client:
    def __init__(self, port):
        self.port, self.connection = port, None

    def ask(self, method, target, body=None):
        """Returns status and body; (0, None) if there was no answer."""
        status, text = self.call(method, target, json.dumps(body) if body is not None else None)
        return status, (json.loads(text) if text[:1] == b"{" else {} if status else None)

    def call(self, method, target, body, kind="application/json"):
        """Sends a text and returns status and text; (0, b"") if there was no answer."""
        for _ in range(2):
            try:
                if not self.connection:
                    self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
                self.connection.request(method, target, body, {"content-type": kind})
                reply = self.connection.getresponse()
                return reply.status, reply.read()
            except (OSError, http.client.HTTPException):
                self.connection = None
                # A read may be repeated: the server may have closed an idle connection.
                if method != "GET" and target != "/v1/rank":
                    break
        return 0, b""

    def rank(self, user, items):
        return self.ask("POST", "/v1/rank", {"user": user, "candidates": items})

    def rank_in_time(self, user, items):
        """Ranks; repeats while the machine is too busy for an answer."""
        patience = time.monotonic() + READY_SECONDS
        while True:
            status, answer = self.rank(user, items)
            if code_of(answer) not in BUSY or time.monotonic() > patience:
                return status, answer
            time.sleep(0.1)

    def rank_each(self, users, items):
        """Returns the answer for each user, with its status; fewer if the connection ended before."""
        lines = "".join(json.dumps({"user": user, "candidates": items}) + "\n" for user in users)
        _, text = self.call("POST", "/v1/rank", lines, "application/x-ndjson")
        return [json.loads(line) for line in text.splitlines()][: len(users)]

    def write(self, kind, name, body):
        path = f"/v1/{kind}/{urllib.parse.quote(name, safe='')}"
        return self.ask("DELETE", path) if body is None else self.ask("PUT", path, body)
