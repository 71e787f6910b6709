"""The table "paper / Troupe" and the rules by which it is judged. `nulls.py` finds the bounds that a model
without the paper's idea meets too."""

import argparse
import statistics
import sys

TIE = 0.02  # entries of the paper within this share of each other have no order
EFFECT_TIE = 0.03  # measured effects within this share of 1 count as none
ONE_SEED_NOISE = 0.05

# Forms of the published models, which have no prompt.json: what each experiment's configuration declares.
PREFIXES = ["item_first", "user_first"]
# A model trained with both prefixes (BAT), and one that reads plain prompts (RcLLM).
BOTH_PREFIXES = dict(arrangements=PREFIXES, interchangeable=PREFIXES)
PLAIN = dict(arrangements=["causal"], interchangeable=[])
# A model trained with the prefixes and with plain prompts, all of which may serve a request.
ALL_THREE = dict(arrangements=[*PREFIXES, "causal"], interchangeable=[*PREFIXES, "causal"])


def text(value):
    return (
        ""
        if value is None
        else value
        if isinstance(value, str)
        else f"{value:.3g}"
        if value < 10
        else f"{value:.0f}"
    )


def spread(values):
    """Returns mean and standard error."""
    if len(values) < 2:
        return text(statistics.mean(values))
    return f"{text(statistics.mean(values))} ± {statistics.stdev(values) / len(values) ** 0.5:.2g}"


