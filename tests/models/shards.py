#!/usr/bin/env python3
"""Does a cluster whose embedding table is spread over its workers' memory answer as a box that has it all, also when a worker dies?

  tests/models/shards.py --troupe build/deploy/troupe [--model climber] [--users 40] [--folder FOLDER]

A front node (router and cache-meta) and three workers, with an etcd, serve an HSTU or a Climber model with model.tables: sharded; few rows have
room in the pages of the row area. Each worker has to have filled the shards that belong to it. Users are asked about, again and again; each
answer has to be, to the bit, that of a box with model.tables: memory, and rows have to have come from the worker's own memory
and from other nodes', hardly any from the table. Then a worker is killed: answers stay as they are, and rows of its shards come from the table,
and from memory again where they are wanted next. Last the worker is started again. Exit status 1 on any difference, 77 where etcd or the data
is not there.
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
KNOBS = {
    "pool.memory": "3MiB",
    "pool.page_tokens": "2",
    "pool.item_share": "0.08",
    "pool.precompute_items": "false",
    "inference.executors": "1",
    "inference.cores": "1",
}


def sections(knobs):
    return [
        f"{room}: {{{', '.join(f'{knob.split(chr(46))[1]}: {value}' for knob, value in knobs.items() if knob.startswith(room + chr(46)))}}}"
        for room in sorted({knob.split(".")[0] for knob in knobs})
    ]


def requests(users, family):
    """Histories and candidates; item 12 is row 12."""
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
    """By how many tokens were reused: what comes from blocks is summed up in another order."""
    reply = send(port, "POST", "/v1/rank", asked)
    return reply["tokens_reused"], {item["id"]: item["score"] for item in reply["items"]}, reply["node"]


def put(port, asked):
    for profile, request in asked:
        send(port, "PUT", f"/v1/users/{request['user']}", profile)


def truth(troupe, model, folder, asked):
    """Of a box that has the whole table in memory."""
    data, port = f"{folder}/box", loopback.free_ports(1)[0]
    loopback.run(troupe, "import", "--model", model, "--data-dir", data, "--data", DATA)
    words = [word for knob, value in KNOBS.items() for word in ("--set", f"{knob}={value}")]
    box = subprocess.Popen(
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
            if time.monotonic() > until or box.poll() is not None:
                raise RuntimeError("the box is not ready")
            time.sleep(0.05)
        put(port, asked)
        return [dict(scores(port, request)[:2] for _ in range(2)) for _, request in asked]
    finally:
        box.terminate()
        box.wait(40)


def workers(cluster):
    """Fields of the inference workers, by node."""
    actors = json.loads(loopback.ask(cluster.door["front"], "GET", "/v1/cluster")[1])["actors"]
    return {
        actor["node"]: {field["name"]: field["value"] for field in actor["fields"]}
        for actor in actors
        if actor["role"] == "inference_worker"
    }


def rows(cluster):
    """That passes missed, by where they came from."""
    return {
        where: sum(int(fields.get("rows_from_" + where, 0)) for fields in workers(cluster).values())
        for where in ("here", "nodes", "table")
    }


def ask_all(cluster, asked, right, what, faults):
    before, nodes, wrong = rows(cluster), set(), 0
    for (_, request), expected in zip(asked, right):
        reused, found, node = scores(cluster.door["front"], request)
        nodes.add(node)
        wrong += found != expected.get(reused)
    after = rows(cluster)
    more = {where: after[where] - before.get(where, 0) for where in after}
    print(f"{what}: {len(asked)} answers of nodes {sorted(nodes)}, {wrong} wrong; rows from {more}")
    if wrong:
        faults.append(f"{what}: {wrong} of {len(asked)} answers are not those of a table in memory")
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
    put(cluster.door["front"], asked)
    more = ask_all(cluster, asked, right, "all there", faults)
    for where in ("here", "nodes"):
        if not more[where]:
            faults.append(f"no row came from {where}")
    if 20 * more["table"] > more["here"] + more["nodes"]:  # a first pull may take longer than a batch waits
        faults.append(f"{more['table']} rows came from the table while nodes had them")
    cluster.kill("worker-2")
    more = ask_all(cluster, asked, right, "one killed", faults)
    if not more["table"]:
        faults.append("no row came from the table when the node that had it was gone")
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
        knobs = {
            **KNOBS,
            "pool.row_share": "0.01",
            "model.directory": model,
            "model.tables": "sharded",
            "router.deadline": "3s",
        }
        cluster = loopback.Cluster(options.troupe, folder, WORKERS, sections(knobs))
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
