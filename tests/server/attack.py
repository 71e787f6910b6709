#!/usr/bin/env python3
"""Attacks the HTTP door of a running box for a while, one way after the other, while an honest client ranks.

  tests/server/attack.py --troupe build/deploy/troupe                 # its own box on the demo world
  tests/server/attack.py --server 127.0.0.1:8080 --pid PID --user u --candidates a,b    # one that runs

Prints resident memory before, at most and after, and how long honest requests took alone and meanwhile. Exit status 1
if memory grew beyond 1.2 times, the 99th percentile beyond 5 times, or an honest request was refused. The attacker
comes from addresses of his own (127.0.0.2 and on), sends 1 Gbit/s at most, and yields the processor to the others.
"""
import argparse
import http.client
import json
import multiprocessing
import os
import random
import re
import selectors
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BLOCK = b"x" * (64 << 10)
MEMORY_BOUND, LATENCY_BOUND = 1.2, 5.0
HONEST_PER_SECOND = 25
QUERY, ITEM = 600, 200  # tokens of scores
PATIENCE = (
    120  # seconds that a client waits: whether it is answered is judged, and how long that took apart from it
)
# On a busy machine the box measures a slow pace, and refuses what would be beyond its deadline: not where bounds alone are judged.
UNTIMED = ["router.deadline=10min", "router.deadline_max=10min", "router.tenant_work_max=10min"]


# ---- the attacker ----


class Wire:
    """Connections from addresses of the attacker's own, and a budget of bytes a second for all of them."""

    def __init__(self, server, addresses, bytes_per_second):
        self.server, self.rate = server, bytes_per_second
        self.addresses = [f"127.0.0.{2 + i}" for i in range(addresses)]
        self.turn = 0
        self.sent, self.began = 0, time.monotonic()

    def connect(self):
        self.turn += 1
        link = socket.socket()
        link.settimeout(2)
        try:
            link.bind((self.addresses[self.turn % len(self.addresses)], 0))
            link.connect(self.server)
            return link
        except OSError:
            link.close()
            return None

    def send(self, link, data):
        """False once the door has closed."""
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
    """Sends what never ends, on one connection after the other."""

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
    """Keeps so many connections open, which say something and then next to nothing, and opens those anew that are closed."""

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
    """Whole requests, several at a time, each answered before its connection has the next."""

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


def post(target, body, method="POST"):
    return f"{method} {target} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


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


def score(items):
    return post("/v1/score", score_body(items))


def attacks():
    line = b"POST /v1/rank HTTP/1.1\r\nhost: x\r\n"
    chunked = line + b"transfer-encoding: chunked\r\n\r\n"
    half = line + b"content-length: 1000000\r\n\r\n{"
    many = b"[" + b",".join([b"{}"] * 300_000) + b"]"
    big_json = [
        post("/v1/score", b'{"items":' + many + b"}"),
        post("/v1/rank", b'{"candidates":' + many.replace(b"{}", b'""') + b"}"),
        post("/v1/rank", b'{"junk":' + many + b"}"),
        post("/v1/users/a", b'{"history":' + many.replace(b"{}", b'""') + b"}", "PUT"),
        post("/v1/score", b'{"query":' + numbers(262_144) + b"}"),
    ]
    big_score = [score(1024), score(100), score(54), score(30)]  # of which some are taken
    return {
        "header": endless(b"GET / HTTP/1.1\r\nhost: x\r\ny: "),
        "extension": endless(chunked + b'1;a="'),
        "trailer": endless(chunked + b"0\r\ny: "),
        "trailers": endless(chunked + b"0\r\n" + b"y: z\r\n" * 10_000),
        "idle": crowd(2_000, b""),
        "slow_header": crowd(2_000, line + b"y: ", b"z"),
        "slow_body": crowd(2_000, half, b" ", 400_000),
        "big_json": repeated(big_json),
        "big_score": repeated(big_score, 2),
    }


def run_attack(name, server, addresses, rate, seconds):
    os.nice(10)
    attacks()[name](Wire(server, addresses, rate), time.monotonic() + seconds)


# ---- the honest client ----


