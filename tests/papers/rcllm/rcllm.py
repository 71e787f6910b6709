"""RcLLM (ICDCS '26) §IV on simulated clusters: runs `troupe-lab sim --experiments` for the latencies of each
configuration
and compares ratios with the paper's. README.md lists what the paper leaves open, and the values chosen
here.
"""

import json
import os
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from checks import PLAIN, Report, simulation_options  # noqa: E402

# ---- from the paper ----

# §III-B: items of Amazon, tokens of an item; §IV-B: medians of 2.2 to 3.0 K tokens, of which 207 are the
# system prompt, 66 to 82 % items and 11 to 26 % history; §IV-C: tokens of a review. r: §IV-A's of items
# and of history.
DATASETS = {
    "Amazon": dict(items=778e3, item_tokens=87, user_tokens=480, event_tokens=80, r=(0.3, 0.3)),
    "Yelp": dict(items=150e3, item_tokens=76, user_tokens=690, event_tokens=178, r=(0.4, 0.5), scale=8),
    "Goodreads": dict(items=500e3, item_tokens=124, user_tokens=395, event_tokens=100, r=(0.3, 0.2)),
}
MODELS = {
    "Qwen3-8B": dict(shape="qwen3-8b", devices=1, kv_bytes=147_456),
    "Qwen-72B": dict(shape="qwen-72b", devices=4, kv_bytes=2_621_440),
}
FIGURE_6 = {
    "Qwen3-8B": dict(p50=(1.5, 2.2), p99=(1.4, 2.4)),
    "Qwen-72B": dict(p50=(1.3, 2.1), p99=(1.4, 2.8)),
}
FIGURE_8_BEST = {"Qwen3-8B": 3.5, "Qwen-72B": 9.5}
LOCAL_MEAN, LOCAL_MEDIAN = (0.85, 0.88), 0.90  # share of a request's items on its best node, at the default K
FOOTPRINT = {1: 66e6, 40: 1.7e6}  # Figure 9(b), Amazon: tokens of items on a node
HIT_ONLY = (1.6, 4.0)  # Figure 10: mean TTFT over RcLLM's at the highest rate
PREFIX_P90, RCLLM_P90 = 0.38, 0.18  # Figure 11(a), seconds

# ---- what it leaves open: one value for all; README.md has the reasons ----

OPEN = dict(
    candidates=20,
    candidates_sigma=0.4,
    user_sigma=0.6,
    user_tokens_max=2000,
    known_events=100,
    known_share=0.93,
    group_items=100,
    group_share=0.89,
    group_skew=0.8,
    item_skew=0.8,
    routing_alpha=0.5,
    batch_tokens=4000,
)
# The one calibration of speed: P90 of the prefix cache on Amazon is 0.38 s.
EFFICIENCY = 0.46
NODES = [4, 8, 16, 40]
DEFAULT_NODES = 8
# Requests a second of all nodes, as a share of the maximum of four nodes with a prefix cache; the same
# for every K.
LOAD = 0.9
SWEEP = [0.25, 0.5, 0.75, 0.9, 0.98]  # Figure 10: shares of the maximum of eight nodes with RcLLM
CLUSTER = dict(
    device="A100-80G",
    link="100gbps",
    host_link="pcie4",
    efficiency=EFFICIENCY,
    routers=1,
    system_tokens=207,
    users=1e9,
    pull_share=1,
    pulls_stall=False,
    training=15_000,
    placement="metis",
)
RUN = dict(scale=32, warm_up=800, measured=1600)
SEEDS = [1, 2]
SYSTEMS = {
    "Prefix-Cache": dict(policy="causal", routing="load"),
    "RcLLM": dict(routing="affinity"),
    "Hit-Only": dict(routing="hits"),
    "Load-Only": dict(routing="load"),
    "pulls": dict(routing="affinity", pull_share=0),
    "overlap": dict(routing="affinity", pull_share=0, overlap=True),
}


def blocks_policy(items, history):
    return f"all_blocks+{round(100 * items)}:attention:history{round(100 * history)}"


