#!/usr/bin/env python3
"""Runs a cluster on this machine that is changed while clients ask it, and says what happens.

  deploy/demo/cluster_demo.py --troupe build/deploy/troupe [--data FOLDER] [--rate 60] [--step 3] [--stay]

A front (router and cache-meta), three workers and an etcd listen on 127.0.0.1; TLS secures the links
between the nodes. Clients ask the front for rankings all the time. The steps:

  1. Workers compute the item blocks of the catalog, each on the worker where it belongs. Requests that
     run elsewhere pull them.
  2. A worker is killed, and restarted.
  3. Another version of the model is loaded, gets a tenth of the users, half, and all of them.

The address of the live page is printed first. With --stay the cluster runs on until Ctrl-C. Exit status 1
if a request failed, no block was pulled or no page holds item blocks; 77 if etcd is missing.
"""
import argparse
import array
import collections
import contextlib
import http.client
import json
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ADDRESS, PAGE_PORT, SKIPPED = "127.0.0.1", 8080, 77
FRONT, WORKERS = "front", ("worker-1", "worker-2", "worker-3")
CLIENTS, USERS, START_LIMIT_S, RELOAD_LIMIT_S = 4, 200, 60, 130
CHANGED_TENSOR = "model.layers.0.self_attn.v_proj.weight"


def free_port(wanted=0):
    """Returns `wanted` if it is free, else a free port."""
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((ADDRESS, wanted))
        except OSError:
            return free_port()
        return one.getsockname()[1]


def ask(port, method, path, body=None, limit=5.0):
    """Returns the status and the document of a reply."""
    link = http.client.HTTPConnection(ADDRESS, port, timeout=limit)
    try:
        link.request(method, path, None if body is None else json.dumps(body))
        answer = link.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        link.close()


def wait(what, is_so, limit=START_LIMIT_S):
    until = time.monotonic() + limit
    while time.monotonic() < until:
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            if is_so():
                return
        time.sleep(0.1)
    raise RuntimeError(f"{what}: not so after {limit} s")


