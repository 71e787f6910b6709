"""Runs of `troupe-lab sim --split` for HLEM's figures: a cluster as the paper has it, the systems that are
compared, and the rate that a system sustains."""

import json
import os
import statistics
import subprocess
import sys
import tempfile

from paper import OBJECTIVE_MS

HERE = os.path.dirname(os.path.abspath(__file__))
TRAINED = os.path.join(HERE, "..", "..", "..", "deploy", "policies", "split.txt")

# ---- what is run ----

CLUSTER = dict(nodes=32, windows=14, warm_up=6)
TABLE = dict(nodes=32, windows=40, warm_up=10, oracle_draws=4)
SEEDS = [1, 2, 3, 4, 5]
TUNING_SEED = 101  # chooses the best static split, and the PID controller's setting; is not measured
GRID = [round(0.1 * step, 1) for step in range(11)]  # §V-A
CLUSTER_RATE = {3: 79, 6: 81}  # requests a second of each node; chosen by Figure 11's P99 of KV-Opt
HOME_RATE = 42  # of a node to which users are tied (sim/split/split_settings.cc)
SYSTEMS = {
    "KV-Opt": dict(policy="static:0", routing="kv"),
    "SmartAllocator": dict(policy="smart", routing="kv"),
    "HLEM": dict(policy="smart", routing="joint"),
    "marginal": dict(policy="marginal", routing="kv"),
    "marginal, joint": dict(policy="marginal", routing="joint"),
    "marginal, cost": dict(policy="marginal", routing="cost"),
    "best static": dict(routing="kv"),
    "best static, joint": dict(routing="joint"),
}
OURS = "marginal, cost"  # what a node does by default: pool.split marginal, router.routing earliest
CAPACITY_STEPS = 6  # bisections of a sustained rate: to 1 % of the interval


class Simulator:
    AT_ONCE = 8  # experiments per batch; results are saved after each batch, so that a run can be resumed

    def __init__(self, lab, threads, kept=None):
        self.lab, self.threads, self.kept, self.commit = lab, threads, kept, ""
        self.asked, self.results, self.rows = [], {}, []
        if kept and os.path.exists(kept):
            with open(kept) as file:
                before = json.load(file)
            self.commit, self.asked, self.rows = before["commit"], before["experiments"], before["rows"]
            self.results = {result["name"]: result for result in before["results"]}

    def run(self, experiments):
        experiments = list({e["name"]: e for e in experiments if e["name"] not in self.results}.values())
        for first in range(0, len(experiments), self.AT_ONCE):
            self.run_some(experiments[first : first + self.AT_ONCE])
            self.keep()

    def run_some(self, experiments):
        with tempfile.TemporaryDirectory() as folder:
            asked, answered = os.path.join(folder, "asked.json"), os.path.join(folder, "answered.json")
            with open(asked, "w") as file:
                json.dump(experiments, file)
            command = [self.lab, "sim", "--split", asked, "--threads", str(self.threads), "--json", answered]
            done = subprocess.run(command, stdout=subprocess.DEVNULL)
            if done.returncode != 0:
                sys.exit(f"{' '.join(command)}: exit status {done.returncode}; see above")
            with open(answered) as file:
                document = json.load(file)
        self.commit = document["commit"]
        self.asked += [{k: v for k, v in e.items() if k != "trained"} for e in experiments]
        self.results.update({result["name"]: result for result in document["results"]})

    def keep(self):
        if not self.kept:
            return
        document = dict(
            commit=self.commit,
            seeds=SEEDS,
            cluster=CLUSTER,
            cluster_rate=CLUSTER_RATE,
            rows=self.rows,
            experiments=self.asked,
            results=list(self.results.values()),
        )
        with open(self.kept + ".new", "w") as file:
            json.dump(document, file, indent=1)
            file.write("\n")
        os.replace(self.kept + ".new", self.kept)

    def of(self, experiments):
        self.run(experiments)
        return [self.results[e["name"]] for e in experiments]


def experiment(**settings):
    e = dict(TABLE, data="games", layers=6, regime="steady", policy="marginal", routing="home", seed=1)
    e.update(settings)
    if e["routing"] != "home":
        e["oracle_draws"] = 0
    e["name"] = " ".join(f"{key}={value}" for key, value in e.items())
    if e["policy"] in ("smart", "ppo", "ppo+adapter", "trees"):
        e["trained"] = TRAINED
    return e


def in_cluster(data, layers, regime, seed, **settings):
    rate = settings.pop("requests_per_s", CLUSTER_RATE[layers])
    return experiment(
        **CLUSTER, data=data, layers=layers, regime=regime, seed=seed, requests_per_s=rate, **settings
    )


def values(results, what):
    return [r[what] for r in results]


def mean_of(results, what):
    return statistics.mean(values(results, what))


def best_static(sim, data, layers, regime, **settings):
    """Returns the alpha of the grid with the least P99 on the workload, for a seed that is not measured."""
    grid = [
        in_cluster(data, layers, regime, TUNING_SEED, policy=f"static:{a}", routing="kv", **settings)
        for a in GRID
    ]
    p99 = values(sim.of(grid), "p99_ms")
    return GRID[p99.index(min(p99))]


def settings_of(sim, name, data, layers, regime):
    if not name.startswith("best static"):
        return SYSTEMS[name]
    return dict(policy=f"static:{best_static(sim, data, layers, regime)}", **SYSTEMS[name])


def systems(sim, data, layers, regime, names, **settings):
    """Returns results by system, one for each seed."""
    runs = {
        name: [
            in_cluster(data, layers, regime, seed, **settings_of(sim, name, data, layers, regime), **settings)
            for seed in SEEDS
        ]
        for name in names
    }
    sim.run([e for es in runs.values() for e in es])
    return {name: sim.of(es) for name, es in runs.items()}


def capacity(result):
    """Returns requests a second of a node without idle time at the station that is longer busy."""
    return 1e3 / max(result["copied_ms"], result["computed_ms"])


def sustained_rate(sim, data, layers, regime, name, seed, most):
    """Returns the rate up to which the P99 is within the objective, by bisection: from a 64th of `most`,
    which also stands for less, to `most`."""
    settings = settings_of(sim, name, data, layers, regime)
    low, high = round(most / 2**CAPACITY_STEPS, 2), most
    for _ in range(CAPACITY_STEPS):
        rate = round((low + high) / 2, 2)
        run = in_cluster(data, layers, regime, seed, **settings, requests_per_s=rate)
        if sim.of([run])[0]["p99_ms"] <= OBJECTIVE_MS:
            low = rate
        else:
            high = rate
    return low