def experiment(name, data, model, system, nodes=DEFAULT_NODES, r=None, **changes):
    d, m = dict(DATASETS[data]), MODELS[model]
    default_r = d.pop("r")
    e = dict(RUN, **OPEN, **CLUSTER, **PLAIN, shape=m["shape"], devices=m["devices"], nodes=nodes, name=name)
    e.update(d)
    e["policy"] = blocks_policy(*(default_r if r is None else (r, r)))
    e.update(SYSTEMS[system])
    e.update(changes)
    # A node's part of the items, with capacity for METIS's unequal parts and for 1,500 blocks of histories.
    token_gb = m["kv_bytes"] / 1e9
    e["memory_gb"] = token_gb * (
        1.3 * e["items"] * e["item_tokens"] / nodes + 1500 * e["item_tokens"] * e["scale"]
    )
    return e


# ---- running ----


class Simulator:
    def __init__(self, lab, threads):
        self.lab, self.threads, self.commit = lab, threads, ""
        self.asked, self.results = [], {}

    def run(self, experiments):
        experiments = [e for e in experiments if e["name"] not in self.results]
        if not experiments:
            return
        with tempfile.TemporaryDirectory() as folder:
            asked, answered = os.path.join(folder, "asked.json"), os.path.join(folder, "answered.json")
            with open(asked, "w") as file:
                json.dump(experiments, file)
            command = [
                self.lab,
                "sim",
                "--experiments",
                asked,
                "--threads",
                str(self.threads),
                "--json",
                answered,
            ]
            done = subprocess.run(command, stdout=subprocess.DEVNULL)
            if done.returncode != 0:
                sys.exit(f"{' '.join(command)}: exit status {done.returncode}; see above")
            with open(answered) as file:
                document = json.load(file)
        self.commit = document["commit"]
        self.asked += experiments
        self.results.update({result["name"]: result for result in document["results"]})

    def __getitem__(self, name):
        return self.results[name]

    def capacity(self, data, model, system, nodes):
        """Returns the requests a second of a cluster in a closed loop."""
        name = f"never idle/{data}/{model}/{system}/{nodes}"
        self.run([experiment(name, data, model, system, nodes, measured=800)])
        return self[name]["requests_per_s"]


def common_rate(sim, data, model):
    return LOAD * sim.capacity(data, model, "Prefix-Cache", 4)


def point(sim, data, model, system, nodes, seed, **changes):
    tag = "".join(f"/{key} {value}" for key, value in changes.items())
    changes.setdefault("requests_per_s", common_rate(sim, data, model))
    return experiment(
        f"{data}/{model}/{system}/{nodes}{tag}/seed {seed}", data, model, system, nodes, seed=seed, **changes
    )


def ratios(sim, data, model, nodes, what, **changes):
    """Returns Prefix-Cache over RcLLM, by seed."""
    return [
        sim[point(sim, data, model, "Prefix-Cache", nodes, seed)["name"]][what]
        / sim[point(sim, data, model, "RcLLM", nodes, seed, **changes)["name"]][what]
        for seed in SEEDS
    ]


def local_share(result, candidates=OPEN["candidates"] * 1.07):
    """Returns the local share of candidates' blocks; the counts include the system prompt's, which are
    always there."""
    return 1 - (1 - result["item_hit_rate"]) * (candidates + 1) / candidates


# ---- figures ----


def figure_6(sim, report):
    sim.run(
        [
            point(sim, data, model, system, DEFAULT_NODES, seed)
            for data in DATASETS
            for model in MODELS
            for system in ["Prefix-Cache", "RcLLM"]
            for seed in SEEDS
        ]
    )
    for model, bounds in FIGURE_6.items():
        for data in DATASETS:
            for what, (low, high) in bounds.items():
                report.within(
                    "Figure 6",
                    f"{data}, {model}: {what.upper()} of Prefix-Cache / RcLLM",
                    low,
                    high,
                    ratios(sim, data, model, DEFAULT_NODES, what + "_ms"),
                )


