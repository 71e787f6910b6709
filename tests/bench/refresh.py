#!/usr/bin/env python3
"""Measures what changes of item blocks cost a cluster of real processes under a steady load.

The changes: one item gets 5 % of the accesses; a new item is stored and gets as many; it is deleted; a
worker is killed; the worker returns.

  tests/bench/refresh.py --model RANKER --data GAMES [--troupe build/deploy/troupe] [--workers 3] [--rate 100]
                         [--json FILE]
  tests/bench/refresh.py --short      # the demo world, without time windows: for ctest
  tests/bench/refresh.py --auto …     # pool.placement: auto, the default, instead of a plan

One node has the router and the cache-meta, the others are workers; all use the loopback. `troupe-lab plan`
assigns items. Requests are sent when due, whatever the outcome of others, through the public HTTP server.
Every other request is for ten items by popularity. The others (witnesses) are for items that are on every
worker and, after a change, for the changed item: such a request finds all its blocks on its worker unless
that item is missing there. Exit status 77
without etcd."""
import argparse
import collections
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "forms"))
import loopback
from forms import member_of
from refresh_load import COUNTERS, Load, Watch, timeline, window
from refresh_world import CANDIDATES, NEW, Plan, World

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO = ROOT / "deploy/demo"
HOT_AFTER = 40  # accesses; more than pool.hot_share of the router's window
ITEM_SHARE = 0.9  # share of the pool; requests use only item blocks


# ---- measurements ----


def follow(bench, item, since, owner):
    """Returns how the item got to where it is requested. Times are in ms from the change.

    They end when a request was due that found its block there, or when a worker got it by precomputation.
    `owner`: the worker to which it is assigned at first.
    """
    load, cluster, watch = bench.load, bench.cluster, bench.watch
    mine = [
        answer for answer in load.between(since, load.now()) if answer.item == item and answer.status == 200
    ]
    held = {}
    for name in cluster.names[1:]:
        node = cluster.number(name)
        times = [min((a.due for a in mine if a.node == node and a.local), default=None)]
        times.append(watch.when_grown(name, COUNTERS["bytes_moved"], since, bench.block_bytes))
        if node == owner.node and owner.is_new:
            times.append(watch.when_grown("front", COUNTERS["blocks_computed_ahead"], since, 1))
        elif node == owner.node:
            times.append(since)
        times = [max(0, at - since) * 1e3 for at in times if at is not None]
        held[str(node)] = min(times, default=None)
    missed = [(a.due - since) * 1e3 for a in mine if not a.local]
    everywhere = None if None in held.values() else max(held.values())
    return {
        "item": item,
        "held_ms": held,
        "held_everywhere_ms": everywhere,
        "accesses": len(mine),
        "not_local": len(missed),
        "last_not_local_ms": max(missed, default=None),
        "accesses_by_worker": collections.Counter(str(a.node) for a in mine),
    }


