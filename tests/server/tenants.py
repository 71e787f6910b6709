#!/usr/bin/env python3
"""Measures how a tenant with few requests fares while another tenant floods the same node.

  tests/server/tenants.py --troupe build/deploy/troupe --json tenants.json

Starts a node on the demo world (all settings but the port have defaults) and measures:
  - the capacity, by tenant "flood" in a closed loop
  - tenant "steady" alone: a few requests a second at fixed times, whether or not the last one was answered
  - "steady" beside "flood" at 2 and at 20 times the capacity, also at fixed times
  - with --floor: "steady" beside "flood" at twice the capacity, while the other 18 times go to a
    separate process that refuses everything. This shows the cost of the flood's client itself on this
    machine.
Exit status 1 if "steady" has an error, if its 99th percentile beside a flood is more than 3 times its
value alone, or if less than 0.8 of the capacity is answered during a flood. Times count from when a
request was due. The flood uses its own addresses (127.0.0.2 and up) and many persistent connections,
reads only the status of an answer, and runs at a lower CPU priority, as if it came from another machine.
"""
import argparse
import collections
import http.client
import json
import multiprocessing
import os
import selectors
import socket
import sys
import time

from attack import at
from attack_node import Own

ERRORS, LATENCY_BOUND, GOODPUT_BOUND = 0, 3.0, 0.8
FLOOD, STEADY = "flood", "steady"


def post(body, tenant):
    return (
        f"POST /v1/rank HTTP/1.1\r\nhost: localhost\r\nx-troupe-tenant: {tenant}\r\n"
        f"content-length: {len(body)}\r\n\r\n{body}"
    ).encode()


def put_user(server, tenant, user):
    """Stores a user of this tenant; the users of the demo belong to the default tenant."""
    link = http.client.HTTPConnection(*server, timeout=10)
    link.request(
        "PUT",
        f"/v1/users/{user}",
        json.dumps({"history": ["camp-0001", "camp-0002"] * 8}),
        {"x-troupe-tenant": tenant},
    )
    reply = link.getresponse()
    if reply.status != 200:
        raise RuntimeError(f"PUT of a user: {reply.status} {reply.read()}")


class Link:
    """A persistent connection with one request at a time; reads only status and length of an answer."""

    def __init__(self, server, address):
        self.server, self.address, self.asked = server, address, False
        self.socket = socket.socket()
        self.socket.settimeout(10)
        self.socket.bind((address, 0))
        self.socket.connect(server)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.due, self.head, self.left = 0.0, b"", -1

    def ask(self, request, due):
        self.due, self.head, self.left, self.asked = due, b"", -1, True
        self.socket.setblocking(True)
        self.socket.sendall(request)
        self.socket.setblocking(False)

    def read(self):
        """Returns the status once the whole answer has arrived, else None."""
        data = self.socket.recv(1 << 18)
        if not data:
            raise OSError("the server has closed the connection")
        if self.left < 0:
            self.head += data
            end = self.head.find(b"\r\n\r\n")
            if end < 0:
                return None
            at_length = self.head.lower().index(b"content-length:") + 15
            length = int(self.head[at_length : self.head.index(b"\r\n", at_length)])
            self.left = length - (len(self.head) - end - 4)
        else:
            self.left -= len(data)
        self.asked = self.left != 0
        return None if self.asked else int(self.head[9:12])


def refuse_all(tell, address, size):
    """Answers every request of `size` bytes with a refusal like the server's."""
    body = b'{"error":{"status":429,"code":"tenant_overloaded"}}'.ljust(300)
    answer = (
        b"HTTP/1.1 429 Too Many Requests\r\nserver: sink\r\ncontent-type: "
        b"application/json\r\nretry-after: 1\r\n"
        b"content-length: %d\r\n\r\n%s" % (len(body), body)
    )
    listener = socket.create_server((address, 0), backlog=1024)
    tell.put(listener.getsockname())
    waiting = selectors.DefaultSelector()
    waiting.register(listener, selectors.EVENT_READ)
    came = {}
    while True:
        for key, _ in waiting.select():
            if key.fileobj is listener:
                link, _ = listener.accept()
                link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                waiting.register(link, selectors.EVENT_READ)
                came[link] = 0
                continue
            data = key.fileobj.recv(1 << 16)
            came[key.fileobj] += len(data)
            if came[key.fileobj] >= size:
                came[key.fileobj] -= size
                key.fileobj.send(answer)
            if not data:
                waiting.unregister(key.fileobj)
                del came[key.fileobj]
                key.fileobj.close()


