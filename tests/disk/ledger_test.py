"""Tests the judge of the disk tests (kept, named, silently lost) and the damage that they do."""
import collections
import pathlib
import random
import tempfile
import threading
import types
import unittest

from node import NO_ITEMS, Node
from damage import SECTOR, Rounds, Writer, damage
from ledger import Ledger, Losses


def lost(**fields):
    return Losses([{"event": "store_lost", "of": "users", **fields}])


NOTHING = Losses([])


class Judgement(unittest.TestCase):
    def setUp(self):
        self.ledger = Ledger()
        for version, user in enumerate(["ann", "bob", "cleo"], 5):
            self.ledger.acknowledged("users", user, version, f"v{version}", version - 1)

    def test_content_that_is_there_is_kept(self):
        self.assertEqual(self.ledger.judge("users", "ann", "v5", NOTHING), "kept")

    def test_missing_or_older_content_is_a_silent_loss_unless_it_is_named(self):
        for seen in (None, "v1"):
            self.setUp()
            self.assertEqual(self.ledger.judge("users", "bob", seen, NOTHING), "silent")
            self.setUp()
            self.assertEqual(
                self.ledger.judge("users", "bob", seen, lost(first_version="6", last_version="6")), "named"
            )
            self.setUp()
            self.assertEqual(
                self.ledger.judge("users", "bob", seen, lost(first_version="7", last_version="9")), "silent"
            )

    def test_a_range_of_keys_names_those_in_it(self):
        named = lost(**{"from": r"\x00\x00\x00\x00b", "to": r"\x00\x00\x00\x00c"})
        self.assertEqual(self.ledger.judge("users", "bob", None, named), "named")
        self.assertEqual(self.ledger.judge("users", "cleo", None, named), "silent")
        to_the_end = lost(**{"from": r"\x00\x00\x00\x00b", "to": ""})
        self.setUp()
        self.assertEqual(self.ledger.judge("users", "cleo", None, to_the_end), "named")
        self.assertEqual(self.ledger.judge("users", "ann", None, to_the_end), "silent")

    def test_a_loss_of_items_names_no_users(self):
        items = Losses([{"event": "store_lost", "of": "items", "first_version": "1", "last_version": "9"}])
        self.assertEqual(self.ledger.judge("users", "bob", None, items), "silent")

    def test_a_record_of_the_store_is_named_by_its_key_alone(self):
        note = lambda of, key: Losses([{"event": "store_lost", "of": of, "from": key, "to": key + r"\x00"}])
        self.assertTrue(note("meta", "made_for").names_note("made_for"))
        self.assertFalse(note("meta", "importing").names_note("made_for"))
        self.assertFalse(note("users", "made_for").names_note("made_for"))

    def test_a_deleted_row_that_is_back_is_a_silent_loss(self):
        self.ledger.acknowledged("users", "ann", 8, None, 7)
        self.assertEqual(self.ledger.judge("users", "ann", "v5", NOTHING), "silent")

    def test_a_write_without_an_answer_may_be_there_or_not(self):
        self.ledger.asked("users", "ann", "new")
        self.assertEqual(self.ledger.judge("users", "ann", "new", NOTHING), "kept")
        self.ledger.asked("users", "bob", None)
        self.assertEqual(self.ledger.judge("users", "bob", "v6", NOTHING), "kept")
        self.assertEqual(self.ledger.judge("users", "bob", None, NOTHING), "silent")

    def test_versions_that_decrease_or_repeat_are_a_fault(self):
        after = self.ledger.asked("users", "dora", "v8")
        self.assertIsNone(self.ledger.acknowledged("users", "dora", 8, "v8", after))
        self.assertIsNone(self.ledger.acknowledged("users", "finn", 10, "v10", 8))
        self.assertIsNone(self.ledger.acknowledged("users", "gwen", 9, "v9", 8))  # answers may overtake
        self.assertIn("after 8", self.ledger.acknowledged("users", "eve", 8, "v8", 8))
        self.assertIn("twice", self.ledger.acknowledged("users", "eve", 9, "v9", 8))


