"""Tests the judges of the chaos tests: they accept what is right and find what is wrong. Needs no cluster."""
import os
import pathlib
import random
import struct
import subprocess
import tempfile
import threading
import time
import types
import unittest
from unittest import mock

from arrangements_test import ArrangementsOfAnswers, PlainComputation  # noqa: F401: they run here, too
from asking import Generating, find_fault
from chaos import Chaos
from cluster import HEARTBEAT, HOSTS, Cluster
from faults import LINK_PORT, UNGUARDED, Faults as FaultMaker
from judge import (
    WRITERS_DO,
    WRITERS_MUST_NOT,
    find_fault_of_store,
    judge_deaths,
    judge_faults,
    judge_load,
    judge_writers,
    measure,
    told_reasons,
    unpromised,
)
from journals import find_fault as find_journal_fault
from load import Load
from relay import Relay, Segment, checksum
from writers import Known, Writers

RIGHT = {"a": 2.0, "b": 1.0}


def reply_of(scores, plan="item", profile=1, catalog=1):
    items = [
        {"id": item, "score": score} for item, score in sorted(scores.items(), key=lambda pair: -pair[1])
    ]
    return {"items": items, "plan": plan, "profile_version": profile, "catalog_version": f"c{catalog}"}


class Rankings(unittest.TestCase):
    def test_other_items_other_scores_and_another_order_are_wrong(self):
        self.assertEqual(find_fault(reply_of(RIGHT), RIGHT), "")
        self.assertIn("other items", find_fault(reply_of({"a": 2.0}), RIGHT))
        self.assertIn("expected", find_fault(reply_of({"a": 2.0, "b": 1.1}), RIGHT))
        self.assertIn("expected", find_fault(reply_of({"a": 2.0, "b": float("nan")}), RIGHT))
        backwards = reply_of(RIGHT)
        backwards["items"].reverse()
        self.assertIn("order", find_fault(backwards, RIGHT))


class Generated(unittest.TestCase):
    """The right answers also contain the next best items."""

    def setUp(self):
        self.asking = Generating()
        self.asking.written, self.asking.TOP = ["w"], 2
        right = {"a": -1.0, "b": -2.0, "c": -2.0001, "d": -4.0}
        self.asking.answers = {("u", 0): right, ("u", 1): right, ("u", 2): {"a": -1.0, "b": -2.0}}

    def fault(self, values, turn=0, parts=None):
        items = [
            {
                "id": item,
                "log_probability": value,
                **({"token_logprobs": parts or [value]} if turn == 1 else {}),
            }
            for item, value in values
        ]
        return self.asking.fault({"user": "u"}, turn, {"items": items})

    def test_the_best_items_are_right_and_equal_ones_are_interchangeable(self):
        for turn in (0, 1, 3):
            self.assertEqual(self.fault([("a", -1.0), ("b", -2.0)], turn), "")
        self.assertEqual(self.fault([("a", -1.0), ("c", -2.0001)]), "")
        self.assertIn("other items", self.fault([("a", -1.0), ("d", -4.0)]))
        self.assertIn("other items", self.fault([("b", -2.0), ("c", -2.0001)]))
        self.assertIn("other items", self.fault([("a", -1.0), ("w", -2.0)]))
        self.assertIn("expected", self.fault([("a", -1.1), ("b", -2.0)]))
        self.assertIn("order", self.fault([("b", -2.0), ("a", -1.0)]))
        self.assertIn("twice", self.fault([("a", -1.0), ("a", -1.0)]))
        self.assertIn("expected 2", self.fault([("a", -1.0)]))

    def test_a_list_returns_all_items_and_log_probabilities_add_up(self):
        self.assertEqual(self.fault([("a", -1.0), ("b", -2.0)], turn=2), "")
        self.assertIn("other items", self.fault([("a", -1.0)], turn=2))
        self.assertIn("its tokens", self.fault([("a", -1.0), ("b", -2.0)], turn=1, parts=[-0.5, -0.4]))


