"""A node that serves a generator of a benchmark's shape with random weights and a catalog of random
identifiers, for the scripts of this folder. The output is meaningless; the cost is that of such a model.
"""
import http.client
import json
import os
import random
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from served_node import await_port

PROMPT = {"system": ["<bos>"], "user": [], "instruction": []}
LEVELS = 3


def call(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


class World:
    """Model, prompt form and catalog on disk, and nodes that serve them."""

    def __init__(self, troupe, shape, items=20_000, seed=7, vocabulary=0, codes=256):
        """`vocabulary`: tokens of the model, 0 = the shape's; `codes`: tokens of each of the three levels of
        an identifier."""
        self.troupe, self.shape, self.items = troupe, shape, items
        self.folder = tempfile.TemporaryDirectory(prefix="troupe-generate-")
        self.model, self.form = self.path("model"), self.path("prompt.json")
        json.dump(PROMPT, open(self.form, "w"))
        words = ["--vocabulary", str(vocabulary)] if vocabulary else []
        call(f"{troupe}-lab", "bench", "make-model", "--shape", shape, "--out", self.model, *words)
        os.mkdir(self.path("catalog"))
        draw = random.Random(seed)
        identifiers = set()
        while len(identifiers) < items:
            identifiers.add(tuple(draw.randrange(codes) for _ in range(LEVELS)))
        with open(self.path("catalog", "items.tsv"), "w") as rows:
            rows.write("item_id\tsid\tbrand\ttitle\n")
            for number, identifier in enumerate(sorted(identifiers)):
                rows.write(f"{number}\t{','.join(map(str, identifier))}\t\titem {number}\n")
        with open(self.path("catalog", "sequences.tsv"), "w") as rows:
            rows.write("user_id\tn_train\tn_valid\tn_test\titems\n0\t1\t0\t0\t0\n")
        call(
            troupe,
            "import",
            "--model",
            self.model,
            "--prompt",
            self.form,
            "--data-dir",
            self.path("data"),
            "--data",
            self.path("catalog"),
        )

    def path(self, *names):
        return os.path.join(self.folder.name, *names)

    def history(self, events, draw):
        """Returns a history of so many events, of three tokens each."""
        return [str(draw.randrange(self.items)) for _ in range(events)]

    def node(self, sets=()):
        return Node(self, sets)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.folder.cleanup()


class Node:
    def __init__(self, world, sets):
        port_file = world.path("port")
        if os.path.exists(port_file):
            os.remove(port_file)
        settings = [word for setting in sets for word in ("--set", setting)]
        self.process = subprocess.Popen(
            [
                world.troupe,
                "serve",
                "--model",
                world.model,
                "--prompt",
                world.form,
                "--data-dir",
                world.path("data"),
                "--port",
                "0",
                "--port-file",
                port_file,
                *settings,
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.server = ("127.0.0.1", await_port(self.process, port_file))

    def cpu_seconds(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self):
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(40)


class Client:
    """A client with one persistent connection, which it reopens if the node closed it while idle."""

    def __init__(self, server):
        self.link = http.client.HTTPConnection(*server, timeout=120)

    def send(self, method, path, body):
        """Returns status and answer."""
        for last in (False, True):
            try:
                self.link.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
                reply = self.link.getresponse()
                return reply.status, json.loads(reply.read())
            except ConnectionError:
                self.link.close()
                if last:
                    raise

    def put_user(self, user, history):
        status, answer = self.send("PUT", f"/v1/users/{user}", {"history": history})
        if status != 200:
            raise RuntimeError(f"PUT of {user}: {status} {answer}")

    def generate(self, user, **options):
        return self.send("POST", "/v1/generate", {"user": str(user), **options})


def at(values, share):
    """Returns the quantile of unsorted values: at most this share of them is below it."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
