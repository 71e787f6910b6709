"""A node that serves from its own folder until it is closed, and its HTTP client."""

import json
import os
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

READY_WITHIN = 30  # seconds


class Served:
    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="troupe-dialects-")
        self.headers = {}

    def at(self, name):
        return os.path.join(self.folder.name, name)

    def serve(self, words):
        """Starts the node. `words`: the program, `serve`, and all options except the port."""
        port, log = self.at("port"), self.at("log")
        with open(log, "w") as output:
            self.process = subprocess.Popen(
                [*words, "--port", "0", "--port-file", port], stdout=output, stderr=subprocess.STDOUT
            )
        while not os.path.exists(port) or not open(port).read().strip():
            if self.process.poll() is not None:
                raise RuntimeError("troupe serve ended: " + open(log).read()[-500:])
            time.sleep(0.05)
        self.url = "http://127.0.0.1:" + open(port).read().strip()
        self.await_ready(log)

    def await_ready(self, log):
        """Waits until the node is ready: after its port opens, a worker's first heartbeat may take a
        while."""
        end = time.monotonic() + READY_WITHIN
        while (said := self.ask("/v2/health/ready", headers={}))[0] != 200:
            if time.monotonic() > end:
                raise RuntimeError(f"not ready within {READY_WITHIN} s: {said}: " + open(log).read()[-500:])
            time.sleep(0.05)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(40)
        self.folder.cleanup()

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
