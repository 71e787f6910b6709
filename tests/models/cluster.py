#!/usr/bin/env python3
"""Checks a cluster that serves several models, each under its name, from one pool per node, while
processes die.

  tests/models/cluster.py --troupe build/deploy/troupe [--kills 2]

Two front nodes (routers and cache-metas), two workers, a Redis and an etcd serve a ranker, a generator,
an HSTU and a Climber model from one list of models. The steps:

  1. Golden users of each model are requested at both fronts (several.py).
  2. One model gets another version, for half of its users, for all, and back (several_versions.py).
  3. Clients ask all the time while one process after the other is killed and restarted. An answer must be
     golden, an error must be typed, and after each restart all answers are golden again.
  4. Invalid requests and invalid configuration files are refused.

Exit status 1 on any difference; 77 if etcd, Redis or the data is missing.
"""
import argparse
import collections
import http.client
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", part) for part in ("bench", "linearizability")]
import loopback
import several
from several import CASES, MODELS, TOLERANCE, Golden, data_folder, member_of, model_folder
from several_versions import Versions
from stores import talk, until

FRONTS = ("front-1", "front-2")
TYPED = ("429", "503", "504")
PAUSE_S = 0.01  # pause of a client between two requests


class Front(several.Node):
    """The HTTP server of a node."""

    def __init__(self, port):
        self.link = http.client.HTTPConnection(loopback.ADDRESS, port, timeout=10)


class Redis:
    def __init__(self, folder):
        self.port, folder = loopback.free_ports(1)[0], pathlib.Path(folder, "redis")
        folder.mkdir()
        self.process = subprocess.Popen(
            [
                "redis-server",
                "--bind",
                loopback.ADDRESS,
                "--port",
                str(self.port),
                "--dir",
                folder,
                "--save",
                "",
            ],
            stdout=subprocess.DEVNULL,
        )
        until("Redis answers", lambda: talk(self.port, "PING") == "+PONG")

    def end(self):
        self.process.kill()
        self.process.wait()


def settings_of(redis, versions):
    lines = [
        f'features: {{store: "redis://{loopback.ADDRESS}:{redis.port}", time_limit: 1s}}',
        "pool: {memory: 24MiB}",
        "inference: {executors: 1, cores: 1}",
        "router: {deadline: 3s}",
        "http: {admin_routes: true}",
        "models:",
    ]
    for name, model, _ in MODELS:
        more = {
            "clips": ", settings: {router: {history_part: 16}}",
            "games": f", settings: {{model: {{versions: {versions.folder}}}}}",
        }.get(name, "")
        lines.append(f"  - {{name: {name}, directory: {model_folder(model)}{member_of(model)}{more}}}")
    return lines


def check_golden(front, where, faults):
    """Checks all cases of all models; returns the tokens reused from blocks, by model."""
    golden, reused = Golden(), collections.Counter()
    for number in range(CASES):
        for name, *_ in MODELS:
            off, tokens = getattr(golden, name)(front, number)
            reused[name] += tokens
            if off > TOLERANCE:
                faults.append(f"{where}: {name}, case {number}, is off by {off:.2g}")
    return reused


def check_shape(cluster, front, faults):
    listed = {model["id"]: model["serves"] for model in front.send("GET", "/v1/models")["data"]}
    if listed != {
        "games": "rank, score",
        "goods": "generate, complete, score",
        "films": "rank",
        "clips": "rank",
    }:
        faults.append(f"/v1/models lists {listed}")
    seen = front.send("GET", "/v1/cluster")
    of = collections.Counter(
        (actor["role"], field["value"])
        for actor in seen["actors"]
        for field in actor["fields"]
        if field["name"] == "model"
    )
    wanted = {
        (role, name): count
        for name, *_ in MODELS
        for role, count in (("router", len(cluster.names)), ("inference_worker", len(cluster.workers())))
    }
    if of != wanted or seen["silent"]:
        faults.append(f"/v1/cluster has {dict(of)}, silent {seen['silent']}; expected {wanted}")


