#!/usr/bin/env python3
"""Shows on a cluster of real processes which workers have which item blocks while requests are served. There
are a router and three workers with the demo's model and form, and a part of its catalog.

  tests/bench/auto_placement.py [--troupe build/deploy/troupe] [--plan metis] [--affinity]

Nothing is set for the placement, so it is pool.placement: auto. Each item is on one worker. Items that are
requested often come to all workers. When a worker is killed, the others stand in for its items. With --plan
the cluster follows that placement of troupe-lab plan, and then another plan that replaces its file. With
--affinity a request goes to the worker that has most of its items. Exit status 77 without etcd."""
import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile

import loopback

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO = ROOT / "deploy/demo"
WORKERS, ITEMS, HOT = 3, 600, 8
HEARTBEAT = "100ms"  # a worker is away after 150 of them
WAIT_S = 60


def quick_cluster(troupe, folder, settings):
    """Returns a cluster with a short heartbeat, so that a killed worker is soon away."""
    cluster = loopback.Cluster(troupe, folder, WORKERS, settings)
    name = "  name: loopback\n"
    cluster.file.write_text(cluster.file.read_text().replace(name, f"{name}  heartbeat: {HEARTBEAT}\n"))
    return cluster


def lines_of(name):
    with open(DEMO / "world" / name) as lines:
        return [json.loads(line) for line in lines]


def write_world(folder):
    """Writes a catalog of items with different tokens, since equal ones share a block. Returns their ids."""
    chosen = {}
    for item in lines_of("items.jsonl"):
        chosen.setdefault(tuple(item["tokens"]), item)
    items = list(chosen.values())[:ITEMS]
    ids = [item["id"] for item in items]
    known = set(ids)
    users = [
        user | {"history": [item for item in user["history"] if item in known]}
        for user in lines_of("users.jsonl")
    ]
    for name, rows in (("items", items), ("users", [user for user in users if user["history"]])):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ids, [user["id"] for user in users if user["history"]]


class Plan:
    """The plan's file that troupe-lab plan writes, and the number of items that it has on all workers."""

    def __init__(self, lab, name, data, folder):
        self.file, self.name = folder / "plan.json", name
        nodes = ",".join(str(2 + i) for i in range(WORKERS))
        words = ["--data", data, "--nodes", nodes, "--memory", "2GB", "--placement", name]
        loopback.run(lab, "plan", *words, "--json", self.file)
        self.plan = json.loads(self.file.read_text())
        self.placement = next(one for one in self.plan["placements"] if one["name"] == name)
        if self.placement.get("nowhere"):
            raise RuntimeError(f"{self.file} leaves items nowhere; expected all on workers")

    def everywhere(self):
        return self.placement["everywhere"]

    def put_everywhere(self, item):
        """Replaces the file by one in which this item is on all workers."""
        for ids in self.placement["shards"].values():
            if item in ids:
                ids.remove(item)
        self.placement["everywhere"].append(item)
        beside = self.file.with_suffix(".new")
        beside.write_text(json.dumps(self.plan))
        os.replace(beside, self.file)


def item_blocks(cluster):
    """Returns the number of item blocks by worker, as the workers' status shows them."""
    blocks = {}
    actors = json.loads(loopback.ask(cluster.http_port["front"], "GET", "/v1/cluster")[1])["actors"]
    for actor in actors:
        if actor["role"] != "kv_worker" or actor["node"] not in cluster.workers():
            continue
        blocks[actor["node"]] = 0
        for field in actor["fields"]:
            if field["name"] == "kind" and (found := re.match(r"item: (\d+) blocks", field["value"])):
                blocks[actor["node"]] = int(found[1])
    return blocks


def await_blocks(cluster, what, expected, workers):
    """Waits until the workers have that many item blocks together. Returns those of each."""
    seen = {}

    def there():
        seen.clear()
        seen.update(item_blocks(cluster))
        return len(seen) == workers and sum(seen.values()) == expected

    try:
        cluster.wait(what, there, limit=WAIT_S)
    except RuntimeError as error:
        raise RuntimeError(f"{error}: {sum(seen.values())} blocks, {seen}; expected {expected}") from error
    print(f"{what}: {sum(seen.values())} blocks, by worker {dict(sorted(seen.items()))}", flush=True)
    return dict(seen)


