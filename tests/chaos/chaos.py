"""Chaos tests: real processes on hosts of their own, one fault after the other while clients ask. Run by
run.sh.

Every outcome is judged: an answer must be that of an undisturbed node, an error must be typed, and
nothing may hang
(promises 1, 2, 4, 6, 7, 9, 13, 21)."""
import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import hosts as network
from asking import KINDS
import families
from cluster import HEARTBEAT, HOSTS, ROLES, STRICT, TENANTS, Cluster
from faults import Faults
from journals import Journal
from judge import (
    HEAD,
    answers_of,
    find_fault_of_store,
    judge_deaths,
    judge_faults,
    judge_kinds,
    judge_load,
    judge_plans,
    judge_writers,
    measure,
    row,
)
from load import Node, Load, ask
from recovery import Recovery
from versions import make_other
from writers import Subject, Writers

DEADLINE = 1.0
# Promise 1, with a margin because clients share two cores with the whole cluster.
GRACE = 2 * HEARTBEAT + 0.2
USERS, WRITERS = 60, 2
SETTLE, SETTLE_LONG = 12, 20  # heartbeats after a fault that are judged with it; the bounds are 5 and 10
ASKS = {**KINDS, "several": families.Several}
PARTS = (
    "upgrade",
    "few",
    "brief",
    "faults",
    "cables",
    "swaps",
    "members",
    "etcd",
    "kills",
)  # cables, swaps, members and etcd are among the faults, as few and brief ones


