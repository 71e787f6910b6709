"""A bound for each mechanism of HLEM, on runs that are short enough for every test run. Each is also judged
with the mechanism off, or with a run without it in its place: there it must miss."""

import paper
from runs import CLUSTER_RATE, SYSTEMS, experiment

# Clusters, and nodes with alpha* (routing `home`).
SMALL = dict(nodes=16, windows=8, warm_up=4)
FEW = dict(nodes=4, windows=18, warm_up=12, oracle_draws=2)


def cluster(layers, **settings):
    return experiment(
        **{**SMALL, "layers": layers, "requests_per_s": CLUSTER_RATE[layers], "data": "books", **settings}
    )


def experiments():
    static = dict(policy="static:0.4")
    return {
        **{f"KV-Opt, {n} layers": cluster(n, **SYSTEMS["KV-Opt"], nodes=32) for n in paper.DEPTHS},
        "alpha 0.4, 3 layers": cluster(3, **static, routing="kv"),
        "kv": cluster(6, **static, routing="kv"),
        "joint": cluster(6, **static, routing="joint"),
        "cost": cluster(6, **static, routing="cost"),
        **{name: experiment(**FEW, policy=name, alpha=0.9) for name in ("marginal", "smart", "static:0.9")},
        "pooled": experiment(**FEW, policy="marginal", alpha=0.9, pooled=True),
        "plenty": experiment(**FEW, policy="static:0.3", memory_gb=1000, tables_tb=0.05),
    }


def served(result):
    return result["copied_ms"] + result["computed_ms"]


def kv_opt_is_calibrated(r):
    for layers in paper.DEPTHS:
        low, high = paper.FIGURE_11[layers]["kv_opt"]
        if not 0.9 * low <= r[f"KV-Opt, {layers} layers"]["p99_ms"] <= 1.1 * high:
            return False
    return True


def alpha_matters(r):
    p99 = r["static:0.9"]["static_p99_ms"][1:6]  # alpha 0.1 to 0.5: there memory for everything is enough
    return max(p99) >= 1.1 * min(p99)


# what, the bound on the runs, and the runs that take others' place when the mechanism is off
BOUNDS = [
    (
        "KV-Opt has the paper's P99",
        kv_opt_is_calibrated,
        {"KV-Opt, 3 layers": "alpha 0.4, 3 layers"},
    ),
    (
        "joint routing: a request takes 3 % less time than with routing by keys",
        lambda r: served(r["joint"]) <= 0.97 * served(r["kv"]),
        {"joint": "kv"},
    ),
    (
        "routing by cost: the same",
        lambda r: served(r["cost"]) <= 0.97 * served(r["kv"]),
        {"cost": "kv"},
    ),
    (
        "marginal leaves 0.9 for alpha*",
        lambda r: r["marginal"]["gap"] <= 0.5 * r["static:0.9"]["gap"],
        {"marginal": "static:0.9"},
    ),
    (
        "SmartAllocator leaves 0.9 for alpha*",
        lambda r: r["smart"]["gap"] <= 0.6 * r["static:0.9"]["gap"],
        {"smart": "static:0.9"},
    ),
    (
        "alpha matters: from 0.1 to 0.5 the worst static P99 is 1.1 times the best, or more",
        alpha_matters,
        {"static:0.9": "plenty"},
    ),
]


def check(sim, report):
    asked = experiments()
    results = dict(zip(asked, sim.of(list(asked.values()))))
    for what, bound, off in BOUNDS:
        report.holds("mechanism", what, None, "", bound(results))
        without = {**results, **{name: results[other] for name, other in off.items()}}
        report.refuted("mechanism", what, "off", not bound(without))
