"""The claims of RcLLM (ICDCS '26) §IV, and whether the runs show them."""

import statistics

from clusters import (
    DATASETS,
    DEFAULT_NODES,
    FIGURE_6,
    FIGURE_8_BEST,
    FIGURE_8_KEPT,
    FOOTPRINT,
    HIT_ONLY,
    LOCAL_MEAN,
    LOCAL_MEDIAN,
    MODELS,
    NODES,
    PREFIX_P90,
    RCLLM_P90,
    SEEDS,
    SWEEP,
    common_rate,
    local_share,
    point,
    ratios,
)

HASHED = dict(placement="hash")  # of items, instead of by co-occurrence

# ---- the paper's figures: each runs what it judges ----


def speedups(sim, data, model, what):
    """Returns Prefix-Cache over RcLLM at the default K, by seed."""
    return ratios(sim, data, model, DEFAULT_NODES, what)


def best_speedup(sim, model, what):
    """Returns the speedup, by seed, of the data set where it is largest in the mean."""
    return max((speedups(sim, data, model, what) for data in DATASETS), key=statistics.mean)


def figure_6(sim, report):
    systems = ["Full-Recompute", "Prefix-Cache", "RcLLM"]
    sim.run(
        [
            point(sim, data, model, system, DEFAULT_NODES, seed)
            for data in DATASETS
            for model in MODELS
            for system in systems
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
                    speedups(sim, data, model, what + "_ms"),
                )
    for model, bounds in FIGURE_6.items():
        for what, (_, high) in bounds.items():
            report.beside(
                "Figure 6",
                f"{model}: most of {what.upper()}'s speedup over the data sets",
                high,
                best_speedup(sim, model, what + "_ms"),
                0.15,
                kind="most",
            )
        tails = {data: speedups(sim, data, model, "p99_ms") for data in DATASETS}
        least = min(["Amazon", "Goodreads"], key=lambda data: statistics.mean(tails[data]))
        report.above(
            "Figure 6",
            f"{model}: P99's speedup on Amazon and Goodreads, the lesser, over Yelp's",
            "above 1",
            [a / b for a, b in zip(tails[least], tails["Yelp"])],
            1,
        )
    tails = [best_speedup(sim, model, "p99_ms") for model in ["Qwen-72B", "Qwen3-8B"]]
    report.above(
        "Figure 6",
        "more pronounced for Qwen-72B: most of P99's speedup over Qwen3-8B's",
        "above 1",
        [a / b for a, b in zip(*tails)],
        1,
    )
    say_latencies(sim, report, "Figure 6", systems, MODELS)


def say_latencies(sim, report, figure, systems, models):
    for model in models:
        for data in DATASETS:
            shown = []
            for system in systems:
                runs = [sim[point(sim, data, model, system, DEFAULT_NODES, seed)["name"]] for seed in SEEDS]
                times = [statistics.mean(run[what] for run in runs) for what in ["p50_ms", "p99_ms"]]
                shown.append(f"{system} {times[0]:.0f}, {times[1]:.0f}")
            report.say(figure, f"{data}, {model}: P50 and P99, ms", None, "; ".join(shown))


def figure_8(sim, report):
    """The requests grow with K in proportion, so that the baseline is equally busy at every K."""

    def at(model, system, nodes, seed):
        rate = round(common_rate(sim, "Amazon", model) * nodes / NODES[0], 3)
        return point(sim, "Amazon", model, system, nodes, seed, requests_per_s=rate)

    sim.run(
        [
            at(model, system, nodes, seed)
            for model in MODELS
            for nodes in NODES
            for system in ["Prefix-Cache", "RcLLM"]
            for seed in SEEDS
        ]
    )
    for model, best in FIGURE_8_BEST.items():
        time = lambda system, nodes, seed: sim[at(model, system, nodes, seed)["name"]]["p99_ms"]
        by_nodes = {
            nodes: [time("Prefix-Cache", nodes, seed) / time("RcLLM", nodes, seed) for seed in SEEDS]
            for nodes in NODES
        }
        means = {nodes: statistics.mean(values) for nodes, values in by_nodes.items()}
        report.beside(
            "Figure 8",
            f"{model}: most of P99's speedup over K",
            best,
            by_nodes[max(means, key=means.get)],
            0.25,
            in_view=True,  # it goes by the load, which is open
        )
        shown = " ".join(f"{nodes}: {mean:.2f}" for nodes, mean in means.items())
        report.holds(
            "Figure 8",
            f"{model}: P99's speedup by K is above 1",
            "above 1",
            shown,
            min(means.values()) > 1,
            values=list(means.values()),
        )
        kept = [a / b for a, b in zip(by_nodes[NODES[-1]], by_nodes[NODES[0]])]
        narrows = [1 / value for value in kept]
        what = f"{model}: it narrows: at the least K over the largest"
        report.above("Figure 8", what, "above 1", narrows, 1)
        what = f"{model}: slightly: at the largest K over the least"
        report.at_least("Figure 8", what, kept, FIGURE_8_KEPT)


def figure_9(sim, report):
    sim.run(
        [
            point(sim, "Amazon", "Qwen3-8B", "RcLLM", nodes, seed, **placed)
            for placed in [{}, HASHED]
            for nodes in NODES
            for seed in SEEDS
        ]
    )
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
        kind="median",
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
        all(a > b for a, b in zip(shares, shares[1:])),
        values=shares,
    )
    hashed = [
        sim[point(sim, "Amazon", "Qwen3-8B", "RcLLM", nodes, SEEDS[0], **HASHED)["name"]]["best_mean"]
        for nodes in NODES
    ]
    report.say("Figure 9", "the same, placed by hash", None, " ".join(f"{s:.3f}" for s in hashed))
    amazon = DATASETS["Amazon"]
    report.beside(
        "Figure 9",
        "tokens of items on a node, K = 1 (no run: the catalog)",
        FOOTPRINT[1],
        [amazon["items"] * amazon["item_tokens"]],
        0.1,
        kind="catalog",
    )
    report.beside(
        "Figure 9",
        "tokens of items on the fullest node, K = 40",
        FOOTPRINT[40],
        [r["node_tokens"] for r in by_nodes[40]],
        0.1,
        kind="footprint",
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
                values=means,
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
            values=hits,
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
    report.beside("Figure 11", "P90 of RcLLM at r = 0.3, s", RCLLM_P90, p90[0.3], 0.15, kind="seconds")
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
            all(a < b for a, b in zip(values, values[1:])),
            values=values,
        )


