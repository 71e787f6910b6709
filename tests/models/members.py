#!/usr/bin/env python3
"""Does a cluster go on answering while a worker joins it that its file does not name, and another leaves it for good?

  tests/models/members.py --troupe build/deploy/troupe [--workers 2] [--rate 60] [--calm 6] [--hold 5] [--json FILE] [--folder FOLDER]

Two front nodes (routers and cache-metas) and workers, a Redis and an etcd, serve the demo's ranker; item blocks belong by hash. While
clients ask at both fronts at a steady rate, a worker joins (`troupe node --join`), and when it has what belongs to it, the first
worker leaves (`troupe leave`) and ends by itself. Then a front is killed and started again, which has to find the members in etcd;
the one that left is not let in again. Every answer has to be a box's, no request fails before the kill, and no block is computed
again at the join that another node had, nor an item's ahead: what has been computed once is pulled. Exit status 1 on any difference, 77 where etcd or Redis is not there.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE), *(str(HERE.parent / part) for part in ("bench", "linearizability", "chaos"))]
import loopback
from cluster import Redis
from swap import DEMO, FRONTS, SKIPPED, USERS, Load, Truth, judge, percentile

JOINER, LEAVER = "joined-1", "worker-1"
ASKED_BEFORE = 4 * USERS  # turns until each user was asked about by both plans


def settings_of(redis):
    return [f'features: {{store: "redis://{loopback.ADDRESS}:{redis.port}", time_limit: 1s}}',
            "pool: {memory: 48MiB, placement: hash, hot_share: 0}", "inference: {executors: 1, cores: 1}",
            "router: {deadline: 3s, pull_share: 0.01, measure_pulls: false}", f"model: {{directory: {DEMO / 'model'}}}"]


def router_fields(cluster, front):
    actors = json.loads(loopback.ask(cluster.door[front], "GET", "/v1/cluster")[1])["actors"]
    fields = next(actor["fields"] for actor in actors if actor["role"] == "router" and actor["node"] == cluster.number(front))
    return [(field["name"], field["value"]) for field in fields]


def counted(cluster):
    """What routers have had computed for requests, by kind of block, and ahead of them."""
    counts = dict.fromkeys(("user_blocks_computed", "item_blocks_computed", "item_blocks_precomputed"), 0)
    for front in FRONTS:
        text = loopback.ask(cluster.door[front], "GET", "/metrics")[1]
        for kind, count in re.findall(r'^troupe_blocks_computed_total{[^}]*kind="(user|item)"[^}]*} (\S+)$', text, re.M):
            counts[f"{kind}_blocks_computed"] += float(count)
        counts["item_blocks_precomputed"] += cluster.metrics(front).get("troupe_item_blocks_precomputed_total", 0)
    return counts


def members(cluster):
    told = subprocess.run([cluster.troupe, "members", "--config", cluster.file, "--json", "-"], capture_output=True, text=True, check=True)
    return {member["name"]: member for member in json.loads(told.stdout)["members"]}


def join(cluster, faults):
    """A worker on ports of its own; what it took until routers had brought it what belongs to it."""
    port, cluster.door[JOINER] = loopback.free_ports(2)
    (cluster.folder / JOINER).mkdir()
    began = time.monotonic()
    cluster.start(JOINER, "--join", f"{loopback.ADDRESS}:{port}", "--set", f"node.data_dir={cluster.folder / JOINER}",
                  "--set", f"http.port={cluster.door[JOINER]}", "--set", "node.leave_for=2s")
    cluster.wait_until_ready(JOINER)
    number = members(cluster)[JOINER]["node"]
    cluster.names += [None] * (number - 1 - len(cluster.names)) + [JOINER]

    def is_there():
        for front in FRONTS:
            fields = router_fields(cluster, front)
            if not any(name == "worker" and value.startswith(f"{number}: alive") for name, value in fields) or ("handed_on", "yes") not in fields:
                return False
        return True
    cluster.wait("the worker that joined", is_there)
    if number != len(FRONTS) + cluster.count + 1:
        faults.append(f"the worker that joined is node {number}")
    return time.monotonic() - began


def leave(cluster, faults):
    began = time.monotonic()
    loopback.run(cluster.troupe, "leave", "--config", cluster.file, "--name", LEAVER)
    process = cluster.processes.pop(LEAVER)
    try:
        status = process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        status = "none after a minute"
    if status != 0:
        faults.append(f"{LEAVER} ended with {status}")
    left = (cluster.folder / f"{LEAVER}.log").read_text()
    if '"left"' not in left and " left " not in left or "handed_on" not in left:
        faults.append(f"{LEAVER} does not say that it has left")
    return time.monotonic() - began


def check_after(cluster, faults):
    """Who is there by now; and a front that starts anew learns it from etcd."""
    there = members(cluster)
    if LEAVER in there or there.get(JOINER, {}).get("since") != "joined":
        faults.append(f"troupe members says {there}")
    again = subprocess.run([cluster.troupe, "node", "--config", cluster.file, "--name", LEAVER], capture_output=True, text=True, timeout=20)
    if again.returncode == 0 or "has left the cluster" not in again.stderr:
        faults.append(f"{LEAVER} started again: {again.returncode} {again.stderr}")
    cluster.kill(FRONTS[1])
    cluster.start(FRONTS[1])
    cluster.wait_until_ready(FRONTS[1])
    number = there[JOINER]["node"]
    cluster.wait("the joined worker at a front that started anew",
                 lambda: any(name == "worker" and value.startswith(f"{number}: alive") for name, value in router_fields(cluster, FRONTS[1])))


def ask_around(cluster, load, options, faults):
    time.sleep(ASKED_BEFORE / options.rate + options.calm)
    before, joins = counted(cluster), time.monotonic()
    took_join = join(cluster, faults)
    joined = time.monotonic()
    time.sleep(options.hold)
    leaves, at_join = time.monotonic(), counted(cluster)
    took_leave = leave(cluster, faults)
    left = time.monotonic()
    time.sleep(options.hold)
    ended, after = time.monotonic(), counted(cluster)
    parts = {"before": load.between(load.began, joins), "joins": load.between(joins, joined), "between": load.between(joined, leaves),
             "leaves": load.between(leaves, left), "after": load.between(left, ended)}
    for name, outcomes in parts.items():
        judge(name, outcomes, faults, lossless=True)
    again = {name: after[name] - before[name] for name in after}
    served = cluster.metrics(JOINER).get("troupe_batch_requests_sum", 0)
    print(f"joined in {took_join:.1f} s, left in {took_leave:.1f} s; computed again: {again}, of that at the join "
          f"{ {name: at_join[name] - before[name] for name in after} }; plans at the joined worker: {served:.0f}")
    # Of what the leaver had, blocks of users who did not come back while it stayed are computed again: told, and not judged here.
    faults += [f"{count:.0f} {name} again at the join, though another node had them" for name in again
               if (count := at_join[name] - before[name])]
    faults += [f"{count:.0f} {name} again, though another node had them" for name, count in again.items() if count and name != "user_blocks_computed"]
    return {"join_s": took_join, "leave_s": took_leave, "computed_again": again, "plans_at_joined": served,
            **{f"{name}_p99_ms": percentile(outcomes, 0.99) for name, outcomes in parts.items()},
            "asked": {name: len(outcomes) for name, outcomes in parts.items()}}


def run(options, folder):
    with open(DEMO / "world" / "requests.jsonl") as file:
        requests = [{key: json.loads(line)[key] for key in ("user", "candidates")} for line, _ in zip(file, range(USERS))]
    truth = Truth(options.troupe, (DEMO / "model",), folder, requests)
    faults, redis, load = [], Redis(folder), None
    cluster = loopback.Cluster(options.troupe, folder, options.workers, settings_of(redis), FRONTS)
    cluster.count = options.workers
    cluster.file.write_text(cluster.file.read_text().replace("data_dir: ", f"leave_for: {options.hold}s, data_dir: "))
    try:
        cluster.up(DEMO / "world")
        load = Load(truth, requests, cluster.door, options.rate)
        found = ask_around(cluster, load, options, faults)
        load.stop()
        check_after(cluster, faults)
    finally:
        if load:
            load.stopping = True
        cluster.end()
        redis.end()
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"workers": options.workers, "rate": options.rate, **found, "faults": faults}, indent=1) + "\n")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--troupe", required=True, type=os.path.abspath)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rate", type=float, default=60, help="requests per second")
    parser.add_argument("--calm", type=float, default=4, help="seconds before the first change, beside those in which each user is asked about")
    parser.add_argument("--hold", type=int, default=6, help="seconds after each change, and that the worker stays at least once it leaves")
    parser.add_argument("--json", help="write what was measured here")
    parser.add_argument("--folder", help="keep logs here")
    options = parser.parse_args()
    lacks = [program for program in ("etcd", "redis-server") if not shutil.which(program)]
    if lacks:
        print("skipped: no", lacks[0])
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="troupe-members-") as folder:
        if options.folder:
            os.makedirs(folder := options.folder)
        faults = run(options, folder)
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
