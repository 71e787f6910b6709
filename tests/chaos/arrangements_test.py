"""Tests that clients and judges notice an answer of another arrangement than the reply or the form says
(promise 21). checks_test.py runs them."""
import json
import os
import threading
import types
import unittest
from unittest import mock

import plain
from asking import APPROXIMATE, ARRANGEMENTS, Ranking, arrangement_of
from judge import judge_load, judge_plans
from load import Load
from writers import Known, Writers


class ArrangementsOfAnswers(unittest.TestCase):
    """A router that answers with the scores of one plan, under any name (promise 21)."""

    SCORES = {
        "item": {"a": 2.0, "b": 1.0},
        "user": {"a": 1.5, "b": 1.0},
        "causal": {"a": 1.0, "b": 3.0},
        "blocks": {"a": 1.1, "b": 2.9},
        "all_blocks": {"a": 1.2, "b": 2.8},
    }
    DECLARED = {"arrangements": ["item_first", "user_first", "causal"]}

    def setUp(self):
        self.asking = Ranking()
        self.asking.declare({**self.DECLARED, "interchangeable": ["item_first", "user_first"]})
        self.asking.answers = {("u", plan): scores for plan, scores in self.SCORES.items()}
        self.request = {"user": "u", "candidates": ["a", "b"]}

    def reply(self, plan, scores_of=None, arrangement=""):
        ranked = sorted(self.SCORES[scores_of or plan].items(), key=lambda pair: -pair[1])
        items = [{"id": item, "score": score} for item, score in ranked]
        arrangement = arrangement or arrangement_of(plan)
        versions = {"profile_version": 1, "catalog_version": "c1"}
        return {"items": items, "plan": plan, "arrangement": arrangement, "node": 3, **versions}

    def turn(self, **members):
        return Ranking.NAMED.index(members)

    def test_requests_name_every_declared_arrangement_by_word_and_by_policy_and_none(self):
        bodies = [self.asking.body(self.request, turn) for turn in range(len(Ranking.NAMED))]
        self.assertEqual({body.get("arrangement") for body in bodies} - {None}, set(ARRANGEMENTS.values()))
        policies = {*ARRANGEMENTS, *APPROXIMATE.values()}
        self.assertLessEqual(policies, {body.get("policy") for body in bodies})
        self.assertIn(self.request, bodies)

    def test_the_named_arrangement_answers_and_without_a_name_an_interchangeable_one(self):
        may = {
            self.turn(arrangement="causal"): {"causal"},
            self.turn(policy="causal"): {"causal"},
            self.turn(arrangement="user_first"): {"user"},
            self.turn(policy="item"): {"item"},
            self.turn(policy="blocks+30"): {"blocks"},
            self.turn(policy="all_blocks+30"): {"all_blocks"},
            self.turn(policy="bat"): {"item", "user"},
            self.turn(): {"item", "user"},
        }
        for turn, right in may.items():
            for plan in self.SCORES:
                fault = self.asking.fault(self.request, turn, self.reply(plan))
                self.assertEqual(fault == "", plan in right, (Ranking.NAMED[turn], plan, fault))

    def test_without_interchangeable_ones_the_first_arrangement_answers(self):
        self.asking.declare(self.DECLARED)
        self.assertEqual(self.asking.fault(self.request, self.turn(), self.reply("item")), "")
        self.assertIn("item_first", self.asking.fault(self.request, self.turn(), self.reply("user")))

    def test_the_scores_of_another_arrangement_are_wrong_under_the_name_of_the_right_one(self):
        reply = self.reply("user", scores_of="causal")
        self.assertIn("expected", self.asking.fault(self.request, self.turn(policy="user"), reply))

    def test_a_reply_that_names_none_or_whose_plan_is_of_another_is_wrong(self):
        unnamed = self.reply("item")
        del unnamed["arrangement"]
        self.assertIn("None", self.asking.fault(self.request, self.turn(policy="item"), unnamed))
        renamed = self.reply("causal", arrangement="item_first")
        self.assertIn("for plan causal", self.asking.fault(self.request, self.turn(), renamed))

    def test_a_client_notes_such_a_reply_as_wrong_and_the_run_fails(self):
        load = Load.__new__(Load)
        load.hosts, load.deadline, load.grace = mock.Mock(address={"router-1": "127.0.0.1"}), 1.0, 0.1
        load.routers, load.requests, load.asking = ["router-1"], [self.request], self.asking
        load.ready, load.insisted, load.headers = {"router-1": True}, set(), {}
        load.starved = lambda since, until: False
        for plan, kind in (("user", "ok"), ("item", "wrong")):
            answer = (200, json.dumps(self.reply(plan)))
            with mock.patch("load.ask", return_value=answer):
                outcome = load._outcome(0, self.request, self.turn(arrangement="user_first"), 0.0)
            self.assertEqual(outcome[0], kind, outcome)
            load.outcomes = [(0.0, *outcome[:2], 0.1, outcome[2])]
            self.assertEqual(bool(judge_load(load, [])), kind == "wrong")

    def test_a_writing_client_notes_such_a_reply(self):
        writers = Writers.__new__(Writers)
        writers.lock, writers.outcomes, writers.asking = threading.Lock(), [], self.asking
        writers.known = {"u": {"user": Known(), "item": Known()}}
        writers.headers, writers._judge = lambda tenant: {}, lambda *_: ("right", "")
        subject = types.SimpleNamespace(name="u", tenant="north", request=self.request)
        for plan in ("user", "causal"):
            writers.ask = lambda *_: (0.0, 200, self.reply(plan))
            writers._read(subject, "router-1", "user")
        self.assertEqual([kind for _, kind, _ in writers.outcomes], ["right", "rearranged"])

    def test_a_plan_without_answers_is_found(self):
        def found(plans):
            outcomes = [(0.0, "ok", f"{plan} at 5", 0.1, "r") for plan in plans for _ in range(20)]
            return judge_plans(types.SimpleNamespace(outcomes=outcomes), ARRANGEMENTS)

        self.assertEqual(found(ARRANGEMENTS), [])
        self.assertEqual(len(found(["item", "user"])), 1)


class PlainComputation(unittest.TestCase):
    """The demo's answers, as they are and changed."""

    DEMO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../deploy/demo")

    def test_answers_of_another_arrangement_differ_from_the_plain_computation(self):
        if not plain.python_with("numpy"):
            self.skipTest("no numpy")
        user, candidates = "ana", ["tune-1015", "game-0176"]
        zero = (user, candidates, "causal", dict.fromkeys(candidates, 0.0))
        right = {}
        for line in plain.find_fault(self.DEMO, [zero]).splitlines():
            right[line.split()[3]] = float(line.split()[-1])
        self.assertEqual(set(right), set(candidates))
        self.assertEqual(plain.find_fault(self.DEMO, [(user, candidates, "causal", right)]), "")
        self.assertIn("user_first", plain.find_fault(self.DEMO, [(user, candidates, "user_first", right)]))
        asking = Ranking()
        asking.answers = {(user, "causal@v"): right, (user, "item@v"): right, ("other", "item@v"): {}}
        request = {"user": user, "candidates": candidates}
        self.assertIn("item_first", asking.find_other_than_plain(self.DEMO, [request]))


if __name__ == "__main__":
    unittest.main()
