"""Tests the checker: sound histories pass, each kind of violation is found, and it agrees with brute
force."""
import itertools
import math
import random
import unittest

from checker import ABSENT, Numbered, after, delete, find_disorder, find_violation, promotion, put, read
from history import Record, judge


class Registers(unittest.TestCase):
    def right(self, *operations):
        self.assertIsNone(find_violation(operations))

    def wrong(self, at, *operations):
        found = find_violation(operations)
        self.assertIs(found, operations[at], f"found {found}")

    def test_sequential_operations_are_sound(self):
        self.right(
            read({ABSENT}, 0, 1), put("a", 2, 3), read({"a"}, 4, 5), delete(6, 7), read({ABSENT}, 8, 9)
        )

    def test_concurrent_operations_may_have_either_order(self):
        for seen in ("a", "b"):
            self.right(put("a", 0, 5), put("b", 1, 6), read({seen}, 7, 8))
        self.right(put("a", 0, 10), read({ABSENT}, 1, 2), read({"a"}, 3, 4))
        self.right(put("a", 0, 1), put("b", 2, 9), read({"a"}, 3, 4), read({"b"}, 5, 6), read({"b"}, 7, 8))

    def test_a_stale_read_is_found(self):
        self.wrong(2, put("a", 0, 1), put("b", 2, 3), read({"a"}, 4, 5))
        self.wrong(2, put("a", 0, 1), delete(2, 3), read({"a"}, 4, 5))

    def test_a_lost_write_is_found(self):
        self.wrong(1, put("a", 0, 1), read({ABSENT}, 2, 3))
        self.wrong(3, put("a", 0, 1), put("b", 2, 3), read({"b"}, 4, 5), read({"a"}, 6, 7))

    def test_a_value_seen_before_its_write_is_found(self):
        self.wrong(0, read({"a"}, 0, 1), put("a", 2, 3))

    def test_a_value_that_nobody_wrote_is_found(self):
        self.wrong(1, put("a", 0, 1), read({"x"}, 2, 3))
        self.wrong(1, put("a", 0, 1), read(set(), 2, 3))

    def test_two_orders_of_the_same_writes_are_found(self):
        self.wrong(
            5,
            put("a", 0, 20),
            put("b", 0, 20),
            read({"a"}, 1, 2),
            read({"b"}, 3, 4),
            read({"b"}, 5, 6),
            read({"a"}, 7, 8),
        )

    def test_a_deletion_of_what_is_not_there_is_found(self):
        self.wrong(0, delete(0, 1), put("a", 2, 3))
        self.right(put("a", 0, 3), delete(1, 2))

    def test_a_write_without_an_outcome_may_have_happened_or_may_yet_or_never(self):
        self.right(put("a", 0, 1), put("b", 2), read({"a"}, 3, 4), read({"a"}, 50, 51))
        self.right(put("a", 0, 1), put("b", 2), read({"a"}, 3, 4), read({"b"}, 50, 51))
        self.right(put("a", 0, 1), put("b", 2), read({"b"}, 3, 4), put("c", 5, 6), read({"c"}, 7, 8))
        self.right(put("a", 0, 1), delete(2), read({ABSENT}, 9, 10))
        self.right(put("a", 0), delete(1, 2))

    def test_and_happens_once(self):
        self.wrong(4, put("a", 0, 1), put("b", 2), read({"b"}, 3, 4), put("c", 5, 6), read({"b"}, 7, 8))
        self.wrong(3, put("a", 0, 1), put("b", 2), read({"b"}, 3, 4), read({"a"}, 7, 8))
        self.wrong(0, read({"b"}, 0, 1), put("b", 2))

    def test_many_without_an_outcome_are_no_burden(self):
        operations = [put(f"open {i}", i) for i in range(60)]
        for i in range(60):
            operations += [
                put(f"done {i}", 100 + 3 * i, 101 + 3 * i),
                read({f"done {i}"}, 102 + 3 * i, 102.5 + 3 * i),
            ]
        self.right(*operations, read({"open 7"}, 400, 401), read({"open 31"}, 402, 403))
        self.assertIsNotNone(
            find_violation(
                [
                    *operations,
                    read({"open 7"}, 400, 401),
                    read({"open 31"}, 402, 403),
                    read({"open 7"}, 404, 405),
                ]
            )
        )

    def test_nor_are_deletions_without_an_outcome_beside_them(self):
        operations = [put(f"open {i}", i) for i in range(60)] + [delete(i + 0.5) for i in range(60)]
        for i in range(40):  # each of an open put
            operations += [delete(100 + 3 * i, 101 + 3 * i), read({ABSENT}, 102 + 3 * i, 102.5 + 3 * i)]
        for i in range(20):
            operations += [
                read({f"open {i}"}, 300 + 2 * i, 300.5 + 2 * i),
                read({ABSENT}, 301 + 2 * i, 301.5 + 2 * i),
            ]
        self.right(*operations)
        self.assertIsNotNone(find_violation([*operations, delete(400, 401)]))

    def test_a_promotion_undoes_what_was_not_acknowledged_and_nothing_else(self):
        self.right(put("a", 0, 1), put("b", 2), read({"b"}, 3, 4), promotion(5, 6), read({"a"}, 7, 8))
        self.right(
            put("a", 0, 1),
            put("b", 2),
            put("c", 2),
            read({"b"}, 3, 4),
            read({"c"}, 4.2, 4.5),
            promotion(5, 6),
            read({"b"}, 7, 8),
        )
        self.right(put("a", 0, 1), delete(2), read({ABSENT}, 3, 4), promotion(5, 6), read({"a"}, 7, 8))
        self.wrong(4, put("a", 0, 1), put("b", 2), read({"b"}, 3, 4), promotion(7, 8), read({"a"}, 5, 6))
        self.wrong(3, put("a", 0, 1), put("b", 2, 3), promotion(5, 6), read({"a"}, 7, 8))
        self.wrong(
            5,
            put("a", 0, 1),
            put("b", 2),
            read({"b"}, 3, 4),
            put("c", 4.2, 4.5),
            promotion(5, 6),
            read({"a"}, 7, 8),
        )

    def test_an_answer_that_may_stand_for_two_values(self):
        self.right(put("a", 0, 1), put("b", 2), put("c", 2), read({"b", "c"}, 3, 4), read({"c"}, 5, 6))
        self.wrong(3, put("a", 0, 1), put("b", 2), put("c", 20), read({"c"}, 5, 6))


