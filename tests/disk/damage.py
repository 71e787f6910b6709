#!/usr/bin/env python3
"""Kills a real node in rounds and damages its files while clients write; see README.md.

  tests/disk/damage.py --rounds 1000 [--seed N] [--troupe build/deploy/troupe] [--folder FOLDER] [--json FILE]

Exit status 1 if an acknowledged write is lost without being named, or a version number was given twice."""
import argparse
import collections
import json
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import threading
import time

from node import BUSY, DEMO, Node, Client, Refused, code_of
from ledger import Ledger, Losses

SECTOR = 512
USERS, ITEMS = 150, 30  # written by each writer
SOMEBODY = "somebody"  # the user for which items are requested
AT_ONCE = 200  # users per call; few enough to send all lines before the first answer
DAMAGES = ("byte", "sector", "cut", "remove")


# ---- damage ----


def kind_of(file):
    name = file.name
    for start, kind in (
        ("MANIFEST", "manifest"),
        ("CURRENT", "current"),
        ("OPTIONS", "options"),
        ("IDENTITY", "identity"),
        ("LOCK", "lock"),
        ("acknowledged", "mark"),
        ("coordination.lock", "lock"),
        ("coordination", "coordination"),
    ):
        if name.startswith(start):
            return kind
    return {".log": "log", ".sst": "table", ".blob": "blob"}.get(file.suffix)


def choose_file(data, chance):
    kinds = collections.defaultdict(list)
    for file in sorted([*data.iterdir(), *(data / "rocksdb").iterdir()]):
        if file.is_file() and kind_of(file):
            kinds[kind_of(file)].append(file)
    # Files with rows are damaged more often than others.
    weights = {"log": 6, "table": 6, "manifest": 3, "mark": 2, "current": 1, "coordination": 1, "blob": 1}
    names = sorted(kinds)
    kind = chance.choices(names, [weights.get(name, 0.3) for name in names])[0]
    return kind, chance.choice(kinds[kind])


def damage(file, how, chance):
    """Damages the file; returns a description, or None if nothing changed."""
    if how == "remove":
        file.unlink()
        return "removed"
    with open(file, "r+b") as opened:  # in place, because the node may be writing to it
        size = opened.seek(0, 2)
        if not size:
            return None
        at = chance.randrange(size)
        if how == "cut":
            opened.truncate(at)
            return f"cut at {at} of {size}"
        at -= at % SECTOR if how == "sector" else 0
        opened.seek(at)
        before = opened.read(SECTOR if how == "sector" else 1)
        after = bytes(len(before)) if how == "sector" else bytes([before[0] ^ 1 << chance.randrange(8)])
        opened.seek(at)
        opened.write(after)
        return f"{how} at {at} of {size}" if after != before else None


# ---- writes until the node is killed ----


