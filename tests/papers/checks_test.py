#!/usr/bin/env python3
"""Checks the judges of the papers' tables: null models, named misses, the bounds of the short forms, the
page of all papers, and the mechanisms that are broken on purpose."""

import importlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(HERE)
import broken  # noqa: E402
import nulls  # noqa: E402
import page  # noqa: E402
from checks import Report, read_explained  # noqa: E402


def module(folder, name):
    """Returns a module of one paper's folder; those of other papers may have the same name."""
    path = os.path.join(HERE, folder)
    before, loaded = list(sys.path), {}
    sys.path.insert(0, path)
    try:
        for each in list(sys.modules):
            file = getattr(sys.modules[each], "__file__", None) or ""
            if os.path.dirname(file).startswith(HERE + os.sep):
                loaded[each] = sys.modules.pop(each)
        return importlib.import_module(name)
    finally:
        sys.path[:] = before


def run(rate, **more):
    return dict(requests_per_s=rate, mean_ms=1000 / rate, p50_ms=1000 / rate, p99_ms=3000 / rate, **more)


def judge_pair(results):
    """Bounds of a made-up paper: two sizes, an order, a claim of no loss, and arithmetic."""
    report = Report()
    over = lambda data: [
        results[f"{data}/ours"]["requests_per_s"] / results[f"{data}/base"]["requests_per_s"]
    ]
    report.within("sizes", "a", 1.4, 2.2, over("a"))
    report.within("sizes", "b", 1.4, 2.2, over("b"))
    report.above("order", "more on a than on b", None, [over("a")[0] / over("b")[0]], 1)
    report.at_least("loss", "none on a", over("a"), 1)
    report.beside("levels", "catalog", 100, [99], 0.05)
    report.beside("levels", "one size", 1.8, over("a"), 0.1, kind="one")
    return report


RUNS = {"a/ours": run(18), "a/base": run(10), "b/ours": run(16), "b/base": run(10)}
BEST = {"a/ours": "a/base", "b/ours": "b/base"}


def marked(results):
    report = judge_pair(results)
    met = nulls.mark(report, judge_pair, results, {"the baseline": BEST}, BEST)
    return report, {row["what"]: row["null"] for row in report.rows}, met


class NullModels(unittest.TestCase):
    def test_a_range_that_one_constant_meets_everywhere_says_nothing(self):
        _, null, _ = marked(RUNS)
        self.assertEqual((null["a"], null["b"]), ("1.5 everywhere", "1.5 everywhere"))

    def test_a_single_size_is_not_held_against_constants(self):
        self.assertEqual(marked(RUNS)[1]["one size"], "")

    def test_an_order_that_the_baseline_does_not_have_counts(self):
        self.assertEqual(marked(RUNS)[1]["more on a than on b"], "")

    def test_what_the_baseline_meets_too_says_nothing(self):
        self.assertEqual(marked(RUNS)[1]["none on a"], "the baseline")

    def test_a_bound_that_depends_on_no_run_says_nothing(self):
        self.assertEqual(marked(RUNS)[1]["catalog"], "no run")

    def test_totals_leave_out_what_a_null_model_meets(self):
        report, _, met = marked(RUNS)
        self.assertEqual(report.totals(), dict(discriminating=(2, 2), in_view=(0, 0), as_nulls=4))
        self.assertEqual(met, {"the baseline": (1, 5)})

    def test_a_miss_counts_though_a_null_model_meets_the_bound(self):
        report, null, _ = marked({**RUNS, "a/ours": run(9)})
        self.assertEqual(null["none on a"], "")
        self.assertEqual(report.totals()["discriminating"][0], 0)
        self.assertGreaterEqual(report.totals()["discriminating"][1], 3)