class Bench:
    def __init__(self, cluster, load, watch, lengths, block_bytes):
        self.cluster, self.load, self.watch, self.lengths = cluster, load, watch, lengths
        self.block_bytes = block_bytes  # bytes of an item's block
        self.changes = []

    def until_held_everywhere(self, item, since, owner, limit):
        """Waits until every worker holds the item, and until it had enough accesses to be hot."""
        while self.load.now() < since + limit:
            self.check_goes_on()
            seen = follow(self, item, since, owner)
            if seen["held_everywhere_ms"] is not None and seen["accesses"] > HOT_AFTER:
                return
            time.sleep(0.1)

    def check_goes_on(self):
        if not self.cluster.runs("front"):
            raise RuntimeError(f"the router ended; see {self.cluster.folder}/front.out")

    def change(self, name, act, item=None, owner=None, during=None, wait_s=0):
        """Calls `act` under load; measures windows before, during and after it."""
        began = self.load.now()
        act()
        self.load.item = item
        time.sleep(during or self.lengths["during"])
        if wait_s:
            self.until_held_everywhere(item, began, owner, wait_s)
        middle = self.load.now()
        time.sleep(self.lengths["after"])
        end = self.load.now()
        time.sleep(0.5)  # waits for the last answers
        self.check_goes_on()
        grown = self.watch.growth(began, middle)
        router = self.cluster.router()
        row = {
            "change": name,
            "at_s": began,
            "before": window(self.load.between(began - self.lengths["before"], began)),
            "during": window(self.load.between(began, middle)),
            "after": window(self.load.between(middle, end)),
            "during_s": middle - began,
            "counted_during": {what: grown[metric] for what, metric in COUNTERS.items()},
            "items_hot": int(router["items_hot"]),
            "pull_share": float(router["pull_share"]),
        }
        if item is not None:
            row.update(follow(self, item, began, owner))
        else:
            last = self.watch.last_growth(began, middle)
            row["last_moved_ms"] = None if last is None else (last - began) * 1e3
        self.changes.append(row)
        return row

    def put(self, name, item):
        status, text = loopback.ask(self.cluster.http_port["front"], "PUT", f"/v1/items/{name}", item)
        if status != 200:
            raise RuntimeError(f"PUT /v1/items/{name}: {status} {text}")

    def delete(self, name):
        """Deletes the item; witnesses request it for a moment longer."""
        status, text = loopback.ask(self.cluster.http_port["front"], "DELETE", f"/v1/items/{name}")
        if status != 200:
            raise RuntimeError(f"DELETE /v1/items/{name}: {status} {text}")
        self.deleted_at = self.load.now()
        time.sleep(0.5)

    def run_items(self, world, plan, wait_s):
        item, owner = plan.coldest(world)
        self.change("an item becomes hot", lambda: None, item, owner, wait_s=wait_s)
        self.change(
            "a new item is hot at once",
            lambda: self.put(NEW, world.new_item()),
            NEW,
            plan.owner_of_new(),
            wait_s=wait_s,
        )
        row = self.change("it is deleted", lambda: self.delete(NEW))
        its = [answer for answer in self.load.between(row["at_s"], self.load.now()) if answer.item == NEW]
        row["refused_as_unknown"] = sum(answer.code == "unknown_item" for answer in its)
        row["served_after"] = sum(answer.status == 200 and answer.due > self.deleted_at for answer in its)
        row["during"]["failed"] -= row["refused_as_unknown"]  # these refusals are correct

    def run_worker(self, name):
        self.change("a worker is killed", lambda: self.cluster.kill(name), during=self.lengths["away"])

        def back():
            self.cluster.start(name)
            self.cluster.wait_until_ready(name)

        self.change("it comes back", back, during=self.lengths["back"])


# ---- output ----


def ms(value):
    return "" if value is None else f"{value:.0f}"


def show(rows):
    print(
        f"{'change':<26}{'through ms':>11}{'not local':>12}{'last at ms':>11}{'p99 ms before':>14}"
        f"{'during':>8}"
        f"{'after':>8}{'failed':>7}{'sent for':>9}{'moved KB':>9}{'made ahead':>11}"
    )
    for row in rows:
        through, missed = ms(row.get("last_moved_ms")), ""
        if "item" in row:
            through = ms(row["held_everywhere_ms"]) or "never"
            missed = f"{row['not_local']} of {row['accesses']}"
        counted = row["counted_during"]
        print(
            f"{row['change']:<26}{through:>11}{missed:>12}{ms(row.get('last_not_local_ms')):>11}"
            f"{row['before']['p99_ms']:>14.1f}{row['during']['p99_ms']:>8.1f}{row['after']['p99_ms']:>8.1f}"
            f"{sum(row[part]['failed'] for part in ('during', 'after')):>7}{counted['items_refreshed']:>9.0f}"
            f"{counted['bytes_moved'] / 1e3:>9.0f}{counted['blocks_computed_ahead']:>11.0f}"
        )


def fault_of(part):
    """Returns a fault for --short, or ""; times are not judged."""
    if part["failed"]:
        return f"{part['failed']} of {part['requests']} requests; expected an answer to each"
    for row in part["changes"]:
        if "item" in row and row["items_hot"] == 0:
            return f"{row['change']}: no item is hot after {row['accesses']} accesses; expected this one"
        if "item" in row and row["held_everywhere_ms"] is None:
            return f"{row['change']}: held by {row['held_ms']}; expected every worker to hold it"
        if row.get("served_after"):
            return f"{row['change']}: {row['served_after']} requests were answered with it after that"
    return ""


# ---- the run ----


def settings_of(world, plan, block_tokens, room):
    block_bytes = block_tokens * world.token_bytes()
    memory = int(plan.blocks() * room * block_bytes / ITEM_SHARE) + (2 << 20)
    return [
        f"model: {{directory: {world.model}{member_of(world.model)}}}",
        f"pool: {{memory: {memory}B, page_tokens: {block_tokens}, item_share: {ITEM_SHARE}, "
        f"placement: {plan.setting}}}",
        "inference: {executors: 1, cores: 1}",
        "router: {policy: item, deadline: 5s, deadline_max: 10s}",
    ]