class WrittenVersions(unittest.TestCase):
    """A user and an item with contents 0 and 1 each; the answer's score tells which were used."""

    def setUp(self):
        right = {(h, c, "item"): {"x": 10.0 * h + c} for h in (0, 1) for c in (0, 1)}
        self.subject = types.SimpleNamespace(name="u", right=right)
        self.writers = Writers.__new__(Writers)
        self.writers.load = types.SimpleNamespace(starved=lambda since, until: False)
        self.writers.lock = __import__("threading").Lock()
        self.writers.strict, self.writers.away = {"strict"}, []
        self.known = {"user": Known(), "item": Known()}
        self.writers.known = {"u": self.known}
        self.wrote("user", 0, 5)
        self.wrote("item", 0, 7)

    def wrote(self, kind, which, version):
        self.known[kind].acknowledge(self.known[kind].begin(which), version)

    def judge(self, history, content, profile, catalog, router="strict"):
        floors = {kind: known.floor for kind, known in self.known.items()}
        reply = reply_of({"x": 10.0 * history + content}, profile=profile, catalog=catalog)
        return self.writers._judge(self.subject, router, time.monotonic(), floors, reply)[0]

    def test_acknowledged_contents_are_served(self):
        self.assertEqual(self.judge(0, 0, 5, 7), "right")
        self.assertEqual(self.judge(0, 0, 5, 9), "right")  # another item was written since
        self.assertEqual(self.judge(1, 0, 5, 7), "mixed")
        self.assertEqual(self.judge(0, 1, 5, 7), "mixed")
        self.assertEqual(self.judge(0, 0, 6, 7), "mixed")  # nobody wrote this version

    def test_an_answer_by_an_unknown_plan_counts_as_mixed(self):
        for truth in list(self.subject.right):
            self.subject.right[(*truth[:2], "user")] = self.subject.right.pop(truth)
        self.assertEqual(self.judge(0, 0, 5, 7), "mixed")

    def test_older_contents_are_right_only_at_a_router_without_its_store(self):
        self.wrote("user", 1, 6)
        self.assertEqual(self.judge(1, 0, 6, 7), "right")
        self.assertEqual(self.judge(0, 0, 5, 7), "older")
        self.assertEqual(self.judge(0, 0, 6, 7), "mixed")
        self.assertEqual(self.judge(0, 0, 5, 7, router="other"), "older")
        self.writers.away.append([time.monotonic() - 1, None])
        self.assertEqual(self.judge(0, 0, 5, 7, router="other"), "last known")
        self.assertEqual(self.judge(0, 0, 5, 7), "older")
        self.wrote("item", 1, 8)
        self.assertEqual(self.judge(1, 0, 6, 7), "older")
        self.assertEqual(self.judge(1, 0, 6, 8), "mixed")  # the new catalog with the old item

    def test_a_write_without_an_outcome_may_exist_and_does_not_change_once_seen(self):
        self.known["user"].begin(1)
        self.assertEqual(self.judge(0, 0, 5, 7), "right")
        self.assertEqual(self.judge(1, 0, 6, 7), "right")
        self.assertEqual(self.judge(0, 0, 6, 7), "mixed")


