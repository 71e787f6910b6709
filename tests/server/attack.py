#!/usr/bin/env python3
"""Attacks the server of a running node over HTTP/1.1, HTTP/2 and gRPC, in one way after the other, while an
honest client ranks.

  tests/server/attack.py --troupe build/deploy/troupe          # starts its own node on the demo world
  tests/server/attack.py --troupe build/deploy/troupe --attacker stranger   # with keys; the attacker has none
  tests/server/attack.py --troupe build/deploy/troupe --attacker tenant     # with keys; it has a tenant's
  tests/server/attack.py --server 127.0.0.1:8080 --pid PID --user u --candidates a,b    # a running node

Prints resident memory before, during (maximum) and after each attack, how much the node logged, the CPU time
that node and attacker took, and the latency of honest requests alone and during the attack. Exit status 1 if
the node ended, if memory grew more than 1.5 times, if the 99th percentile is above 10 ms and more than 3
times that of alone, if the log grew by more than some 16 KiB a second, or if an honest request was refused.
The attacker uses its own addresses (127.0.0.2 and up), sends at most 1 Gbit/s, runs at a lower CPU
priority, and takes at most half of a core.
"""
import argparse
import http.client
import json
import multiprocessing
import os
import random
import re
import select
import selectors
import signal
import socket
import sys
import time

import attack_http2
from attack_node import Own, Running

BLOCK = b"x" * (64 << 10)
MEMORY_BOUND, LATENCY_BOUND, LATENCY_MS = 1.5, 3.0, 10.0
LOG_BYTES, LOG_BYTES_PER_SECOND = 256 << 10, 16 << 10  # that an attack may make the node log
HONEST_PER_SECOND = 25
QUERY, ITEM = 600, 200  # tokens of scores
# Seconds that a client waits. Whether it is answered is judged separately from how long that took.
PATIENCE = 120


# ---- the attacker ----


class Wire:
    """Opens connections from the attacker's addresses; limits the bytes a second sent over all of them."""

    def __init__(self, server, addresses, bytes_per_second):
        self.server, self.rate = server, bytes_per_second
        self.addresses = [f"127.0.0.{2 + i}" for i in range(addresses)]
        self.turn = 0
        self.sent, self.began = 0, time.monotonic()

    def connect(self, receive_bytes=0):
        self.turn += 1
        link = socket.socket()
        link.settimeout(2)
        if receive_bytes:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        try:
            link.bind((self.addresses[self.turn % len(self.addresses)], 0))
            link.connect(self.server)
            return link
        except OSError:
            link.close()
            return None

    def send(self, link, data):
        """Returns False once the server has closed the connection."""
        ahead = self.sent / self.rate - (time.monotonic() - self.began)
        if ahead > 0:
            time.sleep(ahead)
        try:
            link.sendall(data)
            self.sent += len(data)
            return True
        except OSError:
            return False


def endless(beginning):
    """Returns an attack that sends an endless message, on one connection after the other."""

    def attack(wire, end):
        while time.monotonic() < end:
            link = wire.connect()
            if link is None:
                continue
            going = wire.send(link, beginning)
            while going and time.monotonic() < end:
                going = wire.send(link, BLOCK)
            link.close()

    return attack


def crowd(count, beginning, drip=b"", growing=0):
    """Returns an attack that keeps `count` connections open.

    Each sends `beginning` and `growing` spaces, then occasionally `drip`. Closed connections are reopened.
    """

    def attack(wire, end):
        links, waiting = set(), selectors.DefaultSelector()

        def leave(link):
            waiting.unregister(link)
            links.discard(link)
            link.close()

        while time.monotonic() < end:
            while len(links) < count and time.monotonic() < end:
                link = wire.connect()
                if link is None:
                    break
                if not wire.send(link, beginning + b" " * growing):
                    link.close()
                    continue
                link.setblocking(False)
                links.add(link)
                waiting.register(link, selectors.EVENT_READ)
                if len(links) % 50 == 0:
                    for key, _ in waiting.select(0):
                        leave(key.fileobj)
            for key, _ in waiting.select(0.05):
                leave(key.fileobj)
            for link in random.sample(sorted(links, key=id), min(len(links), 20)) if drip else []:
                try:
                    link.send(drip)
                except OSError:
                    leave(link)
        for link in list(links):
            leave(link)

    return attack


