#!/usr/bin/env python3
"""Checks what a service manager sees of a node: its unit, and its messages to NOTIFY_SOCKET.

  tests/server/service.py --troupe build/deploy/troupe

The unit must pass `systemd-analyze verify` (package systemd), also as the unit of a single node that the
Debian package makes of it. The node is started with a socket of this test: it must say READY once its port
answers, WATCHDOG while it serves, RELOADING and READY at SIGHUP, STOPPING at SIGTERM, and no WATCHDOG while
it is stopped. A node that leaves its cluster (with etcd) must ask for more time than a stop has. Exit status
1 on any difference. Without systemd-analyze or etcd its part is skipped with a line.
"""
import argparse
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "bench"))
import loopback

DEMO = ROOT / "deploy" / "demo"
UNIT = ROOT / "deploy" / "systemd" / "troupe@.service"
WATCHDOG_SECONDS, WAIT_SECONDS = 0.4, 30
wrong = []


def check(holds, what):
    print(("ok      " if holds else "FAILED  ") + what)
    wrong.extend([] if holds else [what])


def verify_units(troupe, folder):
    if not shutil.which("systemd-analyze"):
        return print("skipped: no systemd-analyze, so the unit is not verified")
    unit = UNIT.read_text().replace("/usr/local/bin/troupe", os.path.abspath(troupe))
    single = unit.replace(
        "node --config /etc/troupe/cluster.yaml --name %i", "serve --config /etc/troupe/troupe.yaml"
    )
    for name, text in (("troupe@.service", unit), ("troupe.service", single)):
        (folder / name).write_text(text)
        asked = name.replace("@.", "@worker-1.")
        run = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", folder / asked], capture_output=True, text=True
        )
        check(run.returncode == 0 and not run.stderr.strip(), f"{name} is valid {run.stderr.strip()[:300]}")
    for line in ("Type=notify", "WatchdogSec=", "TimeoutStartSec=infinity"):
        check(line in unit, f"the unit has {line}")


class Manager:
    """The socket of a service manager."""

    def __init__(self, folder):
        self.name = str(folder / "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.name)

    def next(self, but=(), seconds=WAIT_SECONDS):
        """Returns the next message whose first line is not one of `but`; "" if none comes."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                message = self.socket.recv(4096).decode()
            except (TimeoutError, socket.timeout):
                return ""
            if message.split("\n")[0] not in but:
                return message
        return ""


def try_node(troupe, folder):
    model = ["--model", DEMO / "model", "--data-dir", folder / "data"]
    subprocess.run(
        [troupe, "import", *model, "--data", DEMO / "world"], check=True, stdout=subprocess.DEVNULL
    )
    manager = Manager(folder)
    port = folder / "port"
    node = subprocess.Popen(
        [troupe, "serve", *model, "--port", "0", "--port-file", port],
        env=os.environ | {"NOTIFY_SOCKET": manager.name, "WATCHDOG_USEC": str(int(WATCHDOG_SECONDS * 1e6))},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        message = manager.next()
        check(message.startswith("READY=1\n"), "the node says that it serves")
        check(f"MAINPID={node.pid}" in message, "the message names the process")
        url = "http://127.0.0.1:" + port.read_text().strip()
        with urllib.request.urlopen(url + "/livez", timeout=10) as reply:
            check(reply.status == 200, "the port answers by then")
        check(manager.next() == manager.next() == "WATCHDOG=1", "the node says again and again that it lives")
        node.send_signal(signal.SIGHUP)
        check(manager.next(["WATCHDOG=1"]).startswith("RELOADING=1\nMONOTONIC_USEC="), "a reload begins")
        check(manager.next(["WATCHDOG=1"]) == "READY=1", "a reload ends")
        node.send_signal(signal.SIGSTOP)
        while manager.next(seconds=WATCHDOG_SECONDS):
            pass
        check(manager.next(seconds=2 * WATCHDOG_SECONDS) == "", "a stopped process says nothing")
        node.send_signal(signal.SIGCONT)
        check(manager.next() == "WATCHDOG=1", "it does once it goes on")
        node.send_signal(signal.SIGTERM)
        check(manager.next(["WATCHDOG=1"]).startswith("STOPPING=1"), "the node says that it stops")
        check(node.wait(40) == 0, "the node ends with status 0")
    finally:
        node.kill()
        node.wait()


def try_leave(troupe, folder):
    """A worker leaves, and stays for 3 s: its unit must not end it as after another stop."""
    if lacks := loopback.missing():
        return print(f"skipped: no {lacks}, so no node leaves a cluster")
    settings = [
        f"model: {{directory: {DEMO / 'model'}}}",
        "pool: {memory: 16MiB}",
        "node: {leave_time_min: 3s}",
    ]
    cluster = loopback.Cluster(troupe, folder, 2, settings)
    manager = Manager(folder)
    try:
        loopback.run(troupe, "import", "--config", cluster.file, "--node", "front", "--data", DEMO / "world")
        cluster.start_etcd()
        for name in ("front", "worker-1"):
            cluster.start(name)
        os.environ["NOTIFY_SOCKET"] = manager.name
        cluster.start("worker-2")
        del os.environ["NOTIFY_SOCKET"]
        for name in cluster.names:
            cluster.wait_until_ready(name)
        check(manager.next().startswith("READY=1\n"), "a node of a cluster says that it serves")
        leaver = cluster.processes.pop("worker-2")
        loopback.run(troupe, "leave", "--config", cluster.file, "--name", "worker-2", "--no-wait")
        said = [manager.next()]
        while not said[-1].startswith("EXTEND") or "waits for" not in said[-1]:
            said.append(manager.next())
            if not said[-1]:
                break
        check(said[0].startswith("STOPPING=1"), "a node that leaves says that it stops")
        times = [
            int(text.split("\n")[0].split("=")[1]) for text in said if text.startswith("EXTEND_TIMEOUT_USEC=")
        ]
        check(len(times) >= 2 and min(times) >= 60e6, f"it asks for more time again and again: {times}")
        check(leaver.wait(WAIT_SECONDS) == 0, "it ends with status 0")
    finally:
        cluster.end()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="troupe-service-") as name:
        verify_units(arguments.troupe, pathlib.Path(name))
        try_node(arguments.troupe, pathlib.Path(name))
        (pathlib.Path(name) / "cluster").mkdir()
        try_leave(os.path.abspath(arguments.troupe), pathlib.Path(name) / "cluster")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
