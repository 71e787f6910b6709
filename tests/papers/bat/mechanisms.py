"""A bound for each mechanism of BAT, on runs that are short enough for every test run. Each bound is also
judged with the mechanism off, which is the baseline's run: there it must miss."""

import nulls
from checks import Report
from configurations import each_seed
from experiments import run

SHORT = dict(scale=64, warm_up=1500, measured=800)
SEEDS = [1]


def experiments():
    def at(name, **changes):
        return each_seed(name, "Books", dict(SHORT), changes, seeds=SEEDS)

    slow = dict(link="10gbps", policy="bat")
    yield from at("hot and cold", placement="hrcs", **slow)
    yield from at("hash", placement="hash", **slow)
    few_users = dict(placement="hrcs", item_gb=36, memory_gb=36 + 25)
    yield from at("bat rule", policy="bat", **few_users)
    yield from at("larger", policy="larger", **few_users)
    yield from at("item", policy="item", placement="hrcs")
    yield from at("recompute", policy="recompute")


def judge(results):
    report = Report()
    rate = lambda name: [results[f"{name}/seed {seed}"]["requests_per_s"] for seed in SEEDS]
    over = lambda one, other: [a / b for a, b in zip(rate(one), rate(other))]
    for what, one, other, bound in BOUNDS:
        report.above("mechanism", what, None, over(one, other), bound)
    return report


# Each row is a mechanism, the run with it, the run without it, and the least ratio of their throughputs.
BOUNDS = [
    ("HRCS: hot items everywhere / hashed, at 10 Gbps", "hot and cold", "hash", 1.05),
    ("rule by hotness / by length, with 25 GB for users", "bat rule", "larger", 1.1),
    ("items first and reused / recomputed", "item", "recompute", 1.3),
]


def check(lab, threads):
    _, results = run(lab, list(experiments()), threads)
    report = judge(results)
    for what, one, other, _ in BOUNDS:
        off = {f"{one}/seed {seed}": f"{other}/seed {seed}" for seed in SEEDS}
        missed = [row["what"] for row in judge(nulls.replaced(results, off)).rows if not row["ok"]]
        report.refuted("mechanism", f"off: {what}", f"{len(missed)} missed", missed == [what])
    report.print()
    return report.missed()