class AllOrders(unittest.TestCase):
    """Small histories at random, each judged by trying all orders."""

    @staticmethod
    def draw(chance):
        operations, values = [], []
        for number in range(chance.randrange(2, 6)):
            start = chance.randrange(8)
            end = start + chance.randrange(1, 6)
            what = chance.random()
            if what < 0.4:
                values.append(f"v{number}")
                operations.append(put(values[-1], start, math.inf if chance.random() < 0.45 else end))
            elif what < 0.55:
                operations.append(delete(start, math.inf if chance.random() < 0.45 else end))
            elif what < 0.62:
                operations.append(promotion(start, end))
            else:
                operations.append(read({chance.choice([ABSENT, *(values or ["v0"])])}, start, end))
        return operations

    @staticmethod
    def is_explained(operations):
        open_ones = [o for o in operations if o.is_open]
        closed = [o for o in operations if not o.is_open]
        for count in range(len(open_ones) + 1):
            for some in itertools.combinations(open_ones, count):
                for order in itertools.permutations([*closed, *some]):
                    in_time = all(not a.end < b.start for i, b in enumerate(order) for a in order[i + 1 :])
                    if not in_time:
                        continue
                    states = {(ABSENT,)}
                    for operation in order:
                        states = {s for state in states for s in after(state, operation)}
                    if states:
                        return True
        return False

    def test_it_says_what_all_orders_say(self):
        counts = [0, 0]
        for seed in range(6000):
            operations = self.draw(random.Random(seed))
            right = self.is_explained(operations)
            counts[right] += 1
            self.assertEqual(find_violation(operations) is None, right, f"seed {seed}: {operations}")
        self.assertGreater(min(counts), 300)