def processor_time():
    """Returns CPU time of all cores of this machine since its start: (busy, total)."""
    with open("/proc/stat") as stat:
        user, nice, system, idle, waiting, *rest = map(int, next(stat).split()[1:9])
    return user + nice + system + sum(rest), user + nice + system + sum(rest) + idle + waiting


def run_part(options, world, plan, folder, room, act):
    """Runs a part on its own cluster, whose workers have `room` more capacity than the plan needs."""
    block_tokens = world.item_tokens()
    cluster = loopback.Cluster(
        options.troupe, folder, options.workers, settings_of(world, plan, block_tokens, room)
    )
    running = []
    try:
        cluster.up(world.data)
        load = Load(cluster.http_port["front"], world, plan, options.rate, options.seed)
        running.append(load)
        watch = Watch(cluster, load.now)
        running.append(watch)
        bench = Bench(cluster, load, watch, options.lengths, block_tokens * world.token_bytes())
        began = processor_time()
        time.sleep(options.lengths["warm"] + options.lengths["before"])
        act(bench)
        busy, all_time = (after - before for after, before in zip(processor_time(), began))
        load.stop()  # returns after all answers
        return {
            "room": room,
            "cores_busy": busy / all_time,
            "requests": len(load.answers),
            "failed": load.failures(),
            "changes": bench.changes,
            "timeline": timeline(load),
        }
    finally:
        for one in reversed(running):
            one.stop()
        cluster.end()


def run(options, folder):
    world = World(options.data, options.model)
    plan = Plan(options.troupe, world, options.workers, folder, options.auto)
    tight, roomy = folder / "tight", folder / "roomy"
    tight.mkdir(), roomy.mkdir()
    parts = [
        run_part(
            options, world, plan, tight, 1.05, lambda bench: bench.run_items(world, plan, options.wait_s)
        )
    ]
    if not options.short:  # capacity for the blocks of a worker that is away
        room = 1.1 * len(world.items) / plan.blocks()
        parts.append(run_part(options, world, plan, roomy, room, lambda bench: bench.run_worker("worker-1")))
    return {
        "workers": options.workers,
        "rate": options.rate,
        "candidates": CANDIDATES,
        "items": len(world.items),
        "everywhere": len(plan.everywhere),
        "cores": os.cpu_count(),
        "parts": parts,
    }


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--troupe", default=str(ROOT / "build/deploy/troupe"))
    parser.add_argument("--model", default=str(DEMO / "model"))
    parser.add_argument("--data", default=str(DEMO / "world"))
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--rate", type=float, default=100, help="requests a second")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--auto", action="store_true", help="pool.placement: auto instead of a plan")
    parser.add_argument("--json")
    options = parser.parse_args()
    options.lengths = {"warm": 5, "before": 15, "during": 5, "after": 15, "away": 35, "back": 10}
    options.wait_s = 0
    if options.short:
        options.workers, options.rate, options.wait_s = 2, 40, 30
        options.lengths = {"warm": 0.5, "before": 0.5, "during": 0.5, "after": 0.5}
    return options


def main():
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # runs the cleanup
    if lacks := loopback.missing():
        print(f"skipped: this machine has no {lacks}", file=sys.stderr)
        return 77
    if not pathlib.Path(options.data).exists() or not pathlib.Path(options.model).exists():
        print(f"skipped: {options.data} or {options.model} is not there", file=sys.stderr)
        return 77
    folder = pathlib.Path(tempfile.mkdtemp(prefix="troupe-refresh-"))
    try:
        result = run(options, folder)
    except Exception:
        print(f"failed: see {folder}", file=sys.stderr)
        raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    print(
        f"{result['workers']} workers, {result['items']} items, {result['everywhere']} of them everywhere, "
        f"{result['rate']:.0f} requests/s of {CANDIDATES} candidates; of {result['cores']} cores "
        + " and ".join(f"{100 * part['cores_busy']:.0f} %" for part in result["parts"])
        + " busy"
    )
    rows = [row for part in result["parts"] for row in part["changes"]]
    show(rows)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=1) + "\n")
    fault = fault_of(result["parts"][0]) if options.short else ""
    if fault:
        print(f"{fault}; see {folder}", file=sys.stderr)
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
