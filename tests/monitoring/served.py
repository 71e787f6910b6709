"""A single node that serves the demo world, for tests of what operators see of it."""
import http.client
import json
import pathlib
import signal
import ssl
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests"))
from served_node import await_port

DEMO = ROOT / "deploy" / "demo"


class Node:
    def __init__(self, troupe, folder, *settings, data=None, tls=False, log="log"):
        """`settings`: NAME=VALUE. `data`: the data folder, if not a new one. `tls`: serves HTTPS."""
        self.folder, self.tls, self.log_file = folder, tls, folder / log
        self.port_file = folder / "port"
        self.port_file.unlink(missing_ok=True)
        self.model = ["--model", DEMO / "model", "--data-dir", data or folder / "data"]
        self.settings = [word for setting in settings for word in ("--set", setting)]
        self.troupe = troupe
        add = [troupe, "import", *self.model, *self.settings, "--data", DEMO / "world"]
        subprocess.run(add, check=True, stdout=subprocess.DEVNULL)
        words = ["--set", f"node.log_file={self.log_file}", "--port", "0", "--port-file", self.port_file]
        self.process = subprocess.Popen(
            [troupe, "serve", *self.model, *self.settings, *words], stdout=subprocess.DEVNULL
        )
        self.port = await_port(self.process, self.port_file)
        self.until(lambda: self.ask("GET", "/v2/health/ready")[0] == 200, "the node is ready")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

    def ask(self, method, path, body=None):
        if self.tls:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            link = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=context)
        else:
            link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        link.request(method, path, None if body is None else json.dumps(body))
        reply = link.getresponse()
        answer = reply.status, reply.read().decode()
        link.close()
        return answer

    def rank(self, count):
        rows = (DEMO / "world" / "requests.jsonl").read_text().splitlines()
        statuses = []
        for i in range(count):
            row = json.loads(rows[i % len(rows)])
            body = {"user": row["user"], "candidates": row["candidates"][:10]}
            statuses.append(self.ask("POST", "/v1/rank", body)[0])
        return statuses

    def metrics(self):
        return self.ask("GET", "/metrics")[1]

    def degraded(self, with_disk=False):
        """Returns the reasons in the readiness, without this machine's disk; None if it is not ready."""
        status, text = self.ask("GET", "/v2/health/ready")
        if status != 200:
            return None
        reasons = json.loads(text).get("degraded", [])
        return [reason for reason in reasons if with_disk or not reason.startswith("the disk of")]

    def events(self, name):
        if not self.log_file.exists():
            return []
        lines = [json.loads(line) for line in self.log_file.read_text().splitlines()]
        return [line for line in lines if line["event"] == name]

    def until(self, holds, what, seconds=20):
        end = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > end:
                raise RuntimeError("not within " + str(seconds) + " s: " + what)
            time.sleep(0.1)
