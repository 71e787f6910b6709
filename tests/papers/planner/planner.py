"""Compares the planner (T1) with every single policy on the workloads of BAT and RcLLM (see `../bat` and
`../rcllm`): is it ever below the best of them by more than the runs' spread? Each workload runs twice:
exact, and with approximate answers
allowed, so that the planner may use RcLLM's plans. README.md has the comparison and its results."""

import json
import os
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ["..", "../bat", "../rcllm"]:
    sys.path.append(os.path.join(HERE, folder))
import bat  # noqa: E402
import rcllm  # noqa: E402
from checks import (  # noqa: E402
    ALL_THREE,
    BOTH_PREFIXES,
    PLAIN,
    Report,
    simulation_options,
)

SEEDS = [1, 2, 3]
EXACT = ["recompute", "user", "item", "larger", "bat", "causal"]


def systems(blocks):
    """Returns system name → changes of its experiment. `blocks`: the paper's repair of blocks at any
    position. Each policy serves a model whose form declares the arrangements of its plans; the planner chooses
    among both prefixes, and with approximate answers among plain prompts as well, which blocks
    approximate."""
    placed = dict(placement=None)  # placement of the workload
    forms = {policy: PLAIN if policy == "causal" else BOTH_PREFIXES for policy in EXACT}
    exact = {policy: dict(placed, policy=policy, **forms[policy]) for policy in EXACT}
    approximate = {**exact, blocks: dict(placed, policy=blocks, **PLAIN)}
    planner = "planner" + blocks[blocks.index("+") :]
    return {
        "exact": (exact, dict(placed, policy="planner", **BOTH_PREFIXES)),
        "approximate": (approximate, dict(placed, policy=planner, approximate=1, **ALL_THREE)),
    }


def workloads(short, only):
    """Returns name → (experiment of a policy, with its placement, and the policy of blocks)."""

    def asked(paper, data, in_short):
        return f"{paper} {data}" in only if only else data in in_short or not short

    size = dict(bat.SMALLER, scale=64, warm_up=1500, measured=1000) if short else bat.SMALLER
    rcllm_size = dict(scale=64, warm_up=400, measured=600) if short else {}
    for data in bat.DATASETS:
        if not asked("BAT", data, ["Games", "Books"]):
            continue
        e = bat.experiment(f"BAT/{data}", data, size, dict(pulls_stall=False, pull_share=0))
        yield f"BAT {data}", e, "all_blocks+30:attention"
    for data in rcllm.DATASETS:
        if not asked("RcLLM", data, ["Amazon"]):
            continue
        e = rcllm.experiment(f"RcLLM/{data}", data, "Qwen3-8B", "RcLLM", pull_share=0, **rcllm_size)
        blocks = e["policy"]
        e["routing"] = "earliest"  # the planner's own routing; ../rcllm compares the papers' scores
        yield f"RcLLM {data}", e, blocks


def ask(short, only):
    asked, groups = [], []
    for name, base, blocks in workloads(short, only):
        for mode, (singles, planner) in systems(blocks).items():
            rows = {**singles, "planner": planner}
            for system, changes in rows.items():
                for seed in SEEDS:
                    # An exact policy has the same run in both modes.
                    kind = mode if system == "planner" else "any"
                    e = dict(
                        base,
                        **{key: value for key, value in changes.items() if value is not None},
                        seed=seed,
                        name=f"{name}/{kind}/{system}/seed {seed}",
                    )
                    if e["name"] not in {other["name"] for other in asked}:
                        asked.append(e)
            groups.append((name, mode, list(singles)))
    return asked, groups


def rates(results, name, kind, system):
    return [results[f"{name}/{kind}/{system}/seed {seed}"]["requests_per_s"] for seed in SEEDS]


def judge(report, results, name, mode, singles):
    of = {system: rates(results, name, "any", system) for system in singles}
    best = max(of, key=lambda system: statistics.mean(of[system]))
    mine = rates(results, name, mode, "planner")
    report.at_least(
        name, f"{mode}: planner / {best}, the best of {len(of)}", [a / b for a, b in zip(mine, of[best])], 1
    )
    for system in sorted(of, key=lambda system: -statistics.mean(of[system])):
        report.say(
            name,
            f"{mode}: planner / {system}, requests/s {statistics.mean(of[system]):.1f}",
            None,
            f"{statistics.mean(a / b for a, b in zip(mine, of[system])):.3f}",
        )


def main():
    parser = simulation_options(__doc__, "three of seven workloads, with smaller runs")
    parser.add_argument("--json", help="write all results to this file")
    parser.add_argument(
        "--workloads", help="only these, comma-separated: BAT Games, RcLLM Yelp, …; also with --short"
    )
    options = parser.parse_args()
    asked, groups = ask(
        options.short, [name.strip() for name in (options.workloads or "").split(",") if name.strip()]
    )
    commit, results = bat.run(options.lab, asked, options.threads)
    report = Report()
    for name, mode, singles in groups:
        judge(report, results, name, mode, singles)
    report.print()
    if options.json:
        with open(options.json, "w") as file:
            json.dump(
                dict(
                    commit=commit,
                    seeds=SEEDS,
                    rows=report.rows,
                    experiments=asked,
                    results=list(results.values()),
                ),
                file,
                indent=1,
            )
            file.write("\n")
    return report.missed()


if __name__ == "__main__":
    sys.exit(main())