class Appends(unittest.TestCase):
    """A writer whose router gives the answers that a test lists."""

    def setUp(self):
        self.subject = types.SimpleNamespace(
            name="u",
            tenant="north",
            histories=[["a"]],
            events=[["b", "c"]],
            history_of=lambda content: ["a", "b", "c"][: 1 + content[1]],
            append_of=lambda content, id: ("POST", "/events", {"id": id, "content": content}),
        )
        self.writers = Writers.__new__(Writers)
        self.writers.lock, self.writers.outcomes = threading.Lock(), []
        self.writers.load = mock.Mock(routers=["r"], ready={"r": True})
        self.writers.headers = lambda tenant: {"authorization": tenant}
        self.writers.known = {"u": {"user": Known()}}
        self.writers.last, self.writers.appends = {"u": (5, (0, 0))}, {"u": None}
        self.asked, self.answers = [], []

        def ask(router, method, path, body, headers):
            self.asked.append((body["id"], headers["If-Match"]))
            return 0.0, *self.answers.pop(0)

        self.writers.ask = ask

    def append(self, *answers, again=1.0):
        self.answers = list(answers)
        self.writers._append(self.subject, mock.Mock(random=lambda: again, choice=lambda some: some[0]), "r")
        return [kind for _, kind, _ in self.writers.outcomes]

    @staticmethod
    def done(version=6, appended=1, events=2):
        return 200, {"version": version, "appended": appended, "repeated": 1 - appended, "events": events}

    def test_an_append_with_unknown_outcome_is_repeated_with_its_id_and_version(self):
        self.append((None, None))
        self.assertEqual(self.writers._choose(self.subject, None), "events")
        self.assertEqual(self.writers.known["u"]["user"].pending(), {(0, 1)})
        self.assertEqual(self.append(self.done(appended=0)), ["appended"])
        self.assertEqual(self.asked, [("u-5", '"5"')] * 2)
        self.assertEqual(self.writers.last["u"], (6, (0, 1)))
        self.assertEqual(self.writers.known["u"]["user"].by_version, {6: (0, 1)})
        self.append(self.done(version=7, events=3))
        self.assertEqual(self.asked[-1], ("u-6", '"6"'))

    def test_a_doubled_or_missing_event_is_found(self):
        self.assertEqual(self.append(self.done(events=3)), ["doubled"])
        self.setUp()
        self.assertEqual(self.append(self.done(), self.done(appended=0), again=0.0), ["appended", "repeated"])
        for again in (self.done(), self.done(version=7, appended=0), self.done(appended=0, events=3)):
            self.setUp()
            self.assertEqual(self.append(self.done(), again, again=0.0), ["appended", "doubled"])

    def test_an_overtaken_writer_knows_nothing_of_the_user_until_it_writes_again(self):
        self.assertEqual(self.append((412, {})), ["overtaken"])
        self.assertIsNone(self.writers.last["u"])
        self.assertIn(self.writers._choose(self.subject, random.Random(1)), ("user", "item"))

    def test_a_journal_has_each_event_once_and_in_order(self):
        ids = lambda *numbers: [f"north-{number}" for number in numbers]
        for numbers, least, most in (((), 0, 1), ((0, 1), 2, 2), ((0, 1, 2), 2, 3), ((4, 5, 6), 7, 8)):
            self.assertEqual(find_journal_fault(ids(*numbers), least, most), "")
        for numbers, least, most in (
            ((), 1, 1),
            ((0, 0), 1, 1),
            ((0, 2), 3, 3),
            ((1, 0), 2, 2),
            ((0, 1), 3, 3),
            ((0, 1, 2), 2, 2),
        ):
            self.assertNotEqual(find_journal_fault(ids(*numbers), least, most), "")


