"""A node that serves a trained generator and its catalog, for the scripts of this folder, and the data
beside the checkout that they need."""
import gzip
import http.client
import json
import os
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from served_node import ServedNode

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHARED = os.path.join(ROOT, "..", "shared")
MODELS = {"tiny-onerec": "amazon-industrial", "tiny-onerec-beauty": "amazon-beauty"}
SKIPPED = 77


def model_folder(model):
    return os.path.join(SHARED, "models", model)


def data_folder(model):
    return os.path.join(SHARED, "data", MODELS[model])


def missing():
    """Returns the first data folder that is missing; "" = all are there."""
    for model in MODELS:
        for folder in (model_folder(model), data_folder(model)):
            if not os.path.isdir(folder):
                return folder
    return ""


class Node(ServedNode):
    """A node with the model and its whole catalog, but no users. Settings have defaults except those of
    `sets`."""

    def __init__(self, troupe, model, sets=()):
        super().__init__("troupe-generate-")
        common = ["--model", model_folder(model), "--data-dir", self.at("data")]
        subprocess.run(
            [troupe, "import", *common, "--data", data_folder(model)], check=True, stdout=subprocess.DEVNULL
        )
        settings = [word for setting in sets for word in ("--set", setting)]
        port = self.start([troupe, "serve", *common, *settings], stderr=subprocess.DEVNULL)
        self.pid, self.server = self.process.pid, ("127.0.0.1", port)


class Client:
    """A client with one persistent connection."""

    def __init__(self, server):
        self.link = http.client.HTTPConnection(*server, timeout=60)

    def send(self, method, path, body):
        self.link.request(method, path, json.dumps(body))
        reply = self.link.getresponse()
        text = reply.read()
        if reply.status != 200:
            raise RuntimeError(f"{method} {path}: {reply.status} {text[:300]}")
        return json.loads(text)

    def put_user(self, user, history):
        self.send("PUT", f"/v1/users/{user}", {"history": [str(item) for item in history]})

    def generate(self, user=None, **options):
        asker = {} if user is None else {"user": str(user)}
        return self.send("POST", "/v1/generate", {**asker, **options})


def paths_of(items):
    """Returns the identifiers of generated items in order, each once, with its log-probability."""
    paths = []
    for item in items:
        if not paths or paths[-1][0] != item["tokens"]:
            paths.append((item["tokens"], item["log_probability"]))
    return paths


def rows(path):
    with gzip.open(path, "rt") as lines:
        names = next(lines).rstrip("\n").split("\t")
        for line in lines:
            yield dict(zip(names, line.rstrip("\n").split("\t")))