def figure_8(sim, report):
    sim.run(
        [
            point(sim, "Amazon", model, system, nodes, seed)
            for model in MODELS
            for nodes in NODES
            for system in ["Prefix-Cache", "RcLLM"]
            for seed in SEEDS
        ]
    )
    for model, best in FIGURE_8_BEST.items():
        speedups = {nodes: ratios(sim, "Amazon", model, nodes, "p99_ms") for nodes in NODES}
        means = {nodes: sum(values) / len(values) for nodes, values in speedups.items()}
        report.beside(
            "Figure 8",
            f"{model}: most of P99's speedup over K",
            best,
            speedups[max(means, key=means.get)],
            0.25,
        )
        shown = " ".join(f"{nodes}: {mean:.2f}" for nodes, mean in means.items())
        report.holds(
            "Figure 8", f"{model}: P99's speedup by K is above 1", "above 1", shown, min(means.values()) > 1
        )
        report.holds(
            "Figure 8",
            f"{model}: it narrows from the least K to the largest",
            "narrows",
            shown,
            means[NODES[0]] > means[NODES[-1]],
        )


def figure_9(sim, report):
    sim.run([point(sim, "Amazon", "Qwen3-8B", "RcLLM", nodes, seed) for nodes in NODES for seed in SEEDS])
    by_nodes = {
        nodes: [sim[point(sim, "Amazon", "Qwen3-8B", "RcLLM", nodes, seed)["name"]] for seed in SEEDS]
        for nodes in NODES
    }
    here = by_nodes[DEFAULT_NODES]
    report.within(
        "Figure 9",
        "items on the best node at the default K, mean",
        *LOCAL_MEAN,
        [r["best_mean"] for r in here],
        0.03,
        in_view=True,
    )
    report.beside(
        "Figure 9",
        "items on the best node at the default K, median",
        LOCAL_MEDIAN,
        [r["best_median"] for r in here],
        0.03,
        in_view=True,
    )
    report.say(
        "Figure 9",
        "item blocks found where requests ran, default K",
        None,
        " ".join(f"{local_share(r):.3f}" for r in here),
    )
    shares = [by_nodes[nodes][0]["best_mean"] for nodes in NODES]
    report.holds(
        "Figure 9",
        "the share on the best node falls with K",
        "falls",
        " ".join(f"{s:.3f}" for s in shares),
        all(a >= b for a, b in zip(shares, shares[1:])),
    )
    amazon = DATASETS["Amazon"]
    report.beside(
        "Figure 9",
        "tokens of items on a node, K = 1 (no run: the catalog)",
        FOOTPRINT[1],
        [amazon["items"] * amazon["item_tokens"]],
        0.1,
    )
    report.beside(
        "Figure 9",
        "tokens of items on the fullest node, K = 40",
        FOOTPRINT[40],
        [r["node_tokens"] for r in by_nodes[40]],
        0.1,
    )


def figure_10(sim, report):
    for data in DATASETS:
        capacity = sim.capacity(data, "Qwen3-8B", "RcLLM", DEFAULT_NODES)
        shares = SWEEP if data == "Amazon" else SWEEP[-1:]
        systems = ["RcLLM", "Hit-Only", "Load-Only"]

        def at(system, share, seed):
            return point(
                sim, data, "Qwen3-8B", system, DEFAULT_NODES, seed, requests_per_s=round(share * capacity, 2)
            )

        sim.run([at(system, share, seed) for system in systems for share in shares for seed in SEEDS])
        for share in shares:
            runs = {system: [sim[at(system, share, seed)["name"]] for seed in SEEDS] for system in systems}
            means = {system: sum(r["mean_ms"] for r in rs) / len(rs) for system, rs in runs.items()}
            report.holds(
                "Figure 10",
                f"{data}, {share:.2f} of the capacity: RcLLM is lowest, or within 5 %",
                "lowest",
                " ".join(f"{system} {mean:.0f}" for system, mean in means.items()) + " ms",
                means["RcLLM"] <= 1.05 * min(means.values()),
            )
        report.within(
            "Figure 10",
            f"{data}: Hit-Only / RcLLM at the highest rate, mean",
            *HIT_ONLY,
            [a["mean_ms"] / b["mean_ms"] for a, b in zip(runs["Hit-Only"], runs["RcLLM"])],
            in_view=True,
        )  # the skew of groups was chosen by Amazon's, and is the same for all
        hits = {system: sum(local_share(r) for r in rs) / len(rs) for system, rs in runs.items()}
        refused = {system: sum(r["refused"] + r["expired"] for r in rs) for system, rs in runs.items()}
        report.holds(
            "Figure 10",
            f"{data}: Load-Only's hits collapse at the highest rate (below 0.7 of RcLLM's)",
            "collapse",
            " ".join(f"{system} {hit:.2f}" for system, hit in hits.items()),
            hits["Load-Only"] < 0.7 * hits["RcLLM"],
        )
        report.say(
            "Figure 10",
            f"{data}: refused or too late at the highest rate",
            None,
            " ".join(f"{system} {count}" for system, count in refused.items()),
        )


