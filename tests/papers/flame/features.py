#!/usr/bin/env python3
"""FLAME's Table 3 in its form: user features behind a narrow link, without a cache, with one, and with
the users' keys and values in memory, too.

    features.py --troupe build/deploy/troupe [--seconds 6] [--rate 1000000] [--delay-ms 0.5] [--json FILE]

A Redis on this machine is behind a proxy that passes --rate bytes a second in each direction and holds
them for --delay-ms. A node serves tiny-climber over MovieLens. --clients send requests in a closed loop
for the users in the order of their ratings, so users come as they really came, with the 100 candidates of
their evaluation row. The rows of the table run in rotation, each on its own node: every profile from
Redis and every history computed; profiles cached for --expiry-ms, waited for or not; the same with the
histories' blocks kept. Prints user-item pairs/s, latency, bytes over the link, and shares of hits, stale
and missing profiles; then the effect of stale and missing profiles on the rank of the true item among
100. Exit status 77 if something is missing.
"""
import argparse
import gzip
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", ".."), os.path.join(HERE, "..", "..", "features")]
from link import Link
from served_node import ServedNode

SHARED = os.path.join(HERE, "..", "..", "..", "..", "shared")
MODEL, MOVIES = os.path.join(SHARED, "models", "tiny-climber"), os.path.join(SHARED, "data", "movielens-100k")
# Thousands of pairs a second, latency and its 99th percentile in ms, MB/s.
TABLE3 = [
    ("-Cache, -Mem Opt", 67.4, 22.6, 60, 46.3),
    ("+Cache, -Mem Opt", 106.4, 18.5, 52.5, 28.6),
    ("+Cache, +Mem Opt (Full PDA)", 126.6, 13.2, 46, 34),
]
# Items behind the link, too: a router without the catalog (features.items: cached).
ITEM_ROWS = [
    ("no cache", "exact", "recompute"),
    ("cache, waits", "wait", "recompute"),
    ("cache, behind", "behind", "recompute"),
]
ROWS = [
    ("no cache", "exact", "recompute"),
    ("cache, waits", "wait", "recompute"),
    ("cache, behind", "behind", "recompute"),
    ("cache, waits, and memory", "wait", ""),
    ("cache, behind, and memory", "behind", ""),
]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class World:
    def __init__(self, args):
        self.args, self.folder = args, tempfile.TemporaryDirectory(prefix="troupe-features-")
        self.redis_port, self.link_port = free_port(), free_port()
        self.redis = subprocess.Popen(
            [
                "redis-server",
                "--port",
                str(self.redis_port),
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--dir",
                self.folder.name,
            ],
            stdout=subprocess.DEVNULL,
        )
        while (
            subprocess.run(["redis-cli", "-p", str(self.redis_port), "ping"], capture_output=True).stdout
            != b"PONG\n"
        ):
            time.sleep(0.05)
        subprocess.run(
            [
                args.troupe,
                "import",
                "--model",
                MODEL,
                "--data",
                MOVIES,
                "--data-dir",
                self.folder.name + "/import",
                "--set",
                f"features.store=redis://127.0.0.1:{self.redis_port}",
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        self.link = Link(self.link_port, self.redis_port, bytes_per_second=args.rate, delay_ms=args.delay_ms)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.link.end()
        self.redis.kill()
        self.redis.wait()
        self.folder.cleanup()


class Node(ServedNode):
    def __init__(self, world, settings):
        super().__init__("troupe-features-node-")
        settings = [
            f"features.store=redis://127.0.0.1:{world.link_port}",
            "features.time_limit=5s",
            "pool.memory=128MiB",
            *settings,
        ]
        words = [world.args.troupe, "serve", "--model", MODEL, "--data-dir", self.at("data")]
        words += [part for setting in settings for part in ("--set", setting)]
        self.port = self.start(words, stderr=subprocess.DEVNULL)
        time.sleep(0.5)

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Client:
    def __init__(self, port):
        self.link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.link.connect()
        self.link.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, method, path, body):
        self.link.request(method, path, json.dumps(body))
        reply = self.link.getresponse()
        text = reply.read()
        if reply.status != 200:
            raise RuntimeError(f"{method} {path}: {reply.status} {text[:300]}")
        return json.loads(text)


def rows_of(path):
    with gzip.open(path, "rt") as file:
        names = file.readline().rstrip("\n").split("\t")
        for line in file:
            yield dict(zip(names, line.rstrip("\n").split("\t")))


def put(client, row, drop=0):
    items, actions = row["items"].split(), [int(action) for action in row["actions"].split()]
    keep = max(0, len(items) - drop)
    client.send(
        "PUT",
        f"/v1/users/{row['user_id']}",
        {"history": items[:keep], "features": [{"name": "actions", "values": actions[:keep]}]},
    )


def rank(client, row, top=0, **more):
    return client.send(
        "POST",
        "/v1/rank",
        {
            "user": row["user_id"],
            "candidates": row["candidates"].split(),
            "scenario": int(row["scenario"]),
            "top_k": top,
            **more,
        },
    )


def sweep(world, rows, visits):
    """Returns Table 3's rows at each rate of the link; 0 = a link without a limit."""
    runs = []
    for rate in world.args.rates:
        world.link.set(bytes_per_second=rate or 1e9)
        for row in ITEM_ROWS if world.args.items == "cached" else ROWS:
            runs.append({"rate": rate, **measure(world, rows, visits, *row)})
            print(
                f"{rate / 1e6:6.2f} MB/s {row[0]:14} {runs[-1]['pairs_per_second'] / 1e3:8.1f} k pairs/s",
                file=sys.stderr,
                flush=True,
            )
    return runs


def network_share(runs, rate):
    """Returns the share of the uncached latency that the link causes: over that of an unlimited link."""
    of = {run["rate"]: run["latency_ms"] for run in runs if run["row"] == "no cache"}
    return 1 - of[0] / of[rate]


# The paper's Table 3: the cache takes (22.6 - 18.5) / 22.6 of the latency and leaves (28.6 / 106.4) /
# (46.3 / 67.4) of the bytes a pair. So if the link's part is proportional to bytes, it is this share.
PAPER_BYTES_LEFT = (28.6 / 106.4) / (46.3 / 67.4)
PAPER_NETWORK_SHARE = (22.6 - 18.5) / 22.6 / (1 - PAPER_BYTES_LEFT)


def show_sweep(runs):
    print(
        f"\nthe link swept: the network's share of the uncached latency, then each row over no cache "
        f"(paper: {PAPER_NETWORK_SHARE:.0%}; 1.58 x pairs/s, 1.22 x latency, {PAPER_BYTES_LEFT:.0%} of the "
        "bytes)"
    )
    for rate in sorted({run["rate"] for run in runs}, key=lambda rate: -(rate or 1e12)):
        here = {run["row"]: run for run in runs if run["rate"] == rate}
        base = here.pop("no cache")
        share = f"{network_share(runs, rate):5.0%}" if any(run["rate"] == 0 for run in runs) else "    ?"
        text = ", ".join(
            f"{name}: {run['pairs_per_second'] / base['pairs_per_second']:.2f} x pairs/s, "
            f"{base['latency_ms'] / run['latency_ms']:.2f} x latency, "
            f"{run['link_bytes_per_request'] / base['link_bytes_per_request']:.0%} of the bytes"
            for name, run in here.items()
        )
        print(f"  {rate / 1e6 if rate else 1000:7.2f} MB/s {share}  {text}")


COLOURS = {"cache, waits": "#1b6ca8", "cache, behind": "#27ae60"}


def plot(path, runs):
    """Plots pairs/s over no cache against the network's share of the uncached latency."""
    lines, top = [], 1.0
    for name in COLOURS:
        points = []
        for run in runs:
            if run["row"] == name:
                base = next(r for r in runs if r["rate"] == run["rate"] and r["row"] == "no cache")
                points.append(
                    (network_share(runs, run["rate"]), run["pairs_per_second"] / base["pairs_per_second"])
                )
        lines.append((name, sorted(points)))
        top = max([top] + [y for _, y in points])
    place = lambda x, y: f"{60 + 480 * max(0.0, x):.1f},{300 - 250 * y / top:.1f}"
    text = [
        '<svg xmlns="http://www.w3.org/2000/svg" width="700" height="350" font-family="sans-serif" '
        'font-size="12">',
        '<rect width="700" height="350" fill="white"/>',
        '<rect x="60" y="50" width="480" height="250" fill="none" stroke="#999"/>',
        '<text x="300" y="335" text-anchor="middle">share of the uncached latency that the link causes'
        "</text>",
        '<text x="60" y="40">pairs/s over no cache</text>',
    ]
    for x in (0, 0.25, 0.5, 0.75, 1):
        text.append(f'<text x="{60 + 480 * x:.0f}" y="316" text-anchor="middle">{x:.0%}</text>')
    for y in range(1, int(top) + 1):
        text.append(f'<text x="54" y="{304 - 250 * y / top:.1f}" text-anchor="end">{y}</text>')
    paper = place(PAPER_NETWORK_SHARE, 106.4 / 67.4).split(",")
    text.append(f'<circle cx="{paper[0]}" cy="{paper[1]}" r="5" fill="#c0392b"/>')
    text.append('<text x="552" y="120" fill="#c0392b">the paper</text>')
    for number, (name, points) in enumerate(lines):
        path_of = " ".join(place(x, y) for x, y in points)
        text.append(f'<polyline points="{path_of}" fill="none" stroke="{COLOURS[name]}" stroke-width="2"/>')
        text.append(f'<text x="552" y="{70 + 20 * number}" fill="{COLOURS[name]}">{name}</text>')
    with open(path, "w") as file:
        file.write("\n".join(text) + "\n</svg>\n")


def at(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def measure(world, rows, visits, name, freshness, policy):
    args, times, counts, faults = world.args, [], {"stale": 0, "missing": 0}, []
    lock, next_visit = threading.Lock(), iter(range(1 << 60))
    more = {"features": freshness, **({"policy": policy} if policy else {})}

    def ask(until):
        try:
            client = Client(node.port)
            while time.perf_counter() < until:
                with lock:
                    row = rows[visits[next(next_visit) % len(visits)]]
                began = time.perf_counter()
                reply = rank(client, row, top=5, **more)
                took = 1e3 * (time.perf_counter() - began)
                with lock:
                    times.append(took)
                    counts["stale"] += reply["features_stale"]
                    counts["missing"] += reply["features_missing"]
        except Exception as fault:  # reported below
            faults.append(fault)

    with Node(world, [f"features.expiry={args.expiry_ms}ms", f"features.items={args.items}"]) as node:
        began, cpu, carried = time.perf_counter(), node.cpu_seconds(), world.link.bytes()
        threads = [threading.Thread(target=ask, args=(began + args.seconds,)) for _ in range(args.clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wall, cpu, carried = (
            time.perf_counter() - began,
            node.cpu_seconds() - cpu,
            world.link.bytes() - carried,
        )
        if faults:
            raise faults[0]
        metrics = http.client.HTTPConnection("127.0.0.1", node.port, timeout=10)
        metrics.request("GET", "/metrics")
        hits = sum(
            float(line.split()[-1])
            for line in metrics.getresponse().read().decode().splitlines()
            if line.startswith('troupe_features_total{from="cache"}')
        )
    requests = len(times)
    return {
        "row": name,
        "features": freshness,
        "policy": policy or "as shipped",
        "requests": requests,
        "pairs_per_second": requests * 100 / wall,
        "latency_ms": sum(times) / requests,
        "p99_ms": at(times, 0.99),
        "link_mb_per_second": carried / wall / 1e6,
        "link_bytes_per_request": carried / requests,
        "cpu_ms_per_request": 1e3 * cpu / requests,
        "hits": hits / requests,
        "stale": counts["stale"] / requests,
        "missing": counts["missing"] / requests,
    }


# Ranks of the true item among 100: the share of others below it, and whether it is among the first ten.
def quality(client, rows, **more):
    above, first = 0.0, 0
    for row in rows.values():
        items = rank(client, row, **more)["items"]
        place = [item["id"] for item in items].index(row["candidates"].split()[int(row["true_index"])])
        above += (len(items) - 1 - place) / (len(items) - 1)
        first += place < 10
    return {"auc": above / len(rows), "hr_10": first / len(rows)}


def qualities(world, rows):
    with Node(world, ["features.expiry=1h"]) as node:
        client = Client(node.port)
        for row in rows.values():  # histories without the true item
            put(client, row)
        missing = quality(client, rows, features="behind")  # no user was requested before
        result = {"as they are": quality(client, rows, features="exact"), "missing": missing}
        for drop in (5, 20):
            for row in rows.values():
                put(client, row, drop)
            result[f"{drop} events old"] = quality(client, rows, features="exact")
    return result


def show(results):
    if results.get("sweep"):
        return show_sweep(results["sweep"])
    print("Table 3: pairs/s, latency, P99, MB/s over the link, ratio to no cache; hits, stale, missing")
    for name, pairs, latency, tail, carried in TABLE3:
        print(
            f"  paper: {name:34} {pairs:8.1f} k {latency:7.2f} ms {tail:7.2f} ms {carried:7.2f} MB/s "
            f"{pairs / 67.4:6.2f} x {22.6 / latency:6.2f} x"
        )
    base = results["rows"][0]
    for row in results["rows"]:
        print(
            f"  {row['row']:41} {row['pairs_per_second'] / 1e3:8.1f} k {row['latency_ms']:7.2f} ms "
            f"{row['p99_ms']:7.2f} ms "
            f"{row['link_mb_per_second']:7.2f} MB/s "
            f"{row['pairs_per_second'] / base['pairs_per_second']:6.2f} x "
            f"{base['latency_ms'] / row['latency_ms']:6.2f} x  {row['hits']:5.1%} {row['stale']:5.1%} "
            f"{row['missing']:5.1%}"
        )
    for name, found in results.get("quality", {}).items():
        print(
            f"  the true item among 100, profiles {name:14} AUC {found['auc']:.4f}  HR@10 "
            f"{found['hr_10']:.4f}"
        )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe")
    parser.add_argument("--results", help="print the results that --json wrote")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--rate", type=float, default=1e6)
    parser.add_argument(
        "--rates",
        type=lambda text: [float(word) for word in text.split(",")],
        default=[],
        help="sweep these rates of the link, in bytes a second; 0 = no limit",
    )
    parser.add_argument(
        "--items",
        choices=("whole", "cached"),
        default="whole",
        help="cached: routers hold no catalog, and items are behind the link, too",
    )
    parser.add_argument("--plot", help="picture of a sweep that has the rate 0")
    parser.add_argument("--delay-ms", type=float, default=0.5)
    parser.add_argument("--expiry-ms", type=int, default=2000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--no-quality", action="store_true")
    parser.add_argument("--json")
    args = parser.parse_args()
    if args.results:
        with open(args.results) as file:
            return show(json.load(file))
    if args.plot and 0 not in args.rates:
        parser.error("--plot: expected 0 among --rates, the link without a limit")
    if not args.troupe:
        parser.error("expected --troupe or --results")
    if not shutil.which("redis-server") or not os.path.isdir(MODEL) or not os.path.isdir(MOVIES):
        print("skipped: no redis-server, no", MODEL, "or no", MOVIES)
        return 77
    rows = {row["user_id"]: row for row in rows_of(os.path.join(MODEL, "eval.tsv.gz"))}
    visits = [row["user_id"] for row in rows_of(os.path.join(MOVIES, "ratings.tsv.gz"))]
    said = subprocess.run([args.troupe, "--version"], stdout=subprocess.PIPE, check=True, text=True).stdout
    results = {
        "commit": said.strip().rpartition(" ")[2],
        "rate": args.rate,
        "delay_ms": args.delay_ms,
        "expiry_ms": args.expiry_ms,
        "clients": args.clients,
        "seconds": args.seconds,
        "items": args.items,
        "rows": [],
    }
    with World(args) as world:
        if args.rates:
            results["sweep"] = sweep(world, rows, visits)
        for _ in range(0 if args.rates else args.rounds):
            wanted = ITEM_ROWS if args.items == "cached" else ROWS
            results["rows"] += [measure(world, rows, visits, *row) for row in wanted]
        if not args.no_quality and not args.rates:
            results["quality"] = qualities(world, rows)
    show(results)
    if args.plot:
        plot(args.plot, results["sweep"])
    if args.json:
        with open(args.json, "w") as file:
            json.dump(results, file, indent=1)
            file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
