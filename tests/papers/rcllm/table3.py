#!/usr/bin/env python3
"""RcLLM's Table III in its form: what `troupe-lab bench plans --json` measured on Troupe's small trained
rankers, beside the paper's rows (Qwen3-8B, three of its data sets).

    table3.py NAME=FILE.json ...      # for example tests/bench/results/repair-table-games.json

Models, data and candidates differ, so levels are not compared, only how much of Full-Recompute's quality
each method keeps. RcLLM is the paper's selection (attention and divergence, r = 0.3). CacheBlend-like
selects by divergence alone, with the share whose operations are closest to RcLLM's. EPIC-like keeps all
blocks as they are, rotated to their positions. Prefix-Cache computes the plain prompt, exactly. Not in
the paper: Troupe's selection by the prompt's tail, with the mean and the second layer.
"""
import json
import sys

COLUMNS = ["HR@1", "HR@3", "HR@5", "HR@10", "MRR", "NDCG@5", "NDCG@10", "NDCG@20"]
KEYS = ["hr@1", "hr@3", "recall@5", "recall@10", "mrr", "ndcg@5", "ndcg@10", "ndcg@20"]
PAPER = {
    "Amazon": {
        "Full-Recompute": [0.160, 0.380, 0.520, 0.700, 0.333, 0.346, 0.403, 0.480],
        "RcLLM": [0.220, 0.340, 0.500, 0.740, 0.360, 0.360, 0.438, 0.485],
        "CacheBlend": [0.142, 0.300, 0.420, 0.620, 0.294, 0.295, 0.360, 0.403],
        "EPIC": [0.100, 0.200, 0.280, 0.440, 0.209, 0.191, 0.241, 0.346],
    },
    "Goodreads": {
        "Full-Recompute": [0.163, 0.408, 0.510, 0.776, 0.338, 0.344, 0.427, 0.484],
        "RcLLM": [0.143, 0.286, 0.469, 0.776, 0.287, 0.295, 0.393, 0.468],
        "CacheBlend": [0.122, 0.224, 0.387, 0.653, 0.244, 0.246, 0.329, 0.370],
        "EPIC": [0.102, 0.265, 0.387, 0.551, 0.249, 0.248, 0.300, 0.400],
    },
    "Yelp": {
        "Full-Recompute": [0.256, 0.558, 0.628, 0.698, 0.413, 0.456, 0.477, 0.497],
        "RcLLM": [0.140, 0.442, 0.535, 0.744, 0.307, 0.341, 0.407, 0.414],
        "CacheBlend": [0.043, 0.128, 0.277, 0.489, 0.150, 0.149, 0.220, 0.255],
        "EPIC": [0.021, 0.192, 0.319, 0.468, 0.153, 0.169, 0.219, 0.259],
    },
}


def line(data, method, values, full, overlap="", operations=""):
    cells = "".join(f"{value:9.3f}" for value in values)
    print(f"{data:10} {method:34}{cells}{values[6] / full:9.3f}{overlap:>9}{operations:>9}".rstrip())


def methods(runs):
    """Returns (name, run) for each kind of plan that was measured, in the paper's order."""

    def found(plan, selection, correction="none"):
        return [
            run
            for run in runs
            if run["plan"].split(" +")[0] == plan
            and run["selection"] == selection
            and run["correction"] == correction
        ]

    yield "Full-Recompute, Prefix-Cache", found("causal", "none")[0]
    for plan in ["blocks", "all_blocks"]:
        if not found(plan, "none"):
            continue
        where = "" if plan == "blocks" else ", history too"
        rcllm = min(found(plan, "importance"), key=lambda run: abs(run["repair"] - 0.3))
        cost = rcllm["operations to full"]
        yield "RcLLM (r = 0.3)" + where, rcllm
        yield "CacheBlend-like" + where, min(
            found(plan, "deviation"), key=lambda run: abs(run["operations to full"] - cost)
        )
        yield "EPIC-like" + where, found(plan, "none")[0]
        yield "tail + mean + layer 2" + where, min(
            found(plan, "tail", "mean+layer2"), key=lambda run: abs(run["repair"] - 0.3)
        )


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    head = "".join(f"{column:>9}" for column in COLUMNS)
    print(f"{'data':10} {'method':34}{head}{'to full':>9}{'overlap':>9}{'ops':>9}")
    for data, rows in PAPER.items():
        for method, values in rows.items():
            line(data, "paper: " + method, values, rows["Full-Recompute"][6])
    for argument in sys.argv[1:]:
        name, _, path = argument.partition("=")
        with open(path) as file:
            runs = json.load(file)["runs"]
        for method, run in methods(runs):
            values = [run[key]["mean"] for key in KEYS]
            full = run["ndcg@10"]["mean"] / run["ndcg@10 to full"]["mean"]
            label = method + (f" {100 * run['repair']:.0f} %" if method.startswith("CacheBlend") else "")
            line(
                name,
                label,
                values,
                full,
                f"{run['overlap@10']['mean']:.3f}",
                f"{run['operations to full']:.3f}",
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