def repeated(requests, at_a_time=4):
    """Returns an attack of whole requests, `at_a_time` connections at once, each closed after its answer."""

    def attack(wire, end):
        busy, waiting, turn = {}, selectors.DefaultSelector(), 0

        def leave(link):
            waiting.unregister(link)
            link.close()
            del busy[link]

        while time.monotonic() < end:
            while len(busy) < at_a_time:
                link = wire.connect()
                if link is None:
                    break
                busy[link] = True
                waiting.register(link, selectors.EVENT_READ)
                turn += 1
                if not wire.send(link, requests[turn % len(requests)]):
                    leave(link)
            for key, _ in waiting.select(0.1):
                leave(key.fileobj)
        for link in list(busy):
            leave(link)

    return attack


def unread(count, requests_first, endless_part):
    """Returns an attack that sends lines without end on `count` connections and never reads the results.

    The requests of `requests_first` are sent once before. `endless_part`: the head and what follows it again
    and again. A connection that the server has closed is opened anew.
    """

    def attack(wire, end):
        links, closed = {}, select.poll()  # what each connection still has to send of a part
        for request in requests_first:
            link = wire.connect()
            if link and wire.send(link, request):
                link.recv(4096)
                link.close()
        while time.monotonic() < end:
            while len(links) < count:
                link = wire.connect(receive_bytes=4096)
                if link is None:
                    break
                links[link] = b""
                wire.send(link, endless_part[0])
                link.setblocking(False)
                closed.register(link, select.POLLRDHUP)
            for link in links:
                left = links[link] or endless_part[1]
                try:
                    links[link] = left[link.send(left) :]
                except OSError:
                    links[link] = left  # full, or closed: the poll tells
            gone = {number for number, _ in closed.poll(50)}
            for link in [one for one in links if one.fileno() in gone]:
                closed.unregister(link)
                del links[link]
                link.close()

    return attack


def unread_rankings(ranking, fields):
    """Rankings by lines, of a user of the attacker's own tenant."""
    asked = json.loads(ranking)
    candidates = asked["candidates"][:300]
    tenant = fields or "x-troupe-tenant: attacker\r\n"
    user = json.dumps({"history": candidates[:3]}).encode()
    put = post("/v1/users/attacker", user, "PUT", tenant)
    lines = (json.dumps({"user": "attacker", "candidates": candidates}).encode() + b"\n") * 32
    head = f"POST /v1/rank HTTP/1.1\r\nhost: localhost\r\n{tenant}content-type: application/x-ndjson\r\n"
    head += "transfer-encoding: chunked\r\n\r\n"
    return unread(24, [put], (head.encode(), b"%x\r\n" % len(lines) + lines + b"\r\n"))


def post(target, body, method="POST", fields=""):
    head = f"{method} {target} HTTP/1.1\r\nhost: localhost\r\n{fields}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def numbers(count):
    return b"[" + b",".join([b"5"] * count) + b"]"


def score_body(items, more=b""):
    row = b'{"tokens":' + numbers(ITEM) + b"}"
    return (
        b'{"query":'
        + numbers(QUERY)
        + b',"items":['
        + b",".join([row] * items)
        + b'],"label_tokens":[1,2]'
        + more
        + b"}"
    )