class Elsewhere:
    """The process that refuses everything, and its address."""

    def __init__(self, size):
        tell = multiprocessing.Queue()
        self.process = multiprocessing.Process(target=refuse_all, args=(tell, "127.0.0.1", size))
        self.process.start()
        self.server = tell.get()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.join()


class Load:
    """Sends requests at fixed times over its connections; without times, one after the other on each."""

    def __init__(self, server, request, addresses, links):
        self.request, self.waiting = request, selectors.DefaultSelector()
        self.free = [Link(server, addresses[i % len(addresses)]) for i in range(links)]
        for link in self.free:
            self.waiting.register(link.socket, selectors.EVENT_READ, link)
        self.statuses, self.times, self.unsent = collections.Counter(), [], 0

    def run(self, seconds, per_second=None):
        begin = time.monotonic()
        number, end = 0, begin + seconds
        while True:
            now = time.monotonic()
            if now >= end:
                break
            if per_second is None:
                while self.free:
                    self.free.pop().ask(self.request, time.monotonic())
            while per_second and begin + number / per_second <= now:
                if self.free:
                    self.ask(begin + number / per_second)
                else:
                    self.unsent += 1
                number += 1
            pause = end - now if per_second is None else begin + number / per_second - now
            self.collect(max(0.0, min(pause, end - now)))
        self.finish()
        return {
            "seconds": time.monotonic() - begin,
            "asked": sum(self.statuses.values()) + self.unsent,
            "unsent": self.unsent,
            "statuses": {str(k): v for k, v in sorted(self.statuses.items())},
            "times": sorted(self.times),
        }

    def ask(self, due):
        """Sends a request. Like real clients, reopens a connection that was closed while idle."""
        link = self.free.pop()
        try:
            link.ask(self.request, due)
        except OSError:
            self.replace(link)
            self.free.pop(0).ask(self.request, due)

    def collect(self, pause):
        for key, _ in self.waiting.select(pause):
            link = key.data
            if not link.asked:  # the server closed an idle connection
                self.replace(link)
                continue
            try:
                status = link.read()
            except OSError:  # counts as an error: this connection was not idle
                self.statuses[0] += 1
                self.replace(link)
                continue
            if status is None:
                continue
            self.statuses[status] += 1
            if status == 200:
                self.times.append(time.monotonic() - link.due)
            self.free.append(link)

    def replace(self, link):
        self.waiting.unregister(link.socket)
        link.socket.close()
        self.free = [other for other in self.free if other is not link]
        self.free.insert(0, Link(link.server, link.address))
        self.waiting.register(self.free[0].socket, selectors.EVENT_READ, self.free[0])

    def finish(self):
        latest = time.monotonic() + 12
        while len(self.free) < len(self.waiting.get_map()) and time.monotonic() < latest:
            self.collect(0.1)
        for key in list(self.waiting.get_map().values()):
            key.data.socket.close()


def load(tell, server, request, addresses, links, seconds, per_second, nice):
    os.nice(nice)
    try:
        tell.put(Load(server, request, addresses, links).run(seconds, per_second))
    except Exception as error:  # so that measure() does not wait for ever
        tell.put({"error": repr(error)})


def measure(*loads):
    """Returns the results of loads that run at the same time."""
    running = []
    for one in loads:
        tell = multiprocessing.Queue()
        running.append((tell, multiprocessing.Process(target=load, args=(tell, *one))))
        running[-1][1].start()
    results = [tell.get() for tell, _ in running]
    for _, process in running:
        process.join()
    for result in results:
        if "error" in result:
            raise RuntimeError(result["error"])
    return results


def row_of(name, seconds, steady, flood=None):
    answered = steady["statuses"].get("200", 0)
    row = {
        "load": name,
        "steady_asked": steady["asked"],
        "steady_errors": steady["asked"] - answered,
        "p50_ms": at(steady["times"], 0.5),
        "p99_ms": at(steady["times"], 0.99),
        "worst_ms": at(steady["times"], 1),
    }
    if flood:
        row |= {
            "flood_per_s": flood["asked"] / seconds,
            "flood_unsent": flood["unsent"],
            "flood_answered_per_s": flood["statuses"].get("200", 0) / flood["seconds"],
            "flood_statuses": flood["statuses"],
            "flood_p50_ms": at(flood["times"], 0.5) if flood["times"] else None,
        }
    return row


def show(row):
    flood = (
        f"{row['flood_per_s']:9.0f} {row['flood_answered_per_s']:9.1f}  {row['flood_statuses']}"
        if "flood_per_s" in row
        else ""
    )
    print(
        f"{row['load']:<8} {row['steady_asked']:6} {row['steady_errors']:6} {row['p50_ms']:8.2f} "
        f"{row['p99_ms']:8.2f} "
        f"{row['worst_ms']:8.2f}  {flood}",
        flush=True,
    )


