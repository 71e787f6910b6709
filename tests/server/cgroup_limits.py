#!/usr/bin/env python3
"""Runs nodes in a cgroup of 512 MiB with one core's worth of time. A node serves within its limits, or
refuses to start and says what does not fit.

  tests/server/cgroup_limits.py --troupe build/deploy/troupe [--seconds 600]

  too large      a pool of 2 GiB is refused at the start, by its name and with what is free of which limit
  as advised     with the pool.memory that this error names, the node fills its pool under load for SECONDS:
                 all requests are answered, and no process of the cgroup is killed
  cores          the start line says how many cores the node uses of how many, and it has few threads

Needs root and writable cgroups with the controllers of memory and CPU, of either version; otherwise it names
what is missing and exits with 77. Exit status 1 if one of these is not so.
"""
import argparse
import collections
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL, WORLD = f"{ROOT}/deploy/demo/model", f"{ROOT}/deploy/demo/world"
LIMIT, PERIOD_US, CLIENTS, START_S, ANSWER_S = 512 << 20, 100_000, 4, 60, 30


def read(path):
    with open(path) as file:
        return file.read()


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


class Group:
    """A cgroup with both limits; of version 1, one in each of two hierarchies."""

    def __init__(self):
        self.name, self.folders, self.version = f"troupe-limits-{os.getpid()}", [], 0
        base = "/sys/fs/cgroup"
        try:
            if os.path.exists(f"{base}/cgroup.controllers"):
                self._make_version_2(base)
            else:
                self._make_version_1(base)
        except OSError as error:
            self.remove()
            raise CannotRun(f"cgroups cannot be written here ({error})") from error

    def _make(self, folder):
        os.mkdir(folder)
        self.folders.append(folder)
        return folder

    def _make_version_2(self, base):
        self.version = 2
        if not {"memory", "cpu"} <= set(read(f"{base}/cgroup.subtree_control").split()):
            write(f"{base}/cgroup.subtree_control", "+memory +cpu")
        folder = self._make(f"{base}/{self.name}")
        write(f"{folder}/memory.max", str(LIMIT))
        if os.path.exists(f"{folder}/memory.swap.max"):
            write(f"{folder}/memory.swap.max", "0")
        write(f"{folder}/cpu.max", f"{PERIOD_US} {PERIOD_US}")

    def _make_version_1(self, base):
        self.version = 1
        memory = self._make(f"{base}/memory/{self.name}")
        write(f"{memory}/memory.limit_in_bytes", str(LIMIT))
        cpu = self._make(f"{base}/cpu/{self.name}")
        write(f"{cpu}/cpu.cfs_period_us", str(PERIOD_US))
        write(f"{cpu}/cpu.cfs_quota_us", str(PERIOD_US))

    def enter(self):
        for folder in self.folders:
            write(f"{folder}/cgroup.procs", str(os.getpid()))

    def kills(self):
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        found = re.search(r"^oom_kill (\d+)", read(f"{self.folders[0]}/{name}"), re.M)
        return int(found[1]) if found else 0

    def used(self):
        """Returns the memory that cannot be dropped."""
        name = "memory.current" if self.version == 2 else "memory.usage_in_bytes"
        prefix = "" if self.version == 2 else "total_"
        stat = dict(line.split() for line in read(f"{self.folders[0]}/memory.stat").splitlines())
        files = sum(int(stat.get(f"{prefix}{kind}_file", 0)) for kind in ("active", "inactive"))
        return int(read(f"{self.folders[0]}/{name}")) - files

    def remove(self):
        for folder in self.folders:
            for _ in range(50):  # until the kernel has seen the last process end
                try:
                    os.rmdir(folder)
                    break
                except OSError:
                    time.sleep(0.1)


class CannotRun(Exception):
    """The test cannot run here."""


class Node:
    def __init__(self, troupe, folder, group, *settings):
        self.port_file, self.out = os.path.join(folder, "port"), os.path.join(folder, "out")
        if os.path.exists(self.port_file):
            os.remove(self.port_file)
        words = [troupe, "serve", "--model", MODEL, "--data-dir", os.path.join(folder, "data")]
        words += ["--port", "0", "--port-file", self.port_file]
        # On one core, which load keeps busy, the node would refuse requests that miss their deadline.
        settings += ("router.deadline=10min", "router.deadline_max=10min")
        words += [word for setting in settings for word in ("--set", setting)]
        with open(self.out, "w") as out:
            self.process = subprocess.Popen(words, stdout=out, stderr=out, preexec_fn=group.enter)

    def wait(self):
        """Returns the port, or 0 if the node refused to start."""
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            if os.path.exists(self.port_file) and read(self.port_file).strip():
                return int(read(self.port_file))
            if self.process.poll() is not None:
                return 0
            time.sleep(0.05)
        raise RuntimeError(f"the node neither serves nor ends: {read(self.out)[-500:]}")

    def said(self):
        return read(self.out)

    def threads(self):
        return int(re.search(r"^Threads:\s+(\d+)", read(f"/proc/{self.process.pid}/status"), re.M)[1])

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
        return self.process.wait()


