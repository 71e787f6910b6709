"""Finds the bounds that say nothing: those that a model without the paper's idea meets too.

A null model is a world: a copy of the results in which some runs are replaced, judged by the same bounds.

- A bound that depends on no run holds in every world: it is arithmetic.
- A bound that the replaced runs touch, and that holds in such a world, is no evidence for the idea.
- One constant, "the method is c times the best baseline everywhere", is tried where a figure claims several
  sizes at once. It must meet all of them; a single size is always met by some constant.

Only bounds that hold are marked. A bound that is missed counts, whatever a null model does.
"""

import random

CONSTANTS = [1.1, 1.25, 1.5, 2, 3, 4]
RATES, TIMES = ["requests_per_s"], ["mean_ms", "p50_ms", "p90_ms", "p99_ms"]


def faster(result, factor):
    """Returns the result of a run that serves as many times more requests, each in as much less time."""
    scaled = dict(result)
    scaled.update({key: result[key] * factor for key in RATES if key in result})
    scaled.update({key: result[key] / factor for key in TIMES if key in result})
    return scaled


def scrambled(results):
    """Returns the results with every number changed."""
    stream = random.Random(1)
    return {
        name: {
            key: value * stream.uniform(0.5, 2) + stream.uniform(0.01, 0.02)
            if isinstance(value, (int, float)) and not isinstance(value, bool)
            else value
            for key, value in result.items()
        }
        for name, result in results.items()
    }


def replaced(results, worlds, factor=1):
    """Returns the results with the runs of `worlds` (name → name of the run in its place) replaced."""
    return {
        **results,
        **{name: dict(faster(results[other], factor), name=name) for name, other in worlds.items()},
    }


def key_of(row):
    return row["figure"], row["what"]


class Judged:
    """The rows of a world beside those of the runs."""

    def __init__(self, report, other):
        self.own = {key_of(row): row for row in report.judged()}
        self.null = {key_of(row): row for row in other.judged()}

    def touched(self):
        return [
            key
            for key, row in self.own.items()
            if key in self.null and self.null[key]["values"] != row["values"]
        ]

    def untouched(self):
        return [key for key in self.own if key not in self.touched()]

    def meets(self, key):
        return self.null[key]["ok"]


def mark(report, judge, results, worlds, constants=None):
    """Sets `null` of the rows that hold and that a null model meets too; returns name → bounds it meets.

    `judge(results)` returns a report. `worlds`: name → name of a run → name of the run in its place.
    `constants`: name of the method's run → that of the best baseline's.
    """
    rows, met = {key_of(row): row for row in report.judged()}, {}
    report.examined = True

    def found(key, null):
        if rows[key]["ok"] and not rows[key]["null"]:
            rows[key]["null"] = null

    for key in Judged(report, judge(scrambled(results))).untouched():
        found(key, "no run")
    for name, world in worlds.items():
        judged = Judged(report, judge(replaced(results, world)))
        touched = judged.touched()
        met[name] = (sum(judged.meets(key) for key in touched), len(touched))
        for key in touched:
            if judged.meets(key):
                found(key, name)
    for factor in CONSTANTS if constants else []:
        judged = Judged(report, judge(replaced(results, constants, factor)))
        claims = {}
        for key in judged.touched():
            if rows[key]["sized"]:
                claims.setdefault((rows[key]["figure"], rows[key]["kind"]), []).append(key)
        for keys in claims.values():
            if len(keys) > 1 and all(judged.meets(key) for key in keys):
                for key in keys:
                    found(key, f"{factor:g} everywhere")
    return met


def print_met(met):
    for name, (held, touched) in met.items():
        print(f"null model \"{name}\": meets {held} of the {touched} bounds that it touches")
