#!/usr/bin/env python3
"""Runs nodes whose standard streams fail, and asks them for rankings meanwhile.

  tests/server/streams.py --troupe build/deploy/troupe

  reader stops   nobody reads standard error, with http.access_log=all: every request is answered, and once
                 the reader goes on it gets a line of each
  reader goes    the pipe of standard error is closed: every request is answered, lost lines are counted
  no streams     the node starts without standard streams: /dev/null stands in for them
  renamed log    the log file, or the file of standard error, is renamed as logrotate does it: after SIGHUP
                 all lines are in a new file of the old name
  no output      a command whose reader has gone ends with status 1, and by no signal

Exit status 1 if one of these is not so.
"""
import argparse
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
START_S, ANSWER_S, END_S = 60, 30, 40
REQUESTS = 500  # their lines are about four times what a pipe holds


class Node:
    """A node on the demo world, with the given standard streams."""

    def __init__(self, troupe, folder, command=(), more_settings=(), **streams):
        self.port_file = os.path.join(folder, "port")
        common = ["--model", f"{ROOT}/deploy/demo/model", "--data-dir", os.path.join(folder, "data")]
        world = f"{ROOT}/deploy/demo/world"
        subprocess.run([troupe, "import", *common, "--data", world], check=True, capture_output=True)
        serve = [troupe, "serve", *common, "--port", "0", "--port-file", self.port_file]
        # On a busy machine the node would refuse requests that miss their deadline.
        settings = ["http.access_log=all", "router.deadline=10min", "router.deadline_max=10min"]
        settings += more_settings
        sets = [word for setting in settings for word in ("--set", setting)]
        self.process = subprocess.Popen([*command, *serve, *sets], **streams)
        with open(f"{world}/items.jsonl") as items, open(f"{world}/users.jsonl") as users:
            candidates = [json.loads(line)["id"] for line, _ in zip(items, range(5))]
            self.body = json.dumps({"user": json.loads(users.readline())["id"], "candidates": candidates})

    def wait_for_port(self):
        end = time.monotonic() + START_S
        while not os.path.exists(self.port_file) or not open(self.port_file).read().strip():
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError(f"the node did not start: {self.process.returncode}")
            time.sleep(0.05)
        self.link = http.client.HTTPConnection(
            "127.0.0.1", int(open(self.port_file).read()), timeout=ANSWER_S
        )

    def ask(self, method, path, body=None):
        self.link.request(method, path, body)
        reply = self.link.getresponse()
        return reply.status, reply.read().decode()

    def rank(self, times):
        """Returns the number of requests that were answered."""
        return sum(self.ask("POST", "/v1/rank", self.body)[0] == 200 for _ in range(times))

    def lost_lines(self):
        metrics = self.ask("GET", "/metrics")[1]
        return float(re.search(r"^troupe_log_lines_dropped_total (\S+)", metrics, re.M)[1])

    def end(self):
        """Returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(END_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


class Faults(list):
    def expect(self, what, got, expected):
        print(f"{'ok   ' if got == expected else 'FAULT'} {what}: {got}", flush=True)
        if got != expected:
            self.append(f"{what}: {got}; expected {expected}")


def read_lines(stream, lines):
    for line in stream:
        lines.append(line)


def with_failing_reader(troupe, folder, faults):
    reader, writer = os.pipe()
    with Node(troupe, folder, stdout=subprocess.DEVNULL, stderr=writer) as node:
        os.close(writer)
        node.wait_for_port()
        faults.expect("reader stops: answered", node.rank(REQUESTS), REQUESTS)
        faults.expect("reader stops: lost lines", node.lost_lines(), 0.0)
        lines, stream = [], os.fdopen(reader)
        reading = threading.Thread(target=read_lines, args=(stream, lines), daemon=True)
        reading.start()
        end = time.monotonic() + ANSWER_S
        while sum('"route":"/v1/rank"' in line for line in lines) < REQUESTS and time.monotonic() < end:
            time.sleep(0.05)
        of_requests = [json.loads(line) for line in lines if '"route":"/v1/rank"' in line]
        faults.expect("reader goes on: its lines", len(of_requests), REQUESTS)
        faults.expect("its statuses", {line["status"] for line in of_requests}, {200})
        node.process.send_signal(signal.SIGPIPE)
        faults.expect("after SIGPIPE: answered", node.rank(1), 1)
        faults.expect("status at the end", node.end(), 0)


def with_gone_reader(troupe, folder, faults):
    with Node(troupe, folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as node:
        node.process.stdout.close()
        node.wait_for_port()
        node.process.stderr.close()
        faults.expect("reader goes: answered", node.rank(REQUESTS // 5), REQUESTS // 5)
        end = time.monotonic() + ANSWER_S
        while node.lost_lines() < REQUESTS // 5 and time.monotonic() < end:
            time.sleep(0.05)
        faults.expect("reader goes: lost lines are counted", node.lost_lines() >= REQUESTS // 5, True)
        faults.expect("status at the end", node.end(), 0)


def without_streams(troupe, folder, faults):
    closed = ["bash", "-c", 'exec "$@" <&- >&- 2>&-', "bash"]
    with Node(troupe, folder, command=closed) as node:
        node.wait_for_port()
        streams = {os.readlink(f"/proc/{node.process.pid}/fd/{number}") for number in range(3)}
        faults.expect("no streams: the first files", streams, {"/dev/null"})
        faults.expect("no streams: answered", node.rank(20), 20)
        faults.expect("status at the end", node.end(), 0)


def lines_of_requests(path):
    if not os.path.exists(path):
        return 0
    with open(path) as file:
        return sum('"route":"/v1/rank"' in line for line in file)


def wait_for_lines(path, count):
    end = time.monotonic() + ANSWER_S
    while lines_of_requests(path) < count and time.monotonic() < end:
        time.sleep(0.05)
    return lines_of_requests(path)


def wait_for_reload(path):
    end = time.monotonic() + ANSWER_S
    while time.monotonic() < end:
        if os.path.exists(path):
            with open(path) as file:
                if '"event":"reloaded"' in file.read():
                    return
        time.sleep(0.05)


def with_renamed_log(troupe, folder, faults):
    for what in ("log file", "standard error"):
        own = os.path.join(folder, what.split()[0])
        os.mkdir(own)
        log, renamed = os.path.join(own, "troupe.log"), os.path.join(own, "troupe.log.1")
        settings = [f"node.log_file={log}"] if what == "log file" else []
        with open(os.devnull if settings else log, "a") as errors:
            node = Node(troupe, own, more_settings=settings, stdout=subprocess.DEVNULL, stderr=errors)
        with node:
            node.wait_for_port()
            node.rank(5)
            faults.expect(f"renamed {what}: lines before", wait_for_lines(log, 5), 5)
            os.rename(log, renamed)
            node.process.send_signal(signal.SIGHUP)
            wait_for_reload(log)
            node.rank(7)
            faults.expect(f"renamed {what}: lines in the new file", wait_for_lines(log, 7), 7)
            faults.expect(f"renamed {what}: lines in the old one", lines_of_requests(renamed), 5)
            faults.expect("status at the end", node.end(), 0)


def without_reader_of_output(troupe, faults):
    with subprocess.Popen([troupe, "config"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as command:
        command.stdout.close()
        command.stdout = None
        errors = command.communicate(timeout=START_S)[1].decode()
        faults.expect("no output: status", command.returncode, 1)
        faults.expect("no output: told", "standard output: cannot be written" in errors, True)


def main(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    troupe, faults = parser.parse_args(argv).troupe, Faults()
    for run in (with_failing_reader, with_gone_reader, without_streams, with_renamed_log):
        with tempfile.TemporaryDirectory(prefix="troupe-streams-") as folder:
            run(troupe, folder, faults)
    without_reader_of_output(troupe, faults)
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
