"""Tests of judge.py on made-up results: all short bounds hold for results like the measured ones, and each
broken mechanism misses one."""

import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, ".."))
sys.path.append(HERE)
import judge  # noqa: E402
import load  # noqa: E402
import xgr  # noqa: E402
from checks import Report  # noqa: E402

# CPU ms by part, and bytes of keys and values besides the prompt's, for each path.
TROUPE = dict(attention=8, search=0.1, readout=2, layers=10, path_bytes=8192)
RUNS = {
    "troupe": TROUPE,
    "independent": dict(TROUPE, attention=26, path_bytes=32768),
    "tree": dict(TROUPE, attention=12),
    "full sort": dict(TROUPE, search=0.6),
    "unconstrained": dict(TROUPE, readout=15, search=0.2),
}
VOCABULARY = dict(readout=15)


def run(point, parts, variant):
    numbers = {key: parts[key] for key in ("attention", "search", "readout")}
    return dict(
        numbers,
        cpu_ms=sum(parts[key] for key in ("attention", "search", "readout", "layers")),
        kv_bytes_peak=4096 * point.prompt + parts["path_bytes"] * point.width,
        invalid_items=point.width if variant == "unconstrained" else 0,
        duplicate_items=0,
        returned_items=point.width,
    )


def results(**changes):
    """Results of the short points; `changes`: numbers of Troupe's runs that differ."""
    found = {}
    for point in judge.SHORT:
        for variant, parts in RUNS.items():
            for normalised in ("vocabulary", "allowed"):
                own = dict(parts, **(VOCABULARY if normalised == "vocabulary" else {}))
                if variant == "troupe":
                    own.update(changes)
                found[point.of(variant, normalised)] = run(point, own, variant)
    return found


def misses(found):
    report = Report()
    judge.judge_short(report, found)
    return {row["figure"] for row in report.judged() if not row["ok"]}


class Short(unittest.TestCase):
    def test_results_like_the_measured_ones_hold(self):
        self.assertEqual(misses(results()), set())

    def test_each_broken_mechanism_misses_a_bound(self):
        self.assertIn("17", misses(results(attention=26)))  # each path reads the prompt
        self.assertIn("15", misses(results(path_bytes=32768)))  # pages are copied
        self.assertIn("11", misses(results(search=0.6)))  # everything is sorted
        self.assertIn("6.1", misses(results(readout=15)))  # masked rows are computed
        self.assertIn("18", misses(results(search=20)))  # the constraint is expensive
        wrong = results()
        wrong[judge.SHORT[0].of("troupe")]["invalid_items"] = 1
        self.assertEqual(misses(wrong), {"5"})

    def test_a_null_model_is_marked_on_no_bound_of_its_own_mechanism(self):
        found, judged = results(), xgr.judge_mechanisms
        report = judged(found)
        met = judge.mark(report, judged, found)
        self.assertEqual({figure for figure, (_, rows) in met.items() if rows == 0}, set())
        self.assertEqual({figure: held for figure, (held, _) in met.items() if held}, {})
        self.assertEqual([row["what"] for row in report.judged() if row["null"]], [])

    def test_a_bound_that_its_null_model_meets_is_marked(self):
        found = results()
        for name in found:  # a catalog of all paths: a search without it finds items, too
            found[name]["invalid_items"] = 0
        report = xgr.judge_mechanisms(found)
        met = judge.mark(report, xgr.judge_mechanisms, found)
        self.assertEqual(met["5"][0], met["5"][1])
        marked = {row["figure"] for row in report.judged() if row["null"]}
        self.assertEqual(marked, {"5"})

    def test_the_floor_is_the_ratio_of_free_attention(self):
        ours, theirs = dict(cpu_ms=20, attention=10), dict(cpu_ms=40)
        self.assertEqual(judge.floor(ours, theirs), 4)


class Recall(unittest.TestCase):
    def rows(self, allowed):
        found = {
            judge.engine.recall_name("m", normalised): dict(recall_at_10=value, requests=1600)
            for normalised, value in (("vocabulary", 0.2), ("allowed", allowed))
        }
        report = Report()
        judge.judge_recall(report, found, ["m"])
        return [row["ok"] for row in report.rows]

    def test_recalls_within_a_standard_error_hold(self):
        self.assertEqual(self.rows(0.2099), [True])  # the error is 0.01
        self.assertEqual(self.rows(0.2101), [False])
        self.assertEqual(self.rows(0.1899), [False])


class Goodput(unittest.TestCase):
    def rows(self, independent):
        found = {}
        for normalised, rate in (("allowed", independent), ("vocabulary", independent * 0.85)):
            found[load.key("tiny", 256, "independent", normalised)] = dict(goodput=rate)
            found[load.key("tiny", 256, "troupe", normalised)] = dict(goodput=10)
        report = Report()
        judge.judge_goodput(report, found, "tiny", 256)
        return [row["ok"] for row in report.rows]

    def test_bounds_are_those_of_the_width(self):
        self.assertEqual(self.rows(2.5), [True, True])
        self.assertEqual(self.rows(3), [False, False])

    def test_a_baseline_without_goodput_is_said_and_not_judged(self):
        self.assertEqual(self.rows(0), [None, None])


if __name__ == "__main__":
    unittest.main()
