#!/usr/bin/env python3
"""Checks that a cluster keeps answering while a worker joins it and another leaves for good.

  tests/models/members.py --troupe build/deploy/troupe [--workers 2] [--rate 60] [--calm 6] [--hold 5]
                          [--json FILE] [--folder FOLDER]

Two front nodes (routers and cache-metas), workers, a Redis and an etcd serve the demo's ranker; item
blocks are assigned by hash. Clients ask at both fronts at a steady rate. The steps:

  1. A worker joins that the cluster file does not name (`troupe node --join`), and gets its assigned blocks.
  2. The worker with most users leaves (`troupe leave`). It stays only until its blocks have migrated,
     then exits.
  3. A front is killed and restarted; it must find the members in etcd. The worker that left is not
     admitted again.
  4. The etcd loses its data, and a front that remembers the members restarts. The next worker that joins
     gets a number that no node ever had.
  5. That worker gets a signal, is asked to leave while it still reports not-ready, and gets a second
     signal. It must be out of the members afterwards, and not before.

Every answer must be that of a single node. No request fails before the kill. No block of a user or an
item is computed again that a node had: it is pulled or migrated. Exit status 1 on any difference; 77 if
etcd or Redis is missing.
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import under_load
from under_load import DEMO, FRONTS, USERS, Truth, judge, loopback, percentile

JOINER, HASTY = "joined-1", "joined-2"
ASKED_BEFORE = 4 * USERS  # requests until each user had one with each plan


def settings_of(redis):
    return [
        f'features: {{store: "redis://{loopback.ADDRESS}:{redis.port}", time_limit: 1s}}',
        "pool: {memory: 48MiB, placement: hash, hot_share: 0}",
        "inference: {executors: 1, cores: 1}",
        "router: {deadline: 3s, pull_share: 0.01, measure_pulls: false}",
        f"model: {{directory: {DEMO / 'model'}}}",
    ]


def router_fields(cluster, front):
    actors = json.loads(loopback.ask(cluster.http_port[front], "GET", "/v1/cluster")[1])["actors"]
    told = (
        actor["fields"]
        for actor in actors
        if actor["role"] == "router" and actor["node"] == cluster.number(front)
    )
    fields = next(told, [])  # a router that answers too late tells nothing
    return [(field["name"], field["value"]) for field in fields]


def counted(cluster, fronts=FRONTS):
    """Returns counts of blocks that routers had computed, by kind: for requests, and in advance
    (precompute)."""
    counts = dict.fromkeys(("user_blocks_computed", "item_blocks_computed", "item_blocks_precomputed"), 0)
    for front in fronts:
        text = loopback.ask(cluster.http_port[front], "GET", "/metrics")[1]
        for kind, count in re.findall(
            r'^troupe_blocks_computed_total{[^}]*kind="(user|item)"[^}]*} (\S+)$', text, re.M
        ):
            counts[f"{kind}_blocks_computed"] += float(count)
        counts["item_blocks_precomputed"] += cluster.metrics(front).get(
            "troupe_item_blocks_precomputed_total", 0
        )
    return counts


def members(cluster):
    told = subprocess.run(
        [cluster.troupe, "members", "--config", cluster.file, "--json", "-"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {member["name"]: member for member in json.loads(told.stdout)["members"]}


def start_joined(cluster, name, **node):
    """Starts a worker that joins, with its own ports and these settings; returns its node number."""
    port, cluster.http_port[name] = loopback.free_ports(2)
    (cluster.folder / name).mkdir()
    settings = {
        "node.data_dir": cluster.folder / name,
        "http.port": cluster.http_port[name],
        **{f"node.{key}": value for key, value in node.items()},
    }
    cluster.start(
        name,
        "--join",
        f"{loopback.ADDRESS}:{port}",
        *(word for key, value in settings.items() for word in ("--set", f"{key}={value}")),
    )
    cluster.wait_until_ready(name)
    return members(cluster)[name]["node"]


def join(cluster, faults):
    """Lets a worker join; returns the seconds until it has its assigned blocks."""
    began = time.monotonic()
    number = start_joined(cluster, JOINER, leave_time_min="2s")
    cluster.names += [None] * (number - 1 - len(cluster.names)) + [JOINER]

    def is_there():
        for front in FRONTS:
            fields = router_fields(cluster, front)
            if (
                not any(name == "worker" and value.startswith(f"{number}: alive") for name, value in fields)
                or ("handed_on", "yes") not in fields
            ):
                return False
        return True

    cluster.wait("the worker that joined", is_there)
    if number != len(FRONTS) + cluster.count + 1:
        faults.append(f"the worker that joined is node {number}")
    return time.monotonic() - began


def pages_of_users(cluster, name):
    text = loopback.ask(cluster.http_port[name], "GET", "/metrics")[1]
    return sum(
        float(pages) for pages in re.findall(r'^troupe_pages_used{[^}]*kind="user"[^}]*} (\S+)$', text, re.M)
    )


def end_of_leaver(cluster, leaver):
    """Returns the exit status of a node that was asked to leave, or a text if it does not end."""
    loopback.run(cluster.troupe, "leave", "--config", cluster.file, "--name", leaver, "--no-wait")
    process = cluster.processes.pop(leaver)
    try:
        return process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        return "none after a minute"


def leave(cluster, leaver, faults):
    began = time.monotonic()
    status = end_of_leaver(cluster, leaver)
    if status != 0:
        faults.append(f"{leaver} ended with {status}")
    left = (cluster.folder / f"{leaver}.log").read_text()
    if '"left"' not in left and " left " not in left or "handed_on" not in left:
        faults.append(f"{leaver} does not report that it has left")
    took, users = time.monotonic() - began, users_handed_on(left)
    if not users or not users["blocks"] or users["handed_on"] + users["held_elsewhere"] != users["blocks"]:
        faults.append(f"{leaver} has not migrated all of its users' blocks: {users}")
    return took, users


def users_handed_on(log):
    """Returns the leaver's report on its users' blocks, or None."""
    lines = [line for line in log.splitlines() if "users_blocks_handed_on" in line]
    return (
        {
            name: int(count)
            for name, count in re.findall(
                r'"?(blocks|handed_on|held_elsewhere|left_behind)"?[=:] ?"?(\d+)',
                lines[-1].split("users_blocks_handed_on", 1)[1],
            )
        }
        if lines
        else None
    )


def check_after(cluster, leaver, faults):
    """Checks the members, and that a front that restarts learns them from etcd."""
    there = members(cluster)
    if leaver in there or there.get(JOINER, {}).get("since") != "joined":
        faults.append(f"troupe members says {there}")
    again = subprocess.run(
        [cluster.troupe, "node", "--config", cluster.file, "--name", leaver],
        capture_output=True,
        text=True,
        timeout=20,
    )
    if again.returncode == 0 or "has left the cluster" not in again.stderr:
        faults.append(f"{leaver} started again: {again.returncode} {again.stderr}")
    cluster.kill(FRONTS[1])
    cluster.start(FRONTS[1])
    cluster.wait_until_ready(FRONTS[1])
    number = there[JOINER]["node"]
    cluster.wait(
        "the joined worker at a restarted front",
        lambda: any(
            name == "worker" and value.startswith(f"{number}: alive")
            for name, value in router_fields(cluster, FRONTS[1])
        ),
    )


def check_lost_etcd(cluster, faults):
    given = members(cluster)[JOINER]["node"]
    cluster.kill("etcd")
    shutil.rmtree(cluster.folder / "etcd")
    cluster.start_etcd()
    cluster.kill(FRONTS[1])
    cluster.start(FRONTS[1])
    cluster.wait_until_ready(FRONTS[1])
    number = start_joined(cluster, HASTY, drain_notice="3s", leave_time_min="1min")
    if number != given + 1:
        faults.append(
            f"the worker that joined an etcd that has lost its data is node {number}, after {given}"
        )


def check_haste(cluster, faults):
    """Checks a signal, then a request to leave, then another signal."""
    process = cluster.processes.pop(HASTY)
    process.terminate()
    loopback.run(cluster.troupe, "leave", "--config", cluster.file, "--name", HASTY, "--no-wait")
    # Longer than node.drain_notice: if the leave counted as a second signal, the node would have ended.
    time.sleep(4)
    if process.poll() is not None or members(cluster).get(HASTY, {}).get("since") != "leaves":
        faults.append(
            f"{HASTY} ended ({process.poll()}) before the second signal; members: " f"{members(cluster)}"
        )
    process.terminate()
    try:
        status = process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        status = "none after a second signal"
    if status != 0 or HASTY in members(cluster):
        faults.append(f"{HASTY} ended with {status} at the second signal; members: {members(cluster)}")


def ask_around(cluster, load, options, faults):
    time.sleep(ASKED_BEFORE / options.rate + options.calm)
    before, joins = counted(cluster), time.monotonic()
    took_join = join(cluster, faults)
    joined = time.monotonic()
    time.sleep(options.hold)
    leaves, at_join = time.monotonic(), counted(cluster)
    leaver = max(
        (f"worker-{number + 1}" for number in range(cluster.count)),
        key=lambda name: pages_of_users(cluster, name),
    )
    took_leave, users = leave(cluster, leaver, faults)
    left = time.monotonic()
    time.sleep(options.hold)
    ended, after = time.monotonic(), counted(cluster)
    parts = {
        "before": load.between(load.began, joins),
        "joins": load.between(joins, joined),
        "between": load.between(joined, leaves),
        "leaves": load.between(leaves, left),
        "after": load.between(left, ended),
    }
    for name, outcomes in parts.items():
        judge(name, outcomes, faults, lossless=True)
    again = {name: after[name] - before[name] for name in after}
    served = cluster.metrics(JOINER).get("troupe_batch_requests_sum", 0)
    print(
        f"joined in {took_join:.1f} s, left in {took_leave:.1f} s; computed again: {again}, at the join "
        f"{ {name: at_join[name] - before[name] for name in after} }; plans at the joined worker: "
        f"{served:.0f}"
    )
    print(f"users of {leaver}: {users}")
    faults += [
        f"{count:.0f} {name} computed again at the join, though another node had them"
        for name in again
        if (count := at_join[name] - before[name])
    ]
    faults += [
        f"{count:.0f} {name} computed again, though another node had them"
        for name, count in again.items()
        if count
    ]
    return {
        "leaver": leaver,
        "join_s": took_join,
        "leave_s": took_leave,
        "users": users,
        "computed_again": again,
        "plans_at_joined": served,
        **{f"{name}_p99_ms": percentile(outcomes, 0.99) for name, outcomes in parts.items()},
        "asked": {name: len(outcomes) for name, outcomes in parts.items()},
    }


def run(options, folder):
    requests, faults = under_load.demo_requests(), []
    truth = Truth(options.troupe, (DEMO / "model",), folder, requests)
    with under_load.served(options, folder, settings_of) as cluster:
        cluster.count = options.workers
        cluster.file.write_text(
            cluster.file.read_text().replace("data_dir: ", "leave_time_min: 0s, data_dir: ")
        )
        with under_load.asked(cluster, truth, requests, options.rate) as load:
            found = ask_around(cluster, load, options, faults)
        check_after(cluster, found["leaver"], faults)
        check_lost_etcd(cluster, faults)
        check_haste(cluster, faults)
    return found, faults


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--calm",
        type=float,
        default=4,
        help="seconds before the first change, after each user was requested",
    )
    parser.add_argument("--hold", type=int, default=6, help="seconds after each change")
    return under_load.main(parser, run)


if __name__ == "__main__":
    sys.exit(main())
