"""RcLLM (ICDCS '26) §IV on simulated clusters: runs `troupe-lab sim --experiments` for the latencies of each
configuration (clusters.py) and compares ratios with the paper's (figures.py). README.md lists what the
paper leaves open, the values chosen here, and why bounds are missed."""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, ".."))
import figures  # noqa: E402
import mechanisms  # noqa: E402
import nulls  # noqa: E402
from checks import Report, read_explained, simulation_options  # noqa: E402
from clusters import EFFICIENCY, LOAD, OPEN, RUN, SEEDS, Replay, Simulator  # noqa: E402

FIGURES = {
    "6": figures.figure_6,
    "8": figures.figure_8,
    "9": figures.figure_9,
    "10": figures.figure_10,
    "11": figures.figure_11,
}
# Figures that the paper does not have: they are printed, or claims of Troupe's own.
BESIDE = {"planner": figures.planner, "pulls": figures.pulls, "overlap": figures.overlap}
NULLS = {"null": figures.null_models}
ALL = {**FIGURES, **BESIDE, **NULLS}


def judge(names, sim, explained=None):
    report = Report(explained)
    for name in names:
        ALL[name](sim, report)
    return report


def parse_options():
    parser = simulation_options(__doc__, "one bound for each mechanism: ten seconds of a core")
    parser.add_argument("--small", action="store_true", help="smaller runs of the figures")
    parser.add_argument("--figures", help="some of " + ", ".join(ALL) + "; default: all")
    parser.add_argument("--json", help="write all results to this file; runs that it has are not repeated")
    options = parser.parse_args()
    options.figures = options.figures.split(",") if options.figures else list(ALL)
    unknown = [name for name in options.figures if name not in ALL]
    if unknown:
        parser.error(f"--figures: {unknown[0]} is unknown; expected some of {', '.join(ALL)}")
    return options


def main():
    options = parse_options()
    if options.short:
        return mechanisms.check(options.lab, options.threads)
    if options.small:
        RUN.update(scale=64, warm_up=400, measured=600)
    sim = Simulator(options.lab, options.threads)
    if options.json and os.path.exists(options.json):
        with open(options.json) as file:
            sim.keep(json.load(file))
    of_paper = [name for name in options.figures if name not in BESIDE]
    report = judge(of_paper, sim, read_explained(os.path.join(HERE, "README.md")))
    judged = [name for name in of_paper if name in FIGURES]
    met = nulls.mark(
        report,
        lambda results: judge(judged, Replay(sim, results)),
        sim.results,
        figures.worlds(sim.results),
        figures.best_baselines(sim.results),
    )
    ours = judge([name for name in options.figures if name in BESIDE], sim)
    report.print()
    nulls.print_met(met)
    if ours.rows:
        print("\nBeyond the paper, on the same clusters:\n")
        ours.print()
    if options.json:
        write(options.json, sim, report, ours, met)
    return max(report.missed(whole=options.figures == list(ALL)), ours.missed())


def write(path, sim, report, ours, met):
    document = dict(
        commit=sim.commit,
        open=OPEN,
        efficiency=EFFICIENCY,
        load=LOAD,
        seeds=SEEDS,
        totals=report.totals(),
        nulls=met,
        rows=report.rows + ours.rows,
        experiments=list(sim.asked.values()),
        results=list(sim.results.values()),
    )
    with open(path, "w") as file:
        json.dump(document, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    sys.exit(main())