class Damage(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "000001.log"
        self.content = bytes(range(1, 251)) * 10
        self.file.write_bytes(self.content)

    def after(self, how, seed=1):
        self.assertTrue(damage(self.file, how, random.Random(seed)))
        return self.file.read_bytes()

    def test_each_kind_of_damage_changes_the_file_as_described(self):
        flipped = self.after("byte")
        self.assertEqual(sum(bin(a ^ b).count("1") for a, b in zip(flipped, self.content)), 1)
        self.setUp()
        zeroed = self.after("sector")
        at = zeroed.index(0)
        self.assertEqual(at % SECTOR, 0)
        self.assertEqual(zeroed[at : at + SECTOR], bytes(min(SECTOR, len(self.content) - at)))
        self.assertEqual(len(zeroed), len(self.content))
        self.setUp()
        cut = self.after("cut")
        self.assertLess(len(cut), len(self.content))
        self.assertEqual(cut, self.content[: len(cut)])
        self.assertEqual(damage(self.file, "remove", random.Random(1)), "removed")
        self.assertFalse(self.file.exists())

    def test_damage_that_changes_nothing_returns_none(self):
        self.file.write_bytes(b"")
        self.assertIsNone(damage(self.file, "byte", random.Random(1)))
        self.file.write_bytes(bytes(600))
        self.assertIsNone(damage(self.file, "sector", random.Random(1)))

    def test_an_open_file_is_damaged_in_place(self):
        with open(self.file, "rb") as opened:
            self.after("byte")
            self.assertNotEqual(opened.read(), self.content)


class Looks(unittest.TestCase):
    """Checks of what is served after damage."""

    def found(self, status, answer, **row):
        ledger = Ledger()
        ledger.acknowledged("users", "user-0-0", 5, "v5", 4)
        for name, value in row.items():
            setattr(ledger.rows["users"]["user-0-0"], name, value)
        rounds = types.SimpleNamespace(lock=threading.Lock(), ledger=ledger, item="i")
        writer = Writer.__new__(Writer)
        writer.rounds, writer.number, writer.looks, writer.faults = rounds, 0, collections.Counter(), []
        writer.chance = types.SimpleNamespace(randrange=lambda count: 0)
        writer.look(types.SimpleNamespace(rank=lambda user, items: (status, answer)))
        return writer.faults

    def test_an_answer_is_the_last_acknowledged_write_or_names_damage(self):
        served = lambda version: {"profile_version": version}
        error = lambda code: {"error": {"code": code}}
        self.assertEqual(self.found(200, served(5)), [])
        self.assertEqual(self.found(503, error("data_damaged")), [])
        self.assertEqual(self.found(503, error("no_worker")), [])  # the machine is busy
        self.assertTrue(self.found(200, served(4)))
        self.assertTrue(self.found(404, error("unknown_user")))
        self.assertTrue(self.found(503, error("storage_failed")))
        self.assertEqual(self.found(404, error("unknown_user"), present=False), [])
        self.assertTrue(self.found(200, served(5), present=False))
        self.assertEqual(self.found(200, served(3), content=("of version", 3)), [])
        self.assertEqual(self.found(200, served(6), open=["new"]), [])


class Readiness(unittest.TestCase):
    """Readiness of a node that lost all items and reports it."""

    def ready(self, *answers, obstacle=NO_ITEMS):
        node, left = Node("", pathlib.Path()), list(answers)
        error = lambda why: (503, {"error": {"message": f"router@1 is not ready: {why}"}})
        ask = lambda: (200, {}) if left[0] is None else error(left[0])
        return node.is_ready_but_for(
            obstacle, types.SimpleNamespace(ask=lambda *_: (ask(), len(left) > 1 and left.pop(0))[0]), 0.2
        )

    def test_only_the_expected_obstacle_counts_as_an_answer(self):
        self.assertTrue(self.ready(None))
        self.assertTrue(self.ready("the catalog was not read yet", None))
        self.assertFalse(self.ready("the catalog was not read yet", "the catalog has no items"))
        with self.assertRaisesRegex(RuntimeError, "no worker is there"):
            self.ready("no worker is there")
        with self.assertRaisesRegex(RuntimeError, "has no items"):
            self.ready("the catalog has no items", obstacle=None)

    def faults(self, has_items, held):
        rounds = Rounds.__new__(Rounds)
        rounds.faults, rounds.node = [], types.SimpleNamespace(has_items=has_items)
        rounds.judge_readiness(1, "nothing", held)
        return rounds.faults

    def test_a_node_is_ready_only_with_items(self):
        self.assertEqual(self.faults(True, {"a": "title"}), [])
        self.assertEqual(self.faults(False, {}), [])
        self.assertIn("is ready and has 0 items", self.faults(True, {})[0])
        self.assertIn("says that it has no items and has 1 items", self.faults(False, {"a": "title"})[0])


if __name__ == "__main__":
    unittest.main()
