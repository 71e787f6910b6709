"""HLEM §V on simulated nodes: runs `troupe-lab sim --split` for each configuration and compares with the
paper. README.md lists what the paper leaves open, and the values chosen here."""

import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import allocation  # noqa: E402
import figures  # noqa: E402
import mechanisms  # noqa: E402
import paper  # noqa: E402
from checks import Report, simulation_options  # noqa: E402
from runs import SEEDS, Simulator  # noqa: E402

FIGURES = {
    "arithmetic": allocation.arithmetic,
    "1": allocation.figure_1,
    "15": allocation.figure_15,
    "table3": allocation.table_3,
    "11": figures.figure_11,
    "12": figures.figure_12,
    "13": figures.figure_13,
    "14": figures.figure_14,
    "16": figures.figure_16,
    "17": figures.figure_17,
    "sustained": figures.sustained,
    "mechanisms": mechanisms.check,
}


def parse():
    parser = simulation_options(__doc__, "only a bound for each mechanism, on few nodes: under a minute")
    parser.add_argument("--figures", default=",".join(FIGURES), help="some of " + ", ".join(FIGURES))
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help="number of seeds, up to five")
    parser.add_argument(
        "--depths", default="3,6", help="numbers of layers in Figures 11 and 12, and of sustained rates"
    )
    parser.add_argument("--datasets", default=",".join(paper.DATA), help="data sets of the same, and of 17")
    parser.add_argument("--regimes", default=",".join(paper.REGIMES), help="regimes of all figures")
    parser.add_argument("--json", help="write all results to this file; runs that it has are not repeated")
    return parser.parse_args()


def main():
    options = parse()
    del SEEDS[options.seeds :]
    paper.DEPTHS[:] = [depth for depth in paper.DEPTHS if str(depth) in options.depths.split(",")]
    paper.REGIMES[:] = [regime for regime in paper.REGIMES if regime in options.regimes.split(",")]
    for name in set(paper.DATA) - set(options.datasets.split(",")):
        del paper.DATA[name]
    chosen = ["mechanisms"] if options.short else options.figures.split(",")
    if unknown := [name for name in chosen if name not in FIGURES]:
        sys.exit(
            f"--figures is {options.figures}: {unknown[0]} is unknown; expected some of {', '.join(FIGURES)}"
        )
    sim, report = Simulator(options.lab, options.threads, options.json), Report()
    report.examined = True  # bounds that every system, or the best static split, meets are marked as null
    for figure in chosen:
        FIGURES[figure](sim, report)
    report.print()
    shown = {(row["figure"], row["what"]) for row in report.rows}
    sim.rows = [row for row in sim.rows if (row["figure"], row["what"]) not in shown] + report.rows
    sim.keep()
    return report.missed()


if __name__ == "__main__":
    sys.exit(main())