class NamedMisses(unittest.TestCase):
    def report(self, explained, ok=False):
        report = Report(explained)
        report.holds("Figure 1", "falls", None, "", ok)
        report.holds("Figure 2", "rises", None, "", True)
        return report

    def test_a_miss_without_a_reason_fails(self):
        self.assertEqual(self.report({}).faults(), ["missed, and not explained: Figure 1: falls"])

    def test_a_miss_with_a_reason_passes(self):
        self.assertEqual(self.report({"Figure 1: fa": "because"}).faults(whole=True), [])

    def test_a_reason_for_what_holds_fails(self):
        faults = self.report({"Figure 1: falls": "because"}, ok=True).faults()
        self.assertEqual(faults, ["explained as missed, but it holds: Figure 1: falls"])

    def test_a_reason_without_a_row_fails_where_all_rows_are_there(self):
        report = self.report({"Figure 1": "because", "Figure 3": "because"})
        self.assertEqual(report.faults(), [])
        self.assertEqual(
            report.faults(whole=True), ["explained as missed, but no row has this name: Figure 3"]
        )

    def test_a_null_model_that_meets_its_bound_fails(self):
        report = Report()
        report.refuted("null", "nothing is reused", "met", False)
        self.assertEqual(len(report.faults()), 1)

    def test_the_reasons_are_the_table_of_the_page(self):
        table = "| missed | why |\n| --- | --- |\n| Figure 1: A | slow |\n\n"
        page = "text | with | bars\n\n" + table + "| a | b |\n| x | y |\n"
        self.assertEqual(self.read(page), {"Figure 1: A": "slow"})
        with self.assertRaises(SystemExit):
            self.read("| missed | why |\n| --- | --- |\n| Figure 1: A | |\n")
        for paper in ["bat", "rcllm"]:
            self.assertTrue(read_explained(os.path.join(HERE, paper, "README.md")))

    def read(self, page):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "README.md")
            with open(path, "w") as file:
                file.write(page)
            return read_explained(path)


class ShortForms(unittest.TestCase):
    """With any mechanism off its bound misses."""

    def test_bat(self):
        bat = module("bat", "mechanisms")
        rates = {"hot and cold": 105, "hash": 96, "bat rule": 110, "larger": 88, "item": 120, "recompute": 60}
        results = {f"{name}/seed {seed}": run(rate) for name, rate in rates.items() for seed in bat.SEEDS}
        self.assertTrue(all(row["ok"] for row in bat.judge(results).rows))
        for what, one, other, _ in bat.BOUNDS:
            off = {f"{one}/seed {seed}": f"{other}/seed {seed}" for seed in bat.SEEDS}
            missed = [row["what"] for row in bat.judge(nulls.replaced(results, off)).rows if not row["ok"]]
            self.assertEqual(missed, [what])

    def test_rcllm(self):
        rcllm = module("rcllm", "mechanisms")
        results = {
            "RcLLM": run(8, item_hit_rate=0.86, best_mean=0.88),
            "Prefix-Cache": run(4, item_hit_rate=0, best_mean=0),
            "hash": run(7, item_hit_rate=0.5, best_mean=0.25),
            "Load-Only": run(6, item_hit_rate=0.4, best_mean=0.88),
        }
        self.assertTrue(all(row["ok"] for row in rcllm.judge(results).rows))
        for what, off in rcllm.without_mechanism(results):
            self.assertIn(what, [row["what"] for row in rcllm.judge(off).rows if not row["ok"]])

    def test_planner(self):
        planner = module("planner", "planner")
        results = {}
        for system, rate in dict(user=80, item=118, bat=121, planner=125).items():
            kind = "exact" if system == "planner" else "any"
            for seed in planner.SEEDS:
                results[f"w/{kind}/{system}/seed {seed}"] = run(rate + seed)
        self.assertTrue(self.planner_holds(planner, results))
        for seed in planner.SEEDS:
            results[f"w/exact/planner/seed {seed}"] = run(118 + seed)
        self.assertFalse(self.planner_holds(planner, results))

    def planner_holds(self, planner, results):
        report = Report()
        planner.judge(report, results, "w", "exact", ["user", "item", "bat"])
        return report.rows[0]["ok"]

    def test_a_cell_of_the_real_node_fails_below_its_spread(self):
        node = module("planner", "node")
        cell = dict(planner_over_best_tokens=1.0, best_other="larger", spread=0.05)
        table = [dict(workload="w", cells=dict(a=dict(cell, planner_over_best=0.96)))]
        report = Report()
        node.add_rows(report, table)
        self.assertEqual(report.missed(), 0)
        table[0]["cells"]["a"]["planner_over_best"] = 0.94
        node.add_rows(report, table)
        self.assertEqual(len(report.faults()), 1)