class Asking(threading.Thread):
    """Asks for golden answers at one front, one after the other, until stop() is called."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.stopping, self.outcomes = port, False, collections.Counter()
        self.wrong = []

    def run(self):
        golden, turn = Golden(), 0
        front = Front(self.port)
        while not self.stopping:
            name, number = MODELS[turn % len(MODELS)][0], turn // len(MODELS) % CASES
            turn += 1
            time.sleep(PAUSE_S)
            try:
                off, _ = getattr(golden, name)(front, number)
                self.outcomes["golden" if off <= TOLERANCE else "wrong"] += 1
                if off > TOLERANCE:
                    self.wrong.append(f"{name}, case {number}, is off by {off:.2g}")
            except RuntimeError as error:  # a refusal
                status = str(error).split(": ", 1)[1][:3]
                self.outcomes[f"refused {status}"] += 1
                if status not in TYPED:
                    self.wrong.append(str(error))
            except (OSError, http.client.HTTPException):
                self.outcomes["lost"] += 1
                front = Front(self.port)
                time.sleep(0.02)


def check_kills(cluster, kills, faults):
    victims = [cluster.names[-1], FRONTS[0], cluster.names[-2], FRONTS[1]]
    for turn in range(kills):
        victim = victims[turn % len(victims)]
        clients = [Asking(cluster.http_port[name]) for name in FRONTS if name != victim]
        for client in clients:
            client.start()
        time.sleep(0.5)
        cluster.kill(victim)
        time.sleep(1.0)
        cluster.start(victim)
        cluster.wait_until_ready(victim)
        for client in clients:
            client.stopping = True
            client.join()
        outcomes = sum((client.outcomes for client in clients), collections.Counter())
        print(f"{victim} killed: {dict(outcomes)}")
        faults += [f"{victim} killed: {what}" for client in clients for what in client.wrong[:3]]
        if outcomes["golden"] < 20:
            faults.append(f"{victim} killed: only {outcomes['golden']} golden answers, which is too few")
        for name in FRONTS:
            check_golden(Front(cluster.http_port[name]), f"{name} after {victim} was killed", faults)


def check_mistakes(cluster, front, faults):
    several.check_mistakes(front, faults)
    status, reply = front.ask("POST", "/v1/models/reload?model=games", {"model": "another"})
    if status != 422:
        faults.append(f"a reload was answered {status} {reply}; expected a refusal")
    text = cluster.file.read_text()
    bad = cluster.folder / "bad.yaml"
    cases = [
        (text.replace("{name: clips,", "{name: games,"), "two models are named games"),
        (
            text.replace("features: {store", "features: {expiry: 1s}\n#features: {store"),
            "a model has no data_dir",
        ),
        (
            text.replace(
                "{name: goods,", "{name: goods, settings: {features: {store: \"redis://elsewhere\"}},"
            ),
            "model goods: features.store differs from its node's",
        ),
    ]
    for changed, words in cases:
        bad.write_text(changed)
        done = subprocess.run(
            [cluster.troupe, "node", "--config", bad, "--name", FRONTS[0]],
            capture_output=True,
            text=True,
            timeout=60,
        )
        if done.returncode == 0 or words not in done.stderr:
            faults.append(f"a cluster file gave {done.stderr!r}; expected {words}")


def check_stranger(cluster, faults):
    """Starts a node with the models in another order: its model numbers differ, so no node may admit it."""
    victim, text = cluster.names[-1], cluster.file.read_text()
    lines = text.splitlines()
    first = lines.index("models:") + 1
    lines[first], lines[first + 1] = lines[first + 1], lines[first]
    cluster.kill(victim)
    cluster.file.write_text("\n".join(lines) + "\n")
    cluster.start(victim)
    words = "belongs to another cluster"
    try:
        cluster.wait(
            f"{victim} is turned away",
            lambda: words in (cluster.folder / f"{victim}.log").read_text(),
            limit=20,
        )
    except RuntimeError as error:
        faults.append(str(error))
    cluster.kill(victim)
    cluster.file.write_text(text)
    cluster.start(victim)
    cluster.wait_until_ready(victim)


def run(troupe, kills, folder):
    faults, versions, redis = [], Versions(troupe, folder), Redis(folder)
    cluster = loopback.Cluster(
        troupe, folder, 2, settings_of(redis, versions), FRONTS, worker="worker, router"
    )
    try:
        for name, _, data in MODELS:
            loopback.run(
                troupe,
                "import",
                "--config",
                cluster.file,
                "--node",
                FRONTS[0],
                "--served",
                name,
                "--data",
                data_folder(data),
            )
        cluster.start_etcd()
        for name in cluster.names:
            cluster.start(name)
        for name in cluster.names:
            cluster.wait_until_ready(name)
        fronts, golden = [Front(cluster.http_port[name]) for name in FRONTS], Golden()
        for number in range(CASES):
            golden.put(fronts[0], number)
        for name, front in zip(FRONTS, fronts):
            reused = check_golden(front, name, faults)
        reused.update(check_golden(fronts[0], FRONTS[0], faults))
        print("golden answers at both fronts; tokens reused:", dict(reused))
        faults += [f"{name}: nothing was reused" for name, *_ in MODELS if reused[name] == 0]
        check_shape(cluster, fronts[0], faults)
        versions.give(fronts, faults)
        versions.take_back(fronts, faults)
        check_mistakes(cluster, fronts[0], faults)
        check_kills(cluster, kills, faults)
        check_stranger(cluster, faults)
        check_golden(Front(cluster.http_port[FRONTS[0]]), "at the end", faults)
        for name in cluster.names:
            metrics = cluster.metrics(name)
            if metrics["troupe_blocks_corrupt_total"] or metrics["troupe_protocol_errors_total"]:
                faults.append(f"{name}: there are corrupt blocks or invalid messages")
    finally:
        cluster.end()
        redis.end()
    return faults


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    parser.add_argument(
        "--kills",
        type=int,
        default=2,
        help="number of kills: a worker, a front, the other worker, the other front, …",
    )
    parser.add_argument("--folder", help="keep logs here")
    options = parser.parse_args()
    lacks = [program for program in ("etcd", "redis-server") if not shutil.which(program)]
    lacks += [
        folder
        for _, model, data in MODELS
        for folder in (model_folder(model), data_folder(data))
        if not os.path.isdir(folder)
    ]
    if lacks:
        print("skipped: no", lacks[0])
        return several.SKIPPED
    with tempfile.TemporaryDirectory(prefix="troupe-models-") as folder:
        if options.folder:
            os.makedirs(folder := options.folder)
        faults = run(os.path.abspath(options.troupe), options.kills, folder)
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