class Faults(unittest.TestCase):
    def fault(self, outcomes, expect="kill", **more):
        fault = {
            "name": "f",
            "expect": expect,
            "at": 0.0,
            "ended": 3.0,
            "missed": "",
            "starved": False,
            "back_s": 0.5,
            "breaks": False,
            **more,
        }
        measure(fault, outcomes)
        return fault

    @staticmethod
    def outcomes(count, bad=(), kind="refused", what="503"):
        return [
            (
                i * 0.05,
                kind if i in bad else "ok",
                what if i in bad else "item at 5",
                0.01,
                f"router-{1 + i % 2}",
            )
            for i in range(count)
        ]

    @staticmethod
    def writers_that_did(counts, load):
        writers = Writers.__new__(Writers)
        writers.load, writers.outcomes = load, [
            (0.0, kind, "") for kind, count in counts.items() for _ in range(count)
        ]
        return writers

    def test_one_percent_may_fail_after_a_kill_and_none_in_an_orderly_shutdown(self):
        self.assertEqual(judge_faults([self.fault(self.outcomes(200))]), [])
        self.assertEqual(
            judge_faults([self.fault(self.outcomes(200, bad=range(10)))]), []
        )  # at once: 5 heartbeats
        self.assertTrue(judge_faults([self.fault(self.outcomes(200, bad=range(60, 70)))]))
        self.assertTrue(judge_faults([self.fault(self.outcomes(200, bad=[3]), expect="lossless")]))

    def test_a_node_that_does_not_return_and_a_fault_without_effect_are_found(self):
        self.assertTrue(judge_faults([self.fault(self.outcomes(100), back_s=None)]))
        self.assertTrue(judge_faults([self.fault(self.outcomes(100), missed="nothing flipped")]))
        self.assertTrue(judge_deaths([(0, "worker-1", "ended by itself with 1: the store is corrupt")], []))

    def test_ucx_may_end_its_process_only_while_transfers_are_damaged(self):
        seen = (
            "ended by itself with -6: [vm:5652 :0:5673]      tcp_ep.c:1404 Assertion `hdr->length <= "
            "x' failed: tcp_ep 0x7f"
        )
        death = lambda at, how=seen: [(at, "worker-1", how)]
        damaged = {"at": 10.0, "ended": 13.0, "transfers_flipped": 3}
        self.assertEqual(judge_deaths(death(11.0), [{"at": 0.0, "ended": 3.0}, damaged]), [])
        self.assertEqual(judge_deaths(death(13.0 + 9 * HEARTBEAT), [damaged]), [])  # noticed a little later
        for at in (9.9, 13.0 + 10 * HEARTBEAT):
            self.assertTrue(judge_deaths(death(at), [damaged]))
        self.assertTrue(judge_deaths(death(11.0), [{**damaged, "transfers_flipped": 0}]))
        self.assertTrue(judge_deaths(death(11.0), [{"at": 10.0, "ended": 13.0}]))  # another kind
        self.assertEqual(
            judge_deaths(death(11.0, "with -6: tcp_cm.c:557 Assertion `x' failed"), [damaged]), []
        )
        for other in (
            "Assertion `x' failed in the store",
            "with -6: store.cc:12 Assertion `tcp_ep.c:1404' failed",
            "with -11",
        ):
            self.assertTrue(judge_deaths(death(11.0, other), [damaged]))

    def test_flipped_bits_count_as_transfer_damage_only_if_transfers_alone_are_damaged(self):
        told = []
        chaos = mock.Mock(fault=lambda label, begin, end, **_: told.append(end()["transfers_flipped"]))
        chaos.hosts.take_relay.return_value = {"flipped": 3}
        FaultMaker(chaos).bad_cable("links", "worker-1", "flipped", flip=1, ports=[LINK_PORT])
        FaultMaker(chaos).bad_cable(
            "transfers", "worker-1", "flipped", flip=1, spared=[*UNGUARDED, LINK_PORT]
        )
        self.assertEqual(told, [0, 3])

    def test_without_its_store_one_router_refuses_and_the_other_answers(self):
        not_ready = '{"error":{"code":"not_ready","message":"the shared feature store is away: refused"}}'
        away = lambda outcomes, said=not_ready: find_fault_of_store(
            {"at": 0.0, "ended": 3.0, "strict_said": said}, outcomes
        )
        refused = {"kind": "refused", "what": "503 features_unavailable"}
        right = self.outcomes(100, bad=range(1, 100, 2), **refused)
        self.assertEqual(away(right), "")
        for one in ("router-1", "router-2"):  # no request reached the other router
            self.assertIn("no requests", away([o for o in right if o[4] == one]))
        for said in ("", "no answer: refused", not_ready.replace("feature store", "way")):
            self.assertIn("must not be ready", away(right, said))
        self.assertIn("not refused", away(self.outcomes(100)))
        self.assertIn("answered", away(self.outcomes(100, bad=range(100), **refused)))

    def test_routers_that_are_not_ready_come_last_unless_insisted_on(self):
        load = Load.__new__(Load)
        load.routers, load.requests = ["router-1", "router-2"], [1, 2, 3]
        load.ready, load.insisted = {"router-1": True, "router-2": False}, set()
        first = lambda: {load._order(number)[0] for number in range(6)}
        self.assertEqual(first(), {"router-1"})
        chaos = mock.Mock(load=load)
        load.away, chaos.writers.away = {}, []
        faults = FaultMaker(chaos)
        faults.out_of_reach("redis")
        self.assertEqual(first(), {"router-1", "router-2"})
        faults.within_reach("redis")
        self.assertEqual(first(), {"router-1"})

    def test_refusals_are_reported_by_router_and_reason_most_frequent_first(self):
        away = (
            '503 {"error":{"status":503,"code":"features_unavailable","message":"the store is '
            'away","where":"feature store"}}'
        )
        outcomes = [(1.0, "refused", away, 0.1, "router-2")] * 3 + [
            (2.0, "refused", "504 nothing came", 1.0, "router-1"),
            (2.0, "ok", "item at 3", 0.1, "router-1"),
        ]
        self.assertEqual(
            told_reasons(outcomes),
            [
                "refused 3 times: router-2 503 features_unavailable, the store is away",
                "refused 1 times: router-1 504 nothing came",
            ],
        )
        self.assertEqual(
            len(told_reasons([(0.0, "refused", f"503 reason {n}", 0.1, "router-1") for n in range(9)])), 5
        )

    def test_a_joined_router_is_asked_until_it_leaves(self):
        load = Load.__new__(Load)
        load.hosts, load.at, load.stopping, load.deadline, load.lock = (
            mock.Mock(),
            "client",
            False,
            0.01,
            threading.Lock(),
        )
        load.hosts.address = {"joiner": "127.0.0.1"}  # no server answers there
        load.routers, load.requests, load.checks = ["router-1", "router-2"], list(range(50)), {}
        load.ready, load.why_not, load.insisted, load.away = (
            dict.fromkeys(load.routers, True),
            {},
            set(),
            {"joiner": (0.0, 1.0)},
        )
        first = lambda: {load._order(number)[0] for number in range(9)}
        with mock.patch("load.ask", return_value=(200, b"")):
            load.add_router("joiner")
            check = load.checks["joiner"]
            self.assertEqual(first(), {"router-1", "router-2", "joiner"})
            load.remove_router("joiner")
        self.assertEqual(first(), {"router-1", "router-2"})
        self.assertFalse(check.is_alive())
        self.assertEqual((set(load.ready), load.why_not, load.away), ({"router-1", "router-2"}, {}, {}))
        load.outcomes = [
            (1.0, "ok", "", 0.1, "joiner"),
            (3.0, "ok", "", 0.1, "joiner"),
            (3.0, "lost", "", 0.1, "joiner"),
            (3.0, "ok", "", 0.1, "router-1"),
        ]
        self.assertEqual(load.asked_at("joiner", 2.0), 1)

    def test_wrong_hung_and_untyped_are_found(self):
        load = types.SimpleNamespace(starved=lambda since, until: False)
        self.assertEqual(judge_writers(self.writers_that_did(WRITERS_DO, load), [])[1], [])
        for kind in WRITERS_DO:
            self.assertEqual(
                len(judge_writers(self.writers_that_did({**WRITERS_DO, kind: 0}, load), [])[1]), 1
            )
        for kind in WRITERS_MUST_NOT:
            self.assertEqual(
                len(judge_writers(self.writers_that_did({**WRITERS_DO, kind: 1}, load), [])[1]), 1
            )
        for kind, what, is_fault in (
            ("wrong", "x", True),
            ("hung", "x", True),
            ("refused", "500 x", True),
            ("refused", '422 "poison"', True),
            ("refused", "503 x", False),
        ):
            load.outcomes = self.outcomes(50, bad=[20], kind=kind, what=what)
            self.assertEqual(bool(judge_load(load, [])), is_fault, what)
        load.outcomes = self.outcomes(50, bad=[20], what='422 "poison"')
        broken = [{"at": 0.0, "ended": 3.0, "breaks": True}]
        self.assertEqual(judge_load(load, broken), [])
        refusals = [o for o in load.outcomes if o[1] == "refused"]
        self.assertEqual(unpromised(refusals, []), refusals)
        self.assertEqual(unpromised(refusals, broken), [])