class Page(unittest.TestCase):
    """docs/papers.md, whose tables page.py writes."""

    ROW = dict(
        figure="Figure 1",
        what="a | b",
        paper=2.5,
        troupe="2.4 ± 0.1 (2.3 2.5)",
        bound="± 5 %",
        ok=False,
        in_view=True,
        null="",
    )

    def test_the_page_is_what_its_runs_say(self):
        known = page.in_history if page.whole_history() else lambda _: True
        self.assertEqual(list(page.breaches(page.read(page.PAGE), page.tables(), known)), [])

    def test_a_changed_number_fails(self):
        written = page.read(page.PAGE).replace("| 20 of 33 |", "| 21 of 33 |")
        found = list(page.breaches(written, page.tables(), lambda _: True))
        self.assertEqual(found, ["docs/papers.md is not what its runs say: run tests/papers/page.py"])

    def test_a_cited_commit_that_does_not_exist_fails(self):
        written, made = page.read(page.PAGE), page.tables()
        found = list(page.breaches(written, made, lambda commit: commit != "d7a01bd9"))
        self.assertEqual(found, ["docs/papers.md: commit d7a01bd9 is not in the history"])

    def test_a_count_of_bounds_that_no_run_has_fails(self):
        pages = {"a.md": "x 20 of\n33 discriminating bounds", "b.md": "**21 of 33 discriminating bounds**"}
        found = list(page.count_breaches(pages, ["20 of 33"]))
        self.assertEqual(found, ["b.md: 21 of 33 discriminating bounds; no committed run has that"])

    def test_a_claim_has_all_its_cells(self):
        made = page.cells(self.ROW, "abcdef12", True)
        expected = [
            "Figure 1: a | b",
            "2.5",
            "2.4",
            "± 0.1",
            "± 5 %",
            "**missed**",
            "yes",
            "yes",
            "`abcdef12`",
        ]
        self.assertEqual(made, expected)
        self.assertEqual(page.table(page.HEAD, [made]).count("|"), 3 * (len(page.HEAD) + 1) + 1)
        null = page.cells(dict(self.ROW, ok=True, null="the baseline"), "abcdef12", True)
        self.assertEqual(null[5:8], ["holds", "yes", "no: the baseline"])
        self.assertEqual(page.cells(self.ROW, "abcdef12", False)[7], "not examined")

    def test_a_null_models_row_is_no_claim(self):
        self.assertFalse(page.is_claim(dict(self.ROW, bound="must miss")))

    def test_a_comparison_without_a_run_is_listed_with_its_command(self):
        source = page.Source("X", "run.sh --json x.json", "papers/no-such-file.json", "papers-bat.md", "")
        self.assertEqual(
            page.claims_of(source), "Not yet run. The command:\n\n```\nrun.sh --json x.json\n```"
        )

    def test_the_sweep_of_the_link_has_a_row_for_each_limited_rate(self):
        run = lambda rate, row, pairs, latency: dict(
            rate=rate, row=row, pairs_per_second=pairs, latency_ms=latency
        )
        runs = [run(0, "no cache", 30, 10), run(0, "cache, waits", 33, 9), run(4e6, "no cache", 20, 20),
                run(4e6, "cache, waits", 30, 11)]  # fmt: skip
        rows = list(page.sweep_rows(runs))
        self.assertEqual(len(rows), 1)
        self.assertIn("4 MB/s: pairs/s, cached over none; the link is 50% of the latency", rows[0][0])
        self.assertAlmostEqual(rows[0][2], 1.5)

    def test_totals_that_the_rows_do_not_have_fail(self):
        document = dict(rows=[self.ROW], totals=dict(discriminating=[1, 1]))
        with self.assertRaises(SystemExit):
            page.counts(page.SOURCES[0], document)

    def test_a_program_with_changes_is_no_commit(self):
        with self.assertRaises(SystemExit):
            page.commit_of(dict(commit="0123abc-dirty"))