def honest(server, request, seconds, tell, per_second=HONEST_PER_SECOND):
    """Ranks at a steady pace, in turn on a new connection and on the one that it kept. As clients do, it opens a kept
    one anew that was closed between two requests."""
    times, refused, why = [], 0, ""
    link = http.client.HTTPConnection(*server, timeout=PATIENCE)
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
                link.request("POST", "/v1/rank", request, {"content-type": "application/json"})
                reply = link.getresponse()
                text = reply.read()
                if reply.status != 200:
                    refused, why = refused + 1, f"{reply.status} {text[:200]!r}"
                break
            except (OSError, http.client.HTTPException) as error:
                link.close()
                link = http.client.HTTPConnection(*server, timeout=PATIENCE)
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


def measure(box, seconds, attack=None):
    """(sorted times, refused, why, most resident memory) of honest requests, with an attack beside them."""
    tell = multiprocessing.Queue()
    helpers = [multiprocessing.Process(target=honest, args=(box.server, box.request, seconds, tell))]
    if attack:
        helpers.append(multiprocessing.Process(target=run_attack, args=attack))
    for helper in helpers:
        helper.start()
    most = resident(box.pid)
    while helpers[0].is_alive() and tell.empty():
        time.sleep(0.1)
        most = max(most, resident(box.pid))
    times, refused, why = tell.get()
    for helper in helpers:
        helper.join()
    return times, refused, why, most


def ask_score(server, items, tell=None):
    link = http.client.HTTPConnection(*server, timeout=PATIENCE)
    link.putrequest("POST", "/v1/score", skip_accept_encoding=True)
    body = score_body(
        items, b',"budget_us":%d' % (PATIENCE * 1_000_000)
    )  # as much as router.deadline_max allows
    link.putheader("content-length", str(len(body)))
    link.endheaders(body)
    reply = link.getresponse()
    text = reply.read()
    if tell:
        tell.put(reply.status)
    return reply.status, text