def change_model(of, folder):
    """Copies the model; the values of its first layer are multiplied by 1.5."""
    shutil.copytree(of, folder)
    data = (of / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    begin, end = json.loads(data[8 : 8 + size])[CHANGED_TENSOR]["data_offsets"]
    body = bytearray(data[8 + size :])
    values = array.array("f", bytes(body[begin:end]))
    body[begin:end] = array.array("f", (1.5 * value for value in values)).tobytes()
    (folder / "model.safetensors").write_bytes(data[: 8 + size] + body)


class Processes:
    """The processes of the demo by name, all of which end with it."""

    def __init__(self, folder):
        self.folder, self.running = folder, {}

    def start(self, name, *words):
        with open(self.folder / f"{name}.out", "ab") as out:
            self.running[name] = subprocess.Popen(
                [*map(str, words)], stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
            )

    def kill(self, name):
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def end(self):
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Cluster:
    def __init__(self, troupe, folder, processes):
        self.troupe, self.folder, self.processes = troupe, folder, processes
        self.page_port = free_port(PAGE_PORT)
        self.etcd, self.etcd_peer = (f"http://{ADDRESS}:{free_port()}" for _ in range(2))
        self.file, self.versions = folder / "cluster.yaml", folder / "versions"

    def prepare(self):
        """Puts both versions of the model under their names, and writes certificates and the cluster file."""
        self.versions.mkdir()
        change_model(HERE / "model", self.folder / "changed")
        shutil.copytree(HERE / "model", self.folder / "first")
        self.present, self.next = (
            self._put_under_version(self.folder / name) for name in ("first", "changed")
        )
        self._write_file()
        self.run("certs", self.folder / "certificates", "--config", self.file)
        self.run("import", "--config", self.file, "--node", FRONT, "--data", HERE / "world")

    def _put_under_version(self, model):
        """Moves the model to the folder of versions, under the version that a node gives it."""
        port = free_port()
        self.processes.start(
            "single",
            self.troupe,
            "serve",
            "--model",
            model,
            "--data-dir",
            self.folder / f"single-{model.name}",
            "--port",
            port,
        )
        wait("a single node", lambda: ask(port, "GET", "/v1/models")[0] == 200)
        version = ask(port, "GET", "/v1/models")[1]["data"][0]["id"]
        self.processes.kill("single")
        shutil.move(model, self.versions / version)
        return version

    def _write_file(self):
        lines = [
            "cluster:",
            "  name: demo",
            f"  coordination: {self.etcd}",
            f"  certificates: {self.folder / 'certificates'}",
            f"model: {{directory: {self.versions / self.present}, versions: {self.versions}}}",
            "pool: {memory: 64MiB}",
            "inference: {executors: 1, cores: 1}",
            # This model is so small that computing a block takes no longer than pulling it. Real ones are
            # not, so the router is told to pull.
            "router: {pull_share: 0.01, measure_pulls: false}",
            "http: {admin_routes: true}",
            "nodes:",
        ]
        for number, name in enumerate((FRONT, *WORKERS), 1):
            (self.folder / name).mkdir()
            roles = "router, cache_meta" if name == FRONT else "worker"
            http_port = self.page_port if name == FRONT else free_port()
            lines.append(
                f"  - {{node: {number}, name: {name}, host: {ADDRESS}, port: {free_port()}, "
                f"roles: [{roles}], settings: {{node: {{data_dir: {self.folder / name}}}, "
                f"http: {{port: {http_port}}}}}}}"
            )
        self.file.write_text("\n".join(lines) + "\n")

    def run(self, *words):
        done = subprocess.run([str(self.troupe), *map(str, words)], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"troupe {words[0]}: {done.stderr.strip()}")
        return done.stdout

    def start(self):
        self.processes.start(
            "etcd",
            "etcd",
            "--data-dir",
            self.folder / "etcd",
            "--listen-client-urls",
            self.etcd,
            "--advertise-client-urls",
            self.etcd,
            "--listen-peer-urls",
            self.etcd_peer,
            "--initial-advertise-peer-urls",
            self.etcd_peer,
            "--initial-cluster",
            f"default={self.etcd_peer}",
        )
        for name in (FRONT, *WORKERS):
            self.start_node(name)
        wait("the front", lambda: ask(self.page_port, "GET", "/v2/health/ready")[0] == 200)
        wait("the workers", lambda: len(self.ready_workers()) == len(WORKERS))

    def start_node(self, name):
        self.processes.start(
            name,
            self.troupe,
            "node",
            "--config",
            self.file,
            "--name",
            name,
            "--set",
            f"node.log_file={self.folder / name}.log",
        )

    def actors(self, role):
        """Returns (name of the node, ready, fields) of the actors of that role that answer."""
        cluster = ask(self.page_port, "GET", "/v1/cluster")[1]
        return [
            (
                cluster["names"][str(actor["node"])],
                actor["ready"],
                {field["name"]: field["value"] for field in actor["fields"]},
            )
            for actor in cluster["actors"]
            if actor["role"] == role
        ]

    def ready_workers(self):
        return [name for name, ready, _ in self.actors("kv_worker") if ready]

    def of_workers(self, field):
        return {name: int(fields[field]) for name, _, fields in self.actors("kv_worker")}

    def is_precomputed(self):
        return all(fields["precompute"] == "done" for _, _, fields in self.actors("router"))


class Load:
    """Clients that ask the front at a steady rate until stop()."""

    def __init__(self, port, rate):
        with open(HERE / "world" / "requests.jsonl") as file:
            rows = [json.loads(line) for line, _ in zip(file, range(USERS))]
        self.requests = [{key: row[key] for key in ("user", "candidates")} for row in rows]
        self.port, self.pause, self.stopping = port, CLIENTS / rate, False
        self.answers, self.failed, self.lock = collections.Counter(), [], threading.Lock()
        self.threads = [threading.Thread(target=self._ask, args=(n,)) for n in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def _ask(self, turn):
        while not self.stopping:
            request = {
                **self.requests[turn // 2 % len(self.requests)],
                "policy": ("item", "user")[turn % 2],
            }
            turn += CLIENTS + 1
            try:
                status, reply = ask(self.port, "POST", "/v1/rank", request)
                fault = "" if status == 200 else f"{status} {reply['error']['code']}"
            except (OSError, http.client.HTTPException, ValueError) as error:
                fault = f"{type(error).__name__}: {error}"
            with self.lock:
                if fault:
                    self.failed.append(fault)
                else:
                    self.answers[reply["model_version"]] += 1
            time.sleep(self.pause)

    def take(self):
        """Returns the answers by version since the last call, and the number of failed requests so far."""
        with self.lock:
            answers, self.answers = self.answers, collections.Counter()
            return answers, len(self.failed)

    def stop(self):
        self.stopping = True
        for thread in self.threads:
            thread.join()


def say(text=""):
    print(text, flush=True)


def row(values):
    return ", ".join(f"{name} {value}" for name, value in values.items())


def show_blocks(cluster, load, step):
    wait("the item blocks", cluster.is_precomputed)
    time.sleep(step)
    say("Item blocks are computed in advance, each on one worker (pool.placement: auto).")
    say(f"  pages with item blocks: {row(cluster.of_workers('item_pages_used'))}")
    say(f"  blocks pulled from another worker: {row(cluster.of_workers('blocks_pulled'))}")
    tell(load)


def show_kill(cluster, load, step):
    name = WORKERS[0]
    say(f"\n{name} is killed.")
    cluster.processes.kill(name)
    time.sleep(step)
    say(f"  ready workers: {', '.join(cluster.ready_workers())}")
    tell(load)
    cluster.start_node(name)
    wait(name, lambda: name in cluster.ready_workers())
    time.sleep(step)
    say(f"{name} runs again.")
    tell(load)


def show_swap(cluster, load, step):
    names = {cluster.present: "present", cluster.next: "next"}
    say(f"\nThe model {cluster.present[:12]} is replaced by {cluster.next[:12]}.")
    for share in (0, 0.1, 0.5, None):
        body = {"model": cluster.next} | ({} if share is None else {"share": share})
        status, reply = ask(cluster.page_port, "POST", "/v1/models/reload", body, RELOAD_LIMIT_S)
        if status != 200:
            raise RuntimeError(f"reload of {body}: {status} {reply['error']['message']}")
        load.take()
        time.sleep(step)
        answers, failed = load.take()
        by_name = {names[version]: count for version, count in sorted(answers.items())}
        of = "all users" if share is None else f"{share:.0%} of the users"
        say(f"  for {of}: answers by the {row(by_name)}; failed so far: {failed}")


def tell(load):
    answers, failed = load.take()
    say(f"  answers: {sum(answers.values())}; failed so far: {failed}")


def judge(cluster, load):
    """Prints the state at the end; returns what the demo should have shown and has not."""
    pulled, pages = cluster.of_workers("blocks_pulled"), cluster.of_workers("item_pages_used")
    say(f"\nAt the end: blocks pulled: {row(pulled)}; pages with item blocks: {row(pages)}")
    say(cluster.run("status", "--server", f"{ADDRESS}:{cluster.page_port}"))
    faults = [f"{len(load.failed)} requests failed, the first with {load.failed[0]}"] if load.failed else []
    if not sum(pulled.values()):
        faults.append("no block was pulled")
    if not all(pages.values()):
        faults.append("some worker has no item blocks")
    return faults


def show(cluster, options):
    cluster.prepare()
    cluster.start()
    say(f"The live page: http://{ADDRESS}:{cluster.page_port}")
    say(f"A front and {len(WORKERS)} workers serve; {options.rate} requests a second come in.\n")
    load = Load(cluster.page_port, options.rate)
    try:
        show_blocks(cluster, load, options.step)
        show_kill(cluster, load, options.step)
        show_swap(cluster, load, options.step)
        faults = judge(cluster, load)
        if options.stay:
            say(f"The cluster runs until Ctrl-C. The live page: http://{ADDRESS}:{cluster.page_port}")
            with contextlib.suppress(KeyboardInterrupt):
                while True:
                    time.sleep(1)
    finally:
        load.stop()
    return faults


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True, type=pathlib.Path, help="the program")
    parser.add_argument("--data", default="cluster-demo-data", type=pathlib.Path, help="folder; replaced")
    parser.add_argument("--rate", default=60, type=int, help="requests a second")
    parser.add_argument("--step", default=3.0, type=float, help="seconds to look at each step")
    parser.add_argument("--stay", action="store_true", help="keep the cluster running at the end")
    options = parser.parse_args()
    if not shutil.which("etcd"):
        print("skipped: no etcd (deploy/install.sh packages-cluster)", file=sys.stderr)
        return SKIPPED
    folder = options.data.absolute()
    if folder.exists() and not (folder / "cluster.yaml").exists() and any(folder.iterdir()):
        print(f"{folder} is not a folder of this demo; expected a new one", file=sys.stderr)
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    processes = Processes(folder)
    try:
        faults = show(Cluster(options.troupe.absolute(), folder, processes), options)
    except RuntimeError as error:
        faults = [str(error)]
    finally:
        processes.end()
    for fault in faults:
        print(fault, file=sys.stderr)
    say(f"The logs are {folder}/*.log; the cluster file is {folder}/cluster.yaml.")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