class Versions(unittest.TestCase):
    def test_versions_follow_time(self):
        write = lambda version, start, end: Numbered(version, True, start, end)
        see = lambda version, start, end: Numbered(version, False, start, end)
        self.assertIsNone(
            find_disorder([write(1, 0, 1), see(1, 2, 3), write(2, 2, 9), see(2, 4, 5), write(3, 10, 11)])
        )
        self.assertIsNone(find_disorder([write(2, 0, 5), write(1, 1, 6)]))  # at the same time
        for bad in (
            [write(2, 0, 1), write(1, 2, 3)],
            [write(2, 0, 1), see(1, 2, 3)],
            [see(2, 0, 1), write(2, 2, 3)],
            [write(1, 0, 9), write(1, 0, 9)],
            [see(2, 0, 1), see(1, 2, 3)],
        ):
            self.assertEqual(find_disorder(bad), (bad[0], bad[1]))
        self.assertIsNone(find_disorder([see(2, 0, 1), see(1, 2, 3)], reads_bind=False))
        self.assertIsNotNone(find_disorder([write(2, 0, 1), see(1, 2, 3)], reads_bind=False))


class Histories(unittest.TestCase):
    """Records of what was asked and answered, as clients note them."""

    @staticmethod
    def item(what, value, version, start, end, outcome="ok", key="i"):
        return Record("item", key, what, value, version, start, end, outcome, "router")

    @staticmethod
    def user(what, value, version, start, end, outcome="ok"):
        return Record("user", "u", what, value, version, start, end, outcome, "router")

    def test_answers_of_two_routers_may_alternate(self):
        self.assertEqual(
            judge(
                [
                    self.item("put", "i/0", 5, 0, 1),
                    self.item("read", "i/0", 5, 2, 3),
                    self.item("read", "i/0", 9, 4, 5),
                    self.item("delete", None, 10, 6, 7),
                    self.item("read", None, None, 8, 9, "absent"),
                    self.item("delete", None, None, 8, 9, "absent"),
                    self.user("put", "u/0/4", 7, 0, 1),
                    self.user("read", 4, 7, 2, 3),
                    self.user("put", "u/1/5", None, 4, 9, "open"),
                    self.user("read", 5, 8, 5, 6),
                    self.user("read", 5, 8, 7, 8),
                ]
            ),
            [],
        )

    def found(self, words, *records, promotions=()):
        faults = judge(records, promotions)
        self.assertTrue(any(words in fault for fault in faults), faults)

    def test_each_violation_is_reported(self):
        lost = [
            self.user("put", "u/0/4", 7, 0, 1),
            self.user("put", "u/1/5", 8, 2, 3),
            self.user("read", 4, 7, 4, 5),
        ]
        self.found("no order of acknowledged writes", *lost)
        self.found("no order of acknowledged writes", *lost, promotions=[(3.2, 3.4)])
        other_content = self.user("read", 9, 7, 2, 3)
        self.found("no order of acknowledged writes", self.user("put", "u/0/4", 7, 0, 1), other_content)
        self.found(
            "versions of users contradict time",
            self.user("put", "u/0/4", 8, 0, 1),
            self.user("put", "u/1/5", 7, 2, 3),
        )
        self.found(
            "versions of items contradict time",
            self.item("put", "i/0", 5, 0, 1),
            self.item("put", "j/0", 6, 2, 3, key="j"),
            self.item("read", "i/0", 5, 4, 5),
        )
        self.found(
            "differs from the catalog",
            self.item("put", "i/0", 5, 0, 9),
            self.item("put", "i/1", 6, 0, 9),
            self.item("read", "i/0", 6, 1, 2),
        )

    def test_a_promotion_undoes_only_unacknowledged_writes(self):
        undone = [
            self.user("put", "u/0/4", 7, 0, 1),
            self.user("put", "u/1/5", None, 2, 9, "open"),
            self.user("read", 5, 8, 3, 4),
            self.user("read", 4, 7, 7, 8),
        ]
        self.assertEqual(judge(undone, [(5, 6)]), [])
        self.found("no order", *undone)


if __name__ == "__main__":
    unittest.main()