def attacks(ranking='{"candidates":[]}', key=""):
    """Returns the attacks by name.

    `ranking`: the body of a ranking that the node answers; `key`: of the attacker, if it has one.
    """
    fields = f"authorization: Bearer {key}\r\n" if key else ""
    line = b"POST /v1/rank HTTP/1.1\r\nhost: localhost\r\n" + fields.encode()

    def own(target, body, method="POST"):
        return post(target, body, method, fields)

    chunked = line + b"transfer-encoding: chunked\r\n\r\n"
    half = line + b"content-length: 1000000\r\n\r\n{"
    many = b"[" + b",".join([b"{}"] * 300_000) + b"]"
    big_json = [
        own("/v1/score", b'{"items":' + many + b"}"),
        own("/v1/rank", b'{"candidates":' + many.replace(b"{}", b'""') + b"}"),
        own("/v1/rank", b'{"junk":' + many + b"}"),
        own("/v1/users/a", b'{"history":' + many.replace(b"{}", b'""') + b"}", "PUT"),
        own("/v1/score", b'{"query":' + numbers(262_144) + b"}"),
    ]
    events = b'{"events":' + many + b"}"
    double_keys = b'{"events":[{' + b",".join([b'"a":1'] * 100_000) + b"}]}"
    events_json = [
        own("/v1/users/x/events", events),
        own("/v1/users/x/events", double_keys),
        own("/v1/events", b"".join(b'{"user":"x%d",' % i + events[1:] + b"\n" for i in range(4))),
        own("/v1/events", b'{"user":"x","events":[{}]}\n' * 30_000),
    ]
    big_score = [
        own("/v1/score", score_body(items)) for items in (1024, 100, 54, 30)
    ]  # some of these are admitted
    return {
        "header": endless(b"GET / HTTP/1.1\r\nhost: localhost\r\ny: "),
        "extension": endless(chunked + b'1;a="'),
        "trailer": endless(chunked + b"0\r\ny: "),
        "trailers": endless(chunked + b"0\r\n" + b"y: z\r\n" * 10_000),
        "idle": crowd(2_000, b""),
        "slow_header": crowd(2_000, line + b"y: ", b"z"),
        "slow_body": crowd(2_000, half, b" ", 400_000),
        "big_json": repeated(big_json),
        "big_score": repeated(big_score, 2),
        "events_json": repeated(events_json),
        "bulk_unread": unread_rankings(ranking, fields),
        **attack_http2.attacks(key),
    }


def run_attack(name, node, args):
    os.nice(10)
    wire = Wire(node.server, args.addresses, args.gbit * 125e6)
    attacks(node.large, node.attackers_key)[name](wire, time.monotonic() + args.seconds)


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Held:
    """Stops and continues a process, so that it takes at most `share` of a core."""

    def __init__(self, process, share):
        self.process, self.share, self.used = process, share, 0.0
        self.began, self.is_stopped = time.monotonic(), False

    def check(self):
        if self.process.is_alive():
            self.used = cpu_seconds(self.process.pid)
            self.stop(self.used > self.share * (time.monotonic() - self.began))

    def stop(self, is_stopped):
        if is_stopped != self.is_stopped:
            os.kill(self.process.pid, signal.SIGSTOP if is_stopped else signal.SIGCONT)
        self.is_stopped = is_stopped


# ---- the honest client ----


def honest(node, request, seconds, tell, per_second=HONEST_PER_SECOND):
    """Ranks at a steady pace, alternately on a new and on the kept connection.

    Like real clients, it reopens a kept connection that was closed between two requests.
    """
    times, refused, why = [], 0, ""
    link = http.client.HTTPConnection(*node.server, timeout=PATIENCE)
    begin = time.monotonic()
    for i in range(int(seconds * per_second)):
        pause = begin + i / per_second - time.monotonic()
        if pause > 0:
            time.sleep(pause)
        elif pause < -seconds:
            break
        asked = time.monotonic()
        is_new = i % 2 == 0
        if is_new:
            link.close()
        for again in (False,) if is_new else (True, False):
            try:
                link.request("POST", "/v1/rank", request, {"content-type": "application/json", **node.fields})
                reply = link.getresponse()
                text = reply.read()
                if reply.status != 200:
                    refused, why = refused + 1, f"{reply.status} {text[:200]!r}"
                break
            except (OSError, http.client.HTTPException) as error:
                link.close()
                link = http.client.HTTPConnection(*node.server, timeout=PATIENCE)
                if not again:
                    refused, why = refused + 1, repr(error)
        times.append(time.monotonic() - asked)
    tell.put((sorted(times), refused, why))