def faults_of(rows, capacity):
    alone, faults = rows[0], []
    for row in rows:
        if row.get("floor"):
            continue
        if row["steady_errors"] > ERRORS:
            faults.append(f"{row['load']}: {row['steady_errors']} errors of tenant {STEADY}")
        if row["p99_ms"] > LATENCY_BOUND * alone["p99_ms"]:
            faults.append(
                f"{row['load']}: P99 is {row['p99_ms'] / alone['p99_ms']:.2f} of that alone, "
                f"expected at most {LATENCY_BOUND}"
            )
        if row.get("flood_answered_per_s", capacity) < GOODPUT_BOUND * capacity:
            faults.append(
                f"{row['load']}: tenant {FLOOD} gets {row['flood_answered_per_s']:.1f} answers a second, "
                f"of a capacity of {capacity:.1f}"
            )
    return faults


def floor_of(args, times, capacity, flood, steady):
    """Measures a flood of twice the capacity, with the remaining requests sent to the refusing process."""
    with Elsewhere(len(flood[1])) as sink:
        rest = (sink.server, *flood[1:])
        by_steady, by_flood, refused = measure(
            (*steady, args.seconds, args.rate, 0),
            (*flood, args.links, args.seconds, 2 * capacity, 10),
            (*rest, args.links, args.seconds, (float(times) - 2) * capacity, 10),
        )
    return row_of(f"{times} x *", args.seconds, by_steady, by_flood) | {
        "floor": True,
        "refused_elsewhere_per_s": refused["statuses"].get("429", 0) / refused["seconds"],
    }


def parse(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    parser.add_argument("--set", action="append", default=[], metavar="SETTING=VALUE", help="for the node")
    parser.add_argument("--seconds", type=float, default=60, help="seconds of each measurement")
    parser.add_argument("--rate", type=float, default=5, help="requests a second of the steady tenant")
    parser.add_argument(
        "--candidates", type=int, default=400, help="candidates of each request; never reused"
    )
    parser.add_argument("--links", type=int, default=512, help="connections of the flood")
    parser.add_argument("--times", default="2,20", help="rates of the flood, as multiples of the capacity")
    parser.add_argument(
        "--floor", action="store_true", help="also send most of the flood to a refusing process"
    )
    parser.add_argument("--untimed", action="store_true", help="print times and rates without judging them")
    parser.add_argument("--json", help="also write the figures to this file")
    return parser.parse_args(argv)


def main(argv):
    args = parse(argv)
    with Own(args) as node:
        whole = json.loads(node.large)
        body = json.dumps({**whole, "candidates": whole["candidates"][: args.candidates]})
        addresses = [f"127.0.0.{2 + i}" for i in range(4)]
        for tenant in (FLOOD, STEADY):
            put_user(node.server, tenant, whole["user"])
        flood = (node.server, post(body, FLOOD), addresses)
        steady = (node.server, post(body, STEADY), ["127.0.0.1"], 32)
        measure((*flood, 4, 3, None, 0))
        capacity = measure((*flood, 8, max(5, args.seconds / 6), None, 10))[0]
        capacity = capacity["statuses"]["200"] / capacity["seconds"]
        print(
            f"capacity {capacity:.1f} requests/s of {args.candidates} candidates; load of the machine "
            "before: "
            f"{os.getloadavg()[0]:.2f}"
        )
        print(
            f"{'beside':<8} {'asked':>6} {'errors':>6} {'P50 ms':>8} {'P99 ms':>8} {'worst':>8}  "
            f"{'flood/s':>9} {'answered':>9}  by status"
        )
        rows = [row_of("alone", args.seconds, measure((*steady, args.seconds, args.rate, 0))[0])]
        show(rows[0])
        for times in args.times.split(","):
            by_steady, by_flood = measure(
                (*steady, args.seconds, args.rate, 0),
                (*flood, args.links, args.seconds, float(times) * capacity, 10),
            )
            rows.append(row_of(f"{times} x", args.seconds, by_steady, by_flood))
            show(rows[-1])
            if args.floor and float(times) > 2:
                rows.append(floor_of(args, times, capacity, flood, steady))
                show(rows[-1])
    faults = faults_of(rows, capacity)
    if args.untimed:
        faults = [fault for fault in faults if "errors" in fault]
    if args.json:
        with open(args.json, "w") as out:
            json.dump(
                {
                    "capacity_per_s": capacity,
                    "candidates": args.candidates,
                    "rate": args.rate,
                    "seconds": args.seconds,
                    "set": args.set,
                    "rows": rows,
                },
                out,
                indent=1,
            )
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
