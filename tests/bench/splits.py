#!/usr/bin/env python3
"""Measures the worth of a moving boundary between embedding rows and user blocks in the pool of a serving
node.

  tests/bench/splits.py --troupe build/deploy/troupe [--requests 700] [--bandwidth 20MiB]
                         [--workers 2] [--json FILE]

Nodes serve the HSTU model of serving size (100,000 rows of 2 KiB behind a link of that bandwidth). Each
has a pool that holds neither all rows nor the keys and values of all users. The splits: static ones,
SmartAllocator as in deploy/policies/split.txt, and `marginal`. All get the same requests in rotation and
must answer equally. The requests form a trend: the share of a few recurring users rises from a twentieth
to most requests; the others come from many users who hardly return. The first part warms up.

With --workers each system is a cluster of that many worker processes behind a front, on the loopback,
each with such a pool. With --at-once that many requests come together, so that some users are served by
workers that are not their home. Times are of whole requests over HTTP on this machine; misses and the
nodes' CPU time are counted as well.
"""
import argparse
import concurrent.futures
import json
import os
import random
import tempfile
import time

import loopback
from rows import golden, MODEL, ROWS, PAGE, at

EVENTS, CANDIDATES, HOT, OTHERS = 300, 100, 12, 300
TRAINED = os.path.join(golden.ROOT, "deploy", "policies", "split.txt")
START = 0.3  # the rows' share when a node starts
SPLITS = ["static:0.1", "static:0.3", "static:0.5", "static:0.7", "smart", "marginal"]


def settings_of(split, asked):
    return [
        f"pool.memory={asked.pages * PAGE + 1024}B",
        "pool.item_share=0",
        f"pool.row_share={START}",
        "model.tables=mapped",
        f"model.table_bandwidth={asked.bandwidth}",
        f"pool.split={split}",
        f"pool.split_window={asked.window}",
        "inference.executors=1",
        f"pool.split_objective={asked.objective}",
        "router.deadline=10s",
        f"router.routing={asked.routing}",
    ] + ([f"pool.split_trained={TRAINED}"] if split == "smart" else [])


class Cluster:
    """A cluster with the interface of a single node; one connection for each request in flight."""

    def __init__(self, asked, data, settings):
        self.folder = tempfile.TemporaryDirectory(prefix="troupe-splits-cluster-")
        words = [setting.split("=", 1) for setting in settings]
        sections = {}
        for name, value in words + [("model.directory", MODEL), ("inference.cores", "1")]:
            section, key = name.split(".")
            sections.setdefault(section, {})[key] = value
        lines = [
            f"{section}: {{{', '.join(f'{key}: {value}' for key, value in keys.items())}}}"
            for section, keys in sections.items()
        ]
        self.cluster = loopback.Cluster(asked.troupe, self.folder.name, asked.workers, lines)
        self.cluster.start_all(data)

    def ask(self, method, path, body):
        status, reply = loopback.ask(self.cluster.http_port["front"], method, path, body, limit=60)
        return status, json.loads(reply)

    def rank(self, user, case, now):
        status, reply = self.ask(
            "POST",
            "/v1/rank",
            {
                "user": user,
                "candidates": [str(item) for item in case["candidate_ids"]],
                "request_timestamp": now,
            },
        )
        if status != 200:
            raise SystemExit(f"a ranking was answered {status} {json.dumps(reply)[:300]}")
        return reply

    def metrics(self):
        sums = {}
        for name in self.cluster.names:
            for line in loopback.ask(self.cluster.http_port[name], "GET", "/metrics")[1].splitlines():
                if line and line[0] != "#":
                    key, amount = line.rsplit(" ", 1)
                    sums[key] = sums.get(key, 0) + float(amount)
        return sums

    def __exit__(self):
        self.cluster.end()
        self.folder.cleanup()


def start(asked, data, split):
    settings = settings_of(split, asked)
    return (
        Cluster(asked, data, settings) if asked.workers else golden.Node(asked.troupe, MODEL, data, settings)
    )


def uses_elsewhere(node):
    """Returns the uses of users' blocks at other workers than their homes, as the homes count them."""
    fields = [
        field for actor in node.ask("GET", "/v1/cluster", None)[1]["actors"] for field in actor["fields"]
    ]
    return sum(int(field["value"]) for field in fields if field["name"] == "uses_elsewhere")


def write_data(folder, chance):
    """Writes the catalog, and users with histories by a Zipf law; returns the items' weights."""
    items = list(range(1, ROWS))
    chance.shuffle(items)
    weights = [1 / (rank + 1) ** 0.9 for rank in range(len(items))]
    total, sums = 0.0, []
    for weight in weights:
        total += weight
        sums.append(total)
    with open(os.path.join(folder, "items.tsv"), "w") as out:
        out.write("item_id\ttitle\n")
        out.writelines(f"{item}\titem {item}\n" for item in range(1, ROWS))
    with open(os.path.join(folder, "users.jsonl"), "w") as out:
        for user in range(HOT + OTHERS):
            history = [str(item) for item in chance.choices(items, cum_weights=sums, k=EVENTS)]
            out.write(
                json.dumps(
                    {
                        "id": f"user-{user}",
                        "history": history,
                        "timestamps": list(range(1_000, 1_000 + EVENTS)),
                    }
                )
                + "\n"
            )
    return items, sums


