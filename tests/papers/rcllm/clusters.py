"""The measurements of RcLLM (ICDCS '26) §IV as experiments for `troupe-lab sim --experiments`: the paper's
numbers, the values for what it leaves open, and the runs. README.md has the reasons."""

from checks import PLAIN
from experiments import run

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
# "Narrows slightly": at the largest K the speedup is at least this share of that at the least. The share is
# ours; the paper has no number.
FIGURE_8_KEPT = 0.7
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
# Requests a second of all nodes, as a share of the maximum of four nodes with a prefix cache. In Figure 8
# the requests grow with K in proportion.
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
    # A plain prompt of which nothing is reused, not even the system prompt.
    "Full-Recompute": dict(policy="recompute", routing="load"),
    # Troupe's own: exact plans of a model that declares items first, and of one that declares nothing.
    "planner, item first": dict(
        policy="planner", arrangements=["item_first"], routing="earliest", pull_share=0
    ),
    "planner, causal": dict(policy="planner", routing="earliest", pull_share=0),
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
    """Runs experiments, and keeps their results by name."""

    def __init__(self, lab, threads):
        self.lab, self.threads, self.commit = lab, threads, ""
        self.asked, self.results = {}, {}

    def keep(self, document):
        """Takes the results of an earlier run."""
        self.commit = document["commit"]
        self.asked = {e["name"]: e for e in document["experiments"]}
        self.results = {result["name"]: result for result in document["results"]}

    def run(self, experiments):
        missing = {e["name"]: e for e in experiments if self.asked.get(e["name"]) != e}
        if not missing:
            return
        self.commit, results = run(self.lab, list(missing.values()), self.threads)
        self.asked.update(missing)
        self.results.update(results)

    def __getitem__(self, name):
        return self.results[name]

    def capacity(self, data, model, system, nodes):
        """Returns the requests a second of a cluster in a closed loop."""
        name = f"never idle/{data}/{model}/{system}/{nodes}"
        self.run([experiment(name, data, model, system, nodes, measured=800)])
        return self[name]["requests_per_s"]


class Replay:
    """The runs of a simulator with other results: a null model."""

    def __init__(self, sim, results):
        self.sim, self.results = sim, results

    def run(self, experiments):
        pass

    def __getitem__(self, name):
        return self.results[name]

    def capacity(self, *arguments):
        return self.sim.capacity(*arguments)


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
