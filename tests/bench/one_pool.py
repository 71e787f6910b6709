#!/usr/bin/env python3
"""Measures one pool with four kinds of content: user blocks, item blocks, prototypes of histories,
embedding rows.

  tests/bench/one_pool.py --troupe build/deploy/troupe [--requests 1200] [--memory 12MiB] [--bandwidth 2MiB]
                          [--json FILE]

A node serves a ranker of games, whose prototypes are rows of a table that is not in memory, and an HSTU
model of films, whose embedding is such a table. Both come over a link of that bandwidth, and the pool
holds only a part of the rows. Users and candidates follow a Zipf law. Half of the requests are for films.
Of those for games, half are exact, by the fastest plan, and half use prototypes and item blocks. Nodes
with static shares and one with split `marginal` get the same requests in rotation. Their answers must be
equal, except where exact plans differ. The first third warms up. Prints times and hits; for `marginal`
also the time saved by each page, by kind (`troupe status`), and the row hits by model.
"""
import argparse
import contextlib
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "models"))
import several
from rows import at

USERS, EVENTS, CANDIDATES = 150, 24, 60
GAMES, FILMS = ("tiny-ranker-games", "amazon-games"), ("tiny-hstu-movielens", "movielens-100k")
APPROXIMATE = "all_blocks+30:tail:mean:layer2:history0:prototypes"
# The items' and the rows' shares of the pool; users have the remainder.
STATIC = [(0.5, 0.1), (0.3, 0.2), (0.2, 0.5), (0.1, 0.7), (0.08, 0.9)]
SPLITS = {
    **{f"static {items} items {rows} rows": (items, rows, "") for items, rows in STATIC},
    "marginal": (0.3, 0.2, "marginal"),
}


def ids_of(data):
    with gzip.open(os.path.join(several.data_folder(data), "items.tsv.gz"), "rt") as file:
        next(file)
        return [line.split("\t")[0] for line in file]


class Drawn:
    """Draws items by a Zipf law over a random order."""

    def __init__(self, chance, items):
        self.chance, self.items, self.sums, total = chance, list(items), [], 0.0
        chance.shuffle(self.items)
        for rank in range(len(items)):
            total += 1 / (rank + 1) ** 0.9
            self.sums.append(total)

    def take(self, count):
        return list(dict.fromkeys(self.chance.choices(self.items, cum_weights=self.sums, k=count)))


