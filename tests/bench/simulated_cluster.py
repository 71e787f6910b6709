#!/usr/bin/env python3
"""Compares a simulated cluster of three nodes with three real processes that serve the same requests.

  tests/bench/simulated_cluster.py [--troupe build/deploy/troupe] [--trace t.jsonl.gz] [--requests 400]
                                   [--policies item,user,bat,planner] [--device PROFILE] [--json FILE]

All three nodes are workers. The first also has the router, and the first two a cache-meta, as
`troupe-lab sim --model M --nodes 3 --routers 1` simulates it. The requests are those of a trace
(docs/reference/trace-format.md), or are drawn from the demo's world. They come one at a time over HTTP, after
the item blocks are precomputed, on a new cluster for each policy.

Tokens and hits must agree: exactly where a policy does not depend on times, and within --bound for `bat` and
`planner`. The estimate of a pull's cost stays fixed, since it is measured from times. CPU time and P50 are
printed with their error and not judged: they mean something if --device is a profile of this machine
(`troupe-lab bench calibrate`), and the simulated node has no HTTP server. Exit status 1 if a figure is beyond
its bound, 77 if this machine has no etcd.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import loopback

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO = ROOT / "deploy" / "demo"
NODES = 3
ROLES = {"front": "router, cache_meta, worker", "worker-1": "cache_meta, worker", "worker-2": "worker"}
# On both sides: one executor each, memory for all blocks, and nothing that depends on measured times.
SETTINGS = {
    "pool.memory": "256MiB",
    "pool.hot_share": "0",
    "pool.store_item_blocks": "false",
    "router.measure_pulls": "false",
    "router.deadline": "10s",
    "inference.executors": "1",
    "inference.cores": "1",
}
PRECOMPUTED_WITHIN_S = 300
EXACT = ["recompute", "item", "user", "larger", "causal"]  # policies whose plans do not depend on times
JUDGED = [
    "requests",
    "tokens_total",
    "tokens_computed",
    "user_blocks_hit",
    "user_blocks_computed",
    "item_blocks_hit",
    "item_blocks_computed",
]
SHOWN = ["cpu_seconds", "p50_ms"]


def run(*words):
    done = subprocess.run([*map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, words))}: {done.stderr.strip()[-800:]}")
    return done.stdout


TEXTS = ("router.policy", "model.directory")  # settings that are quoted in a cluster file


def draw_trace(lab, asked, file):
    words = ["--requests", asked.requests, "--users", asked.users, "--candidates", asked.candidates]
    run(lab, "trace", "convert", "--data", asked.data, "--out", file, "--rate", 100, "--start", 3, *words)
    return file


def sections(settings):
    """Returns the settings as lines of a cluster file."""
    by_section = {}
    for name, value in settings.items():
        section, key = name.split(".")
        text = f'"{value}"' if name in TEXTS else value
        by_section.setdefault(section, []).append(f"{key}: {text}")
    return [f"{section}: {{{', '.join(pairs)}}}" for section, pairs in by_section.items()]


def processor_seconds(process):
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Real:
    """Three processes on the loopback."""

    def __init__(self, asked, folder, policy):
        lines = sections({**SETTINGS, "router.policy": policy, "model.directory": asked.model})
        self.cluster = loopback.Cluster(asked.troupe, folder, NODES - 1, lines, roles=ROLES)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cluster.end()

    def start(self, data):
        self.cluster.start_all(data)
        is_done = lambda: self.cluster.router()["precompute"] in ("done", "off")
        self.cluster.wait("the precomputed blocks", is_done, limit=PRECOMPUTED_WITHIN_S)

    def counts(self):
        """Returns hit and computed blocks by kind, and the CPU time, of all nodes together."""
        sums = {"cpu_seconds": 0.0}
        for kind in ("user", "item"):
            for what in ("hit", "computed"):
                sums[f"{kind}_blocks_{what}"] = 0
        for name in self.cluster.names:
            sums["cpu_seconds"] += processor_seconds(self.cluster.processes[name])
            for line in loopback.ask(self.cluster.http_port[name], "GET", "/metrics")[1].splitlines():
                for kind in ("user", "item"):
                    for what in ("hit", "computed"):
                        if line.startswith(f'troupe_blocks_{what}_total{{kind="{kind}"}}'):
                            sums[f"{kind}_blocks_{what}"] += int(float(line.rsplit(" ", 1)[1]))
        return sums


def measure(asked, lab, trace, policy):
    """Returns the figures of real processes."""
    with tempfile.TemporaryDirectory(prefix="troupe-simulated-cluster-") as folder:
        with Real(asked, folder, policy) as real:
            real.start(asked.data)
            out = pathlib.Path(folder) / "served.json"
            url = f"http://{loopback.ADDRESS}:{real.cluster.http_port['front']}"
            words = ["--closed", "--connections", 1, "--write-profiles", "--json", out]
            before = real.counts()
            run(lab, "bench", "serve", "--url", url, *requests_of(asked, trace), *words)
            after = real.counts()
            served = json.loads(out.read_text())
    if served["errors"]:
        raise SystemExit(f"{policy}: the real cluster answered with errors: {served['errors']}")
    figures = {name: after[name] - before[name] for name in after}
    figures["requests"] = served["answered"]
    figures["p50_ms"] = served["latency_from_sending"]["p50_ms"]
    return figures | {name: served[name] for name in ("tokens_total", "tokens_computed")}


def simulate(asked, lab, trace, policy):
    """Returns the figures of the simulated nodes."""
    with tempfile.TemporaryDirectory(prefix="troupe-simulated-cluster-") as folder:
        out = pathlib.Path(folder) / "simulated.json"
        settings = {**SETTINGS, "router.policy": policy}
        words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        words += ["--nodes", NODES, "--routers", 1, "--in-flight", 1, "--cores", 1]
        words += ["--device", asked.device, "--link", asked.link, "--json", out]
        what = ["--model", asked.model, "--data", asked.data]
        run(lab, "sim", *what, *requests_of(asked, trace), *words)
        return json.loads(out.read_text())["runs"][0]


def requests_of(asked, trace):
    return ["--trace", trace, "--requests", asked.requests]


def error(real, simulated):
    if real == simulated:
        return 0.0
    return (simulated - real) / real if real else float("inf")


def compare(asked, policy, real, simulated):
    """Returns the rows of a policy: figure, real, simulated, error, bound or None, whether it holds."""
    bound = 0.0 if policy.split("+")[0] in EXACT else asked.bound
    rows = []
    for name in JUDGED + SHOWN:
        is_off = error(real[name], simulated[name])
        most = bound if name in JUDGED else None
        holds = most is None or abs(is_off) <= most
        rows.append((policy, name, real[name], simulated[name], is_off, most, holds))
    return rows


def show(rows):
    print(f"{'policy':10} {'figure':22} {'real':>12} {'simulated':>12} {'error':>9}  bound")
    for policy, name, real, simulated, is_off, most, holds in rows:
        digits = 2 if name in SHOWN else 0
        verdict = "shown" if most is None else f"{100 * most:.0f} %" + ("" if holds else "  MISSED")
        numbers = f"{real:12.{digits}f} {simulated:12.{digits}f} {100 * is_off:+8.1f} %"
        print(f"{policy:10} {name:22} {numbers}  {verdict}")


def options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", default=ROOT / "build/deploy/troupe", type=pathlib.Path)
    parser.add_argument("--model", default=DEMO / "model")
    parser.add_argument("--data", default=DEMO / "world", help="folder of the catalog")
    parser.add_argument("--trace", help="request trace; default: drawn from the users of --data")
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--users", type=int, default=60, help="of a drawn trace")
    parser.add_argument("--candidates", type=int, default=20, help="of a drawn trace")
    parser.add_argument("--policies", default="recompute,item,user,bat,planner")
    parser.add_argument("--bound", type=float, default=0.05, help="error of policies that depend on times")
    parser.add_argument("--device", default="cpu", help="profile of this machine (bench calibrate)")
    parser.add_argument("--link", default="100gbps")
    parser.add_argument("--json", help="write the rows to this file")
    return parser.parse_args()


def main():
    asked = options()
    if lacks := loopback.missing():
        print(f"skipped: there is no {lacks}")
        return 77
    asked.troupe = asked.troupe.resolve()
    lab = asked.troupe.with_name("troupe-lab")
    rows = []
    with tempfile.TemporaryDirectory(prefix="troupe-simulated-cluster-") as folder:
        trace = asked.trace or draw_trace(lab, asked, pathlib.Path(folder) / "t.jsonl")
        for policy in asked.policies.split(","):
            rows += compare(
                asked, policy, measure(asked, lab, trace, policy), simulate(asked, lab, trace, policy)
            )
    show(rows)
    if asked.json:
        names = ["policy", "figure", "real", "simulated", "error", "bound", "holds"]
        commit = run("git", "-C", ROOT, "rev-parse", "--short", "HEAD").strip()
        listed = [dict(zip(names, row)) for row in rows]
        result = {"commit": commit, "nodes": NODES, "requests": asked.requests, "rows": listed}
        pathlib.Path(asked.json).write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all(row[-1] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
