"""BAT (ASPLOS '26) §6 on simulated clusters: runs `troupe-lab sim --experiments` for the throughput of each
configuration (configurations.py) and compares effects with the paper's (judge.py). README.md lists what
the paper leaves open, the values chosen here, and why bounds are missed."""

import json
import math
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, ".."))
import dependence  # noqa: E402
import judge  # noqa: E402
import mechanisms  # noqa: E402
import nulls  # noqa: E402
from checks import Report, read_explained, simulation_options  # noqa: E402
from configurations import (  # noqa: E402
    DATASETS,
    EFFICIENCY,
    OPEN,
    PULLS,
    SEEDS,
    alphas,
    experiment,
    figure_7,
    figure_8,
    figure_9,
    figure_10,
    figure_11,
    figures_5_and_6,
    table_4,
    table_4_from_the_log,
)
from experiments import run, run_kept  # noqa: E402


def longer_users():
    """Returns the share of log-normal users of Books whose tokens are at least the items'."""
    books, sigma = DATASETS["Books"], OPEN["user_sigma"]
    median = books["user_tokens"] * math.exp(-(sigma**2) / 2)  # few are truncated
    items = 100 * books["item_tokens"]
    return 0.5 * math.erfc(math.log(items / median) / sigma / math.sqrt(2))


# Part → its runs, and its judges. Figure 9's runs depend on the maximum rates of figures 5 and 6.
PARTS = {
    "4": (table_4, [judge.judge_table_4]),
    "7": (lambda: figure_7({"": {}}), [judge.judge_figure_7]),
    "5": (figures_5_and_6, [judge.judge_figures_5_and_6, judge.judge_figure_9]),
    "10": (figure_10, [judge.judge_figure_10]),
    "8": (figure_8, [judge.judge_figure_8]),
    "log": (table_4_from_the_log, [judge.judge_table_4_from_the_log]),
    "11": (figure_11, [judge.judge_figure_11]),
    "alpha": (alphas, [judge.judge_alphas]),
    "own": (lambda: figure_7({"/own": PULLS["/own"]}), [judge.judge_own_pulls]),
}


def judge_paper(parts, results, explained=None):
    report = Report(explained)
    judge.judge_workload(report, longer_users())
    for part in parts:
        for judges in PARTS[part][1]:
            judges(report, results)
    return report


def judge_own(parts, results):
    """Troupe's own claims on the same runs."""
    report = Report()
    if "10" in parts:
        judge.judge_planner(report, results)
    if "alpha" in parts:
        judge.judge_default_alpha(report, results)
    return report


def parse_options():
    parser = simulation_options(__doc__, "one bound for each mechanism: ten seconds of a core")
    parser.add_argument("--json", help="write all results to this file")
    parser.add_argument("--parts", default=",".join(PARTS), help="only these of " + ", ".join(PARTS))
    parser.add_argument(
        "--kept", metavar="FILE", help="results file; runs that it has are not repeated, new ones are added"
    )
    parser.add_argument(
        "--dependence", metavar="SVG", help="plot how Table 4 depends on what the paper leaves open"
    )
    options = parser.parse_args()
    unknown = [part for part in options.parts.split(",") if part not in PARTS]
    if unknown:
        parser.error(f"--parts: {unknown[0]} is unknown; expected some of {', '.join(PARTS)}")
    return options


def main():
    options = parse_options()
    if options.dependence:
        return dependence.plot(options, experiment, run)
    if options.short:
        return mechanisms.check(options.lab, options.threads)
    parts = options.parts.split(",")
    asked = [e for part in parts for e in PARTS[part][0]()]
    commit, results = run_kept(options.kept, options.lab, asked, options.threads)
    if "5" in parts:
        loaded = list(figure_9(results))
        asked += loaded
        results.update(run_kept(options.kept, options.lab, loaded, options.threads)[1])
    report = judge_paper(parts, results, read_explained(os.path.join(HERE, "README.md")))
    met = nulls.mark(
        report,
        lambda others: judge_paper(parts, others),
        results,
        judge.worlds(results),
        judge.best_baselines(results),
    )
    report.print()
    nulls.print_met(met)
    ours = judge_own(parts, results)
    if ours.rows:
        print("\nTroupe's own claims on the same runs:\n")
        ours.print()
    if options.json:
        write(options.json, commit, report, ours, met, asked, results)
    return max(report.missed(whole=parts == list(PARTS)), ours.missed())


def write(path, commit, report, ours, met, asked, results):
    document = dict(
        commit=commit,
        open=OPEN,
        efficiency=EFFICIENCY,
        seeds=SEEDS,
        totals=report.totals(),
        nulls=met,
        rows=report.rows + ours.rows,
        experiments=asked,
        results=list(results.values()),
    )
    with open(path, "w") as file:
        json.dump(document, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    sys.exit(main())
