#!/usr/bin/env python3
"""Ranks and writes on a node whose disk takes long for each sync.

  tests/server/slow_sync.py --troupe build/deploy/troupe             # syncs of 500 ms, 1,000 writes
  tests/server/slow_sync.py --troupe build/deploy/troupe --short     # ten seconds, and judges no times

A small library, built with cc and loaded before libc, lets fsync and its kin sleep. Rankings are of users who
are not in memory, so each reads the store. More writers than the disk can serve put users, each user once.
Afterwards every user is read, and what the writer was told is compared: after a 200 the user is stored, after
`outcome_unknown` either way, after any other answer not. Exit status 1 if a writer was told wrongly, if a
ranking was refused, or if the rankings' 99th percentile is more than 1.5 times that of rankings alone.
"""
import argparse
import collections
import http.client
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from served_node import await_port

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LATENCY_BOUND = 1.5
RANKINGS_PER_SECOND = 25
PATIENCE = 60  # seconds that a client waits
SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* The file has the milliseconds of a sync; it may change at any time. */
static void wait_for_disk(void) {
  char text[16] = {0};
  const char* name = getenv("SYNC_DELAY_FILE");
  int file = name ? open(name, O_RDONLY) : -1;
  if (file < 0) return;
  if (read(file, text, sizeof text - 1) > 0) usleep(1000u * (unsigned)atoi(text));
  close(file);
}
int fsync(int file) {
  int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  wait_for_disk();
  return next(file);
}
int fdatasync(int file) {
  int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
  wait_for_disk();
  return next(file);
}
"""


class Node:
    """A node on the demo world, with a disk whose syncs can be slowed at any time."""

    def __init__(self, args):
        self.folder = tempfile.TemporaryDirectory(prefix="troupe-sync-")
        place = self.folder.name
        source, library = os.path.join(place, "sync.c"), os.path.join(place, "sync.so")
        with open(source, "w") as out:
            out.write(SOURCE)
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        self.delay_file = os.path.join(place, "delay")
        self.slow_down(0)
        world, model = os.path.join(ROOT, "deploy/demo/world"), os.path.join(ROOT, "deploy/demo/model")
        common = ["--model", model, "--data-dir", os.path.join(place, "data")]
        subprocess.run(
            [args.troupe, "import", *common, "--data", world], check=True, stdout=subprocess.DEVNULL
        )
        port_file = os.path.join(place, "port")
        sets = [f"router.deadline={args.deadline_ms}ms", *args.set]
        self.process = subprocess.Popen(
            [args.troupe, "serve", *common, "--port", "0", "--port-file", port_file]
            + [word for one in sets for word in ("--set", one)],
            env={**os.environ, "LD_PRELOAD": library, "SYNC_DELAY_FILE": self.delay_file},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL if not os.environ.get("NODE_STDERR") else None,
        )
        self.server = ("127.0.0.1", await_port(self.process, port_file))
        with open(os.path.join(world, "items.jsonl")) as lines:
            self.items = [json.loads(line)["id"] for line, _ in zip(lines, range(100))]
        with open(os.path.join(world, "users.jsonl")) as lines:
            self.users = [json.loads(line)["id"] for line in lines]

    def slow_down(self, milliseconds):
        with open(self.delay_file + ".new", "w") as out:
            out.write(str(milliseconds))
        os.rename(self.delay_file + ".new", self.delay_file)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.slow_down(0)
        self.process.terminate()
        self.process.wait(40)
        self.folder.cleanup()


def ask(link, method, target, body=None):
    """Returns the status and the code of the answer; code "" = no error."""
    link.request(method, target, body, {"content-type": "application/json"} if body else {})
    reply = link.getresponse()
    text = reply.read()
    if reply.status == 200:
        return 200, ""
    return reply.status, json.loads(text)["error"]["code"]


def rank(server, users, items, seconds, tell):
    """Ranks at a steady pace, each time another user."""
    times, refused = [], collections.Counter()
    link = http.client.HTTPConnection(*server, timeout=PATIENCE)
    begin = time.monotonic()
    for i in range(int(seconds * RANKINGS_PER_SECOND)):
        pause = begin + i / RANKINGS_PER_SECOND - time.monotonic()
        if pause > 0:
            time.sleep(pause)
        asked = time.monotonic()
        body = json.dumps({"user": users[i % len(users)], "candidates": items})
        status, code = ask(link, "POST", "/v1/rank", body)
        times.append(1000 * (time.monotonic() - asked))
        if status != 200:
            refused[f"{status} {code}"] += 1
    tell.put((sorted(times), refused))


def measure(node, users, seconds):
    tell = multiprocessing.Queue()
    ranker = multiprocessing.Process(target=rank, args=(node.server, users, node.items, seconds, tell))
    ranker.start()
    times, refused = tell.get()
    ranker.join()
    return times, refused


class Writers:
    """Threads that put users, each once, until a number of writes or stop()."""

    def __init__(self, node, count, writes):
        self.node, self.left, self.told, self.ended = node, writes, {}, False
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.run, daemon=True) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def next(self):
        with self.lock:
            if self.ended or self.left == 0:
                return None
            self.left -= 1
            return f"written-{self.left}"

    def run(self):
        link = http.client.HTTPConnection(*self.node.server, timeout=PATIENCE)
        body = json.dumps({"history": self.node.items[:3]})
        while user := self.next():
            answer = ask(link, "PUT", f"/v1/users/{user}", body)
            with self.lock:
                self.told[user] = answer
            if answer[1] == "overloaded":
                time.sleep(0.05)

    def wait(self):
        for thread in self.threads:
            thread.join()

    def stop(self):
        self.ended = True
        self.wait()


def told_wrongly(node, told):
    """Reads every user, and returns (user, what its writer was told, whether it is stored) where they
    differ."""
    link = http.client.HTTPConnection(*node.server, timeout=PATIENCE)
    wrong = []
    for user, (status, code) in sorted(told.items()):
        until = time.monotonic() + PATIENCE  # writes that have begun end first
        found, _ = ask(link, "GET", f"/v1/users/{user}")
        while found not in (200, 404) and time.monotonic() < until:
            time.sleep(0.1)
            found, _ = ask(link, "GET", f"/v1/users/{user}")
        if found not in (200, 404):
            raise RuntimeError(f"user {user} cannot be read: {found}")
        is_stored = found == 200
        if code != "outcome_unknown" and is_stored != (status == 200):
            wrong.append((user, f"{status} {code}".strip(), is_stored))
    return wrong


def at(times, share):
    return times[min(len(times) - 1, int(share * len(times)))]


def parse(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True, help="the program")
    parser.add_argument("--set", action="append", default=[], metavar="SETTING=VALUE", help="for the node")
    parser.add_argument("--sync-ms", type=int, default=500, help="length of a sync")
    parser.add_argument("--deadline-ms", type=int, default=1200, help="of a write")
    parser.add_argument("--writers", type=int, default=60)
    parser.add_argument("--writes", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20, help="of rankings alone, and beside the writes")
    parser.add_argument("--short", action="store_true", help="ten seconds; judges what is told, not times")
    parser.add_argument("--json", help="also write the figures to this file")
    args = parser.parse_args(argv)
    if args.short:
        args.sync_ms, args.deadline_ms, args.writers, args.writes, args.seconds = 100, 250, 60, 400, 2
    return args


def main(argv):
    args = parse(argv)
    with Node(args) as node:
        half = len(node.users) // 2
        measure(node, node.users[-10:], 1)
        alone, refused_alone = measure(node, node.users[:half], args.seconds)
        node.slow_down(args.sync_ms)
        writers = Writers(node, args.writers, args.writes)
        beside, refused = measure(node, node.users[half:], args.seconds)
        writers.wait()
        node.slow_down(0)
        wrong = told_wrongly(node, writers.told)
    answers = collections.Counter(f"{status} {code}".strip() for status, code in writers.told.values())
    figures = {
        "sync_ms": args.sync_ms,
        "writers": args.writers,
        "answers": dict(answers),
        "told_wrongly": len(wrong),
        "rank_alone_p50_ms": at(alone, 0.5),
        "rank_alone_p99_ms": at(alone, 0.99),
        "rank_p50_ms": at(beside, 0.5),
        "rank_p99_ms": at(beside, 0.99),
        "rankings": len(beside),
        "rankings_refused": dict(refused),
    }
    print(json.dumps(figures, indent=1))
    stored = {True: "stored", False: "not stored"}
    faults = [f"{user}: told {told}, and it is {stored[found]}" for user, told, found in wrong]
    if refused and not args.short or refused_alone:
        faults.append(f"rankings were refused: {dict(refused or refused_alone)}")
    if not args.short and at(beside, 0.99) > LATENCY_BOUND * at(alone, 0.99):
        faults.append(f"the rankings' P99 is more than {LATENCY_BOUND} times that of rankings alone")
    if answers["200"] == 0 or (len(answers) == 1 and args.writers > 20):
        faults.append(f"the writers did not meet a slow disk: {dict(answers)}")
    for fault in faults[:20]:
        print("FAULT", fault)
    if args.json:
        with open(args.json, "w") as out:
            json.dump(figures, out, indent=1)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