def simulation_options(what, short):
    """Returns a parser of the options common to all pages that run `troupe-lab sim`; `short`: help text of
    --short."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--lab", required=True, help="the program")
    parser.add_argument("--threads", type=int, default=0, help="concurrent runs; 0 = one per core")
    parser.add_argument("--short", action="store_true", help=short)
    return parser


def standard_error(values):
    """Returns that of the mean; 0 for a single value."""
    return statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


def read_explained(path):
    """Returns name → reason of the misses that a page lists: the rows of its only table with the head
    `| missed | why |`. A name is the beginning of "figure: what" of one or several rows."""
    explained, inside = {}, False
    with open(path) as file:
        for line in file:
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if not line.startswith("|"):
                inside = False
            elif cells == ["missed", "why"]:
                inside = True
            elif inside and set(cells[0]) != {"-"}:
                if len(cells) != 2 or not all(cells) or cells[0] in explained:
                    sys.exit(f"{path}: {line.strip()}: expected | missed | why |, and each name once")
                explained[cells[0]] = cells[1]
    return explained


class Report:
    def __init__(self, explained=None):
        """`explained`: name → reason of rows that miss their bound, as from `read_explained`."""
        self.rows, self.explained = [], dict(explained or {})
        self.examined = False  # null models were tried on its bounds (nulls.py)

    def add(
        self, figure, what, paper, troupe, error, bound, ok, in_view=False, values=None, kind="", sized=False
    ):
        """Adds a row.

        `in_view`: a constant of the model was chosen with this number in view, so the row says little.
        `values`: what was judged; default: `troupe`. `sized`: the bound has two ends, around the paper's
        size of an effect; `kind`: rows of one figure and kind are one claim about several sizes.
        """
        self.rows.append(
            dict(
                figure=figure,
                what=what,
                paper=paper,
                troupe=troupe,
                error=error,
                bound=bound,
                ok=ok,
                in_view=in_view,
                values=troupe if values is None else values,
                kind=kind,
                sized=sized,
                null="",
            )
        )

    def say(self, figure, what, paper, troupe, note=""):
        """Adds a row that is not judged."""
        error = (
            troupe / paper - 1 if isinstance(paper, (int, float)) and not isinstance(troupe, str) else None
        )
        self.add(figure, what, paper, troupe, error, note, None)

    def within(self, figure, what, low, high, values, slack=0.1, in_view=False, kind=""):
        """Checks the mean over seeds against the paper's range, widened by `slack`.

        The error is the distance to the nearer end, if the mean is outside.
        """
        mean = statistics.mean(values)
        nearest = min(max(mean, low), high)
        self.add(
            figure,
            what,
            f"{text(low)} to {text(high)}",
            spread(values),
            mean / nearest - 1,
            f"± {100 * slack:.0f} %",
            low * (1 - slack) <= mean <= high * (1 + slack),
            in_view,
            values,
            kind,
            sized=True,
        )

    def beside(self, figure, what, paper, values, bound, in_view=False, kind=""):
        """Checks the mean over seeds against one number of the paper."""
        error = statistics.mean(values) / paper - 1
        limit = f"± {100 * bound:.0f} %"
        ok = abs(error) <= bound
        self.add(figure, what, paper, spread(values), error, limit, ok, in_view, values, kind, sized=True)

    def effect(self, figure, what, paper, values, in_view=False, kind="", error=None):
        """Checks a ratio of two throughputs over several seeds.

        It must differ from 1 on the paper's side, by half to twice as much; if the paper's is within a
        tie of 1, so must this be. Noise of two standard errors is allowed; `error`: the standard error, if
        it is not that of the values. A single value is assumed to have typical noise.
        """
        mean = statistics.mean(values)
        if error is not None:
            noise = 2 * error
        else:
            noise = 2 * standard_error(values) if len(values) > 1 else ONE_SEED_NOISE
        size = paper - 1
        if abs(size) <= TIE:
            low, high = -EFFECT_TIE, EFFECT_TIE
        else:
            low, high = sorted([size / 2, size * 2])
        self.add(
            figure,
            what,
            f"{100 * size:+.1f} %",
            f"{100 * (mean - 1):+.1f} % ± {50 * noise:.1f}",
            None,
            f"{100 * low:+.1f} to {100 * high:+.1f} %",
            low - noise <= mean - 1 <= high + noise,
            in_view,
            values,
            kind,
            sized=True,
        )

    def holds(self, figure, what, paper, troupe, ok, in_view=False, values=None):
        self.add(figure, what, paper, troupe, None, "as said", ok, in_view, values)

    def refuted(self, figure, what, troupe, ok):
        """Checks a model without the paper's idea: a bound of this table must not hold for it."""
        self.add(figure, "null: " + what, None, troupe, None, "must miss", ok)

    def least(self, figure, what, troupe, bound, slack, paper=None):
        self.add(
            figure, what, paper, troupe, None, f">= {bound * (1 - slack):.2f}", troupe >= bound * (1 - slack)
        )

    def at_least(self, figure, what, values, bound):
        """Checks that the mean over seeds is not below the bound by more than two standard errors."""
        mean, error = statistics.mean(values), standard_error(values)
        self.add(
            figure,
            what,
            None,
            f"{mean:.3f} ± {error:.3f} ({' '.join(f'{value:.3f}' for value in values)})",
            None,
            f">= {bound:.2f} - 2 s.e.",
            mean >= bound - 2 * error - 1e-9,
            values=values,
        )

    def above(self, figure, what, paper, values, bound):
        """Checks that the mean over seeds is above the bound."""
        mean = statistics.mean(values)
        self.add(figure, what, paper, spread(values), None, f"> {bound:g}", mean > bound, values=values)

    def ranked(self, figure, what, names, values):
        """Checks that the means over seeds fall in the order of `names`; `values`: name → value by seed."""
        means = {name: statistics.mean(values[name]) for name in names}
        self.add(
            figure,
            what,
            " ".join(names),
            " ".join(f"{100 * means[name]:.1f} %" for name in names),
            None,
            "falling",
            all(means[a] > means[b] for a, b in zip(names, names[1:])),
            values=means,
        )

    def named(self, row):
        """Returns the name by which a miss of this row is explained; "" if there is none."""
        full = f"{row['figure']}: {row['what']}"
        return next((name for name in self.explained if full.startswith(name)), "")

    def judged(self):
        """Returns the rows with a verdict about Troupe; those about null models judge the bounds."""
        return [row for row in self.rows if row["ok"] is not None and row["bound"] != "must miss"]

    def faults(self, whole=False):
        """Returns what is wrong: misses without a reason, null models that meet their bound, and reasons
        of misses that are none any more. `whole`: all rows are there, so a reason without a row is wrong."""
        faults = [
            f"missed, and not explained: {row['figure']}: {row['what']}"
            for row in self.rows
            if row["ok"] is False and not self.named(row)
        ]
        for name in self.explained:
            rows = [row for row in self.judged() if self.named(row) == name]
            if rows and all(row["ok"] for row in rows):
                faults.append(f"explained as missed, but it holds: {name}")
            elif whole and not rows:
                faults.append(f"explained as missed, but no row has this name: {name}")
        return faults

    def missed(self, whole=False):
        """Prints the faults; returns the exit status."""
        faults = self.faults(whole)
        for fault in faults:
            print(fault)
        return 1 if faults else 0

    def verdict(self, row):
        if row["ok"] is None:
            return ""
        if not row["ok"]:
            return "MISSED, explained" if self.named(row) else "MISSED"
        return "ok" + (f", as null: {row['null']}" if row["null"] else "")

    def totals(self):
        """Returns counts of (held, all) bounds. A bound that a null model meets too counts where it is
        missed."""
        judged = self.judged()
        seen = [row for row in judged if row["in_view"] and not row["null"]]
        rest = [row for row in judged if not row["in_view"] and not row["null"]]
        held = lambda rows: (sum(row["ok"] for row in rows), len(rows))
        return dict(discriminating=held(rest), in_view=held(seen), as_nulls=len(judged) - len(seen + rest))

    def print(self):
        head = ["figure", "what", "paper", "Troupe", "error", "bound", ""]
        lines = [
            [
                row["figure"],
                row["what"],
                text(row["paper"]),
                text(row["troupe"]),
                "" if row["error"] is None else f"{100 * row['error']:+.1f} %",
                row["bound"] + (", in view" if row["in_view"] else ""),
                self.verdict(row),
            ]
            for row in self.rows
        ]
        widths = [max(len(line[i]) for line in [head, *lines]) for i in range(len(head))]
        for line in [head, ["-" * width for width in widths], *lines]:
            print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
        missed = [row for row in self.judged() if not row["ok"]]
        if missed:
            print("\nmissed: " + "; ".join(f"{row['figure']}: {row['what']}" for row in missed))
        totals = self.totals()
        kind = "discriminating bounds" if self.examined else "bounds"
        print("\n{} of {} {} hold".format(*totals["discriminating"], kind), end="")
        if totals["in_view"][1]:
            print("; of those in view when a constant was chosen {} of {}".format(*totals["in_view"]), end="")
        print()
        if totals["as_nulls"]:
            print(
                f"{totals['as_nulls']} more hold, but a model without the idea meets them as well (as null)"
            )
