#!/usr/bin/env python3
"""Attacks every port that the nodes of a cluster with certificates open, while an honest client ranks.

  tests/server/pages_attack.py --troupe build/deploy/troupe [--seconds 2] [--transport auto|links|ucx]

A front node and two workers run on loopback with the cluster's certificates; requests need blocks of both
workers. A stranger without a certificate then connects to each listening port of each process and sends
connection requests of UCX, whole and too short (45 bytes end a process whose UCX receives them), random
bytes, the beginning of a TLS handshake, and nothing. Checks that

  - all processes are up, and every honest request is answered with 200,
  - no process listens elsewhere than at the nodes' address,
  - no worker has loaded UCX at all, since pages travel over links,
  - no pull failed, as far as the workers' logs say.

With --transport ucx the same attack ends the workers; that is what the default prevents. Exit status 1 if a
check fails; 77 if etcd is missing.
"""
import argparse
import json
import os
import pathlib
import random
import socket
import struct
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/bench"))
import loopback  # noqa: E402

DEMO = ROOT / "deploy/demo"
SETTINGS = [
    "pool: {memory: 32MiB, placement: hash, hot_share: 0}",
    "inference: {executors: 1, cores: 1}",
    "router: {deadline: 3s, pull_share: 0.01, measure_pulls: false}",
    f"model: {{directory: {DEMO / 'model'}}}",
]
USERS, SKIPPED = 40, 77
UCX_MAGIC, UCX_CONNECT = 0xCAFEBABE12345678, 32  # UCX 1.13: uct_tcp_am_hdr and the id of connection messages
LISTENING, LOOPBACK = "0A", "0100007F"  # a state and an address in /proc/net/tcp


# ---- what a stranger sends ----


def ucx_requests():
    """Yields connection requests as UCX's TCP transport reads them: magic, message id, length, event."""
    for length in (0, 1, 4, 5, 8, 16, 24, 32, 64, 1 << 20, 0xFFFFFFFF):
        for event in (1, 2, 4, 8):
            head = struct.pack("<QBI", UCX_MAGIC, UCX_CONNECT, length)
            yield (head + struct.pack("<I", event)).ljust(45, b"\0")
    yield struct.pack("<Q", UCX_MAGIC)


def noise(source):
    return bytes(source.randrange(256) for _ in range(source.choice((1, 8, 45, 500))))


def messages(source):
    yield b""
    yield b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"  # the beginning of a TLS handshake
    yield b"TRP1" + bytes(12)  # a frame between nodes
    yield from ucx_requests()
    for _ in range(20):
        yield noise(source)


def attack(ports, end, seed):
    """Sends all messages to all ports, again and again; returns how many were sent."""
    source, sent, round_ended = random.Random(seed), 0, False
    while not round_ended or time.monotonic() < end:
        for message in messages(source):
            for port in ports:
                try:
                    with socket.create_connection((loopback.ADDRESS, port), timeout=1) as link:
                        link.sendall(message)
                    sent += 1
                except OSError:  # refused: the checks below find a process that has ended
                    pass
        round_ended = True
    return sent


# ---- the processes ----


def listening_at(pid):
    """Returns the TCP addresses, as the kernel writes them, and ports on which a process listens."""
    inodes = set()
    for entry in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{entry}")
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    found = set()
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}") as file:
            for line in list(file)[1:]:
                words = line.split()
                if words[3] == LISTENING and words[9] in inodes:
                    address, port = words[1].rsplit(":", 1)
                    found.add((address, int(port, 16)))
    return found


def has_loaded_ucx(pid):
    with open(f"/proc/{pid}/maps") as maps:
        return "libucp" in maps.read()


# ---- the honest client ----


class Client(threading.Thread):
    """Ranks without pause until stopped, and counts answers by status."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.stopping, self.statuses, self.why = port, False, {}, ""
        with open(DEMO / "world/requests.jsonl") as file:
            self.requests = [json.loads(line) for line, _ in zip(file, range(USERS))]
        self.start()

    def run(self):
        turn = 0
        while not self.stopping:
            request = self.requests[turn // 2 % len(self.requests)]
            body = {
                "user": request["user"],
                "candidates": request["candidates"],
                "policy": ("item", "user")[turn % 2],
            }
            turn += 1
            try:
                status, text = loopback.ask(self.port, "POST", "/v1/rank", body, limit=10)
            except OSError as error:
                status, text = 0, repr(error)
            self.statuses[status] = self.statuses.get(status, 0) + 1
            if status != 200:
                self.why = text[:300]

    def stop(self):
        self.stopping = True
        self.join()


# ---- the check ----


def faults_of(cluster, client, transport):
    for name, process in cluster.processes.items():
        if process.poll() is not None:
            yield f"{name} ended with {process.returncode}; see {cluster.folder}/{name}.out"
    refused = {status: count for status, count in client.statuses.items() if status != 200}
    if refused or not client.statuses.get(200):
        yield f"honest requests by status: {client.statuses}; {client.why}"
    for name in cluster.names[1:]:
        log = (cluster.folder / f"{name}.log").read_text()
        if "pull_failed" in log:
            yield f"{name}: pull_failed; see {cluster.folder}/{name}.log"
        if '"page_transport"' not in log:
            yield f"{name} did not log its page_transport"
        if transport != "ucx" and cluster.runs(name) and has_loaded_ucx(cluster.processes[name].pid):
            yield f"{name} has loaded UCX; expected pages over links"


def run(options, folder):
    cluster = loopback.Cluster(options.troupe, folder, 2, SETTINGS)
    certificates = pathlib.Path(folder) / "certificates"
    loopback.run(options.troupe, "certs", certificates, "--config", cluster.file)
    secured = ["--set", f"cluster.certificates={certificates}"]
    if options.transport != "auto":
        secured += ["--set", f"transfer.transport={options.transport}"]
    try:
        loopback.run(
            options.troupe, "import", "--config", cluster.file, "--node", "front", "--data", DEMO / "world"
        )
        cluster.start_etcd()
        for name in cluster.names:
            cluster.start(name, *secured)
        for name in cluster.names:
            cluster.wait_until_ready(name)
        opened = set().union(*(listening_at(cluster.processes[name].pid) for name in cluster.names))
        ports = sorted({port for _, port in opened})
        elsewhere = sorted({address for address, _ in opened} - {LOOPBACK})
        client = Client(cluster.http_port["front"])
        sent = attack(ports, time.monotonic() + options.seconds, seed=1)
        time.sleep(0.5)  # a process that ends takes a moment
        client.stop()
        faults = list(faults_of(cluster, client, options.transport))
        if elsewhere:
            faults.append(f"nodes listen at {elsewhere}; expected only their own address, {LOOPBACK}")
        answers = client.statuses
        print(f"{sent} messages of a stranger to {len(ports)} ports; honest requests by status: {answers}")
        return faults
    finally:
        cluster.end()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True, type=os.path.abspath)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--transport", default="auto", choices=("auto", "links", "ucx"))
    parser.add_argument("--folder", help="keep logs here")
    options = parser.parse_args()
    if lacks := loopback.missing():
        print("skipped: no", lacks)
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="troupe-pages-attack-") as folder:
        if options.folder:
            os.makedirs(folder := options.folder)
        faults = run(options, folder)
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
