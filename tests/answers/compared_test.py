"""Tests that the comparison finds what is wrong, without a program. answers.py runs it first."""
import json
import types
import unittest
from unittest import mock

import killed_cluster
from compared import Compared, largest_difference

SCORES = {"causal": [1.0, 2.0], "item_first": [1.5, 1.0]}


def reply_of(scores, arrangement="causal", **more):
    items = [{"id": item, "score": score} for item, score in scores.items()]
    return {"items": items, "arrangement": arrangement, "tokens_reused": 1, "node": 1, **more}


class Replies(unittest.TestCase):
    def faults(self, reply, allowed=("causal",)):
        compared = Compared()
        compared.reply("kind", reply, [7, 8], allowed, SCORES.get, "request")
        self.assertEqual(compared.answers["kind"], 1)
        return compared.faults

    def test_the_scores_of_the_named_arrangement_are_right(self):
        self.assertEqual(self.faults(reply_of({"8": 2.0, "7": 1.00001})), [])
        both = ("causal", "item_first")
        self.assertEqual(self.faults(reply_of({"7": 1.5, "8": 1.0}, "item_first"), both), [])

    def test_other_scores_and_the_scores_of_another_arrangement_are_found(self):
        for scores in ({"7": 1.0, "8": 2.001}, {"7": 1.0, "8": float("nan")}, {"7": 1.5, "8": 1.0}):
            self.assertEqual(len(self.faults(reply_of(scores))), 1, scores)

    def test_a_missing_and_an_additional_item_are_found(self):
        self.assertEqual(largest_difference({"7": 1.0}, [7, 8], [1.0, 2.0]), float("inf"))
        self.assertEqual(len(self.faults(reply_of({"7": 1.0}))), 1)
        self.assertEqual(len(self.faults(reply_of({"7": 1.0, "8": 2.0, "9": 0.0}))), 1)

    def test_another_arrangement_is_found_though_its_scores_are_right(self):
        found = self.faults(reply_of({"7": 1.5, "8": 1.0}, "item_first"))
        self.assertIn("served item_first; expected causal", found[0])
        no_name = reply_of({"7": 1.0, "8": 2.0})
        del no_name["arrangement"]
        self.assertIn("served none", self.faults(no_name)[0])

    def test_an_approximate_answer_is_found(self):
        self.assertIn("approximate", self.faults(reply_of({"7": 1.0, "8": 2.0}, approximate=0.1))[0])


class Clients(unittest.TestCase):
    """A client of a cluster that gives scripted answers."""

    def ask(self, *answers):
        world = types.SimpleNamespace(
            users={},
            draw_history=lambda: [1],
            draw=lambda: ([7, 8], "", {}),
            allowed=lambda named: ["causal"],
            expected=lambda history, candidates, arrangement: SCORES[arrangement],
        )
        client = killed_cluster.Client(0, [1, 2, 3], world, "kind")
        answers = [answer if isinstance(answer, Exception) else tuple(answer) for answer in answers]
        with mock.patch("killed_cluster.loopback.ask", side_effect=answers), mock.patch("time.sleep"):
            client.ask_one()
        return client

    written, right = (200, "{}"), (200, json.dumps(reply_of({"7": 1.0, "8": 2.0})))

    def test_a_request_is_sent_again_until_it_is_answered(self):
        poison = (422, '{"error":{"code":"poison"}}')
        lost, down = ConnectionResetError(), ConnectionRefusedError()
        client = self.ask(self.written, (503, "later"), down, lost, poison, self.right)
        self.assertEqual(client.compared.faults, [])
        seen = {kind: count for kind, count in client.outcomes.items() if count}
        expected = dict.fromkeys(("answered", "refused", "poison", "lost", "down", "reused", "writes"), 1)
        self.assertEqual(seen, expected)

    def test_a_wrong_answer_after_a_refusal_is_found(self):
        wrong = (200, json.dumps(reply_of({"7": 1.5, "8": 1.0}, "item_first")))
        self.assertEqual(len(self.ask(self.written, (503, "later"), wrong).compared.faults), 1)

    def test_a_refusal_of_another_kind_ends_the_client(self):
        for refusal in ((400, "other_arrangement"), (500, "internal"), (404, "unknown_item")):
            with self.assertRaises(RuntimeError):
                self.ask(self.written, refusal)


if __name__ == "__main__":
    unittest.main()