def resident(pid):
    with open(f"/proc/{pid}/status") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has ended")


def at(times, share):
    return 1000 * times[min(len(times) - 1, int(share * len(times)))]


def measure(node, seconds, attack=None, args=None):
    """Returns (sorted times, refused, reason, maximum resident memory, the attacker's CPU time) of honest
    requests during an attack."""
    tell = multiprocessing.Queue()
    helpers = [multiprocessing.Process(target=honest, args=(node, node.request, seconds, tell))]
    if attack:
        helpers.append(multiprocessing.Process(target=run_attack, args=(attack, node, args)))
    for helper in helpers:
        helper.start()
    attacker = Held(helpers[1], args.core) if attack else None
    most = resident(node.pid)
    while helpers[0].is_alive() and tell.empty():
        time.sleep(0.02)
        most = max(most, resident(node.pid))
        if attacker:
            attacker.check()
    times, refused, why = tell.get()
    if attacker:
        attacker.stop(False)
    for helper in helpers:
        helper.join()
    return times, refused, why, most, attacker.used if attacker else 0.0


def ask_score(node, items, tell=None):
    link = http.client.HTTPConnection(*node.server, timeout=PATIENCE)
    link.putrequest("POST", "/v1/score", skip_accept_encoding=True)
    body = score_body(items, b',"budget_us":%d' % (PATIENCE * 1_000_000))  # at most router.deadline_max
    link.putheader("content-length", str(len(body)))
    for name, value in node.fields.items():
        link.putheader(name, value)
    link.endheaders(body)
    reply = link.getresponse()
    text = reply.read()
    if tell:
        tell.put(reply.status)
    return reply.status, text


