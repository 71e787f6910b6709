#!/usr/bin/env python3
"""Measures what `pool.split: marginal` and `router.routing: joint` are worth on real processes.

  tests/bench/splits.py --troupe build/deploy/troupe [--short] [--parts link,file,routing] [--seeds 1,2,3]
                        [--systems NAMES] [--requests N] [--json FILE]

Nodes serve the HSTU model of serving size, whose table (100,000 rows of 2 KiB) and users' keys and values
do not fit into the pool. The systems of a part get the same requests in rotation, in an order that is
drawn anew each time, and must answer equally. The first third warms up. A few users recur; the other
requests come from many users.

  link     single nodes; rows come over a link of 5 MiB/s, so rows are worth most of the pool; the share of
           the recurring users rises from a twentieth of the requests to 85 %
  file     the same, but rows come from a file in memory, so users' keys and values are worth most
  routing  clusters of a router and two workers, half of each pool for rows, which come over 20 MiB/s; 80 %
           of the requests are of 20 recurring users, whose keys and values fit into two pools but not into
           one; each user reads the items of one of eight tastes. `load` is there for comparison: where
           queues are equal, it too takes the worker that is done first

A system is SPLIT[+ROUTING], as of `pool.split` and `router.routing`; " again" adds a second copy, whose
difference is the noise. A cost is milliseconds per request: CPU time of all processes, plus the time that
the missed rows take on the link. Nodes whose split moves start with nine tenths of the pool for rows. A
decision window is as long as 16 requests of each system, by a pilot. Each verdict has a null model that
must miss. Exit status 1 if a verdict does not hold; 77 without etcd or the model.

With --json, runs that FILE already has are not repeated. --short tries everything once, with one seed,
few requests and few splits: its figures are no results, and no verdict changes its exit status.
"""
import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import loopback  # noqa: E402
import split_nodes  # noqa: E402
import split_verdicts  # noqa: E402
from request_cost import version  # noqa: E402
from rows import ROWS, MODEL, at  # noqa: E402
from split_verdicts import AGAIN, EARLIEST, JOINT, LOAD, LOST  # noqa: E402

EVENTS, CANDIDATES, OTHERS, ROW_BYTES = 300, 100, 300, 2_048
OWN_TASTE = 0.85  # share of a user's items that are of their taste
WINDOW_REQUESTS, WINDOW_LEAST_MS, PILOT = 16, 300, 6
TENTHS = 10  # a run's costs are also kept by tenths
COUNTED = ("rows_hit", "rows_missed", "tokens_reused", "tokens", "bytes_copied", "cpu_s")
GRID = [f"static:{share}" for share in (0.1, 0.3, 0.5, 0.7, 0.9)]
ROUTED = [EARLIEST, EARLIEST + AGAIN, JOINT, LOAD, LOST]
ALONE = [*GRID, "static:0.5 again", "marginal"]
# hot_users recur; their share of the requests goes from the first to the second of hot_share. A user's keys
# and values take 75 pages.
TREND = dict(workers=0, at_once=1, pages=1_600, tastes=1, hot_users=12, hot_share=[0.05, 0.85], systems=ALONE)
PARTS = {
    "link": TREND | dict(bandwidth="5MiB"),
    "file": TREND | dict(bandwidth="0B"),
    # One worker's half of a pool for users holds 15 of them, those of two hold all that recur.
    "routing": dict(
        workers=2,
        at_once=4,
        pages=2_200,
        bandwidth="20MiB",
        tastes=8,
        hot_users=20,
        hot_share=[0.8, 0.8],
        systems=ROUTED,
    ),
}
SHORT_ALONE = [*GRID[::2], "static:0.5 again", "marginal"]
SHORT_ROUTED = [EARLIEST, EARLIEST + AGAIN, JOINT, LOST]
SHORT_REQUESTS, REQUESTS, SHORT_SEEDS, SEEDS = 120, 600, [1], [1, 2, 3]
SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


# ---- requests ----


class Items:
    """Draws items by a Zipf law, of all items or of a taste's consecutive ones."""

    def __init__(self, chance, tastes):
        self.chance, self.tastes = chance, tastes
        span = (ROWS - 1) // tastes
        self.own = [self.ranked(range(1 + t * span, 1 + (t + 1) * span)) for t in range(tastes)]
        self.all = self.ranked(range(1, ROWS))

    def ranked(self, items):
        items, sums, total = list(items), [], 0.0
        self.chance.shuffle(items)
        for rank in range(len(items)):
            total += 1 / (rank + 1) ** 0.9
            sums.append(total)
        return items, sums

    def draw(self, user, count):
        own = count if self.tastes == 1 else round(OWN_TASTE * count)
        drawn = []
        for (items, sums), share in ((self.own[user % self.tastes], own), (self.all, count - own)):
            drawn += self.chance.choices(items, cum_weights=sums, k=share)
        self.chance.shuffle(drawn)
        return drawn


