#!/usr/bin/env python3
"""Checks that a cluster keeps answering while a new front joins and the leading front leaves for good.

  tests/models/fronts.py --troupe build/deploy/troupe [--workers 2] [--rate 60] [--hold 5] [--json FILE]
                         [--folder FOLDER]

Two front nodes (routers and cache-metas), workers, a Redis and an etcd serve the demo's ranker, while
clients ask at a steady rate. The steps:

  1. A front joins that the cluster file does not name (`troupe node --join --like front-1`); clients ask
     it, too.
  2. Clients leave the front whose cache-meta leads, and then it leaves the cluster (`troupe leave`).
  3. A worker is killed and restarted. It knows the fronts from the file only.
  4. The other front of the file leaves, which is allowed, because the new front stays. The new front may
     not leave, because it is the last. A worker's HTTP server, which knew only the fronts of the file,
     forwards to it.

Every answer must be that of a single node. No request fails except because of the kill. No block is
computed again that a node had. Exit status 1 on any difference; 77 if etcd or Redis is missing.
"""
import argparse
import json
import re
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import under_load
from members import ASKED_BEFORE, counted, end_of_leaver, members, settings_of
from under_load import DEMO, FRONTS, Truth, judge, loopback, percentile

JOINER = "front-joined"


def actors(cluster, server):
    return json.loads(loopback.ask(cluster.http_port[server], "GET", "/v1/cluster")[1])["actors"]


def field(actor, name):
    return next((one["value"] for one in actor["fields"] if one["name"] == name), None)


def leading(cluster, server):
    """Returns the node whose cache-meta leads, as it says itself at this server."""
    return next(
        (
            actor["node"]
            for actor in actors(cluster, server)
            if actor["role"] == "cache_meta" and field(actor, "leader") == "yes"
        ),
        None,
    )


def workers_heard(cluster, server, number):
    router = next(
        actor for actor in actors(cluster, server) if actor["role"] == "router" and actor["node"] == number
    )
    return {
        int(one["value"].split(":")[0])
        for one in router["fields"]
        if one["name"] == "worker" and ": alive" in one["value"]
    }


def join(cluster, load, faults):
    began = time.monotonic()
    port, cluster.http_port[JOINER] = loopback.free_ports(2)
    (cluster.folder / JOINER).mkdir()
    cluster.start(
        JOINER,
        "--join",
        f"{loopback.ADDRESS}:{port}",
        "--like",
        FRONTS[0],
        "--set",
        f"node.data_dir={cluster.folder / JOINER}",
        "--set",
        f"http.port={cluster.http_port[JOINER]}",
    )
    cluster.wait_until_ready(JOINER)
    there = members(cluster)[JOINER]
    if there["roles"] != "router, cache_meta" or there["node"] != len(FRONTS) + cluster.count + 1:
        faults.append(f"the front that joined is {there}")
    cluster.wait(
        "the workers at the front that joined",
        lambda: len(workers_heard(cluster, JOINER, there["node"])) == cluster.count,
    )
    load.fronts = (*FRONTS, JOINER)
    cluster.wait(
        "the joined front at the other servers",
        lambda: all(
            any(actor["role"] == role and actor["node"] == there["node"] for actor in actors(cluster, front))
            for front in FRONTS
            for role in ("router", "cache_meta")
        ),
    )
    return there["node"], time.monotonic() - began


def index_of(cluster, number):
    """Returns how many blocks that cache-meta knows, and its open walks."""
    meta = next(
        actor
        for actor in actors(cluster, JOINER)
        if actor["role"] == "cache_meta" and actor["node"] == number
    )
    return int(field(meta, "index_blocks") or 0), int(field(meta, "syncing") or 0)


def leave(cluster, leaver, faults):
    began = time.monotonic()
    status = end_of_leaver(cluster, leaver)
    if status != 0 or leaver in members(cluster):
        faults.append(f"{leaver} ended with {status}; members: {sorted(members(cluster))}")
    return time.monotonic() - began


def try_to_leave(cluster, name):
    return subprocess.run(
        [cluster.troupe, "leave", "--config", cluster.file, "--name", name], capture_output=True, text=True
    ).stderr


def check_refusals(cluster, faults):
    """Checks that a node that cannot join is refused before the cluster hears of it."""
    text = cluster.file.read_text()
    file = cluster.folder / "other.yaml"
    lone = text.replace("roles: [router, cache_meta]", "roles: [cache_meta]").replace(
        "roles: [cache_meta]", "roles: [router, cache_meta]", 1
    )
    for changed, expected in (
        (lone, "has one router, and model.versions is empty"),
        (
            re.sub(r"^features: .*\n", "", text, flags=re.M),
            "features.store is empty; expected a Redis on all routers",
        ),
    ):
        file.write_text(changed)
        said = subprocess.run(
            [
                cluster.troupe,
                "node",
                "--config",
                file,
                "--name",
                "other",
                "--join",
                f"{loopback.ADDRESS}:1",
                "--like",
                FRONTS[0],
            ],
            capture_output=True,
            text=True,
            timeout=20,
        )
        if said.returncode == 0 or expected not in said.stderr or "other" in members(cluster):
            faults.append(
                f"expected a refusal to join because {expected}: {said.returncode} {said.stderr}; members: "
                f"{sorted(members(cluster))}"
            )


