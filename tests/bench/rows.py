#!/usr/bin/env python3
"""Measures rows of an embedding table that is not in memory, by how many of them the pool keeps.

  tests/bench/rows.py --troupe build/deploy/troupe [--requests 300] [--bandwidth 20MiB] [--json FILE]

Nodes serve the HSTU model of serving size (100,000 rows of 2 KiB). One has its table in memory. The
others have it behind a link of that bandwidth, with none, a hundredth, a twentieth and a fifth of its
rows in the pool, and the same number of pages for blocks. All get the same requests in rotation: users
with 300 events and 100 candidates, items by a Zipf law. The first third warms up. Answers must equal
those of the node with the table in memory.
"""
import argparse
import importlib.util
import json
import os
import random
import time

HERE = os.path.dirname(os.path.abspath(__file__))
spec = importlib.util.spec_from_file_location("golden", os.path.join(HERE, "..", "hstu", "golden.py"))
golden = importlib.util.module_from_spec(spec)
spec.loader.exec_module(golden)

MODEL = os.path.join(golden.MODELS, "random-hstu-512")
ROWS, PAGE, PAGE_ROWS, BLOCK_PAGES = 100_001, 49_152, 24, 4_000
SHARES = {"in memory": None, "none": 0, "a hundredth": 0.01, "a twentieth": 0.05, "a fifth": 0.2}


def settings_of(share, bandwidth):
    rows = int((share or 0) * ROWS / PAGE_ROWS)
    pool = [f"pool.memory={(BLOCK_PAGES + rows) * PAGE + 1024}B", "pool.item_share=0"]
    if share is None:
        return pool
    return pool + [
        "model.tables=mapped",
        f"model.table_bandwidth={bandwidth}",
        f"pool.row_share={(rows + 0.5) / (BLOCK_PAGES + rows)}",
    ]


def workload(seed, users, events, candidates):
    chance = random.Random(seed)
    items = list(range(1, ROWS))
    chance.shuffle(items)
    weights = [1 / (rank + 1) ** 0.9 for rank in range(len(items))]
    drawn = lambda count: chance.choices(items, weights, k=count)
    histories = [drawn(events) for _ in range(users)]
    # The present time is that of the last first request, so that later requests reuse the blocks of
    # histories.
    while True:
        yield chance.randrange(users), histories, list(dict.fromkeys(drawn(candidates)))


def at(times, share):
    return sorted(times)[min(len(times) - 1, int(share * len(times)))]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--troupe", required=True)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--users", type=int, default=40)
    parser.add_argument("--bandwidth", default="20MiB")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json")
    asked = parser.parse_args()
    nodes = {
        name: golden.Node(asked.troupe, MODEL, "", settings_of(share, asked.bandwidth))
        for name, share in SHARES.items()
    }
    requests = workload(asked.seed, asked.users, 300, 100)
    times, before, put = {name: [] for name in nodes}, {}, set()
    for number in range(asked.requests):
        user, histories, candidates = next(requests)
        if number == asked.requests // 3:
            before = {name: node.metrics() for name, node in nodes.items() if SHARES[name] is not None}
        wanted = None
        for name, node in nodes.items():
            case = {
                "item_ids": histories[user],
                "candidate_ids": candidates,
                "timestamps": list(range(1_000, 1_000 + 300)),
            }
            if (name, user) in put:
                case["item_ids"] = []
            for item in {*case["item_ids"], *candidates} - node.items:
                node.send("PUT", f"/v1/items/{item}", {"tokens": [item], "identifier": item})
                node.items.add(item)
            if (name, user) not in put:
                node.put(f"user-{user}", case, True)
                put.add((name, user))
            begun = time.perf_counter()
            reply = node.rank(f"user-{user}", {"candidate_ids": candidates}, 2_000 + number)
            times[name].append(1e3 * (time.perf_counter() - begun))
            scores = {item["id"]: item["score"] for item in reply["items"]}
            wanted = wanted or scores
            if max(abs(scores[item] - wanted[item]) for item in wanted) > 1e-4:
                raise SystemExit(f"{name}: a different answer to request {number}")
    results = []
    for name, node in nodes.items():
        measured = times[name][asked.requests // 3 :]
        row = {
            "rows in the pool": name,
            "p50_ms": at(measured, 0.5),
            "p99_ms": at(measured, 0.99),
            "mean_ms": sum(measured) / len(measured),
        }
        if name in before:
            now = node.metrics()
            more = lambda key: now[key] - before[name][key]
            hits, misses = (more(f'troupe_rows_total{{from="{place}"}}') for place in ("pool", "table"))
            row |= {
                "rows_hit": hits,
                "rows_missed": misses,
                "bytes_from_table": more('troupe_row_bytes_total{for="pass"}'),
                "boundary_bytes_copied": now["troupe_boundary_bytes_copied_total"],
            }
        results.append(row)
        print(
            "  ".join(
                f"{key} {value:.2f}" if isinstance(value, float) else f"{key} {value}"
                for key, value in row.items()
            )
        )
        node.__exit__()
    if asked.json:
        with open(asked.json, "w") as out:
            json.dump(
                {
                    "requests": asked.requests,
                    "users": asked.users,
                    "bandwidth": asked.bandwidth,
                    "seed": asked.seed,
                    "boxes": results,
                },
                out,
                indent=1,
            )
            out.write("\n")


if __name__ == "__main__":
    main()