class Processes(unittest.TestCase):
    """The cluster starts and ends processes; here each is a process that waits, on this host."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.hosts = mock.Mock(address=dict.fromkeys(HOSTS, "127.0.0.1"))
        self.hosts.start.side_effect = lambda host, words, **options: subprocess.Popen(
            ["sleep", "60"], **options
        )
        self.cluster = Cluster(self.hosts, "troupe", "demo", folder.name)
        self.addCleanup(self.cluster.down)

    def test_a_process_that_ended_by_itself_is_restarted_and_reported(self):
        self.cluster.start("worker-1")
        self.cluster.raise_dead()
        self.assertEqual(self.cluster.deaths, [])
        first = self.cluster.processes["worker-1"]
        first.kill()
        first.wait()
        self.cluster.raise_dead()
        self.assertEqual([name for _, name, _ in self.cluster.deaths], ["worker-1"])
        self.assertIsNone(self.cluster.processes["worker-1"].poll())

    def test_a_running_process_is_not_started_again(self):
        self.cluster.start("worker-1")
        first = self.cluster.processes["worker-1"]
        with self.assertRaisesRegex(RuntimeError, "worker-1 is started and runs already"):
            self.cluster.start("worker-1")
        self.assertIs(self.cluster.processes["worker-1"], first)

    def test_nothing_starts_during_shutdown_not_even_by_a_running_call(self):
        self.cluster.start("worker-1")
        dead = self.cluster.processes["worker-1"]
        dead.kill()
        dead.wait()
        starts, goes_on = threading.Event(), threading.Event()
        last_words = self.cluster._last_words

        def slow(name):
            starts.set()
            goes_on.wait(10)
            return last_words(name)

        self.cluster._last_words = slow
        threads = [
            threading.Thread(target=self.cluster.raise_dead),
            threading.Thread(target=self.cluster.down),
        ]
        threads[0].start()
        starts.wait(10)
        threads[1].start()
        threads[1].join(0.2)  # down() waits for the running call
        goes_on.set()
        for thread in threads:
            thread.join(10)
        self.assertIsNotNone(self.cluster.processes["worker-1"].poll())
        self.cluster.raise_dead()
        self.assertEqual(self.hosts.start.call_count, 2)
        with self.assertRaisesRegex(RuntimeError, "shuts down"):
            self.cluster.start("worker-2")

    def test_files_are_damaged_in_place_and_set_aside_stores_are_removed(self):
        folder = self.cluster.data("worker-1")
        os.makedirs(f"{folder}/rocksdb.damaged")
        os.makedirs(f"{folder}/rocksdb")
        for name in ("000001.sst", "000002.sst", "000003.log", "MANIFEST-000004", "CURRENT", "only_blocks"):
            with open(f"{folder}/rocksdb/{name}", "wb") as file:
                file.write(b"content" * 100)
        done = self.cluster.harm_files("worker-1", random.Random(2), count=3)
        self.assertEqual(len(done), 3)
        whole = [
            entry.name
            for entry in os.scandir(f"{folder}/rocksdb")
            if pathlib.Path(entry.path).read_bytes() == b"content" * 100
        ]
        self.assertIn("only_blocks", whole)
        self.assertLess(len(whole), 6)
        self.assertFalse(os.path.exists(f"{folder}/rocksdb.damaged"))
        self.cluster.empty_folder("worker-1")
        self.assertEqual(os.listdir(folder), [])

    def test_a_process_that_does_not_end_in_time_is_killed(self):
        self.hosts.start.side_effect = lambda host, words, **options: subprocess.Popen(
            ["sh", "-c", "trap '' TERM; echo; while :; do sleep 0.1; done"], **options
        )
        self.cluster.start("worker-1")
        process = self.cluster.processes["worker-1"]
        while not os.path.getsize(
            f"{self.cluster.folder}/worker-1.out"
        ):  # from here on it ignores the signal
            time.sleep(0.01)
        with self.assertRaises(subprocess.TimeoutExpired):
            self.cluster.end("worker-1", limit=0.1)
        self.assertIsNotNone(process.poll())

    def test_hosts_are_removed_even_if_the_shutdown_fails(self):
        chaos = Chaos.__new__(Chaos)
        chaos.load, chaos.writers, chaos.journals = None, None, []
        chaos.cluster, chaos.hosts = mock.Mock(), mock.Mock()
        chaos.cluster.down.side_effect = RuntimeError("busy")
        with self.assertRaises(RuntimeError):
            chaos.remove(keep=True)
        chaos.hosts.remove.assert_called_once()


class Cable(unittest.TestCase):
    def frame(self, content):
        ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40 + len(content), 1, 0, 64, 6, 0, bytes(4), bytes(4))
        tcp = struct.pack("!HHIIBBHHH", 7000, 4000, 1, 2, 5 << 4, 24, 100, 0, 0)
        segment = Segment(bytes(12) + b"\x08\0" + ip + tcp + content)
        return segment.mend_checksums()

    def is_sound(self, frame):
        body = frame[34:]
        pseudo = frame[26:34] + struct.pack("!BBH", 0, 6, len(body))
        return checksum(frame[14:34]) == 0 and checksum(pseudo + body) == 0

    def test_only_the_content_shows_that_a_segment_was_damaged(self):
        frame, chance = self.frame(b"content"), random.Random(1)
        self.assertTrue(self.is_sound(frame))
        flipped = Segment.of(frame).flipped(chance)
        self.assertTrue(self.is_sound(flipped))
        self.assertEqual(sum(bin(a ^ b).count("1") for a, b in zip(flipped[54:], b"content")), 1)
        for changed in (Segment.of(frame).reset(), Segment.of(frame).cut(chance)):
            self.assertTrue(self.is_sound(changed))
            self.assertLess(len(changed), len(frame) + 1)
        self.assertEqual(Segment.of(frame).reset()[47], 20)  # RST and ACK

    def test_spared_ports_are_not_damaged(self):
        relay = Relay.__new__(Relay)
        relay.chance, relay.did = random.Random(1), dict.fromkeys(("flipped", "reset", "cut"), 0)
        frame = self.frame(b"content")
        for told, touched in (
            ({}, False),
            ({"flip": 1}, True),
            ({"flip": 1, "spared": [7000]}, False),
            ({"flip": 1, "ports": [80]}, False),
            ({"flip": 1, "least": 8}, False),
        ):
            relay.what = {**Relay.NOTHING, **told}
            self.assertEqual(relay.touch(frame) != frame, touched, told)


if __name__ == "__main__":
    unittest.main()