def write_config(asked, folder, name, items, rows, split):
    own = f"{folder}/{name.replace(' ', '-').replace(',', '')}"
    for model, data in (GAMES, FILMS):
        subprocess.run(
            [
                asked.troupe,
                "import",
                "--model",
                several.model_folder(model),
                "--data-dir",
                f"{own}-{data}",
                "--data",
                several.data_folder(data),
                *several.options_of(model),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
    tables = f"tables: mapped, table_bandwidth: {asked.bandwidth}"
    policy = (
        f"pool: {{memory: {asked.memory}, item_share: {items}, row_share: {rows}"
        + (f", split: {split}, split_window: {asked.window}" if split else "")
        + "}\n"
    )
    with open(own + ".yaml", "w") as file:
        file.write(
            f"node: {{data_dir: {own}-box}}\n{policy}inference: {{executors: 1, cores: 1}}\nrouter: "
            f"{{deadline: 10s}}\nmodels:\n"
            f"  - {{name: games, directory: {several.model_folder(GAMES[0])}{several.member_of(GAMES[0])}, "
            f"data_dir: {own}-{GAMES[1]}, settings: {{model: {{prototypes: {folder}/prototypes, "
            f"{tables}}}}}}}\n"
            f"  - {{name: films, directory: {several.model_folder(FILMS[0])}, data_dir: "
            f"{own}-{FILMS[1]}, settings: {{model: {{{tables}}}}}}}\n"
        )
    return own


def requests(chance, asked):
    games, films = Drawn(chance, ids_of(GAMES[1])), Drawn(chance, ids_of(FILMS[1]))
    users = Drawn(chance, range(USERS))
    for _ in range(asked.requests):
        user = f"user-{users.take(1)[0]}"
        if chance.random() < 0.5:
            yield {
                "model": "films",
                "user": user,
                "candidates": films.take(CANDIDATES),
                "request_timestamp": 2_000,
            }
        else:
            policy = {"policy": "planner"} if chance.random() < 0.5 else {"policy": APPROXIMATE}
            yield {"model": "games", "user": user, "candidates": games.take(CANDIDATES), **policy}


def put_users(chance, node):
    games, films = Drawn(chance, ids_of(GAMES[1])), Drawn(chance, ids_of(FILMS[1]))
    for user in range(USERS):
        node.send("PUT", f"/v1/users/user-{user}?model=games", {"history": games.take(EVENTS)})
        history = films.take(EVENTS)
        node.send(
            "PUT",
            f"/v1/users/user-{user}?model=films",
            {
                "history": history,
                "features": [{"name": "timestamps", "values": list(range(1_000, 1_000 + len(history)))}],
            },
        )


def counted(node):
    """Counts row hits: rows of games are prototypes, rows of films are embeddings."""
    rows = several.rows_of(node)
    counts = {"cpu_s": float(rows["process_cpu_seconds_total"])}
    for model in ("games", "films"):
        counts |= {
            f"{model}_rows_hit": float(rows[f'troupe_rows_total{{model="{model}",from="pool"}}']),
            f"{model}_rows_missed": float(rows[f'troupe_rows_total{{model="{model}",from="table"}}']),
            f"{model}_tokens_reused": float(rows[f'troupe_tokens_reused_total{{model="{model}"}}']),
        }
    return counts


def ask_all(nodes, turns):
    times, before = {name: [] for name in nodes}, {}
    for number, body in enumerate(turns):
        if number == len(turns) // 3:
            before = {name: counted(node) for name, node in nodes.items()}
        right = None
        for name, node in nodes.items():
            begun = time.perf_counter()
            reply = node.send("POST", "/v1/rank", body)
            times[name].append(1e3 * (time.perf_counter() - begun))
            scores = {item["id"]: item["score"] for item in reply["items"]}
            if body.get("policy") == "planner":
                continue  # the plan depends on times, and two exact plans have different prompts
            right = right or scores
            if max(abs(scores[item] - right[item]) for item in right) > 1e-4:
                raise SystemExit(f"{name}: a different answer to request {number}")
    return {name: of[len(turns) // 3 :] for name, of in times.items()}, before


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    parser.add_argument("--requests", type=int, default=1_200)
    parser.add_argument("--memory", default="12MiB")
    parser.add_argument("--bandwidth", default="2MiB")
    parser.add_argument("--window", default="2s")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json")
    asked = parser.parse_args()
    for folder in (
        several.model_folder(GAMES[0]),
        several.model_folder(FILMS[0]),
        several.data_folder(GAMES[1]),
        several.data_folder(FILMS[1]),
    ):
        if not os.path.isdir(folder):
            sys.exit("skipped: no " + folder)
    chance, results = random.Random(asked.seed), []
    with tempfile.TemporaryDirectory(prefix="troupe-pool-") as folder, contextlib.ExitStack() as stack:
        subprocess.run(
            [
                asked.troupe,
                "prototypes",
                "--model",
                several.model_folder(GAMES[0]),
                "--data",
                several.data_folder(GAMES[1]),
                "--out",
                f"{folder}/prototypes",
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        nodes = {}
        for name, shares in SPLITS.items():
            own = write_config(asked, folder, name, *shares)
            nodes[name] = stack.enter_context(several.Node(asked.troupe, own + ".yaml", own + ".port"))
            put_users(random.Random(asked.seed + 1), nodes[name])
        times, before = ask_all(nodes, list(requests(chance, asked)))
        for name, node in nodes.items():
            now = counted(node)
            more = {key: round(now[key] - before[name][key], 3) for key in now}
            of = times[name]
            results.append(
                {
                    "split": name,
                    "mean_ms": sum(of) / len(of),
                    "p50_ms": at(of, 0.5),
                    "p99_ms": at(of, 0.99),
                    **more,
                }
            )
            print(
                "  ".join(
                    f"{key} {value:.2f}" if isinstance(value, float) else f"{key} {value}"
                    for key, value in results[-1].items()
                )
            )
            if SPLITS[name][2]:
                said = subprocess.run(
                    [asked.troupe, "status", "--all", "--server", f"127.0.0.1:{node.link.port}"],
                    capture_output=True,
                    text=True,
                ).stdout
                print(said[said.index("Time saved by each page") :])
    if asked.json:
        with open(asked.json, "w") as out:
            json.dump({**vars(asked), "troupe": None, "json": None, "boxes": results}, out, indent=1)
            out.write("\n")


if __name__ == "__main__":
    main()