class Scripts(unittest.TestCase):
    def test_each_papers_script_has_a_short_form(self):
        for paper in [*broken.PAPERS, "planner"]:
            done = subprocess.run(
                [os.path.join(HERE, paper, "run.sh"), "--help"], capture_output=True, text=True
            )
            self.assertIn("--short", done.stdout, f"{paper}: {done.stderr}")


class Broken(unittest.TestCase):
    """Mechanisms that are broken on purpose: the table, and the record of its last run."""

    def record(self, **changes):
        bugs = broken.mutants()
        run = lambda bug: dict(paper=bug.tests[0], entry=broken.entry_hash(bug), missed=["a bound"])
        return bugs, dict(mutants={bug.name: dict(run(bug), **changes) for bug in bugs})

    def breaches(self, bugs, record):
        return list(broken.breaches(bugs, broken.ROOT, record))

    def test_each_mutant_fits_and_was_noticed(self):
        found = self.breaches(broken.mutants(), broken.read_record(broken.RECORD))
        self.assertEqual("\n".join(found), "")

    def test_each_is_inside_a_function_and_can_be_switched(self):
        for bug in broken.mutants():
            text = (broken.ROOT / bug.file).read_text()
            self.assertTrue(broken.switched.switchable(text, bug), bug.name)

    def test_a_whole_record_passes(self):
        self.assertEqual(self.breaches(*self.record()), [])

    def test_a_mutant_that_was_not_noticed_fails(self):
        found = self.breaches(*self.record(missed=[]))
        self.assertEqual(len(found), len(broken.mutants()))
        self.assertIn("did not notice it", found[0])

    def test_a_changed_mutant_fails_until_it_is_run(self):
        bugs, record = self.record()
        bugs[0].planted = [bugs[0].planted[0] + " "]
        self.assertIn("was not run as it stands", "".join(self.breaches(bugs, record)))

    def test_only_units_of_libraries_with_a_mutant_are_compiled(self):
        command = "c++ -O3 -o {0}.dir/x.o -c /tree/{1}"
        outputs = {
            "kernels/CMakeFiles/troupe_kernels": "a.cc",
            "kernels/CMakeFiles/kernels_test": "a.cc",
            "tests/sim/CMakeFiles/troupe_mutated": "a.cc",
            "router/CMakeFiles/troupe_router": "b.cc",
        }
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "compile_commands.json"), "w") as file:
                entries = [
                    dict(command=command.format(output, name), directory=folder, file=f"/tree/{name}")
                    for output, name in outputs.items()
                ]
                json.dump(entries, file)
            found = list(broken.units(pathlib.Path(folder), pathlib.Path("/tree"), {"a.cc": "copy"}))
        self.assertEqual([unit[4] for unit in found], ["kernels/libtroupe_kernels.a"])

    def test_fewer_than_two_of_a_paper_fail(self):
        bugs, record = self.record()
        bugs = [bug for bug in bugs if bug.tests != ["bat"]]
        self.assertIn("expected two mutants or more with `tests bat`", "".join(self.breaches(bugs, record)))

    def test_a_mutant_that_does_not_fit_fails(self):
        bugs, record = self.record()
        bugs[0].present = ["no such line"]
        record["mutants"][bugs[0].name]["entry"] = broken.entry_hash(bugs[0])
        self.assertIn("expected once", "".join(self.breaches(bugs, record)))


if __name__ == "__main__":
    unittest.main()