class Writer(threading.Thread):
    def __init__(self, rounds, number):
        super().__init__()
        self.rounds, self.number = rounds, number
        self.chance = random.Random(f"{rounds.seed}/{rounds.round}/{number}")
        self.acknowledged, self.looks, self.faults = 0, collections.Counter(), []

    def run(self):
        client = Client(self.rounds.node.port)
        while True:
            if self.chance.random() < 0.25:
                if not self.look(client):
                    return
                continue
            kind = "items" if self.chance.random() < 0.2 else "users"
            count = ITEMS if kind == "items" else USERS
            name = f"{kind[:-1]}-{self.number}-{self.chance.randrange(count)}"
            gone = self.chance.random() < 0.15
            body = None if gone else self.body_of(kind)
            content = None if gone else (body["title"] if kind == "items" else tuple(body["tokens"]))
            with self.rounds.lock:
                after = self.rounds.ledger.asked(kind, name, content)
            status, answer = client.write(kind, name, body)
            if status == 0:
                return
            with self.rounds.lock:
                self.note(kind, name, status, answer, content, after)

    def body_of(self, kind):
        tokens = [self.chance.randrange(100) for _ in range(self.chance.randrange(4, 60))]
        if kind == "users":
            return {"tokens": tokens}
        return {"title": f"title {self.chance.getrandbits(60)}", "tokens": tokens[:4], "identifier": 7}

    def look(self, client):
        """Checks what is served for one of its users: the last acknowledged write, or an error that names
        damage.

        Returns whether there was an answer.
        """
        name = f"user-{self.number}-{self.chance.randrange(USERS)}"
        with self.rounds.lock:
            row = self.rounds.ledger.rows["users"].get(name)
        if row is None:
            return True
        status, answer = client.rank(name, [self.rounds.item])
        if status == 0:
            return False
        code = code_of(answer)
        seen = answer["profile_version"] if status == 200 else None
        self.looks[code or "right"] += 1
        # The content is ("of version", version) after a loss that was named.
        was_older = isinstance(row.content, tuple) and row.content[:1] == ("of version",)
        right = {row.content[1] if was_older else row.version} if row.present else {None}
        if (
            row.open
            or code in ("data_damaged", "unknown_item", *BUSY)
            or (code == "unknown_user" and None in right)
        ):
            return True
        if seen not in right:
            self.faults.append(f"users {name} of version {row.version} is served as {status} {seen or code}")
        return True

    def note(self, kind, name, status, answer, content, after):
        if status == 200:
            self.acknowledged += 1
            fault = self.rounds.ledger.acknowledged(kind, name, answer["version"], content, after)
            if fault:
                self.faults.append(fault)
        elif status == 404 and content is None:
            self.rounds.ledger.rows[kind][name].open.clear()
        elif code_of(answer) in BUSY or status == 503 and self.rounds.damaged_while_it_serves:
            self.looks[f"write {code_of(answer)}"] += 1  # may be stored or not
        else:
            self.faults.append(f"{kind} {name}: {status} {answer}")


# ---- rounds ----


