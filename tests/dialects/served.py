"""A node that serves from its own folder until it is closed, and its HTTP client."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from served_node import ServedNode

READY_WITHIN = 30  # seconds
DEMO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "deploy", "demo")


class Served(ServedNode):
    def __init__(self):
        super().__init__("troupe-dialects-")
        self.headers = {}

    def serve(self, words):
        """Starts the node. `words`: the program, `serve`, and all options except the port."""
        log = self.at("log")
        said = lambda: open(log).read()
        with open(log, "w") as output:
            port = self.start(words, said, stdout=output, stderr=subprocess.STDOUT)
        self.url = f"http://127.0.0.1:{port}"
        self.await_ready(log)

    def await_ready(self, log):
        """Waits until the node is ready: after its port opens, a worker's first heartbeat may take a
        while."""
        end = time.monotonic() + READY_WITHIN
        while (said := self.ask("/v2/health/ready", headers={}))[0] != 200:
            if time.monotonic() > end:
                raise RuntimeError(f"not ready within {READY_WITHIN} s: {said}: " + open(log).read()[-500:])
            time.sleep(0.05)

    def ask(self, path, body=None, method=None, headers=None):
        request = urllib.request.Request(
            self.url + path,
            None if body is None else json.dumps(body).encode(),
            self.headers if headers is None else headers,
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.status, json.loads(reply.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())


class ServedDemo(Served):
    """The demo's node, which wants the key in `key`."""

    def __init__(self, troupe, *settings):
        super().__init__()
        common = ["--model", os.path.join(DEMO, "model"), "--data-dir", self.at("data")]
        subprocess.run(
            [troupe, "import", *common, "--data", os.path.join(DEMO, "world")],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        self.key = subprocess.run(
            [troupe, "keys", "add", self.at("keys")], check=True, capture_output=True, text=True
        ).stdout.strip()
        self.headers = {"authorization": "Bearer " + self.key}
        sets = [f"http.api_keys={self.at('keys')}", *settings]
        self.serve([troupe, "serve", *common, *(word for one in sets for word in ("--set", one))])
