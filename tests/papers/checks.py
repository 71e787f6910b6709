"""The table "paper / Troupe" and the rules by which it is judged."""

import argparse
import statistics

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


class Report:
    def __init__(self, explained=()):
        """`explained`: prefixes of rows that miss their bound for a reason that is measured and
        documented."""
        self.rows, self.explained = [], tuple(explained)

    def add(self, figure, what, paper, troupe, error, bound, ok, in_view=False):
        """`in_view`: a constant of the model was chosen with this number in view, so the row says little."""
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
            )
        )

    def say(self, figure, what, paper, troupe, note=""):
        """Adds a row that is not judged."""
        error = (
            troupe / paper - 1 if isinstance(paper, (int, float)) and not isinstance(troupe, str) else None
        )
        self.add(figure, what, paper, troupe, error, note, None)

    def near(self, figure, what, paper, troupe, bound):
        error = troupe / paper - 1
        self.add(figure, what, paper, troupe, error, f"± {100 * bound:.0f} %", abs(error) <= bound)

    def within(self, figure, what, low, high, values, slack=0.1, in_view=False):
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
        )

    def beside(self, figure, what, paper, values, bound, in_view=False):
        """Checks the mean over seeds against one number of the paper."""
        error = statistics.mean(values) / paper - 1
        limit = f"± {100 * bound:.0f} %"
        self.add(figure, what, paper, spread(values), error, limit, abs(error) <= bound, in_view)

    def effect(self, figure, what, paper, values, in_view=False):
        """Checks a ratio of two throughputs over several seeds.

        It must differ from 1 on the paper's side, by half to twice as much; if the paper's is within a
        tie of 1, so must this be. Noise of two standard errors is allowed; a single value is assumed to
        have typical noise.
        """
        mean = statistics.mean(values)
        noise = 2 * statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else ONE_SEED_NOISE
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
        )

    def holds(self, figure, what, paper, troupe, ok, in_view=False):
        self.add(figure, what, paper, troupe, None, "as said", ok, in_view)

    def refuted(self, figure, what, troupe, ok):
        """Checks a model without the paper's idea: a bound of this table must not hold for it."""
        self.add(figure, "null: " + what, None, troupe, None, "must miss", ok)

    def least(self, figure, what, troupe, bound, slack, paper=None):
        self.add(
            figure, what, paper, troupe, None, f">= {bound * (1 - slack):.2f}", troupe >= bound * (1 - slack)
        )

    def at_least(self, figure, what, values, bound):
        """Checks that the mean over seeds is not below the bound by more than two standard errors."""
        mean, error = statistics.mean(values), statistics.stdev(values) / len(values) ** 0.5
        self.add(
            figure,
            what,
            None,
            f"{mean:.3f} ± {error:.3f} ({' '.join(f'{value:.3f}' for value in values)})",
            None,
            f">= {bound:.2f} - 2 s.e.",
            mean >= bound - 2 * error,
        )

    def order(self, figure, what, paper, troupe):
        """Checks that whatever is larger in the paper is larger here; ties of the paper may have either
        order."""
        wrong = [
            f"{a} < {b}"
            for a in paper
            for b in paper
            if paper[a] > paper[b] * (1 + TIE) and troupe[a] <= troupe[b]
        ]
        names = sorted(troupe, key=troupe.get, reverse=True)
        self.add(
            figure,
            what,
            " ".join(sorted(paper, key=paper.get, reverse=True)),
            " ".join(names),
            None,
            "the paper's" if not wrong else "not " + ", ".join(wrong),
            not wrong,
        )

    def ranked(self, figure, what, names, values, slack):
        """Checks that values descend in the order of `names`; neighbours may be reversed by at most
        `slack`."""
        ok = all(values[a] >= values[b] - slack for a, b in zip(names, names[1:]))
        self.add(
            figure,
            what,
            " ".join(names),
            " ".join(f"{100 * values[name]:.0f} %" for name in names),
            None,
            "falling",
            ok,
        )

    def is_explained(self, row):
        return bool(self.explained) and f"{row['figure']}: {row['what']}".startswith(self.explained)

    def missed(self):
        return 1 if any(row["ok"] is False and not self.is_explained(row) for row in self.rows) else 0

    def print(self):
        head = ["figure", "what", "paper", "Troupe", "error", "bound", ""]
        verdict = {None: "", True: "ok", False: "MISSED"}
        lines = [
            [
                row["figure"],
                row["what"],
                text(row["paper"]),
                text(row["troupe"]),
                "" if row["error"] is None else f"{100 * row['error']:+.1f} %",
                row["bound"] + (", in view" if row["in_view"] else ""),
                verdict[row["ok"]] + (", explained" if row["ok"] is False and self.is_explained(row) else ""),
            ]
            for row in self.rows
        ]
        widths = [max(len(line[i]) for line in [head, *lines]) for i in range(len(head))]
        for line in [head, ["-" * width for width in widths], *lines]:
            print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
        judged = [row for row in self.rows if row["ok"] is not None]
        missed = [row for row in judged if not row["ok"]]
        print(
            f"\n{len(judged) - len(missed)} of {len(judged)} bounds hold"
            + (
                ""
                if not missed
                else "; missed: " + "; ".join(f"{row['figure']}: {row['what']}" for row in missed)
            )
        )
        seen = [row for row in judged if row["in_view"]]
        if seen:
            print(
                f"{sum(row['ok'] for row in seen)} of {len(seen)} rows were in view when a constant was "
                f"chosen; of the "
                f"others {len(judged) - len(missed) - sum(row['ok'] for row in seen)} of "
                f"{len(judged) - len(seen)} hold"
            )
