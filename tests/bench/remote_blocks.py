#!/usr/bin/env python3
"""Measures a request whose blocks are on another node, against the same request with the blocks on its
own node.

  tests/bench/remote_blocks.py [--troupe build/deploy/troupe] [--clusters 3] [--overlap]
                               [--layers N --hidden N] [--json FILE]

Runs a real cluster (a router, two workers, etcd) in network namespaces, one request at a time, and prints
the stages that its replies report. With --overlap every second cluster lets passes begin while their
blocks are being pulled (inference.overlap); both are printed. With --layers a model of random weights
ranks the demo's world.

Worker 1 runs alone first and computes all blocks. It is stopped now and then meanwhile, so that it is
considered slow. Worker 2 then starts, gets the requests as the faster one, and pulls the blocks. When a
request is repeated, its
blocks are on worker 2. Exit status 77 if this machine has no network namespaces."""
import argparse
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/chaos"))
sys.path.insert(0, str(ROOT / "tests/bench"))
import deep_plans  # noqa: E402
import hosts as chaos_hosts  # noqa: E402

DEMO = ROOT / "deploy/demo"
NODES = {"front": "router, cache_meta", "worker-1": "worker", "worker-2": "worker"}
STEPS = ["features", "lookup", "blocks", "queue", "compute", "total", "pull"]
CANDIDATES, AGAIN = 50, 5


class Cluster:
    def __init__(self, hosts, troupe, folder, model, overlap):
        self.hosts, self.troupe, self.folder = hosts, troupe, folder
        self.processes = {}
        self.lock = threading.Lock()  # guards processes: another thread ends them
        self.has_ended = False
        front = hosts.address["front"]
        self.etcd = f"http://{front}:2379"
        self.file = f"{folder}/cluster.yaml"
        lines = [
            "cluster:",
            "  name: remote-blocks",
            f"  coordination: {self.etcd}",
            f"  certificates: {folder}/certificates",
            f"model: {{directory: {model}}}",
            "http: {address: 127.0.0.1, port: 8080}",
            "pool: {memory: 256MiB}",
            f"inference: {{executors: 1, cores: 1, overlap: {str(overlap).lower()}}}",
            "nodes:",
        ]
        for number, (name, roles) in enumerate(NODES.items(), 1):
            os.makedirs(f"{folder}/{name}")
            lines.append(
                f"  - {{node: {number}, name: {name}, host: {hosts.address[name]}, port: 7000, "
                f"roles: [{roles}], settings: {{node: {{data_dir: {folder}/{name}}}}}}}"
            )
        pathlib.Path(self.file).write_text("\n".join(lines) + "\n")
        subprocess.run(
            [troupe, "certs", f"{folder}/certificates", "--config", self.file],
            check=True,
            capture_output=True,
        )
        subprocess.run(
            [
                troupe,
                "import",
                "--model",
                str(model),
                "--data-dir",
                f"{folder}/front",
                "--data",
                f"{DEMO}/world",
            ],
            check=True,
            capture_output=True,
        )

    def spawn(self, name, host, *words):
        with self.lock, open(f"{self.folder}/{name}.out", "ab") as out:
            self.check_goes_on()
            self.processes[name] = self.hosts.start(host, words, stdout=out, stderr=subprocess.STDOUT)

    def start_etcd(self):
        peer = self.etcd.replace("2379", "2380")
        self.spawn(
            "etcd",
            "front",
            "etcd",
            "--data-dir",
            f"{self.folder}/etcd",
            "--listen-client-urls",
            self.etcd,
            "--advertise-client-urls",
            self.etcd,
            "--listen-peer-urls",
            peer,
            "--initial-advertise-peer-urls",
            peer,
            "--initial-cluster",
            f"default={peer}",
        )

    def start(self, name):
        self.spawn(
            name,
            name,
            self.troupe,
            "node",
            "--config",
            self.file,
            "--name",
            name,
            "--set",
            f"node.log_file={self.folder}/{name}.log",
        )

    def end(self):
        with self.lock:
            self.has_ended = True
        for process in self.processes.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()

    def check_goes_on(self):
        if self.has_ended:
            raise RuntimeError("the cluster has been ended")

    def ready_workers(self):
        told = self.hosts.inside(
            "front", self.troupe, "status", "--json", "-", "--server", "127.0.0.1:8080", check=False
        )
        actors = json.loads(told)["actors"] if told.startswith("{") else []
        return sum(actor["role"] == "inference_worker" and actor["ready"] for actor in actors)

    def await_workers(self, count):
        for _ in range(300):
            self.check_goes_on()
            if self.ready_workers() >= count:
                return time.sleep(1)  # for a few heartbeats
            time.sleep(0.1)
        raise RuntimeError(f"{self.ready_workers()} of {count} workers are ready; expected all within 30 s")


