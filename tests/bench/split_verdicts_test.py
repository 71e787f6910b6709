#!/usr/bin/env python3
"""Checks the judge of `splits.py` on costs that are made up."""
import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.append(os.path.dirname(os.path.abspath(__file__)))
import split_verdicts  # noqa: E402
import splits  # noqa: E402

LINK = {"static:0.1": 80, "static:0.5": 50, "static:0.9": 60, "static:0.5 again": 50.2, "marginal": 50.1}
FILE = {"static:0.1": 30, "static:0.5": 33, "static:0.9": 40, "static:0.5 again": 33.1, "marginal": 30.1}
ROUTING = {"static:0.5": 40, "static:0.5 again": 40.2, "static:0.5+joint": 39, "static:0.9": 48}


def part(costs, **others):
    """Returns three seeds, whose costs differ as a whole."""
    return {
        seed: {name: cost * (1 + 0.1 * seed) for name, cost in {**costs, **others}.items()}
        for seed in (1, 2, 3)
    }


def failed(**parts):
    return [row["what"] for row in split_verdicts.judge(parts) if not row["holds"]]


class Verdicts(unittest.TestCase):
    def test_all_hold_where_marginal_and_joint_are_good(self):
        self.assertEqual(failed(link=part(LINK), file=part(FILE), routing=part(ROUTING)), [])

    def test_a_split_that_costs_more_than_the_noise_is_found(self):
        [what] = failed(link=part(LINK, marginal=52))
        self.assertIn("link: marginal", what)

    def test_a_start_that_is_as_good_as_the_best_is_no_evidence(self):
        [what] = failed(link=part(LINK, **{"static:0.9": 50.1}))
        self.assertIn("null: static:0.9", what)

    def test_a_constant_that_is_good_in_both_parts_is_found(self):
        [what] = failed(link=part(LINK), file=part(FILE, **{"static:0.5": 30, "static:0.5 again": 30.1}))
        self.assertIn("null: static:0.5", what)

    def test_joint_that_costs_more_and_lost_blocks_that_cost_no_more_are_found(self):
        self.assertEqual(len(failed(routing=part(ROUTING, **{"static:0.5+joint": 44}))), 1)
        self.assertEqual(len(failed(routing=part(ROUTING, **{"static:0.9": 40}))), 1)

    def test_the_best_static_split_is_that_of_each_seed_and_no_second_copy(self):
        costs = {"static:0.1": 3, "static:0.5": 2, "static:0.5 again": 1, "marginal": 2}
        self.assertEqual(split_verdicts.best_static(costs), "static:0.5")
        two = {1: costs, 2: {**costs, "static:0.1": 1}}
        ratio, _ = split_verdicts.compare(two, "marginal", split_verdicts.best_static)
        self.assertAlmostEqual(ratio, 1.5)

    def test_a_part_that_was_run_with_other_systems_is_not_judged(self):
        runs = [{"seed": 1, "systems": [{"system": "static:0.5", "cost_ms": 50}]}]
        chosen = {"settings": splits.PARTS["link"] | {"systems": ["static:0.5"]}, "runs": runs}
        kept = [{"system": name, "cost_ms": cost} for name, cost in FILE.items()]
        short = splits.PARTS["file"] | {"systems": splits.SHORT_ALONE}
        document = {
            "parts": {"link": chosen, "file": {"settings": short, "runs": [{"seed": 1, "systems": kept}]}}
        }
        self.assertTrue(all(row["what"].startswith("file") for row in splits.judge(document, None)))
        self.assertEqual(len(splits.judge(document, None)), 2)
        self.assertEqual(splits.judge(document, "static:0.5"), [])

    def test_noise_is_at_least_that_of_two_copies(self):
        calm = part(LINK)
        ratio, noise = split_verdicts.compare(calm, "marginal", "static:0.5")
        self.assertAlmostEqual(ratio, 1.002)
        self.assertAlmostEqual(noise, 2 * 0.004 / 3**0.5)
        calm[1]["marginal"] *= 1.3
        self.assertGreater(split_verdicts.compare(calm, "marginal", "static:0.5")[1], 0.1)

    def test_one_seed_has_the_noise_of_its_copies(self):
        one = {1: LINK}
        self.assertAlmostEqual(split_verdicts.compare(one, "marginal", "static:0.5")[1], 2 * 0.004)


if __name__ == "__main__":
    unittest.main()