def figure_11(sim, report):
    budgets = [0.1, 0.3, 0.5, 0.8]
    runs = [
        point(sim, "Amazon", "Qwen3-8B", "RcLLM", DEFAULT_NODES, seed, r=r) for r in budgets for seed in SEEDS
    ]
    prefix = [point(sim, "Amazon", "Qwen3-8B", "Prefix-Cache", DEFAULT_NODES, seed) for seed in SEEDS]
    sim.run(runs + prefix)
    p90 = {
        r: [
            sim[point(sim, "Amazon", "Qwen3-8B", "RcLLM", DEFAULT_NODES, seed, r=r)["name"]]["p90_ms"] / 1e3
            for seed in SEEDS
        ]
        for r in budgets
    }
    base = [sim[e["name"]]["p90_ms"] / 1e3 for e in prefix]
    report.beside("Figure 11", "P90 of Prefix-Cache, s", PREFIX_P90, base, 0.05, in_view=True)
    report.beside("Figure 11", "P90 of RcLLM at r = 0.3, s", RCLLM_P90, p90[0.3], 0.15)
    report.beside(
        "Figure 11",
        "P90 of Prefix-Cache / RcLLM at r = 0.3",
        PREFIX_P90 / RCLLM_P90,
        [a / b for a, b in zip(base, p90[0.3])],
        0.15,
    )
    for what in ["p50_ms", "p90_ms", "p99_ms"]:
        values = [
            sum(
                sim[point(sim, "Amazon", "Qwen3-8B", "RcLLM", DEFAULT_NODES, seed, r=r)["name"]][what]
                for seed in SEEDS
            )
            / len(SEEDS)
            for r in budgets
        ]
        report.holds(
            "Figure 11",
            f"{what[:3].upper()} rises with r = 0.1, 0.3, 0.5, 0.8",
            "rises",
            " ".join(f"{value:.0f}" for value in values) + " ms",
            values == sorted(values),
        )


def null_models(sim, report):
    """Judges models without the paper's idea: each must miss a bound that the paper's figures hold."""
    seed = SEEDS[0]
    names = dict(
        full=point(sim, "Amazon", "Qwen3-8B", "RcLLM", DEFAULT_NODES, seed),
        prefix=point(sim, "Amazon", "Qwen3-8B", "Prefix-Cache", DEFAULT_NODES, seed),
        hash=point(sim, "Amazon", "Qwen3-8B", "RcLLM", DEFAULT_NODES, seed, placement="hash"),
        free=point(sim, "Amazon", "Qwen3-8B", "RcLLM", DEFAULT_NODES, seed, r=0.01, known_share=1),
        whole=point(sim, "Amazon", "Qwen3-8B", "RcLLM", DEFAULT_NODES, seed, r=0.99),
    )
    sim.run(names.values())
    runs = {key: sim[e["name"]] for key, e in names.items()}
    low, high = LOCAL_MEAN
    report.within(
        "null models",
        "as it is: items on the best node",
        low,
        high,
        [runs["full"]["best_mean"]],
        0.03,
        in_view=True,
    )
    low, high = FIGURE_6["Qwen3-8B"]["p50"]
    speedup = {key: runs["prefix"]["p50_ms"] / runs[key]["p50_ms"] for key in runs}
    report.within("null models", "as it is: P50 of Prefix-Cache / RcLLM", low, high, [speedup["full"]])
    share = runs["hash"]["best_mean"]
    report.refuted(
        "null models",
        "placement does nothing (hash): items on the best node",
        share,
        share < LOCAL_MEAN[0] * 0.97,
    )
    report.refuted(
        "null models",
        "repair costs nothing (r = 0.01): P50's speedup",
        speedup["free"],
        speedup["free"] > high * 1.1,
    )
    report.refuted(
        "null models",
        "blocks spare nothing (r = 0.99): P50's speedup",
        speedup["whole"],
        speedup["whole"] < low * 0.9,
    )