def compute_largest(node):
    """Sends the largest scores that the server admits, and smaller ones at the same time.

    Working memory is counted before a request is admitted, up to inference.memory_max, and each executor
    keeps its share of that. So honest scores can take as much memory as hostile ones. The server's
    refusal names the number of tokens that it admits.
    """
    status, text = ask_score(node, 1024)
    most = re.search(rb"at most (\d+) .*inference.memory_max", text)
    if status != 413 or not most:
        raise RuntimeError(
            f"expected a refusal with 413 that names inference.memory_max: {status} {text[:300]!r}"
        )
    items = (int(most[1]) - QUERY) // ITEM
    tell = multiprocessing.Queue()
    for part in (1, 2, 3, 4, 6, 8, 12, 16):
        askers = [
            multiprocessing.Process(target=ask_score, args=(node, items // part, tell)) for _ in range(4)
        ]
        for asker in askers:
            asker.start()
        statuses = [tell.get() for _ in askers]
        for asker in askers:
            asker.join()
        if 200 not in statuses:
            raise RuntimeError(
                f"scores of {items // part} items are refused, though the server admits them: {statuses}"
            )
    return items


def warm_up(node):
    """Brings the node into the state of normal use.

    Batches of several requests have been computed, up to the largest, and the allocator has its memory.
    """
    tell = multiprocessing.Queue()
    crowd_of = [
        multiprocessing.Process(target=honest, args=(node, node.large, 5, tell, 500)) for _ in range(4)
    ]
    for one in crowd_of:
        one.start()
    for one in crowd_of:
        tell.get()
        one.join()
    idle = resident(node.pid)
    items = compute_largest(node)
    print(
        f"resident {idle:.1f} MiB, and {resident(node.pid):.1f} MiB with the largest score, of "
        f"{items * ITEM + QUERY} tokens"
    )
    measure(node, 3)


# ---- the command ----


def parse(argv):
    known = list(attacks())
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", help="the program; starts its own node")
    parser.add_argument("--set", action="append", default=[], metavar="SETTING=VALUE", help="for that node")
    parser.add_argument("--server", default="127.0.0.1:8080")
    parser.add_argument("--pid", type=int, help="process id of the node that listens there")
    parser.add_argument("--user", default="ana")
    parser.add_argument("--candidates", default="camp-0001,camp-0002")
    parser.add_argument("--seconds", type=float, default=10, help="seconds of each attack")
    parser.add_argument("--addresses", type=int, default=8, help="number of source addresses of the attacker")
    parser.add_argument("--gbit", type=float, default=1.0)
    parser.add_argument("--attacks", default=",".join(known), help="some of " + ", ".join(known))
    parser.add_argument(
        "--attacker",
        choices=("open", "stranger", "tenant"),
        default="open",
        help="with --troupe: a node without keys, or with keys of which the attacker has none or a tenant's",
    )
    parser.add_argument("--core", type=float, default=0.5, help="share of a core that the attacker may take")
    parser.add_argument(
        "--untimed",
        action="store_true",
        help="print times without judging them, and use deadlines that refuse nothing",
    )
    parser.add_argument("--json", help="also write the figures to this file")
    args = parser.parse_args(argv)
    if not args.troupe and not args.pid:
        parser.error("expected --troupe PROGRAM, or --pid of the node at --server")
    unknown = set(args.attacks.split(",")) - set(known)
    if unknown:
        parser.error(f"attacks: {', '.join(unknown)}; expected some of {', '.join(known)}")
    return args


def main(argv):
    args = parse(argv)
    faults, rows = [], []
    with Own(args, args.attacker) if args.troupe else Running(args) as node:
        warm_up(node)
        alone, refused, why, *_ = measure(node, max(4 if args.untimed else 10, args.seconds / 3))
        if refused:
            print(f"refused without an attack: {why}")
            return 1
        before = resident(node.pid)
        print(f"alone: P50 {at(alone, .5):.2f} ms, P99 {at(alone, .99):.2f} ms, resident {before:.1f} MiB")
        print(
            f"{'attack':<20} {'P50 ms':>8} {'P99 ms':>8} {'refused':>8} {'most MiB':>9} "
            f"{'after MiB':>9} {'log KiB':>8} {'node s':>7} {'att. s':>7}  exceeded"
        )
        for name in args.attacks.split(","):
            logged, used = node.log_bytes(), cpu_seconds(node.pid)
            times, refused, why, most, attacker_s = measure(node, args.seconds, name, args)
            time.sleep(0.1 if args.untimed else 1)
            row = {
                "attack": name,
                "attacker": args.attacker,
                "p50_ms": at(times, 0.5),
                "p99_ms": at(times, 0.99),
                "refused": refused,
                "most_mib": most,
                "after_mib": resident(node.pid),
                "node_cpu_s": cpu_seconds(node.pid) - used,
                "attacker_cpu_s": attacker_s,
                "log_kib": (node.log_bytes() - logged) / 1024,
                "before_mib": before,
                "alone_p50_ms": at(alone, 0.5),
                "alone_p99_ms": at(alone, 0.99),
                "seconds": args.seconds,
            }
            beyond = [
                word
                for word, bad in (
                    ("memory", most > MEMORY_BOUND * before),
                    (
                        "P99",
                        not args.untimed and row["p99_ms"] > max(LATENCY_MS, LATENCY_BOUND * at(alone, 0.99)),
                    ),
                    ("log", 1024 * row["log_kib"] > LOG_BYTES + LOG_BYTES_PER_SECOND * args.seconds),
                    (f"refused ({why})", refused),
                )
                if bad
            ]
            rows.append(row)
            faults += beyond
            print(
                f"{name:<20} {row['p50_ms']:8.2f} {row['p99_ms']:8.2f} {refused:8} {most:9.1f} "
                f"{row['after_mib']:9.1f} {row['log_kib']:8.1f} {row['node_cpu_s']:7.1f} "
                f"{row['attacker_cpu_s']:7.1f}  {', '.join(beyond) or '-'}",
                flush=True,
            )
    if args.json:
        with open(args.json, "w") as out:
            json.dump(rows, out, indent=1)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