def write_data(folder, items, users):
    with open(os.path.join(folder, "items.tsv"), "w") as out:
        out.write("item_id\ttitle\n")
        out.writelines(f"{item}\titem {item}\n" for item in range(1, ROWS))
    with open(os.path.join(folder, "users.jsonl"), "w") as out:
        for user in range(users):
            history = [str(item) for item in items.draw(user, EVENTS)]
            times = list(range(1_000, 1_000 + EVENTS))
            out.write(json.dumps({"id": f"user-{user}", "history": history, "timestamps": times}) + "\n")


def requests(chance, items, part):
    (first, last), hot, count = part["hot_share"], part["hot_users"], part["requests"]
    for number in range(count):
        hot_share = first + (last - first) * number / count
        user = chance.randrange(hot) if chance.random() < hot_share else hot + chance.randrange(OTHERS)
        yield user, list(dict.fromkeys(items.draw(user, CANDIDATES)))


# ---- runs ----


def check_equal(name, number, wanted, answers):
    for right, (_, scores) in zip(wanted, answers):
        if right.keys() != scores.keys() or max(abs(scores[i] - right[i]) for i in right) > 1e-4:
            raise SystemExit(f"{name}: a different answer to a request of the batch at {number}")


def serve(systems, turns, at_once, chance):
    """Returns for each system the times of all batches, and the counters at the end of the warm-up and of
    each tenth of what follows."""
    warm = len(turns) // 3 // at_once * at_once
    borders = {warm + (len(turns) - warm) * k // TENTHS // at_once * at_once for k in range(TENTHS)}
    times, counts = {name: [] for name in systems}, {name: [] for name in systems}
    for number in range(0, len(turns), at_once):
        if number in borders:
            for name, system in systems.items():
                counts[name].append(system.counted() | {"served": len(times[name])})
        order, wanted = list(systems.items()), None
        chance.shuffle(order)
        for name, system in order:
            answers = system.rank_all(turns[number : number + at_once])
            times[name] += [took for took, _ in answers]
            wanted = wanted or [scores for _, scores in answers]
            check_equal(name, number, wanted, answers)
    for name, system in systems.items():
        counts[name].append(system.counted() | {"served": len(times[name])})
    return times, counts


def row_ms(part):
    """Returns the time of a missed row on the part's link."""
    number = part["bandwidth"].rstrip("iB")
    size = float(number.rstrip("KMG")) * SIZES[number.lstrip("0123456789.")]
    return 1e3 * ROW_BYTES / size if size else 0.0


def cost_between(part, before, after):
    spent = 1e3 * (after["cpu_s"] - before["cpu_s"])
    spent += row_ms(part) * (after["rows_missed"] - before["rows_missed"])
    return spent / (after["served"] - before["served"])


def sum_up(name, part, system, times, counts):
    first, last = counts[0], counts[-1]
    served = last["served"] - first["served"]
    measured = times[first["served"] :]
    pages = part["pages"] * max(1, part["workers"])
    more = {key: (last[key] - first[key]) / served for key in COUNTED if key != "cpu_s"}
    return {
        "system": name,
        "requests": served,
        "cost_ms": cost_between(part, first, last),
        "cpu_ms": 1e3 * (last["cpu_s"] - first["cpu_s"]) / served,
        **{f"{key}_per_request": value for key, value in more.items()},
        "mean_ms": statistics.mean(measured),
        "p50_ms": at(measured, 0.5),
        "p99_ms": at(measured, 0.99),
        "cost_ms_by_tenth": [round(cost_between(part, *two), 2) for two in zip(counts, counts[1:])],
        "row_share": [round(count["row_pages"] / pages, 2) for count in counts],
    } | ({"uses_elsewhere": system.uses_elsewhere()} if part["workers"] else {})


def window_ms(asked, part, data, turns):
    """Returns the length of a decision window: that of WINDOW_REQUESTS requests of each system."""
    pilot = split_nodes.start_system(asked.troupe, data, "static:0.5", part, 5_000)
    try:
        took = []
        for batch in range(PILOT):
            begun = time.perf_counter()
            pilot.rank_all(turns[batch * part["at_once"] : (batch + 1) * part["at_once"]])
            took.append(time.perf_counter() - begun)
    finally:
        pilot.end()
    rotation = statistics.median(took[2:]) * len(part["systems"])
    return max(WINDOW_LEAST_MS, round(1e3 * rotation * WINDOW_REQUESTS / part["at_once"]))


def run(asked, part, seed):
    chance, systems = random.Random(seed), {}
    with tempfile.TemporaryDirectory(prefix="troupe-splits-") as data:
        items = Items(chance, part["tastes"])
        write_data(data, items, part["hot_users"] + OTHERS)
        turns = list(requests(chance, items, part))
        window = window_ms(asked, part, data, turns)
        try:
            for name in part["systems"]:
                systems[name] = split_nodes.start_system(asked.troupe, data, name, part, window)
            times, counts = serve(systems, turns, part["at_once"], chance)
            results = [
                sum_up(name, part, system, times[name], counts[name]) for name, system in systems.items()
            ]
        finally:
            for system in systems.values():
                system.end()
    return {"seed": seed, "window_ms": window, "systems": results}


# ---- output ----

COLUMNS = {
    "cost ms": "cost_ms",
    "CPU ms": "cpu_ms",
    "rows missed": "rows_missed_per_request",
    "tokens reused": "tokens_reused_per_request",
    "mean ms": "mean_ms",
    "P99 ms": "p99_ms",
}


def print_part(name, part, runs):
    print(f"\n{name}: {part['requests']} requests, seeds {', '.join(str(run['seed']) for run in runs)}")
    print(
        f"{'system':20}" + "".join(f"{column:>18}" for column in COLUMNS) + "   rows' share at the end, cost"
    )
    for index, system in enumerate(part["systems"]):
        of = [run["systems"][index] for run in runs]
        cells = [[one[key] for one in of] for key in COLUMNS.values()]
        line = "".join(
            f"{f'{statistics.mean(cell):.2f} ± {split_verdicts.error_of(cell):.2f}':>18}" for cell in cells
        )
        ends = " ".join(f"{one['row_share'][-1]:.2f}" for one in of)
        print(f"{system:20}{line}   {ends}, " + " ".join(f"{one['cost_ms']:.2f}" for one in of))


def costs_of(runs):
    return {run["seed"]: {one["system"]: one["cost_ms"] for one in run["systems"]} for run in runs}


def short_systems(part):
    return SHORT_ROUTED if part["workers"] else SHORT_ALONE


def has_own_systems(name, settings):
    return settings["systems"] in (PARTS[name]["systems"], short_systems(settings))


def judge(document, asked_systems):
    """Returns the verdicts on the parts that have runs; none where --systems chose what was run. Parts that
    an earlier call ran with --systems are not judged."""
    if asked_systems:
        return []
    judged = {name: of for name, of in document["parts"].items() if has_own_systems(name, of["settings"])}
    return split_verdicts.judge({name: costs_of(of["runs"]) for name, of in judged.items()})


def print_verdicts(rows):
    for row in rows:
        verdict = "holds" if row["holds"] else "DOES NOT HOLD"
        print(f"{verdict:14}{row['ratio']:.3f} (noise {row['noise']:.3f})  {row['what']}")


def save(path, document):
    if not path:
        return
    with open(path + ".new", "w") as out:
        json.dump(document, out, indent=1)
        out.write("\n")
    os.replace(path + ".new", path)


def read_kept(path, parts, program):
    """Returns the document of an earlier call, which must be of the same program and settings."""
    if not path or not os.path.exists(path):
        return {"version": program, "parts": {}}
    with open(path) as file:
        kept = json.load(file)
    if kept["version"] != program:
        sys.exit(f"{path}: is of {kept['version']}; expected {program}, or another file")
    for name, part in parts.items():
        before = kept["parts"].get(name)
        if before and before["settings"] != part:
            sys.exit(f"{path}: part {name} has other settings; expected {json.dumps(part)}, or another file")
    return kept


# ---- options ----


def parts_of(asked):
    parts = {}
    for name in asked.parts.split(","):
        if name not in PARTS:
            sys.exit(f"--parts is {asked.parts}: {name} is unknown; expected some of {', '.join(PARTS)}")
        part = dict(PARTS[name])
        if asked.short:
            part["systems"] = short_systems(part)
        if asked.systems:
            part["systems"] = asked.systems.split(",")
        parts[name] = part | {"requests": asked.requests}
    return parts


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    parser.add_argument("--short", action="store_true", help="one seed, few requests and splits")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--seeds", help="default: 1,2,3")
    parser.add_argument("--systems", help="others than the part's; without verdicts")
    parser.add_argument("--requests", type=int, help="of each system; default: 600")
    parser.add_argument("--json")
    asked = parser.parse_args()
    asked.requests = asked.requests or (SHORT_REQUESTS if asked.short else REQUESTS)
    given = [int(seed) for seed in asked.seeds.split(",")] if asked.seeds else []
    asked.seeds = given or (SHORT_SEEDS if asked.short else SEEDS)
    return asked


def main():
    asked = parse()
    parts = parts_of(asked)
    lacks = "the model random-hstu-512" if not os.path.isdir(MODEL) else ""
    if lacks := lacks or (loopback.missing() if "routing" in parts else ""):
        print(f"skipped: no {lacks}")
        return 77
    document = read_kept(asked.json, parts, version(asked.troupe))
    for name, part in parts.items():
        kept = document["parts"].setdefault(name, {"settings": part, "runs": []})
        for seed in asked.seeds:
            if seed in [run["seed"] for run in kept["runs"]]:
                continue
            kept["runs"].append(run(asked, part, seed))
            document["verdicts"] = judge(document, asked.systems)
            save(asked.json, document)
    for name in parts:
        print_part(name, parts[name], document["parts"][name]["runs"])
    rows = judge(document, asked.systems)
    print_verdicts(rows)
    return 0 if asked.short or all(row["holds"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