def ask_around(cluster, load, options, faults):
    time.sleep(ASKED_BEFORE / options.rate + 1)
    before, joins = counted(cluster, FRONTS), time.monotonic()
    number, took_join = join(cluster, load, faults)
    joined = time.monotonic()
    time.sleep(options.hold)
    known, open_walks = index_of(cluster, number)
    if not known or open_walks:
        faults.append(f"the joined cache-meta knows {known} blocks, and still walks {open_walks} workers")
    leaver = FRONTS[leading(cluster, JOINER) - 1]
    stays = FRONTS[1 - FRONTS.index(leaver)]
    at_join, of_leaver = counted(cluster, (*FRONTS, JOINER)), counted(cluster, (leaver,))
    load.fronts = (stays, JOINER)
    time.sleep(1)
    leaves = time.monotonic()
    took_leave = leave(cluster, leaver, faults)
    left = time.monotonic()
    time.sleep(options.hold)
    ended = time.monotonic()
    leader = leading(cluster, JOINER)
    if leader not in (number, cluster.number(stays)):
        faults.append(f"the cache-meta of node {leader} says that it leads")
    after = counted(cluster, (stays, JOINER))
    again = {name: after[name] + of_leaver[name] - before[name] for name in after}
    faults += [
        (
            f"{count:.0f} {name} computed again, {at_join[name] - before[name]:.0f} of them at the join, "
            f"though a "
            f"node had them"
        )
        for name, count in again.items()
        if count
    ]
    parts = {
        "before": load.between(load.began, joins),
        "joins": load.between(joins, joined),
        "three": load.between(joined, leaves),
        "leaves": load.between(leaves, left),
        "after": load.between(left, ended),
    }
    for name, outcomes in parts.items():
        judge(name, outcomes, faults, lossless=True)
    at_joined = sum(outcome[4] == JOINER for name in ("three", "leaves", "after") for outcome in parts[name])
    print(
        f"joined in {took_join:.1f} s; {leaver}, which led, left in {took_leave:.1f} s; now node {leader} "
        f"leads; {at_joined} requests at the joined front's server; {known} blocks in its index; computed "
        f"again: {again}"
    )
    if not at_joined:
        faults.append("no request reached the joined front's server")
    return (
        {
            "join_s": took_join,
            "leave_s": took_leave,
            "computed_again": again,
            "index_blocks": known,
            "asked_at_joined": at_joined,
            **{f"{name}_p99_ms": percentile(outcomes, 0.99) for name, outcomes in parts.items()},
            "asked": {name: len(outcomes) for name, outcomes in parts.items()},
        },
        stays,
        number,
    )


def check_killed_worker(cluster, load, number, faults):
    """Checks that a restarted worker hears of the joined front from that front alone."""
    began = time.monotonic()
    cluster.kill("worker-1")
    time.sleep(1)
    cluster.start("worker-1")
    cluster.wait_until_ready("worker-1")
    cluster.wait(
        "the worker at the front that joined",
        lambda: cluster.number("worker-1") in workers_heard(cluster, JOINER, number),
    )
    cluster.wait("its blocks in the index that joined", lambda: index_of(cluster, number)[1] == 0)
    judge("a worker killed", load.between(began, time.monotonic()), faults, lossless=False)


def check_ends(cluster, load, stays, faults):
    began = time.monotonic()
    load.fronts = (JOINER,)
    time.sleep(1)
    leave(cluster, stays, faults)
    said = try_to_leave(cluster, JOINER)
    if not re.search("is the last (router|cache_meta); expected another that stays", said):
        faults.append(f"expected a refusal to let the last front leave: {said}")
    if "there is no node" not in (said := try_to_leave(cluster, "nobody")):
        faults.append(f"expected a refusal of an unknown node: {said}")
    load.fronts = (JOINER, "worker-2")
    time.sleep(2)
    judge("one front", outcomes := load.between(began, time.monotonic()), faults, lossless=True)
    if not any(outcome[4] == "worker-2" for outcome in outcomes):
        faults.append("no request reached a worker's server")


def run(options, folder):
    requests, faults = under_load.demo_requests(), []
    truth = Truth(options.troupe, (DEMO / "model",), folder, requests)
    with under_load.served(options, folder, settings_of) as cluster:
        cluster.count = options.workers
        with under_load.asked(cluster, truth, requests, options.rate) as load:
            found, stays, number = ask_around(cluster, load, options, faults)
            check_refusals(cluster, faults)
            check_killed_worker(cluster, load, number, faults)
            check_ends(cluster, load, stays, faults)
    return found, faults


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--hold", type=int, default=5, help="seconds after each change")
    return under_load.main(parser, run)


if __name__ == "__main__":
    sys.exit(main())