class Rounds:
    def __init__(self, options, folder):
        self.seed, self.round, self.lock = options.seed, 0, threading.Lock()
        self.under, self.damaged_while_it_serves = options.under, False
        self.looks = collections.Counter()
        self.item = "camp-0000"  # an item that no writer changes; replaced if it is lost
        self.node, self.ledger = Node(options.troupe, folder), Ledger()
        self.table = collections.defaultdict(collections.Counter)
        self.faults, self.told = [], []
        self.acknowledged = 0

    def begin(self):
        self.items = {}  # the demo's items, in the form of a PUT
        done = self.node.command(
            "import", "--model", DEMO / "model", "--data-dir", self.node.data, "--data", DEMO / "world"
        )
        if done.returncode != 0:
            sys.exit(done.stderr)
        for line in (DEMO / "world/items.jsonl").read_text().splitlines():
            item = json.loads(line)
            name = item.pop("id")
            self.items[name] = item
            self.ledger.imported("items", name, 1, item["title"])
        for line in (DEMO / "world/users.jsonl").read_text().splitlines():
            version = 1 + len(self.ledger.rows["users"])
            self.ledger.imported("users", json.loads(line)["id"], version, ("imported", version))

    def run_one(self, number):
        self.round = number
        chance = random.Random(f"{self.seed}/{number}")
        if not self.node.process:
            self.node.start("start")
        writers = [Writer(self, i) for i in range(2)]
        for writer in writers:
            writer.start()
        time.sleep(chance.uniform(0.05, 0.6))
        spared = chance.random() < 0.05
        self.damaged_while_it_serves = not spared and chance.random() < self.under
        kind, done = "none", "nothing"
        if self.damaged_while_it_serves:
            kind, done = self.do_damage(chance)
            kind, done = f"{kind}, serving", f"{done} while it served"
            time.sleep(chance.uniform(0.05, 0.6))
        self.node.kill()
        for writer in writers:
            writer.join()
            self.acknowledged += writer.acknowledged
            self.looks += writer.looks
            self.faults += [f"round {number}: {done}: {fault}" for fault in writer.faults]
        if not spared and not self.damaged_while_it_serves:
            kind, done = self.do_damage(chance)
        self.judge(number, kind, done)

    def do_damage(self, chance):
        while True:
            kind, file = choose_file(self.node.data, chance)
            try:
                done = damage(file, chance.choice(DAMAGES), chance)
            except FileNotFoundError:  # a table that was compacted meanwhile
                continue
            if done:
                return kind, f"{file.name} {done}"

    def judge(self, number, kind, done):
        row = self.table[kind]
        row["rounds"] += 1
        check = self.node.command("check", self.node.data)
        if check.returncode not in (0, 1):
            self.faults.append(f"round {number}: {done}: check ended with {check.returncode}: {check.stderr}")
        row["found"] += check.returncode == 1
        said = []
        try:
            self.node.start("refuse")
        except Refused as refusal:
            row["refused"] += 1
            if "store.on_damage" not in str(refusal):
                self.faults.append(f"round {number}: {done}: refused with {refusal}")
            said = self.start_anyway(number, done, row)
        verdicts = self.ask_for_all(number, done, Losses([*said, *self.node.log_lines()]))
        row["named"] += verdicts["named"] > 0
        row["writes_named"] += verdicts["named"]
        row["silent"] += verdicts["silent"] > 0
        row["emptied"] += verdicts["emptied"]
        row["masked"] += verdicts["named"] == verdicts["silent"] == 0 and check.returncode == 0
        row["whole"] += verdicts["named"] == verdicts["silent"] == 0
        self.told.append(
            {"round": number, "kind": kind, "done": done, "found": check.returncode == 1, **verdicts}
        )
        for aside in self.node.data.glob("rocksdb.damaged*"):
            shutil.rmtree(aside)
        (self.node.data / "coordination.damaged").unlink(missing_ok=True)

    def start_anyway(self, number, done, row):
        """Starts the node in spite of damage; returns the log of a first start that named the losses and
        stopped.

        That happens if the record of the model is lost, too. Its rows are then adopted, as their owner would.
        """
        try:
            self.node.start("start")
            return []
        except Refused as refusal:
            said = self.node.log_lines()
            if "its model is damaged or lost" not in str(refusal):
                self.faults.append(f"round {number}: {done}: cannot start: {refusal}")
                raise
        row["adopted"] += 1
        if not Losses(said).names_note("made_for"):
            self.faults.append(f"round {number}: {done}: the record of the model is lost without being named")
        adopted = self.node.command(
            "import", "--adopt", "--model", DEMO / "model", "--data-dir", self.node.data
        )
        if adopted.returncode != 0:
            self.faults.append(f"round {number}: {done}: cannot be adopted: {adopted.stderr}")
        self.node.start("refuse")
        return said

    # ---- what is still there ----

    def ask_for_all(self, number, done, losses):
        client = Client(self.node.port)
        verdicts = collections.Counter()
        self.ask_as_somebody_new(client, number, done)
        held = self.items_there(client, SOMEBODY)
        for name in self.ledger.rows["items"]:
            self.count(number, done, "items", name, held.get(name), losses, verdicts)
        self.judge_readiness(number, done, held)
        if not held:  # all items are lost; count() has judged each
            verdicts["emptied"] = 1
            self.put_items_again(client, number, done)
            held = self.items
        any_item = next(iter(held), None)
        self.item = next((item for item in held if not item.startswith("item-")), self.item)
        there = self.users_there(
            client, [name for name in self.ledger.rows["users"] if name != SOMEBODY], any_item
        )
        for name, version in there.items():
            self.count(number, done, "users", name, version, losses, verdicts)
        return {verdict: verdicts[verdict] for verdict in ("kept", "named", "silent", "emptied")}

    def judge_readiness(self, number, done, held):
        """Checks readiness: a node with items is ready; a node without items reports that it has none."""
        if self.node.has_items != bool(held):
            says = "is ready" if self.node.has_items else "says that it has no items"
            self.faults.append(f"round {number}: {done}: it {says} and has {len(held)} items")

    def put_items_again(self, client, number, done):
        """Stores the demo's items again, as the node's operator would."""
        for name, item in self.items.items():
            self.put(client, number, done, "items", name, item, item["title"])
        self.node.is_ready_but_for()

    def ask_as_somebody_new(self, client, number, done):
        self.put(client, number, done, "users", SOMEBODY, {"tokens": [1, 2, 3]}, (1, 2, 3))

    def put(self, client, number, done, kind, name, body, content):
        after = self.ledger.asked(kind, name, content)
        status, answer = client.write(kind, name, body)
        fault = answer or "no answer"
        if status == 200:
            fault = self.ledger.acknowledged(kind, name, answer["version"], content, after)
        if fault:
            self.faults.append(f"round {number}: {done}: {fault}")

    def count(self, number, done, kind, name, seen, losses, verdicts):
        row = self.ledger.rows[kind][name]
        if kind == "users" and seen is not None:
            seen = self.content_at(row, seen)
        verdict = self.ledger.judge(kind, name, seen, losses)
        verdicts[verdict] += 1
        if verdict == "silent":
            self.faults.append(
                f"round {number}: {done}: {kind} {name} of version {row.version} is lost without being named"
            )

    @staticmethod
    def content_at(row, version):
        """Returns the content of a version: the last acknowledged write, or a later one without an answer."""
        if version == row.version:
            return row.content
        later = [content for content in row.open if content is not None]
        if version > row.version and later:
            row.version = version
            return later[-1]
        return ("of version", version)

    def users_there(self, client, names, item):
        """Returns the version of each user; None = no such user. Asks again for users refused for other
        reasons."""
        there = {}
        for begin in range(0, len(names), AT_ONCE):
            part = names[begin : begin + AT_ONCE]
            for name, answer in zip(part, client.rank_each(part, [item])):
                if answer.get("status") in (200, 404):
                    there[name] = answer.get("profile_version")
        return {name: there[name] if name in there else self.user_there(client, name, item) for name in names}

    @staticmethod
    def user_there(client, name, item):
        status, answer = client.rank_in_time(name, [item])
        if status not in (200, 404):
            raise RuntimeError(f"{name}: {status} {answer}")
        return answer["profile_version"] if status == 200 else None

    def items_there(self, client, user):
        held, names = {}, sorted(self.ledger.rows["items"])
        while names:
            part, names = names[:100], names[100:]
            while part:
                status, answer = client.rank_in_time(user, part)
                if status == 200:
                    held.update({item["id"]: item["title"] for item in answer["items"]})
                    break
                if status != 404:
                    raise RuntimeError(f"items: {status} {answer}")
                where = answer["error"]["where"]  # candidates[3]
                del part[int(where.split("[")[1].rstrip("]"))]
        return held

    def print_table(self):
        columns = (
            "rounds",
            "found",
            "masked",
            "whole",
            "refused",
            "named",
            "writes_named",
            "adopted",
            "emptied",
            "silent",
        )
        print(f"{'file':22}" + "".join(f"{column:>13}" for column in columns))
        total = collections.Counter()
        for kind in sorted(self.table):
            total.update(self.table[kind])
            print(f"{kind:22}" + "".join(f"{self.table[kind][column]:13}" for column in columns))
        print(f"{'all':22}" + "".join(f"{total[column]:13}" for column in columns))
        print(
            f"{self.acknowledged} writes acknowledged; {sum(len(r) for r in self.ledger.rows.values())} "
            "users and items checked after each round; answers to reads by writers, and writes refused "
            f"under damage: {dict(sorted(self.looks.items()))}"
        )