class Load:
    """Clients whose histories differ in each request, so that the pool fills with the blocks of users."""

    def __init__(self, port, seconds):
        with open(f"{WORLD}/requests.jsonl") as file:
            self.rows = [json.loads(line) for line in file]
        self.port, self.end, self.answers = port, time.monotonic() + seconds, collections.Counter()
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self._run, args=(k,)) for k in range(CLIENTS)]

    def _body(self, n):
        row = self.rows[n % len(self.rows)]
        items = row["candidates"]
        turn = n // len(self.rows) % len(items)
        history = (items[turn:] + items[:turn])[:: -1 if n % 2 else 1]
        return json.dumps({"history": history[:60], "candidates": items, "policy": "user"})

    def _run(self, client):
        link, n = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_S), client
        while time.monotonic() < self.end:
            try:
                link.request("POST", "/v1/rank", self._body(n))
                reply = link.getresponse()
                reply.read()
                outcome = str(reply.status)
            except (OSError, http.client.HTTPException) as error:
                outcome = type(error).__name__
                link.close()
                time.sleep(0.05)
            with self.lock:
                self.answers[outcome] += 1
            n += CLIENTS

    def run(self, watch):
        for thread in self.threads:
            thread.start()
        while any(thread.is_alive() for thread in self.threads):
            watch()
            time.sleep(0.2)
        return self.answers


class Check:
    def __init__(self):
        self.failed = False

    def __call__(self, good, what, found):
        print(("ok      " if good else "FAILED  ") + f"{what}: {found}", flush=True)
        self.failed |= not good
        return good


def run(troupe, seconds, folder, group, check):
    common = ["--model", MODEL, "--data-dir", os.path.join(folder, "data"), "--data", WORLD]
    subprocess.run([troupe, "import", *common], check=True, capture_output=True)
    large = Node(troupe, folder, group, "pool.memory=2GiB")
    refused = large.wait() == 0
    large.stop()
    said = large.said().strip()
    line = said.splitlines()[-1] if said else ""
    named = "pool.memory is 2048 MiB" in line and "memory limit of 512 MiB" in line
    check(refused and large.process.returncode == 1 and named, "a pool of 2 GiB is refused by name", line)
    advised = re.search(r"expected pool\.memory of at most (\d+MiB)", line)
    if not check(bool(advised), "the error says which pool fits", advised and advised[1]):
        return
    node = Node(troupe, folder, group, f"pool.memory={advised[1]}")
    port = node.wait()
    if not check(port > 0, "with that pool the node serves", node.said().strip()[-300:]):
        return
    started = next((row for row in node.said().splitlines() if "serves on" in row), "")
    cores = os.cpu_count() or 1
    is_said = cores == 1 or f"on 1 of {cores} cores because of the CPU quota" in started
    check(is_said and "with 1 executors" in started, "the start line tells the cores", started)
    most = [0]
    answers = Load(port, seconds).run(lambda: most.__setitem__(0, max(most[0], group.used())))
    threads = node.threads() if node.process.poll() is None else 0
    check(set(answers) == {"200"}, f"all requests of {seconds} s are answered", dict(answers))
    used = f"{group.kills()}, with at most {most[0] >> 20} of {LIMIT >> 20} MiB used"
    check(group.kills() == 0, "no process is killed for memory", used)
    check(0 < threads <= 60, "threads", threads)
    check(node.stop() == 0, "the node ends as asked", node.process.returncode)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--troupe", required=True)
    options.add_argument("--seconds", type=float, default=10)
    given = options.parse_args()
    if os.geteuid() != 0:
        print("skipped: writing cgroups needs root")
        return 77
    try:
        group = Group()
    except CannotRun as reason:
        print(f"skipped: {reason}")
        return 77
    folder, check = tempfile.mkdtemp(), Check()
    try:
        run(os.path.abspath(given.troupe), given.seconds, folder, group, check)
    finally:
        group.remove()
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