class Chaos:
    def __init__(self, options):
        self.options = options
        root = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
        self.settle = SETTLE_LONG if options.long else SETTLE
        self.troupe = os.path.abspath(options.troupe)
        self.before = os.path.abspath(options.old or options.troupe)
        self.demo = os.path.join(root, "deploy", "demo")
        self.folder = options.folder or tempfile.mkdtemp(prefix="troupe-chaos-")
        os.makedirs(self.folder, exist_ok=True)
        self.faults = []
        self.tries = []  # all faults, with those during which the machine was too busy
        self.hosts = self.cluster = self.load = self.writers = self.recovery = None
        self.journals = []
        self.chance = random.Random(2)
        self.asking = ASKS[options.asks]()
        with open(f"{self.demo}/model/prompt.json") as file:
            self.asking.declare(json.load(file))
        self.swaps = self.asking.swaps and bool({"faults", "swaps"} & set(options.parts))
        self.versions = []  # the served version, and the other one
        self.prompt = self.asking.prompt(self.demo, self.folder)
        self.models = self.asking.models(self.demo, self.folder)

    # ---- right answers ----

    @contextlib.contextmanager
    def node(self, directory=None):
        """Runs a node with this model, by default with the one that is served at first."""
        data = os.path.join(
            self.folder, "reference" if directory is None else "reference-" + os.path.basename(directory)
        )
        model = [
            "--model",
            directory or f"{self.demo}/model",
            *(["--prompt", self.prompt] if self.prompt else []),
            "--data-dir",
            data,
        ]
        rows = [(model, f"{self.demo}/world")]
        if self.models:
            model = ["--config", f"{self.folder}/reference.yaml"]
            rows = [
                (["--model", directory, "--data-dir", f"{data}-{name}"], rows)
                for name, directory, rows, _ in self.models
            ]
            with open(f"{self.folder}/reference.yaml", "w") as file:
                file.write(
                    f"node: {{data_dir: {data}}}\nmodels:\n"
                    + "".join(
                        f"  - {{name: {name}, directory: {directory}, data_dir: {data}-{name}{settings}}}\n"
                        for name, directory, _, settings in self.models
                    )
                )
        for words, source in rows:
            subprocess.run([self.troupe, "import", *words, "--data", source], check=True, capture_output=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        node = subprocess.Popen(
            [self.troupe, "serve", *model, "--port", str(port), "--set", "pool.precompute_items=false"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            for _ in range(100):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            yield Node("127.0.0.1", port)
        finally:
            node.terminate()
            node.wait()

    def learn_other(self, requests, subjects):
        """Makes another version of the model, and the folder that has both under their names."""
        make_other(f"{self.demo}/model", f"{self.folder}/other")
        with self.node(f"{self.folder}/other") as node:
            self.versions.append(node.ask("GET", "/v1/models", None)["data"][0]["id"])
            for subject in subjects:
                subject.learn(node)
            self.asking.learn(node, requests, [subject.item for subject in subjects])
        shutil.copytree(f"{self.demo}/model", f"{self.folder}/versions/{self.versions[0]}")
        shutil.move(f"{self.folder}/other", f"{self.folder}/versions/{self.versions[1]}")
        os.symlink(f"versions/{self.versions[0]}", f"{self.folder}/served")

    def reload(self, **body):
        """Reloads through any router that is ready; returns "" or the answer instead of success."""
        said = []

        def ask_for_it():
            self.hosts.enter("client")
            router = self.chance.choice(self.writers.routers())
            try:
                status, text = ask(
                    self.hosts.address[router],
                    "POST",
                    "/v1/models/reload",
                    json.dumps(body),
                    130,
                    self.cluster.headers(),
                )
                said.append(
                    "" if status == 200 else f"{router} answers {body} with {status} {text.decode()[:300]}"
                )
            except OSError as error:
                said.append(f"{router}: {body}: {error}")

        asking = threading.Thread(target=ask_for_it)
        asking.start()
        asking.join()
        return said[0]

    # ---- one fault ----

    def fault(self, name, begin, end, hold=12 * HEARTBEAT, expect="none", breaks=False):
        """Runs `begin`, waits for `hold`, runs `end`, and waits for the recovery.

        `expect`: see faults.py. `breaks`: breaks connections of processes that go on. `end` may return
        more fields of the fault.
        """
        for _ in range(3):  # again, if the machine was too busy, or no traffic was harmed
            time.sleep(5 * HEARTBEAT)
            fault = {"name": name, "expect": expect, "breaks": breaks, "at": time.monotonic(), "missed": ""}
            begin()
            time.sleep(hold)
            fault["ended"] = time.monotonic()
            fault.update(end() or {})
            fault["deaths"] = [f"{name} {how}" for at, name, how in self.cluster.deaths if at >= fault["at"]]
            fault["back_s"] = self.load.wait_until_ready(10)
            fault["not_ready"] = {} if fault["back_s"] is not None else self.load.not_ready()
            time.sleep(max(0, fault["ended"] + self.settle * HEARTBEAT - time.monotonic()))
            self.measure(fault)
            self.tries.append(fault)
            print(row(fault), flush=True)
            if not fault["starved"] and not fault.get("idle"):
                break
        self.faults.append(fault)

    def measure(self, fault):
        until = time.monotonic()
        fault["starved"] = self.load.starved(fault["at"], until)
        found = self.outcomes(fault["at"], until)
        measure(fault, found)
        if fault["expect"] == "away":
            fault["missed"] = fault["missed"] or find_fault_of_store(fault, found)

    def busiest(self):
        """Returns the worker with most requests: a fault of an idle worker shows little."""
        number = self.load.busiest(len(ROLES))
        return list(ROLES)[number - 1] if number else "worker-1"

    def outcomes(self, since, until):
        with self.load.lock:
            return [o for o in self.load.outcomes if since <= o[0] < until]

    # ---- the whole run ----

    def run(self):
        with open(f"{self.demo}/world/requests.jsonl") as file:
            lines = [json.loads(line) for _, line in zip(range(USERS), file)]
        requests = [{key: line[key] for key in ("user", "candidates")} for line in lines]
        with open(f"{self.demo}/model/vocab.json") as file:
            vocabulary = json.load(file)
        of_ranker, requests = requests, self.asking.requests(requests)
        with self.node() as node:
            if self.swaps:
                self.versions.append(node.ask("GET", "/v1/models", None)["data"][0]["id"])
            subjects = [
                Subject.told_apart(number, TENANTS[1 + number], of_ranker, vocabulary, self.asking, node)
                for number in range(WRITERS)
            ]
            self.asking.learn(node, requests, [subject.item for subject in subjects])
        if plain := self.asking.find_other_than_plain(self.demo, requests):
            raise RuntimeError(f"the undisturbed node is wrong: {plain}")
        if self.swaps:
            self.learn_other(requests, subjects)
        self.hosts = network.Hosts(HOSTS)
        first = self.before if "upgrade" in self.options.parts else self.troupe
        self.cluster = Cluster(
            self.hosts,
            self.troupe,
            self.demo,
            self.folder,
            first,
            self.options.clear,
            self.prompt,
            self.asking.catalog,
            self.models,
            f"{self.folder}/versions" if self.swaps else None,
            self.options.placement,
            self.options.transport,
        )
        self.cluster.up()
        self.wait_until_up()
        routers = [name for name, role in ROLES.items() if role == "router"]
        self.load = Load(
            self.hosts,
            "client",
            list(ROLES),
            routers,
            requests,
            self.asking,
            self.options.rate,
            DEADLINE,
            GRACE,
            headers=self.cluster.headers(),
        )
        self.writers = Writers(self.load, subjects, DEADLINE + GRACE, {STRICT}, self.cluster.headers)
        self.journals = [
            Journal(self.writers, tenant, requests_of)
            for tenant, requests_of in zip(TENANTS[1:], (of_ranker, of_ranker[::-1]))
        ]
        threading.Thread(target=self.look_after, daemon=True).start()
        time.sleep(5)
        self.run_parts()
        self.writers.stop()
        for journal in self.journals:
            journal.stop()
        self.load.stop()
        return self.judge()

    def run_parts(self):
        print(HEAD)
        faults = Faults(self)
        if "upgrade" in self.options.parts:
            faults.upgrade(self.troupe)
        if "faults" in self.options.parts:
            faults.short()
        elif "cables" in self.options.parts:
            faults.cables()
        elif "swaps" in self.options.parts:
            faults.swaps()
        elif "members" in self.options.parts:
            faults.members()
        elif "etcd" in self.options.parts:
            faults.etcd()
        elif "brief" in self.options.parts:
            faults.brief()
        elif "few" in self.options.parts:
            faults.few()
        self.pulled = self.blocks_pulled()
        if "kills" in self.options.parts:
            self.recovery = Recovery(self, self.options.kills)
            self.recovery.run()

    def look_after(self):
        while not self.load.stopping:
            self.cluster.raise_dead()
            time.sleep(1)

    def blocks_pulled(self):
        """Returns the blocks pulled by the workers that run now, since their last start."""
        return sum(
            int(value)
            for _, _, fields in self.cluster.status("router-2")
            for field, value in fields
            if field == "blocks_pulled"
        )

    def wait_until_up(self):
        for _ in range(150):
            if len(self.cluster.status("router-1")) == self.asking.actors(2, 2, 4):
                return
            time.sleep(0.2)
        raise RuntimeError(f"the cluster does not start: see {self.folder}")

    def judge(self):
        print()
        found = (
            judge_load(self.load, self.faults)
            + judge_faults(self.faults)
            + judge_deaths(self.cluster.deaths, self.tries)
        )
        counts, bad = judge_writers(self.writers, self.faults)
        found += bad + judge_kinds(self.load, self.asking.names) + judge_plans(self.load, self.asking.plans)
        if self.recovery:
            found += self.recovery.judge()
        print(f"blocks pulled between workers, without those of killed workers: {self.pulled}")
        if self.pulled == 0 and {"faults", "brief"} & set(self.options.parts):
            found.append("no block was pulled: transfers were not tested")
        for fault in found:
            print("FAILED:", fault)
        self.write(counts, found)
        print(f"{'failed' if found else 'passed'}; logs and history in {self.folder}")
        return 1 if found else 0

    def write(self, counts, found):
        told = [
            {k: round(v, 3) if isinstance(v, float) else v for k, v in f.items() if k not in ("at", "ended")}
            for f in self.faults
        ]
        with open(self.options.json or f"{self.folder}/chaos.json", "w") as file:
            json.dump(
                {
                    "faults": told,
                    "requests": len(self.load.outcomes),
                    "answers": answers_of(self.load),
                    "writers": counts,
                    "failed": found,
                    "recovery": self.recovery.table() if self.recovery else {},
                },
                file,
                indent=1,
            )
        with open(f"{self.folder}/history.jsonl", "w") as file:
            for sent, kind, what, took, router in sorted(self.load.outcomes):
                file.write(
                    json.dumps(
                        {
                            "at": sent - self.load.began,
                            "took": took,
                            "outcome": kind,
                            "what": what,
                            "router": router,
                        }
                    )
                    + "\n"
                )
            for sent, kind, what in sorted(self.writers.outcomes):
                file.write(json.dumps({"at": sent - self.load.began, "writer": kind, "what": what}) + "\n")

    def remove(self, keep):
        for clients in (self.load, self.writers, *self.journals):
            if clients:
                clients.stopping = True
        try:
            if self.cluster:
                self.cluster.down()
        finally:
            if self.hosts:
                self.hosts.remove()
        if not keep and not self.options.folder:
            shutil.rmtree(self.folder, ignore_errors=True)


def read_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--troupe", required=True)
    parser.add_argument("--old", help="the program before the upgrade; default: the same one")
    parser.add_argument(
        "--asks", choices=list(ASKS), default="rank", help="what the cluster serves and clients ask for"
    )
    parser.add_argument("--rate", type=float, default=40, help="requests per second")
    parser.add_argument("--parts", default="faults", help="some of " + ",".join(PARTS))
    parser.add_argument("--long", action="store_true", help="all parts")
    parser.add_argument("--clear", action="store_true", help="use no TLS between the nodes")
    parser.add_argument(
        "--placement", default="hash", help="pool.placement, or metis: a plan of METIS and affinity routing"
    )
    parser.add_argument("--transport", default="auto", help="transfer.transport")
    parser.add_argument("--kills", type=int, default=100, help="kills of each role, in the part kills")
    parser.add_argument("--json", help="write the table here")
    parser.add_argument("--folder", help="folder for data and logs; default: removed if all checks pass")
    options = parser.parse_args()
    options.parts = PARTS if options.long else options.parts.split(",")
    if set(options.parts) - set(PARTS):
        parser.error(f"--parts {','.join(options.parts)}; expected some of {','.join(PARTS)}")
    return options


def main():
    options = read_options()
    for program in ("etcd", "redis-server"):
        if shutil.which(program) is None:
            print(f"skipped: chaos needs {program}")
            return 77
    lacks = network.missing() or (families.missing() if options.asks == "several" else "")
    if lacks:
        print(f"skipped: chaos needs {lacks}")
        return 77
    print("skipped: RDMA")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # runs the cleanup
    chaos = Chaos(options)
    status = 1
    try:
        status = chaos.run()
    finally:
        chaos.remove(keep=status != 0)
    return status


if __name__ == "__main__":
    sys.exit(main())