class Stutter:
    """Stops a process for nine tenths of the time."""

    def __init__(self, process):
        self.process, self.ends = process, threading.Event()
        self.thread = threading.Thread(target=self._run)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()

    def _run(self):
        while not self.ends.is_set():
            self.process.send_signal(signal.SIGSTOP)
            time.sleep(0.045)
            self.process.send_signal(signal.SIGCONT)
            time.sleep(0.005)


def ask(request):
    connection = http.client.HTTPConnection("127.0.0.1", 8080, timeout=20)
    connection.request("POST", "/v1/rank", json.dumps({**request, "budget_us": 5_000_000}))
    answer = connection.getresponse()
    reply = json.loads(answer.read())
    connection.close()
    if answer.status != 200:
        raise RuntimeError(f"{answer.status}: {reply}")
    return reply


def make_requests():
    """Returns requests of which no two share an item or a user. Those with the item prefix have many
    blocks."""
    read = lambda name: [json.loads(line) for line in open(DEMO / "world" / name)]
    items, users = [item["id"] for item in read("items.jsonl")], [user["id"] for user in read("users.jsonl")]
    sets = [items[i :: len(items) // CANDIDATES] for i in range(len(items) // CANDIDATES)]
    return [{"user": user, "candidates": some, "policy": "item"} for user, some in zip(users, sets)]


def processor_seconds(process):
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(cluster, requests):
    cluster.hosts.enter("front")
    for request in requests:  # computes everything once, without stops
        ask(request)
    with Stutter(cluster.processes["worker-1"]):
        for request in 3 * requests:
            ask(request)
    cluster.start("worker-2")
    cluster.await_workers(2)
    pairs = []
    for request in requests:
        before = processor_seconds(cluster.processes["worker-2"])
        first = ask(request)
        first["processor_s"] = processor_seconds(cluster.processes["worker-2"]) - before
        again = [ask(request) for _ in range(AGAIN)]
        local = [reply for reply in again if reply["node"] == first["node"] and reply["timings"]["pull"] == 0]
        is_remote = first["timings"]["pull"] > 0
        if is_remote and local and all(reply["tokens_reused"] == first["tokens_reused"] for reply in local):
            pairs.append((first, local))
    return pairs


def row_of(pairs):
    """Returns medians over the requests; of each request, the median of its local replies."""
    local = {
        step: statistics.median(
            statistics.median(reply["timings"][step] for reply in replies) for _, replies in pairs
        )
        for step in STEPS
    }
    remote = {step: statistics.median(first["timings"][step] for first, _ in pairs) for step in STEPS}
    more = [
        first["timings"]["total"] - statistics.median(reply["timings"]["total"] for reply in replies)
        for first, replies in pairs
    ]
    over = [extra - first["timings"]["pull"] for extra, (first, _) in zip(more, pairs)]
    processor = statistics.mean(first["processor_s"] for first, _ in pairs)
    quartiles = statistics.quantiles(reply["timings"]["total"] for _, replies in pairs for reply in replies)
    return {
        "requests": len(pairs),
        "tokens_reused": statistics.median(f["tokens_reused"] for f, _ in pairs),
        "local_us": local,
        "remote_us": remote,
        "more_us": statistics.median(more),
        "worker_processor_us": processor * 1e6,
        "more_than_the_pull_us": statistics.median(over),
        "local_spread_us": quartiles[2] - quartiles[0],
    }


def show(row, overlap):
    print("inference.overlap: " + str(overlap).lower())
    print(
        f"{row['requests']} requests, {row['tokens_reused']:.0f} tokens reused in {CANDIDATES} blocks; "
        "us, medians"
    )
    print(f"{'':>13}", *(f"{step:>9}" for step in STEPS))
    for where in ("local", "remote"):
        print(f"{'blocks ' + where:>13}", *(f"{row[where + '_us'][step]:>9.0f}" for step in STEPS))
    print(
        f"{'difference':>13}", *(f"{row['remote_us'][step] - row['local_us'][step]:>9.0f}" for step in STEPS)
    )
    print(
        f"A request costs {row['more_us']:.0f} us more; that, less the time of its own pull, is "
        f"{row['more_than_the_pull_us']:.0f} us (medians; a local request itself moves by "
        f"{row['local_spread_us']:.0f} us between its quartiles). The worker that pulls takes "
        f"{row['worker_processor_us']:.0f} us of a processor for it (mean)."
    )


@contextlib.contextmanager
def folder_of_a_run():
    """Yields a folder, which is kept for its logs if the run fails."""
    folder = tempfile.mkdtemp(prefix="troupe-remote-blocks-")
    try:
        yield folder
    except Exception:
        print(f"failed: see {folder}", file=sys.stderr)
        raise
    except BaseException:  # also for SystemExit
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)


def run_cluster(cluster):
    with concurrent.futures.ThreadPoolExecutor(1) as executor:  # its thread moves to the client's host
        try:
            cluster.start_etcd()
            for name in ("front", "worker-1"):
                cluster.start(name)
            cluster.await_workers(1)
            return executor.submit(measure, cluster, make_requests()).result()
        finally:
            cluster.end()  # first, so that the thread does not wait for an answer


def race(troupe, model, overlap):
    hosts = chaos_hosts.Hosts(NODES)
    try:
        with folder_of_a_run() as folder:
            return run_cluster(Cluster(hosts, troupe, folder, model, overlap))
    finally:
        hosts.remove()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--troupe", default=str(ROOT / "build/deploy/troupe"))
    parser.add_argument("--clusters", type=int, default=3, help="clusters of some 30 requests each")
    parser.add_argument("--overlap", action="store_true")
    parser.add_argument("--layers", type=int, help="layers of a model of random weights")
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--json")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # runs the cleanup
    lacks = chaos_hosts.missing()
    if lacks:
        print(f"skipped: this machine has no {lacks}", file=sys.stderr)
        return 77
    chaos_hosts.Hosts.subnet = "10.92.0"
    made = tempfile.TemporaryDirectory(prefix="troupe-remote-blocks-model-")
    model = DEMO / "model"
    if options.layers:
        deep_plans.write_model(
            made.name,
            str(model),
            options.layers,
            1,
            hidden_size=options.hidden,
            intermediate_size=3 * options.hidden,
            num_attention_heads=options.hidden // 64,
            num_key_value_heads=max(1, options.hidden // 256),
        )
        model = pathlib.Path(made.name)
    found = {overlap: [] for overlap in ([False, True] if options.overlap else [False])}
    for _ in range(options.clusters):
        for overlap, pairs in found.items():
            pairs += race(options.troupe, model, overlap)
    rows = {overlap: row_of(pairs) for overlap, pairs in found.items() if pairs}
    if len(rows) < len(found):
        print("no request found its blocks on another node", file=sys.stderr)
        return 1
    for overlap, row in rows.items():
        show(row, overlap)
    if options.json:
        told = (
            {("overlap" if overlap else "behind"): row for overlap, row in rows.items()}
            if options.overlap
            else rows[False]
        )
        pathlib.Path(options.json).write_text(json.dumps(told, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
