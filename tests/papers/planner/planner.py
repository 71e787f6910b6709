"""Compares the planner (T1) with every single policy on the workloads of BAT and RcLLM (see `../bat` and
`../rcllm`): is it ever below the best of them by more than the runs' spread? Each workload runs twice:
exact, and with approximate answers allowed, so that the planner may use RcLLM's plans. `node.py` asks the
same of a real node. README.md has the comparison and its results."""

import json
import os
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ["..", "../bat", "../rcllm"]:
    sys.path.append(os.path.join(HERE, folder))
import clusters  # noqa: E402
import configurations  # noqa: E402
import node  # noqa: E402
from checks import (  # noqa: E402
    ALL_THREE,
    BOTH_PREFIXES,
    PLAIN,
    Report,
    simulation_options,
)
from experiments import run, run_kept  # noqa: E402

# With three seeds the standard error itself is uncertain by half, so ratios near 1 miss bounds by chance.
SEEDS = [1, 2, 3, 4, 5, 6]
EXACT = ["recompute", "user", "item", "larger", "bat", "causal"]
# A case where the planner was below the best policy: sixteen nodes, whose users seldom return.
MANY_NODES = "BAT Industry, 16 nodes"
SMALL = dict(scale=64, warm_up=1500, measured=1000)
BRIEF = dict(scale=64, warm_up=1000, measured=700)  # for every test run


def systems(blocks):
    """Returns system name → changes of its experiment. `blocks`: the paper's repair of blocks at any
    position. Each policy serves a model whose form declares the arrangements of its plans; the planner picks
    among both prefixes, and with approximate answers among plain prompts as well, which blocks
    approximate."""
    forms = {policy: PLAIN if policy == "causal" else BOTH_PREFIXES for policy in EXACT}
    exact = {policy: dict(policy=policy, **forms[policy]) for policy in EXACT}
    approximate = {**exact, blocks: dict(policy=blocks, **PLAIN)}
    planner = "planner" + blocks[blocks.index("+") :]
    return {
        "exact": (exact, dict(policy="planner", **BOTH_PREFIXES)),
        "approximate": (approximate, dict(policy=planner, approximate=1, **ALL_THREE)),
    }


def workload_names():
    return [
        *(f"BAT {data}" for data in configurations.DATASETS),
        MANY_NODES,
        *(f"RcLLM {data}" for data in clusters.DATASETS),
    ]


def workload(name, small):
    """Returns the experiment of a policy, with its placement, and the policy of blocks."""
    paper, data = name.split(", ")[0].split(" ")
    if paper == "RcLLM":
        size = dict(scale=64, warm_up=400, measured=600) if small else {}
        e = clusters.experiment(name, data, "Qwen3-8B", "RcLLM", pull_share=0, **size)
        e["routing"] = "earliest"  # the planner's own routing; ../rcllm compares the papers' scores
        return e, e["policy"]
    size = SMALL if small else configurations.SMALLER
    if name == MANY_NODES:
        # A two hundredth as in Figure 10, or half of that.
        size = dict(configurations.SIXTEEN_NODES, **(dict(scale=400, warm_up=2000) if small else {}))
    pulls = configurations.PULLS["/own"]
    return configurations.experiment(name, data, size, pulls), "all_blocks+30:attention"


def seeds_of(name, system):
    """RcLLM's policy on BAT's data takes ten minutes a run, at two thirds of the best: one seed shows it."""
    return SEEDS[:1] if name.startswith("BAT") and system.startswith("all_blocks") else SEEDS


def ask(names, small):
    """Returns the experiments, and (workload, mode, single policies) of each comparison."""
    asked, groups = {}, []
    for name in names:
        base, blocks = workload(name, small)
        for mode, (singles, planner) in systems(blocks).items():
            if name == MANY_NODES and mode != "exact":
                continue
            for system, changes in {**singles, "planner": planner}.items():
                for seed in seeds_of(name, system):
                    # An exact policy has the same run in both modes.
                    kind = mode if system == "planner" else "any"
                    e = {**base, **changes, "seed": seed}
                    e["name"] = f"{name}/{kind}/{system}/seed {seed}"
                    asked[e["name"]] = e
            groups.append((name, mode, list(singles)))
    return list(asked.values()), groups


def rates(results, name, kind, system, seeds):
    found = [results.get(f"{name}/{kind}/{system}/seed {seed}") for seed in seeds]
    return [result["requests_per_s"] for result in found if result]


def judge(report, results, name, mode, singles, seeds=SEEDS):
    of = {system: rates(results, name, "any", system, seeds) for system in singles}
    best = max(of, key=lambda system: statistics.mean(of[system]))
    mine = rates(results, name, mode, "planner", seeds)
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


def check_briefly(lab, threads):
    """The planner beside the best policies of one workload. Judged again with the worst of them in the
    planner's place, which must miss the bound."""
    name, singles, seeds = "BAT Books", ["user", "item", "bat"], SEEDS[:2]
    base, _ = workload(name, small=True)
    asked = [
        {**base, **BRIEF, "policy": system, "seed": seed, "name": f"{name}/{kind}/{system}/seed {seed}"}
        for system, kind in [*((single, "any") for single in singles), ("planner", "exact")]
        for seed in seeds
    ]
    _, results = run(lab, asked, threads)
    report, off = Report(), Report()
    judge(report, results, name, "exact", singles, seeds)
    worst = {f"{name}/exact/planner/seed {seed}": results[f"{name}/any/user/seed {seed}"] for seed in seeds}
    judge(off, {**results, **worst}, name, "exact", singles, seeds)
    report.refuted(name, "the planner is the policy user", off.rows[0]["troupe"], not off.rows[0]["ok"])
    report.print()
    return report.missed()


def parse_options():
    parser = simulation_options(__doc__, "one workload with few policies: ten seconds of a core")
    parser.add_argument("--small", action="store_true", help="smaller runs of the workloads")
    parser.add_argument("--json", help="write all results to this file")
    parser.add_argument(
        "--kept", metavar="FILE", help="results file; runs that it has are not repeated, new ones are added"
    )
    parser.add_argument("--workloads", help="only these, separated by \";\"; default: all, and the real node")
    node.add_options(parser)
    options = parser.parse_args()
    known = workload_names()
    options.names = [name.strip() for name in options.workloads.split(";")] if options.workloads else known
    options.node = options.node and not options.workloads
    for name in options.names:
        if name not in known:
            parser.error(f"--workloads: \"{name}\" is unknown; expected some of {'; '.join(known)}")
    if options.node and not options.short:
        node.require(parser, options)
    return options


def main():
    options = parse_options()
    if options.short:
        return check_briefly(options.lab, options.threads)
    asked, groups = ask(options.names, options.small)
    commit, results = run_kept(options.kept, options.lab, asked, options.threads)
    report = Report()
    for name, mode, singles in groups:
        judge(report, results, name, mode, singles)
    table = node.judge(report, options) if options.node else None
    report.print()
    if options.json:
        document = dict(
            commit=commit,
            seeds=SEEDS,
            rows=report.rows,
            experiments=asked,
            results=list(results.values()),
            node=table,
        )
        with open(options.json, "w") as file:
            json.dump(document, file, indent=1)
            file.write("\n")
    return report.missed()


if __name__ == "__main__":
    sys.exit(main())