def make_hot(cluster, items, users):
    """Ranks these items for one user after the other until they are hot."""
    sent = 0

    def hot():
        nonlocal sent
        for _ in range(10):
            body = {"user": users[sent % len(users)], "candidates": items, "top_k": 1}
            status, text = loopback.ask(cluster.http_port["front"], "POST", "/v1/rank", body, limit=20)
            if status != 200:
                raise RuntimeError(f"/v1/rank: {status} {text[:300]}; expected an answer")
            sent += 1
        return int(cluster.router()["items_hot"]) == len(items)

    cluster.wait(f"{len(items)} hot items", hot, limit=WAIT_S)
    print(f"{len(items)} items are hot after {sent} requests for them", flush=True)


def check_status(cluster, placement):
    """Checks what the router says of the placement and, for auto, of its decision."""
    fields = cluster.router()
    if fields["placement"] != placement:
        raise RuntimeError(f"placement is {fields['placement']}; expected {placement}")
    if placement != "auto":
        return
    if not 0 < float(fields["hot_share"]) <= 1 / HOT + 0.01 or fields["link_speed"] not in (
        "measured",
        "assumed",
    ):
        raise RuntimeError(f"the status has {fields}; expected the share of a hot item, and a link's speed")
    names = ("hot_share", "remote_share_max", "link_bytes_per_s", "link_speed")
    print(", ".join(f"{name} {fields[name]}" for name in names), flush=True)


def run(options, folder):
    data = folder / "world"
    data.mkdir()
    items, users = write_world(data)
    settings = [f"model: {{directory: {DEMO / 'model'}}}"]
    plan, replicated, placement = None, 0, "auto"
    if options.plan:
        plan = Plan(f"{options.troupe}-lab", options.plan, data, folder)
        replicated, placement = len(plan.everywhere()), f"{plan.file}:{plan.name}"
        settings.append(f'pool: {{placement: "{placement}"}}')
        items = [item for item in items if item not in plan.everywhere()]
    if options.affinity:
        settings.append("router: {routing: affinity}")
    nodes = folder / "nodes"
    nodes.mkdir()
    cluster = quick_cluster(options.troupe, nodes, settings)
    try:
        cluster.up(data)
        expected = ITEMS + replicated * (WORKERS - 1)
        by_worker = await_blocks(cluster, "precomputed", expected, WORKERS)
        if not plan and min(by_worker.values()) < ITEMS / WORKERS / 2:
            raise RuntimeError(f"the workers have {by_worker} blocks; expected about as many each")
        make_hot(cluster, items[:HOT], users)
        check_status(cluster, placement)
        expected += HOT * (WORKERS - 1)
        await_blocks(cluster, "hot items are on all workers", expected, WORKERS)
        if plan:
            plan.put_everywhere(items[-1])
            expected += WORKERS - 1
            replicated += 1
            await_blocks(cluster, "the replaced plan is followed", expected, WORKERS)
        cluster.kill("worker-1")
        expected = ITEMS + replicated + HOT  # of the replicated items one more than of the others
        await_blocks(cluster, "the others stand in for a killed worker", expected, WORKERS - 1)
    finally:
        cluster.end()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", default=str(ROOT / "build/deploy/troupe"))
    parser.add_argument("--plan", choices=["hrcs", "metis", "hash"], help="placement of troupe-lab plan")
    parser.add_argument("--affinity", action="store_true", help="router.routing: affinity")
    options = parser.parse_args()
    options.troupe = os.path.abspath(options.troupe)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # runs the cleanup
    if lacks := loopback.missing():
        print(f"skipped: this machine has no {lacks}", file=sys.stderr)
        return 77
    folder = pathlib.Path(tempfile.mkdtemp(prefix="troupe-placement-"))
    try:
        run(options, folder)
    except RuntimeError as error:
        print(f"failed: {error}; see {folder}", file=sys.stderr)
        return 1
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
