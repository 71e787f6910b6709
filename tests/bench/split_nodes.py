"""Nodes and clusters that `splits.py` compares: each system is a split policy and a routing rule."""
import concurrent.futures
import json
import os
import tempfile
import time

import loopback
from rows import golden, MODEL, PAGE
from split_verdicts import START, twin_of

TRAINED = os.path.join(golden.ROOT, "deploy", "policies", "split.txt")
DEADLINE = "60s"  # a busy machine may serve slowly


def parse_system(name):
    """Returns split and routing of `SPLIT[+ROUTING][ again]`."""
    split, _, routing = twin_of(name).partition("+")
    return split, routing or "earliest"


def settings_of(name, part, window_ms):
    split, routing = parse_system(name)
    start = split.removeprefix("static:") if split.startswith("static:") else str(START)
    return {
        "pool.memory": f"{part['pages'] * PAGE + 1024}B",
        "pool.item_share": "0",
        "pool.row_share": start,
        "model.tables": "mapped",
        "model.table_bandwidth": part["bandwidth"],
        "pool.split": split,
        "pool.split_window": f"{window_ms}ms",
        "inference.executors": "1",
        "inference.cores": "1",
        "node.log_level": "error",
        "router.deadline": DEADLINE,
        "router.deadline_max": DEADLINE,
        "router.routing": routing,
    } | ({"pool.split_trained": TRAINED} if split == "smart" else {})


class Served:
    """What both kinds of a system do: rank, and count."""

    def rank(self, user, candidates):
        """Returns milliseconds and scores."""
        begun = time.perf_counter()
        body = {
            "user": f"user-{user}",
            "candidates": [str(item) for item in candidates],
            "request_timestamp": 2_000,
        }
        status, reply = self.ask("POST", "/v1/rank", body)
        if status != 200:
            raise SystemExit(f"a ranking was answered {status} {json.dumps(reply)[:300]}; expected 200")
        return 1e3 * (time.perf_counter() - begun), {item["id"]: item["score"] for item in reply["items"]}

    def cpu_s(self):
        """Returns the CPU seconds of all processes, to the nanosecond."""
        return sum(time.clock_gettime((~process.pid) << 3 | 2) for process in self.processes())

    def counted(self):
        now = self.metrics()
        return {
            "rows_hit": now['troupe_rows_total{from="pool"}'],
            "rows_missed": now['troupe_rows_total{from="table"}'],
            "tokens_reused": now["troupe_tokens_reused_total"],
            "tokens": now["troupe_tokens_total"],
            "bytes_copied": now["troupe_boundary_bytes_copied_total"],
            "row_pages": now['troupe_pages{kind="row"}'],
            "cpu_s": self.cpu_s(),
        }


class Alone(Served):
    """A single node, asked over one connection."""

    def __init__(self, troupe, data, settings):
        self.node = golden.Node(troupe, MODEL, data, [f"{key}={value}" for key, value in settings.items()])

    def rank_all(self, turns):
        return [self.rank(*turn) for turn in turns]

    def ask(self, method, path, body):
        return self.node.ask(method, path, body)

    def metrics(self):
        return self.node.metrics()

    def processes(self):
        return [self.node.process]

    def end(self):
        self.node.__exit__()


class Cluster(Served):
    """A router and workers, with one connection for each request in flight."""

    def __init__(self, troupe, data, settings, workers, at_once):
        self.folder = tempfile.TemporaryDirectory(prefix="troupe-splits-cluster-")
        self.pool = concurrent.futures.ThreadPoolExecutor(at_once)
        sections = {}
        for name, value in {**settings, "model.directory": MODEL}.items():
            section, key = name.split(".")
            sections.setdefault(section, []).append(f"{key}: {value}")
        lines = [f"{section}: {{{', '.join(pairs)}}}" for section, pairs in sections.items()]
        self.cluster = loopback.Cluster(troupe, self.folder.name, workers, lines)
        try:
            self.cluster.start_all(data)
        except BaseException:
            self.end()
            raise

    def rank_all(self, turns):
        return list(self.pool.map(lambda turn: self.rank(*turn), turns))

    def ask(self, method, path, body):
        status, reply = loopback.ask(self.cluster.http_port["front"], method, path, body, limit=90)
        return status, json.loads(reply)

    def metrics(self):
        sums = {}
        for name in self.cluster.names:
            for line in loopback.ask(self.cluster.http_port[name], "GET", "/metrics")[1].splitlines():
                if line and line[0] != "#":
                    key, amount = line.rsplit(" ", 1)
                    sums[key] = sums.get(key, 0) + float(amount)
        return sums

    def processes(self):
        return [self.cluster.processes[name] for name in self.cluster.names]

    def uses_elsewhere(self):
        """Returns the uses of users' blocks at other workers than their homes, as the homes count them."""
        actors = self.ask("GET", "/v1/cluster", None)[1]["actors"]
        fields = [field for actor in actors for field in actor["fields"]]
        return sum(int(field["value"]) for field in fields if field["name"] == "uses_elsewhere")

    def end(self):
        self.cluster.end()
        self.pool.shutdown()
        self.folder.cleanup()


def start_system(troupe, data, name, part, window_ms):
    settings = settings_of(name, part, window_ms)
    if part["workers"]:
        return Cluster(troupe, data, settings, part["workers"], part["at_once"])
    return Alone(troupe, data, settings)