def requests(chance, items, sums, count):
    for number in range(count):
        hot_share = 0.05 + 0.8 * number / count
        user = chance.randrange(HOT) if chance.random() < hot_share else HOT + chance.randrange(OTHERS)
        yield user, list(dict.fromkeys(chance.choices(items, cum_weights=sums, k=CANDIDATES)))


def counted(node):
    now = node.metrics()
    return {
        "rows_hit": now['troupe_rows_total{from="pool"}'],
        "rows_missed": now['troupe_rows_total{from="table"}'],
        "tokens_reused": now["troupe_tokens_reused_total"],
        "tokens": now["troupe_tokens_total"],
        "cpu_s": now["process_cpu_seconds_total"],
        "bytes_copied": now["troupe_boundary_bytes_copied_total"],
        "row_pages": now['troupe_pages{kind="row"}'],
        "user_pages": now['troupe_pages{kind="user"}'],
    }


def timed(node, user, candidates):
    begun = time.perf_counter()
    reply = node.rank(f"user-{user}", {"candidate_ids": candidates}, 2_000)
    return 1e3 * (time.perf_counter() - begun), {item["id"]: item["score"] for item in reply["items"]}


def serve(nodes, turns, asked, chance):
    """Returns, for each node, times of requests, counters at the end of the warm-up, and samples of the
    rows' share."""
    times, before, alphas = {name: [] for name in nodes}, {}, {name: [] for name in nodes}
    pool = concurrent.futures.ThreadPoolExecutor(asked.at_once)
    for number in range(0, len(turns), asked.at_once):
        together, wanted = turns[number : number + asked.at_once], None
        if not before and number >= asked.requests // 5:
            before = {name: counted(node) for name, node in nodes.items()}
            warm = number
        order = list(nodes.items())
        chance.shuffle(order)
        for name, node in order:
            answers = (
                list(pool.map(lambda turn: timed(node, *turn), together))
                if asked.at_once > 1
                else [timed(node, *together[0])]
            )
            times[name] += [took for took, _ in answers]
            wanted = wanted or [scores for _, scores in answers]
            for scores, right in zip((scores for _, scores in answers), wanted):
                if max(abs(scores[item] - right[item]) for item in right) > 1e-4:
                    raise SystemExit(f"{name}: a different answer to a request of the batch at {number}")
        if number // 50 != (number + asked.at_once) // 50:
            for name, node in nodes.items():
                alphas[name].append(
                    round(counted(node)["row_pages"] / asked.pages / max(1, asked.workers), 2)
                )
    return {name: of[warm:] for name, of in times.items()}, before, alphas


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    parser.add_argument("--requests", type=int, default=700)
    parser.add_argument("--pages", type=int, default=1_600, help="pages of 48 KiB in each pool")
    parser.add_argument("--bandwidth", default="20MiB")
    parser.add_argument("--window", default="3s")
    parser.add_argument("--objective", default="100ms")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=0, help="workers of each cluster; 0 = single nodes")
    parser.add_argument("--at-once", type=int, default=1, help="requests sent together")
    parser.add_argument("--routing", default="earliest")
    parser.add_argument("--splits", default=",".join(SPLITS))
    parser.add_argument("--json")
    asked = parser.parse_args()
    chance = random.Random(asked.seed)
    with tempfile.TemporaryDirectory(prefix="troupe-splits-") as data:
        items, sums = write_data(data, chance)
        nodes = {split: start(asked, data, split) for split in asked.splits.split(",")}
    turns = list(requests(chance, items, sums, asked.requests))
    times, before, alphas = serve(nodes, turns, asked, chance)
    results = []
    for name, node in nodes.items():
        measured, now = times[name], counted(node)
        more = {
            key: now[key] - before[name][key]
            for key in ("rows_hit", "rows_missed", "tokens_reused", "tokens", "cpu_s")
        }
        results.append(
            {
                "split": name,
                "p50_ms": at(measured, 0.5),
                "p99_ms": at(measured, 0.99),
                "mean_ms": sum(measured) / len(measured),
                **more,
                "boundary_bytes_copied": now["bytes_copied"],
                "alpha": alphas[name],
            }
            | ({"uses_elsewhere": uses_elsewhere(node)} if asked.workers else {})
        )
        print(
            "  ".join(
                f"{key} {value:.2f}" if isinstance(value, float) else f"{key} {value}"
                for key, value in results[-1].items()
            )
        )
        if name == "marginal":
            for actor in node.ask("GET", "/v1/cluster", None)[1]["actors"]:
                if actor["role"] == "allocator":
                    print({field["name"]: field["value"] for field in actor["fields"]})
        node.__exit__()
    if asked.json:
        with open(asked.json, "w") as out:
            json.dump({**vars(asked), "troupe": None, "json": None, "boxes": results}, out, indent=1)
            out.write("\n")


if __name__ == "__main__":
    main()
