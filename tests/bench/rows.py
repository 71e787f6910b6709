#!/usr/bin/env python3
"""What rows of an embedding table cost that is not in memory, by how many of them the pool keeps.

  tests/bench/rows.py --troupe build/deploy/troupe [--requests 300] [--bandwidth 20MiB] [--json FILE]

Boxes with the HSTU model of serving size (100,000 rows of 2 KiB): its table in memory, and apart behind a link of that bandwidth with
none, a hundredth, a twentieth and a fifth of its rows in the pool, beside as many pages for blocks. All are asked the same, in turns:
users with 300 events and 100 candidates, items by a Zipf law. The first third warms up. Answers must be those of the
box with the table in memory.
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
    # The present is as late as the first request of all, so that histories are blocks that later requests take.
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
    boxes = {
        name: golden.Box(asked.troupe, MODEL, "", settings_of(share, asked.bandwidth))
        for name, share in SHARES.items()
    }
    requests = workload(asked.seed, asked.users, 300, 100)
    times, before, put = {name: [] for name in boxes}, {}, set()
    for number in range(asked.requests):
        user, histories, candidates = next(requests)
        if number == asked.requests // 3:
            before = {name: box.metrics() for name, box in boxes.items() if SHARES[name] is not None}
        wanted = None
        for name, box in boxes.items():
            case = {
                "item_ids": histories[user],
                "candidate_ids": candidates,
                "timestamps": list(range(1_000, 1_000 + 300)),
            }
            if (name, user) in put:
                case["item_ids"] = []
            for item in {*case["item_ids"], *candidates} - box.items:
                box.send("PUT", f"/v1/items/{item}", {"tokens": [item], "identifier": item})
                box.items.add(item)
            if (name, user) not in put:
                box.put(f"user-{user}", case, True)
                put.add((name, user))
            begun = time.perf_counter()
            reply = box.rank(f"user-{user}", {"candidate_ids": candidates}, 2_000 + number)
            times[name].append(1e3 * (time.perf_counter() - begun))
            scores = {item["id"]: item["score"] for item in reply["items"]}
            wanted = wanted or scores
            if max(abs(scores[item] - wanted[item]) for item in wanted) > 1e-4:
                raise SystemExit(f"{name}: another answer to request {number}")
    results = []
    for name, box in boxes.items():
        measured = times[name][asked.requests // 3 :]
        row = {
            "rows in the pool": name,
            "p50_ms": at(measured, 0.5),
            "p99_ms": at(measured, 0.99),
            "mean_ms": sum(measured) / len(measured),
        }
        if name in before:
            now = box.metrics()
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
        box.__exit__()
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
