"""The measurements of BAT (ASPLOS '26) §6 as experiments for `troupe-lab sim --experiments`: the paper's
data sets and clusters, the values for what it leaves open, and the runs of each table and figure."""

import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from checks import BOTH_PREFIXES  # noqa: E402

# ---- from the paper ----

# Table 1, and the extremes that §6.2 names.
DATASETS = {
    "Games": dict(users=15e3, items=8e3, user_tokens=1245, item_tokens=11),
    "Beauty": dict(users=22e3, items=12e3, user_tokens=2043, item_tokens=18),
    "Books": dict(users=510e3, items=280e3, user_tokens=1586, item_tokens=15),
    # §4.3: more than 55 % of the users come once in an hour. No such share is said of the other data sets.
    "Industry": dict(users=10e6, items=1e6, user_tokens=1500, item_tokens=10, return_share=0.45),
}
MODELS = ["qwen2-1.5b", "qwen2-7b", "llama3-1b"]  # Table 2
PROMPT_MAX = 8000  # tokens, §6.2
SYSTEMS = {"RE": "recompute", "UP": "user", "IP": "item", "BAT": "bat"}

# ---- what it leaves open: one value for all; README.md has the reasons ----

OPEN = dict(
    user_sigma=0.6,
    return_share=0.8,
    return_after=12e3,
    return_sigma=1,
    returns_by_length=1,
    item_skew=1.1,
    window_s=3600,
    alpha=0.02,
    pulls_stall=True,
)
# The share of its peak that an A100 reaches. For an H20 the profile's share is used.
EFFICIENCY = 0.475
A100 = dict(
    nodes=4, device="A100-40G", link="100gbps", host_link="pcie3", memory_gb=150, efficiency=EFFICIENCY
)
H20 = dict(device="H20", link="100gbps", host_link="pcie5", memory_gb=500)
SMALLER = dict(scale=32, warm_up=3000, measured=1800)
RUN = dict(SMALLER, candidates=100, batch_tokens=4000, in_flight=8)
# Values of alpha of Algorithm 1 that are tried (`alphas`); judge.best_alpha chooses one of them.
ALPHAS = [0.1, 0.05, 0.02, 0.01]
# Number of repetitions of the same comparison on equal requests, to know its noise.
SEEDS = [1, 2, 3]


def experiment(name, data, *changes):
    e = {**RUN, **OPEN, **A100, **DATASETS[data], **BOTH_PREFIXES, "name": name}
    for change in changes:
        e.update(change)
    e["user_tokens_max"] = PROMPT_MAX - e["candidates"] * e["item_tokens"]
    return e


def seeded(name, seed):
    return f"{name}/seed {seed}"


def each_seed(name, data, *changes, seeds=SEEDS):
    for seed in seeds:
        yield experiment(seeded(name, seed), data, *changes, dict(seed=seed))


def table_4(prefix="4", *changes, seeds=SEEDS):
    """A: both prefixes; without B: items are replicated, or hashed if they do not fit; without C: the
    longer side is the prefix."""
    yield from each_seed(f"{prefix}/none", "Books", dict(policy="user"), *changes, seeds=seeds)
    plans = {
        "ABC": ("bat", "hrcs"),
        "AB": ("larger", "hrcs"),
        "AC": ("bat", "other"),
        "A": ("larger", "other"),
    }
    for name, items, other in [("280K", 280e3, "replicate"), ("1M", 1e6, "hash")]:
        for entry, (policy, placement) in plans.items():
            placement = other if placement == "other" else placement
            yield from each_seed(
                f"{prefix}/{name}/{entry}",
                "Books",
                dict(items=items, policy=policy, placement=placement),
                *changes,
                seeds=seeds,
            )


def table_4_from_the_log():
    """§6.2 literally: new visits are drawn from the log, so a user with twice the history comes twice as
    often."""
    yield from table_4("4 log", dict(drawn_by_length=1), seeds=SEEDS[:1])


def figures_5_and_6():
    for model in MODELS:
        for data in DATASETS:
            for system, policy in SYSTEMS.items():
                yield from each_seed(f"5/{model}/{data}/{system}", data, dict(shape=model, policy=policy))


# Pulls by default are those of BAT's engine.
PULLS = {"": {}, "/own": dict(pulls_stall=False, pull_share=0)}


def figure_7(modes):
    for link in ["10gbps", "100gbps"]:
        for name, placement in [("BAT", "hrcs"), ("Replicate", "replicate"), ("Hash", "hash")]:
            for mode, own in modes.items():
                yield from each_seed(
                    f"7/{link}/{name}{mode}",
                    "Books",
                    dict(link=link, placement=placement),
                    own,
                    seeds=SEEDS[:1] if mode else SEEDS,
                )


# The catalogs and links of Figure 7 and Table 4: the more is replicated, the less is sent, and the less
# memory users have.
ALPHA_SETTINGS = {
    "280K, 10gbps": dict(link="10gbps"),
    "280K, 100gbps": dict(),
    "1M, 100gbps": dict(items=1e6),
}


def alphas():
    for setting, changes in ALPHA_SETTINGS.items():
        for alpha in ALPHAS:
            yield from each_seed(
                f"alpha/{setting}/{alpha}",
                "Books",
                dict(policy="bat", placement="hrcs"),
                changes,
                dict(alpha=alpha),
            )


def figure_8():
    """Items get the area that sharding needs, plus transfers; users have 25 to 100 GB of each node."""
    for gigabytes in [25, 50, 100]:
        for policy in ["bat", "larger"]:
            yield from each_seed(
                f"8/{gigabytes}/{policy}", "Books", dict(policy=policy, item_gb=36, memory_gb=36 + gigabytes)
            )


LATENCY_MS = 200  # bound on P99 in Figure 9
LOADS = [0.25, 0.35, 0.45, 0.6, 0.7, 0.8, 0.88, 0.95]  # shares of each system's maximum rate


def figure_9(results):
    """Returns open-loop runs: each system at shares of its mean rate in the closed loop."""
    for system in ["RE", "UP", "BAT"]:
        closed = [results[seeded(f"5/{MODELS[0]}/Industry/{system}", seed)] for seed in SEEDS]
        most = sum(result["requests_per_s"] for result in closed) / len(closed)
        for load in LOADS:
            yield from each_seed(
                f"9/{system}/{load}",
                "Industry",
                dict(shape=MODELS[0], policy=SYSTEMS[system], requests_per_s=most * load),
            )


# A two hundredth of everything, so that a hundred million items are half a million. The items have at most
# 180 GB a node: a tenth of the largest catalog, as in §6.6.
SIXTEEN_NODES = dict(H20, nodes=16, efficiency=0, scale=200, item_gb=180, warm_up=4000, measured=2500)


def figure_10():
    for size, items in [("1M", 1e6), ("10M", 10e6), ("100M", 100e6)]:
        for system, policy in [*SYSTEMS.items(), ("planner", "planner")]:
            yield from each_seed(
                f"10/{size}/{system}", "Industry", SIXTEEN_NODES, dict(items=items, policy=policy)
            )


def figure_11():
    for nodes in [1, 2, 4, 8, 16]:
        share = nodes / 16  # share of the requests: caches and the time to fill them grow with the nodes
        for system in ["BAT", "RE"]:
            yield experiment(
                f"11/{nodes}/{system}",
                "Industry",
                H20,
                dict(
                    nodes=nodes,
                    policy=SYSTEMS[system],
                    efficiency=0,
                    scale=128,
                    warm_up=int(1000 + 4500 * share),
                    measured=int(800 + 3000 * share),
                ),
            )