def end_once(*_):
    """Ends the run with the results so far, and removes its folder."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # `timeout` sends SIGTERM twice
    sys.exit(1)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument(
        "--under",
        type=float,
        default=0.3,
        help="share of rounds that damage a file while the node serves",
    )
    parser.add_argument("--troupe", default=str(DEMO.parents[1] / "build/deploy/troupe"))
    parser.add_argument("--folder", help="folder for the data folder; kept at the end")
    parser.add_argument("--json", help="write the rounds to this file")
    options = parser.parse_args()
    folder = pathlib.Path(options.folder or tempfile.mkdtemp(prefix="troupe-damage-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"seed {options.seed}", flush=True)
    signal.signal(signal.SIGTERM, end_once)
    rounds = Rounds(options, folder)
    began = time.monotonic()
    try:
        rounds.begin()
        for number in range(1, options.rounds + 1):
            rounds.run_one(number)
            if number % 50 == 0:
                print(
                    f"{number} rounds, {time.monotonic() - began:.0f} s, {len(rounds.faults)} faults",
                    flush=True,
                )
    finally:
        rounds.node.kill()
        rounds.print_table()
        for fault in rounds.faults[:40]:
            print(fault)
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(rounds.told, indent=0))
        if not options.folder:
            shutil.rmtree(folder, ignore_errors=True)
    return 1 if rounds.faults else 0


if __name__ == "__main__":
    sys.exit(main())
