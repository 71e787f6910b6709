"""A box on a data folder: started, asked, killed, checked."""
import http.client
import json
import os
import pathlib
import signal
import subprocess
import time
import urllib.parse

DEMO = pathlib.Path(__file__).resolve().parents[2] / "deploy/demo"
BUSY = (
    "no_worker",
    "worker_lost",
    "no_answer",
    "overloaded",
    "tenant_overloaded",
    "deadline_exceeded",
)  # of a box that has to wait for the machine
READY_SECONDS = 60  # beside other work that has precedence it may take many
SETTINGS = ["pool.memory=8MiB", "pool.precompute_items=false", "inference.executors=1", "router.policy=item"]


class Refused(Exception):
    """It did not start; the text is what it said."""


NO_ITEMS = "is not ready: the catalog has no items"  # what readiness says of a box that lost them all


class Box:
    def __init__(self, troupe, folder):
        self.troupe, self.data, self.log = troupe, folder / "data", folder / "log"
        self.process = self.port = None
        self.has_items = True  # or it says that it has none, and is not ready

    def command(self, *words, timeout=300):
        return subprocess.run(
            [self.troupe, *map(str, words)], capture_output=True, encoding="utf-8", timeout=timeout
        )  # what is no text must not be printed: it ends the run

    def start(self, on_damage):
        """Until it is ready, or says that nothing stands in its way but that it has no items."""
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
        """True once it is ready, False once it says that this is what it lacks."""
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
        raise RuntimeError(f"it does not get ready: {why}")

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
    """Of a refusal; else nothing."""
    return answer["error"]["code"] if answer and "error" in answer else ""


class Client:
    def __init__(self, port):
        self.port, self.connection = port, None

    def ask(self, method, target, body=None):
        """Status and body; (0, None) if there was no answer."""
        status, text = self.call(method, target, json.dumps(body) if body is not None else None)
        return status, (json.loads(text) if text[:1] == b"{" else {} if status else None)

    def call(self, method, target, body, kind="application/json"):
        """The same of texts; (0, b"")."""
        for _ in range(2):
            try:
                if not self.connection:
                    self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
                self.connection.request(method, target, body, {"content-type": kind})
                reply = self.connection.getresponse()
                return reply.status, reply.read()
            except (OSError, http.client.HTTPException):
                self.connection = None
                if (
                    method != "GET" and target != "/v1/rank"
                ):  # asking changes nothing: a connection kept long may be closed
                    break
        return 0, b""

    def rank(self, user, items):
        return self.ask("POST", "/v1/rank", {"user": user, "candidates": items})

    def rank_in_time(self, user, items):
        """Again while the machine is too busy for an answer."""
        patience = time.monotonic() + READY_SECONDS
        while True:
            status, answer = self.rank(user, items)
            if code_of(answer) not in BUSY or time.monotonic() > patience:
                return status, answer
            time.sleep(0.1)

    def rank_each(self, users, items):
        """The answer to each, with its status; fewer if there was an end before."""
        lines = "".join(json.dumps({"user": user, "candidates": items}) + "\n" for user in users)
        _, text = self.call("POST", "/v1/rank", lines, "application/x-ndjson")
        return [json.loads(line) for line in text.splitlines()][: len(users)]

    def write(self, kind, name, body):
        path = f"/v1/{kind}/{urllib.parse.quote(name, safe='')}"
        return self.ask("DELETE", path) if body is None else self.ask("PUT", path, body)
