"""BAT (ASPLOS '26) §6 on simulated clusters: runs `troupe-lab sim --experiments` for the throughput of each
configuration (configurations.py) and compares effects with the paper's (judge.py). README.md lists what
the paper leaves open, and the
values chosen here."""

import json
import math
import os
import subprocess
import sys
import tempfile

import dependence
import judge
from configurations import (
    DATASETS,
    EFFICIENCY,
    OPEN,
    PULLS,
    SEEDS,
    SHORT,
    SMALLER,
    experiment,
    figure_7,
    figure_8,  # noqa: F401
    figure_9,
    figure_10,
    figure_11,
    figures_5_and_6,
    table_4,
    table_4_from_the_log,
)

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from checks import Report, simulation_options  # noqa: E402


def run(lab, experiments, threads):
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = os.path.join(folder, "asked.json"), os.path.join(folder, "answered.json")
        with open(asked, "w") as file:
            json.dump(experiments, file)
        command = [lab, "sim", "--experiments", asked, "--threads", str(threads), "--json", answered]
        done = subprocess.run(command, stdout=subprocess.DEVNULL)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit status {done.returncode}; see above")
        with open(answered) as file:
            document = json.load(file)
    return document["commit"], {result["name"]: result for result in document["results"]}


def run_kept(options, experiments, batch=16):
    """Like `run`; with --kept in small batches, so that an interrupted run can be resumed."""
    if not options.kept:
        return run(options.lab, experiments, options.threads)
    kept = {"commit": "", "runs": []}
    if os.path.exists(options.kept):
        with open(options.kept) as file:
            kept = json.load(file)
    known = {one["result"]["name"]: one["result"] for one in kept["runs"] if one["asked"] in experiments}
    missing = [e for e in experiments if e["name"] not in known]
    while missing:
        now, missing = missing[:batch], missing[batch:]
        kept["commit"], results = run(options.lab, now, options.threads)
        kept["runs"] += [dict(asked=e, result=results[e["name"]]) for e in now]
        known.update(results)
        with open(options.kept, "w") as file:
            json.dump(kept, file)
    return kept["commit"], known


def longer_users():
    """Returns the share of log-normal users of Books whose tokens are at least the items'."""
    books, sigma = DATASETS["Books"], OPEN["user_sigma"]
    median = books["user_tokens"] * math.exp(-(sigma**2) / 2)  # few are truncated
    items = 100 * books["item_tokens"]
    return 0.5 * math.erfc(math.log(items / median) / sigma / math.sqrt(2))


# Part → its runs, and its judges. Figure 9's runs depend on the maximum rates of figures 5 and 6.
PARTS = {
    "4": (table_4, judge.judge_table_4),
    "7": (lambda: figure_7({"": {}}), judge.judge_figure_7),
    "5": (figures_5_and_6, judge.judge_figures_5_and_6),
    "10": (figure_10, judge.judge_figure_10),
    "8": (figure_8, judge.judge_figure_8),
    "log": (table_4_from_the_log, judge.judge_table_4_from_the_log),
    "11": (figure_11, judge.judge_figure_11),
    "own": (lambda: figure_7({"/own": PULLS["/own"]}), judge.judge_own_pulls),
}


def main():
    parser = simulation_options(__doc__, "Table 4 with smaller runs: two minutes of a core")
    parser.add_argument("--json", help="write all results to this file")
    parser.add_argument("--parts", default=",".join(PARTS), help="only these of " + ", ".join(PARTS))
    parser.add_argument(
        "--kept", metavar="FILE", help="results file; runs that it has are not repeated, new ones are added"
    )
    parser.add_argument(
        "--dependence", metavar="SVG", help="plot how Table 4 depends on what the paper leaves open"
    )
    options = parser.parse_args()
    if options.dependence:
        return dependence.plot(options, experiment, run)
    parts = ["4"] if options.short else options.parts.split(",")
    experiments = [e for part in parts for e in PARTS[part][0]()]
    if options.short:
        for e in experiments:
            e.update(SHORT)
    commit, results = run_kept(options, experiments)
    if "5" in parts:
        loaded = list(figure_9(results))
        experiments += loaded
        results.update(run_kept(options, loaded)[1])
    report, ours = Report(judge.EXPLAINED), Report()
    judge.judge_nulls(report, Report)
    judge.judge_workload(report, longer_users())
    for part in parts:
        PARTS[part][1](report, results)
    if "5" in parts:
        judge.judge_figure_9(report, results)
    if "10" in parts:
        judge.judge_planner(ours, results)
    report.print()
    if ours.rows:
        print("\nTroupe's own claim on the same runs:\n")
        ours.print()
    if options.json:
        with open(options.json, "w") as file:
            json.dump(
                dict(
                    commit=commit,
                    open=OPEN,
                    efficiency=EFFICIENCY,
                    seeds=SEEDS,
                    rows=report.rows + ours.rows,
                    experiments=experiments,
                    results=list(results.values()),
                ),
                file,
                indent=1,
            )
            file.write("\n")
    return max(report.missed(), ours.missed())


if __name__ == "__main__":
    sys.exit(main())
