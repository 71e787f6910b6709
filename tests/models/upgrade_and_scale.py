#!/usr/bin/env python3
"""Checks that a cluster that is upgraded can be scaled in and out at once, under load.

  tests/models/upgrade_and_scale.py --troupe build/deploy/troupe [--rounds 2] [--workers 3] [--rate 60]
                                    [--placement hash] [--fronts] [--hold 2] [--json FILE] [--folder FOLDER]

Two fronts (routers and cache-metas), workers, a Redis and an etcd serve the demo's ranker. Clients ask all
the time. Each round has three steps:

  1. Upgrade: each worker (with --fronts each front, too, without clients meanwhile) gets SIGTERM and is
     started again, one after the other.
  2. Scale in: `troupe leave` for the oldest worker, right after the upgrade. The command must show the
     progress and end, with all blocks migrated, within --leave-limit; so must the worker.
  3. Scale out: a worker joins. The cluster must then have the blocks of all items, and say so.

No request may fail, and each answer must be that of a single node. Exit status 1 on any difference; 77 if
etcd or Redis is missing.
"""
import argparse
import json
import re
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import under_load
from under_load import DEMO, FRONTS, Truth, judge, loopback, percentile
from members import members, router_fields, start_joined

STOP_LIMIT_S = 30
SETTLE_S = 0.5  # for requests that clients have sent to a front before they leave it


def settings_of(placement):
    def settings(redis):
        return [
            f'features: {{store: "redis://{loopback.ADDRESS}:{redis.port}", time_limit: 1s}}',
            f"pool: {{memory: 48MiB, placement: {placement}, hot_share: 0}}",
            "inference: {executors: 1, cores: 1}",
            "router: {deadline: 5s}",
            f"model: {{directory: {DEMO / 'model'}}}",
        ]

    return settings


class Rounds:
    def __init__(self, cluster, load, options):
        self.cluster, self.load, self.options = cluster, load, options
        self.workers = [f"worker-{number + 1}" for number in range(options.workers)]
        self.words = {}  # further words of the command line of nodes that joined
        self.joined, self.faults, self.seconds = 0, [], []
        with open(DEMO / "world" / "items.jsonl") as file:  # items with equal tokens share a block
            self.blocks = len({tuple(json.loads(line)["tokens"]) for line in file})

    def restart(self, name):
        process = self.cluster.processes.pop(name)
        process.terminate()
        try:
            status = process.wait(timeout=STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            status = f"none after {STOP_LIMIT_S} s"
        if status != 0:
            self.faults.append(f"{name} ended with {status} at SIGTERM")
        self.cluster.start(name, *self.words.get(name, ()))
        self.cluster.wait_until_ready(name)

    def upgrade(self):
        for name in self.workers:
            self.restart(name)
        for name in FRONTS if self.options.fronts else ():
            self.load.fronts = tuple(front for front in FRONTS if front != name)
            time.sleep(SETTLE_S)
            self.restart(name)
            self.load.fronts = FRONTS

    def scale_in(self):
        name, began, limit = self.workers.pop(0), time.monotonic(), self.options.leave_limit
        process = self.cluster.processes.pop(name)
        words = [self.cluster.troupe, "leave", "--config", self.cluster.file, "--name", name]
        try:
            told = subprocess.run(words, capture_output=True, text=True, timeout=limit)
            status = process.wait(timeout=STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            waits = members(self.cluster).get(name, {}).get("leave")
            self.faults.append(f"{name} has not left after {limit} s; it says {waits}")
            process.kill()
            process.wait()
            return
        lines = told.stdout.splitlines()
        if (told.returncode, status) != (0, 0) or name in members(self.cluster):
            self.faults.append(f"{name} left with {told.returncode} and {status}: {told.stderr}")
        if (
            len(lines) < 2
            or not lines[0].startswith(f"{name} is leaving")
            or lines[-1] != f"{name}: has left"
        ):
            self.faults.append(f"troupe leave said {lines}")
        self.seconds.append(time.monotonic() - began)

    def scale_out(self):
        self.joined += 1
        name = f"joined-{self.joined}"
        number = start_joined(self.cluster, name, leave_time_min="1s")
        self.words[name] = self.words_of(name)
        self.cluster.names += [None] * (number - 1 - len(self.cluster.names)) + [name]
        self.workers.append(name)
        for front in FRONTS:
            self.cluster.wait(f"the blocks of {name} at {front}", lambda f=front: self.is_settled(f, number))
        blocks = {}

        def are_told():
            blocks.update(self.item_blocks())
            return len(blocks) == len(self.workers)

        self.cluster.wait("the item blocks of all workers", are_told)
        if sum(blocks.values()) < self.blocks:
            self.faults.append(f"precomputing is done, with {blocks} of {self.blocks} item blocks")

    def words_of(self, name):
        """Returns how a node that joined was started, without the program, the file and the name."""
        words = list(self.cluster.processes[name].args)
        return words[words.index("--join") :]

    def is_settled(self, front, number):
        fields = router_fields(self.cluster, front)
        return (
            any(field == "worker" and value.startswith(f"{number}: alive") for field, value in fields)
            and ("handed_on", "yes") in fields
            and ("precompute", "done") in fields
        )

    def item_blocks(self):
        """Returns the item blocks of each worker that answers, by number; a block may be on several."""
        port = self.cluster.http_port[FRONTS[0]]
        actors = json.loads(loopback.ask(port, "GET", "/v1/cluster")[1])["actors"]
        return {
            actor["node"]: sum(
                int(found[1])
                for field in actor["fields"]
                if field["name"] == "kind" and (found := re.match(r"item: (\d+) blocks", field["value"]))
            )
            for actor in actors
            if actor["role"] == "kv_worker"
        }

    def run(self):
        parts = {}
        for round_number in range(1, self.options.rounds + 1):
            for step in (self.upgrade, self.scale_in, self.scale_out):
                began = time.monotonic()
                step()
                time.sleep(self.options.hold)
                ended = time.monotonic()
                name = f"round {round_number}, {step.__name__}"
                parts[name] = self.load.between(began, ended)
                judge(f"{name} ({ended - began:.1f} s)", parts[name], self.faults, lossless=True)
        return parts


def run(options, folder):
    requests = under_load.demo_requests()
    truth = Truth(options.troupe, (DEMO / "model",), folder, requests)
    with under_load.served(options, folder, settings_of(options.placement)) as cluster:
        cluster.file.write_text(
            cluster.file.read_text().replace("data_dir: ", "leave_time_min: 1s, data_dir: ")
        )
        with under_load.asked(cluster, truth, requests, options.rate) as load:
            rounds = Rounds(cluster, load, options)
            parts = rounds.run()
    print(f"left in {', '.join(f'{seconds:.1f} s' for seconds in rounds.seconds)}")
    asked = {name: len(outcomes) for name, outcomes in parts.items()}
    if not all(asked.values()):
        rounds.faults.append(f"steps without requests: {asked}")
    found = {
        "leave_s": rounds.seconds,
        "asked": asked,
        "p99_ms": {name: percentile(outcomes, 0.99) for name, outcomes in parts.items()},
    }
    return found, rounds.faults


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--placement", default="hash", help="pool.placement of the cluster")
    parser.add_argument("--fronts", action="store_true", help="restart the fronts, too")
    parser.add_argument("--hold", type=float, default=2, help="seconds after each step")
    parser.add_argument("--leave-limit", type=float, default=20, help="seconds in which a worker must leave")
    return under_load.main(parser, run)


if __name__ == "__main__":
    sys.exit(main())