# ---- beside the figures ----


def null_models(sim, report):
    """Judges models without the paper's idea: each must miss a bound that the paper's figures hold."""
    seed = SEEDS[0]
    at = lambda system, **changes: point(sim, "Amazon", "Qwen3-8B", system, DEFAULT_NODES, seed, **changes)
    names = dict(
        full=at("RcLLM"),
        prefix=at("Prefix-Cache"),
        hash=at("RcLLM", **HASHED),
        free=at("RcLLM", r=0.01, known_share=1),
        whole=at("RcLLM", r=0.99),
    )
    sim.run(names.values())
    runs = {key: sim[e["name"]] for key, e in names.items()}
    low, high = FIGURE_6["Qwen3-8B"]["p50"]
    speedup = {key: runs["prefix"]["p50_ms"] / runs[key]["p50_ms"] for key in runs}
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


def planner(sim, report):
    """Not in the paper: exact plans on its own metric. A model that declares items first lets the planner
    reuse items exactly; of one that declares nothing only the prefix is reused."""
    systems = ["Full-Recompute", "Prefix-Cache", "RcLLM", "planner, causal", "planner, item first"]
    model = "Qwen3-8B"
    at = lambda data, system, seed: point(sim, data, model, system, DEFAULT_NODES, seed)
    sim.run([at(data, system, seed) for data in DATASETS for system in systems for seed in SEEDS])
    for data in DATASETS:
        of = lambda system, what: [sim[at(data, system, seed)["name"]][what] for seed in SEEDS]
        for what in ["p50_ms", "p99_ms"]:
            over = lambda one, other: [a / b for a, b in zip(of(one, what), of(other, what))]
            title = f"{data}, {model}: {what[:3].upper()} of"
            report.at_least(
                "planner", f"{title} RcLLM / planner, item first", over("RcLLM", "planner, item first"), 1
            )
            for one in ["planner, item first", "planner, causal"]:
                gain = statistics.mean(over("Prefix-Cache", one))
                report.say("planner", f"{title} Prefix-Cache / {one}", None, gain)
    say_latencies(sim, report, "planner", systems, [model])


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


# ---- null models of the figures ----

BASELINES = ["Prefix-Cache", "Hit-Only", "Load-Only"]


def best_baselines(results):
    """Returns RcLLM's run → the fastest baseline's at the same requests. A baseline has no r."""
    best = {}
    for name in results:
        parts = name.split("/")
        if len(parts) < 5 or parts[2] != "RcLLM":
            continue
        rest = [part for part in parts[3:] if not part.startswith("r ")]
        others = ["/".join([*parts[:2], other, *rest]) for other in BASELINES]
        there = [other for other in others if other in results]
        if there:
            best[name] = min(there, key=lambda other: results[other]["mean_ms"])
    return best


def placed_by_hash(results):
    """Returns RcLLM's run → the same run with items placed by hash."""
    hashed = {}
    for name in results:
        parts = name.split("/")
        other = "/".join([*parts[:-1], "placement hash", parts[-1]])
        if other in results:
            hashed[name] = other
    return hashed


def worlds(results):
    return {
        "RcLLM is the best baseline": best_baselines(results),
        "placement by hash": placed_by_hash(results),
    }
