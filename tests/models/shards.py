#!/usr/bin/env python3
"""Checks a cluster whose embedding table is spread over its workers' memory, also while a worker is dead.

  tests/models/shards.py --troupe build/deploy/troupe [--model climber] [--users 40] [--folder FOLDER]

A front node (router and cache-meta) and three workers with an etcd serve an HSTU or a Climber model with
model.tables: sharded. The row area of the pool holds few rows. Each worker must load its assigned shards.
Users are requested again and again. Each answer must equal, to the bit, that of a node with model.tables:
memory. Rows must come from the worker's own memory and from other nodes, hardly any from the table on
disk. Then a worker is killed: the answers stay the same, and rows of its shards come from the table
first, then from memory. Last the worker is restarted. Exit status 1 on any difference; 77 if etcd or the
data is missing.
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "bench"))
import loopback
import several

MODELS, DATA = {"hstu": "tiny-hstu-movielens", "climber": "tiny-climber"}, several.data_folder(
    "movielens-100k"
)
WORKERS, EVENTS, CANDIDATES, SKIPPED = 3, 24, 40, 77
SETTINGS = {
    "pool.memory": "3MiB",
    "pool.page_tokens": "2",
    "pool.item_share": "0.08",
    "pool.precompute_items": "false",
    "inference.executors": "1",
    "inference.cores": "1",
}


def sections(settings):
    def section(name):
        own = {key.split(".")[1]: value for key, value in settings.items() if key.startswith(name + ".")}
        return f"{name}: {{{', '.join(f'{key}: {value}' for key, value in own.items())}}}"

    return [section(name) for name in sorted({key.split(".")[0] for key in settings})]


def requests(users, family):
    """Returns histories and candidates; item 12 is row 12."""
    chance = random.Random(7)
    feature, more = {
        "hstu": (
            {"name": "timestamps", "values": list(range(1_000, 1_000 + EVENTS))},
            {"request_timestamp": 2_000},
        ),
        "climber": ({"name": "actions", "values": [1 + event % 5 for event in range(EVENTS)]}, {}),
    }[family]
    return [
        (
            {
                "history": [str(item) for item in chance.sample(range(1, 1_600), EVENTS)],
                "features": [feature],
            },
            {
                "user": f"user-{user}",
                "candidates": [str(item) for item in chance.sample(range(1, 1_600), CANDIDATES)],
                **more,
            },
        )
        for user in range(users)
    ]


def send(port, method, path, body):
    status, text = loopback.ask(port, method, path, body, limit=20)
    if status != 200:
        raise RuntimeError(f"{method} {path}: {status} {text[:300]}")
    return json.loads(text)


def scores(port, asked):
    """Returns tokens reused, scores and node. Scores are compared per count of reused tokens, because
    sums over
    blocks are added in another order."""
    reply = send(port, "POST", "/v1/rank", asked)
    return reply["tokens_reused"], {item["id"]: item["score"] for item in reply["items"]}, reply["node"]


def put(port, asked):
    for profile, request in asked:
        send(port, "PUT", f"/v1/users/{request['user']}", profile)


def truth(troupe, model, folder, asked):
    """Returns the answers of a node that has the whole table in memory."""
    data, port = f"{folder}/box", loopback.free_ports(1)[0]
    loopback.run(troupe, "import", "--model", model, "--data-dir", data, "--data", DATA)
    words = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
    node = subprocess.Popen(
        [troupe, "serve", "--model", model, "--data-dir", data, "--port", str(port), *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + 60
        while True:
            try:
                if loopback.ask(port, "GET", "/v2/health/ready")[0] == 200:
                    break
            except OSError:
                pass
            if time.monotonic() > until or node.poll() is not None:
                raise RuntimeError("the node is not ready")
            time.sleep(0.05)
        put(port, asked)
        return [dict(scores(port, request)[:2] for _ in range(2)) for _, request in asked]
    finally:
        node.terminate()
        node.wait(40)


def workers(cluster):
    """Returns the fields of the inference workers, by node."""
    actors = json.loads(loopback.ask(cluster.http_port["front"], "GET", "/v1/cluster")[1])["actors"]
    return {
        actor["node"]: {field["name"]: field["value"] for field in actor["fields"]}
        for actor in actors
        if actor["role"] == "inference_worker"
    }


def rows(cluster):
    """Returns counts of rows that passes missed, by their source."""
    return {
        where: sum(int(fields.get("rows_from_" + where, 0)) for fields in workers(cluster).values())
        for where in ("here", "nodes", "table")
    }


def ask_all(cluster, asked, right, what, faults):
    before, nodes, wrong = rows(cluster), set(), 0
    for (_, request), expected in zip(asked, right):
        reused, found, node = scores(cluster.http_port["front"], request)
        nodes.add(node)
        wrong += found != expected.get(reused)
    after = rows(cluster)
    more = {where: after[where] - before.get(where, 0) for where in after}
    print(f"{what}: {len(asked)} answers of nodes {sorted(nodes)}, {wrong} wrong; rows from {more}")
    if wrong:
        faults.append(f"{what}: {wrong} of {len(asked)} answers differ from those with the table in memory")
    return more


def check(cluster, asked, right, faults):
    def filled():
        return [int(fields.get("shards_filled", 0)) for fields in workers(cluster).values()]

    seen = []

    def is_filled():
        seen.append(filled())
        return len(seen[-1]) == WORKERS and min(seen[-1]) > 0 and len(seen) > 10 and seen[-1] == seen[-10]

    cluster.wait("shards on all workers", is_filled)
    print("shards filled, by worker:", seen[-1])
    put(cluster.http_port["front"], asked)
    more = ask_all(cluster, asked, right, "all there", faults)
    for where in ("here", "nodes"):
        if not more[where]:
            faults.append(f"no row came from {where}")
    if 20 * more["table"] > more["here"] + more["nodes"]:  # a first pull may take longer than a batch waits
        faults.append(f"{more['table']} rows came from the table while nodes had them")
    cluster.kill("worker-2")
    more = ask_all(cluster, asked, right, "one killed", faults)
    if not more["table"]:
        faults.append("no row came from the table after its node was killed")
    again = ask_all(cluster, asked, right, "once more", faults)
    if again["table"] >= more["table"] > 0:
        faults.append(f"{again['table']} rows came from the table again")
    cluster.start("worker-2")
    cluster.wait_until_ready("worker-2")
    cluster.wait("the worker that was killed", lambda: len(workers(cluster)) == WORKERS)
    ask_all(cluster, asked, right, "started again", faults)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True, type=os.path.abspath)
    parser.add_argument("--model", choices=MODELS, default="hstu")
    parser.add_argument("--users", type=int, default=40)
    parser.add_argument("--folder", help="keep logs here")
    options = parser.parse_args()
    model = several.model_folder(MODELS[options.model])
    lacks = loopback.missing() or next((folder for folder in (model, DATA) if not os.path.isdir(folder)), "")
    if lacks:
        print("skipped: no", lacks)
        return SKIPPED
    asked, faults = requests(options.users, options.model), []
    with tempfile.TemporaryDirectory(prefix="troupe-shards-") as folder:
        if options.folder:
            os.makedirs(folder := options.folder)
        right = truth(options.troupe, model, folder, asked)
        settings = {
            **SETTINGS,
            "pool.row_share": "0.01",
            "model.directory": model,
            "model.tables": "sharded",
            "router.deadline": "3s",
        }
        cluster = loopback.Cluster(options.troupe, folder, WORKERS, sections(settings))
        try:
            cluster.start_all(DATA)
            check(cluster, asked, right, faults)
        finally:
            cluster.end()
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