def pulls(sim, report):
    """Not in the paper: misses are pulled over the network where that is faster than computing."""
    sim.run([point(sim, "Amazon", model, "pulls", DEFAULT_NODES, seed) for model in MODELS for seed in SEEDS])
    for model in MODELS:

        def at(system, seed):
            return sim[point(sim, "Amazon", model, system, DEFAULT_NODES, seed)["name"]]

        for what in ["p50_ms", "p99_ms"]:
            report.say(
                "beyond",
                f"Amazon, {model}: {what[:3].upper()} with misses computed / pulled",
                None,
                " ".join(f"{at('RcLLM', seed)[what] / at('pulls', seed)[what]:.2f}" for seed in SEEDS),
            )


LINKS = {"100gbps": "100 Gbps", "10gbps": "10 Gbps"}


def overlap(sim, report):
    """Not in the paper: misses are pulled, and passes begin after the pulls or during them.

    At a tenth of the load requests seldom wait for each other.
    """
    for model in MODELS:
        for load in [1, 0.1]:
            rate = round(load * common_rate(sim, "Amazon", model), 3)
            for link, name in LINKS.items():

                def at(system, seed):
                    return point(
                        sim, "Amazon", model, system, DEFAULT_NODES, seed, requests_per_s=rate, link=link
                    )

                sim.run([at(system, seed) for system in ["pulls", "overlap"] for seed in SEEDS])
                for what in ["p50_ms", "p99_ms"]:
                    pairs = [
                        [sim[at(system, seed)["name"]][what] for system in ["pulls", "overlap"]]
                        for seed in SEEDS
                    ]
                    report.say(
                        "beyond",
                        f"Amazon, {model}, {name}, {load:g} of the load: {what[:3].upper()} behind / beside "
                        "the pulls, ms",
                        None,
                        ", ".join(f"{a:.1f} / {b:.1f} = {a / b:.3f}" for a, b in pairs),
                    )


FIGURES = {
    "6": figure_6,
    "8": figure_8,
    "9": figure_9,
    "10": figure_10,
    "11": figure_11,
    "pulls": pulls,
    "overlap": overlap,
    "null": null_models,
}


def main():
    parser = simulation_options(__doc__, "smaller runs; by default only the null models: less than a minute")
    parser.add_argument(
        "--figures", help="some of " + ", ".join(FIGURES) + "; default: all, or with --short null"
    )
    parser.add_argument("--json", help="write all results to this file; runs that it has are not repeated")
    options = parser.parse_args()
    figures = options.figures.split(",") if options.figures else ["null"] if options.short else list(FIGURES)
    if options.short:
        RUN.update(scale=64, warm_up=400, measured=600)
    sim, report = Simulator(options.lab, options.threads), Report()
    if options.json and os.path.exists(options.json):
        with open(options.json) as file:
            before = json.load(file)
        sim.commit, sim.asked = before["commit"], before["experiments"]
        sim.results = {result["name"]: result for result in before["results"]}
    for figure in figures:
        FIGURES[figure](sim, report)
    report.print()
    if options.json:
        with open(options.json, "w") as file:
            json.dump(
                dict(
                    commit=sim.commit,
                    open=OPEN,
                    efficiency=EFFICIENCY,
                    load=LOAD,
                    seeds=SEEDS,
                    rows=report.rows,
                    experiments=sim.asked,
                    results=list(sim.results.values()),
                ),
                file,
                indent=1,
            )
            file.write("\n")
    return report.missed()


if __name__ == "__main__":
    sys.exit(main())