def compute_largest(box):
    """Working memory is counted before a request is admitted, up to inference.memory_max, and each executor keeps its
    share of that: scores of honest clients, the largest that are admitted and smaller ones beside each other, take as
    much as those of hostile ones can. The door says how many tokens that is."""
    status, text = ask_score(box.server, 1024)
    most = re.search(rb"at most (\d+) .*inference.memory_max", text)
    if status != 413 or not most:
        raise RuntimeError(
            f"a score of any size is taken, or refused for another reason: {status} {text[:300]!r}"
        )
    items = (int(most[1]) - QUERY) // ITEM
    tell = multiprocessing.Queue()
    for part in (1, 2, 3, 4, 6, 8, 12, 16):
        askers = [
            multiprocessing.Process(target=ask_score, args=(box.server, items // part, tell))
            for _ in range(4)
        ]
        for asker in askers:
            asker.start()
        statuses = [tell.get() for _ in askers]
        for asker in askers:
            asker.join()
        if 200 not in statuses:
            raise RuntimeError(
                f"scores of {items // part} items, which the door admits, are refused: {statuses}"
            )
    return items


def warm_up(box):
    """A box in use: batches of several requests were computed, the largest that there may be, and the allocator has
    what it needs."""
    tell = multiprocessing.Queue()
    crowd_of = [
        multiprocessing.Process(target=honest, args=(box.server, box.large, 5, tell, 500)) for _ in range(4)
    ]
    for one in crowd_of:
        one.start()
    for one in crowd_of:
        tell.get()
        one.join()
    idle = resident(box.pid)
    items = compute_largest(box)
    print(
        f"resident {idle:.1f} MiB, and {resident(box.pid):.1f} MiB with the largest score, of {items * ITEM + QUERY} tokens"
    )
    measure(box, 3)


# ---- the box ----


class Running:
    def __init__(self, args):
        host, port = args.server.rsplit(":", 1)
        self.server, self.pid = (host, int(port)), args.pid
        self.request = self.large = json.dumps({"user": args.user, "candidates": args.candidates.split(",")})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Own:
    """A box of its own on the demo world, with every knob at its default but its port, and untimed its deadlines."""

    def __init__(self, args):
        self.folder = tempfile.TemporaryDirectory(prefix="troupe-door-")
        world, model = os.path.join(ROOT, "deploy/demo/world"), os.path.join(ROOT, "deploy/demo/model")
        data, port_file = os.path.join(self.folder.name, "data"), os.path.join(self.folder.name, "port")
        common = ["--model", model, "--data-dir", data]
        subprocess.run(
            [args.troupe, "import", *common, "--data", world], check=True, stdout=subprocess.DEVNULL
        )
        sets = [word for knob in [*(UNTIMED if args.untimed else []), *args.set] for word in ("--set", knob)]
        self.process = subprocess.Popen(
            [args.troupe, "serve", *common, "--port", "0", "--port-file", port_file, *sets],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL if not os.environ.get("BOX_STDERR") else None,
        )
        self.pid = self.process.pid
        while not os.path.exists(port_file) or not open(port_file).read().strip():
            if self.process.poll() is not None:
                raise RuntimeError("troupe serve ended with " + str(self.process.returncode))
            time.sleep(0.05)
        self.server = ("127.0.0.1", int(open(port_file).read()))
        with open(os.path.join(world, "items.jsonl")) as items:
            ids = [json.loads(line)["id"] for line, _ in zip(items, range(1000))]
        with open(os.path.join(world, "users.jsonl")) as users:
            user = json.loads(users.readline())
        self.request = json.dumps({"user": user["id"], "candidates": ids[:100]})
        self.large = json.dumps({"user": user["id"], "candidates": ids, "policy": "recompute"})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(40)
        self.folder.cleanup()


def parse(argv):
    known = list(attacks())
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", help="the program: a box of its own is started")
    parser.add_argument("--set", action="append", default=[], metavar="KNOB=VALUE", help="for that box")
    parser.add_argument("--server", default="127.0.0.1:8080")
    parser.add_argument("--pid", type=int, help="of the box that listens there")
    parser.add_argument("--user", default="ana")
    parser.add_argument("--candidates", default="camp-0001,camp-0002")
    parser.add_argument("--seconds", type=float, default=10, help="of each attack")
    parser.add_argument("--addresses", type=int, default=8, help="from which the attacker comes")
    parser.add_argument("--gbit", type=float, default=1.0)
    parser.add_argument("--attacks", default=",".join(known), help="some of " + ", ".join(known))
    parser.add_argument(
        "--untimed",
        action="store_true",
        help="times are printed and not judged, and nothing is refused for want of time",
    )
    parser.add_argument("--json", help="the figures go here too")
    args = parser.parse_args(argv)
    if not args.troupe and not args.pid:
        parser.error("--troupe PROGRAM, or --pid of the box at --server")
    unknown = set(args.attacks.split(",")) - set(known)
    if unknown:
        parser.error(f"attacks: {', '.join(unknown)}; expected some of {', '.join(known)}")
    return args


def main(argv):
    args = parse(argv)
    faults, rows = [], []
    with (Own if args.troupe else Running)(args) as box:
        warm_up(box)
        alone, refused, why, _ = measure(box, max(4 if args.untimed else 10, args.seconds / 3))
        if refused:
            print(f"refused without an attack: {why}")
            return 1
        before = resident(box.pid)
        print(f"alone: P50 {at(alone, .5):.2f} ms, P99 {at(alone, .99):.2f} ms, resident {before:.1f} MiB")
        print(
            f"{'attack':<12} {'P50 ms':>8} {'P99 ms':>8} {'refused':>8} {'most MiB':>9} {'after MiB':>9}  beyond"
        )
        for name in args.attacks.split(","):
            attack = (name, box.server, args.addresses, args.gbit * 125e6, args.seconds)
            times, refused, why, most = measure(box, args.seconds, attack)
            time.sleep(1)
            row = {
                "attack": name,
                "p50_ms": at(times, 0.5),
                "p99_ms": at(times, 0.99),
                "refused": refused,
                "most_mib": most,
                "after_mib": resident(box.pid),
                "before_mib": before,
                "alone_p50_ms": at(alone, 0.5),
                "alone_p99_ms": at(alone, 0.99),
                "seconds": args.seconds,
            }
            beyond = [
                word
                for word, bad in (
                    ("memory", most > MEMORY_BOUND * before),
                    ("P99", not args.untimed and row["p99_ms"] > LATENCY_BOUND * row["alone_p99_ms"]),
                    (f"refused ({why})", refused),
                )
                if bad
            ]
            rows.append(row)
            faults += beyond
            print(
                f"{name:<12} {row['p50_ms']:8.2f} {row['p99_ms']:8.2f} {refused:8} {most:9.1f} "
                f"{row['after_mib']:9.1f}  {', '.join(beyond) or '-'}",
                flush=True,
            )
    if args.json:
        with open(args.json, "w") as out:
            json.dump(rows, out, indent=1)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
