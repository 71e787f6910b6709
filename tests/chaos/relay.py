"""A bad cable in user space: carries frames between two network cards, and delays, loses, doubles, reorders or damages
some, or ends their connections. What it does comes as lines of JSON on its standard input; what it did goes to its
standard output when that ends. Run by hosts.py, in the namespace of the bridge; stands for netem, which many kernels
lack, and does what netem cannot: damage that checksums of TCP do not show, and resets."""
import heapq
import itertools
import json
import random
import select
import socket
import struct
import sys
import time

OUTGOING = 4  # a frame that this host sends, seen again
FRAME_MAX = 65536
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Segment:
    """A frame that carries TCP over IPv4."""

    def __init__(self, frame):
        self.frame = bytearray(frame)
        self.ip = 14
        self.tcp = self.ip + (frame[self.ip] & 15) * 4
        self.end = self.ip + struct.unpack_from("!H", frame, self.ip + 2)[0]
        self.payload = self.tcp + (frame[self.tcp + 12] >> 4) * 4
        self.ports = struct.unpack_from("!HH", frame, self.tcp)

    @staticmethod
    def of(frame):
        is_tcp = len(frame) >= 54 and frame[12:14] == b"\x08\0" and frame[23] == 6
        return Segment(frame) if is_tcp else None

    def mend_checksums(self):
        """So that only what is above TCP can see what was done."""
        struct.pack_into("!H", self.frame, self.ip + 10, 0)
        struct.pack_into("!H", self.frame, self.ip + 10, checksum(bytes(self.frame[self.ip : self.tcp])))
        struct.pack_into("!H", self.frame, self.tcp + 16, 0)
        body = bytes(self.frame[self.tcp : self.end])
        pseudo = bytes(self.frame[self.ip + 12 : self.ip + 20]) + struct.pack("!BBH", 0, 6, len(body))
        struct.pack_into("!H", self.frame, self.tcp + 16, checksum(pseudo + body))
        return bytes(self.frame)

    def flipped(self, chance):
        self.frame[chance.randrange(self.payload, self.end)] ^= 1 << chance.randrange(8)
        return self.mend_checksums()

    def reset(self):
        """Ends the connection: its receiver takes this as from its peer, whose next word it answers likewise."""
        self.frame[self.tcp + 13] = RST | ACK
        self.frame[self.tcp + 12] = 5 << 4
        del self.frame[self.tcp + 20 :]
        self.end = self.tcp + 20
        struct.pack_into("!H", self.frame, self.ip + 2, self.end - self.ip)
        return self.mend_checksums()

    def cut(self, chance):
        """Half of what it says, and that this was all."""
        self.end = self.payload + chance.randrange(1, self.end - self.payload)
        del self.frame[self.end :]
        self.frame[self.tcp + 13] = FIN | PSH | ACK
        struct.pack_into("!H", self.frame, self.ip + 2, self.end - self.ip)
        return self.mend_checksums()


class Relay:
    """Shares of frames: lose, double, hold (let others pass). Shares of TCP segments with `least` bytes of content or
    more, of connections that have one of `ports` (empty: all) and none of `spared`: flip, reset, cut. And delay_ms with
    jitter_ms, both ways."""

    NOTHING = {
        "delay_ms": 0,
        "jitter_ms": 0,
        "lose": 0,
        "double": 0,
        "hold": 0,
        "flip": 0,
        "reset": 0,
        "cut": 0,
        "ports": [],
        "spared": [],
        "least": 1,
    }

    def __init__(self, one, other, seed):
        self.cards = [self._open(one), self._open(other)]
        self.chance = random.Random(seed)
        self.what = dict(self.NOTHING)
        self.waiting, self.order = [], itertools.count()  # (when, order, where, frame)
        self.last = [0.0, 0.0]  # of frames that keep their order, by where
        self.did = dict.fromkeys(("carried", "lost", "doubled", "held", "flipped", "reset", "cut"), 0)

    @staticmethod
    def _open(card):
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        opened.bind((card, 0))
        opened.setblocking(False)
        return opened

    def happens(self, what):
        return self.what[what] > 0 and self.chance.random() < self.what[what]

    def count(self, what, frame):
        self.did[what] += 1
        return frame

    def touch(self, frame):
        """What becomes of a frame's content."""
        if not (self.what["flip"] or self.what["reset"] or self.what["cut"]):
            return frame
        segment = Segment.of(frame)
        if not segment or segment.end < segment.payload + self.what["least"] or segment.end > len(frame):
            return frame
        ports = set(segment.ports)
        if ports & set(self.what["spared"]) or (self.what["ports"] and not ports & set(self.what["ports"])):
            return frame
        if self.happens("flip"):
            return self.count("flipped", segment.flipped(self.chance))
        if self.happens("reset"):
            return self.count("reset", segment.reset())
        if self.happens("cut"):
            return self.count("cut", segment.cut(self.chance))
        return frame

    def take(self, frame, where, now):
        if self.happens("lose"):
            self.did["lost"] += 1
            return
        frame = self.touch(frame)
        at = now + (self.what["delay_ms"] + self.chance.random() * self.what["jitter_ms"]) / 1e3
        if self.happens("hold"):
            self.did["held"] += 1
            at += 0.02
        else:
            at = self.last[where] = max(at, self.last[where])
        times = 2 if self.happens("double") else 1
        self.did["doubled"] += times - 1
        for _ in range(times):
            heapq.heappush(self.waiting, (at, next(self.order), where, frame))

    def deliver(self, now):
        while self.waiting and self.waiting[0][0] <= now:
            _, _, where, frame = heapq.heappop(self.waiting)
            try:
                self.cards[where].send(frame)
                self.did["carried"] += 1
            except OSError:  # its card is down, or full: a lost frame
                self.did["lost"] += 1

    def read(self, which):
        for _ in range(64):
            try:
                frame, source = self.cards[which].recvfrom(FRAME_MAX)
            except OSError:
                return
            if source[2] != OUTGOING:
                self.take(frame, 1 - which, time.monotonic())

    def run(self, orders):
        print("ready", flush=True)
        while True:
            pause = None if not self.waiting else max(0, self.waiting[0][0] - time.monotonic())
            readable, _, _ = select.select([*self.cards, orders], [], [], pause)
            for which, card in enumerate(self.cards):
                if card in readable:
                    self.read(which)
            if orders in readable:
                line = orders.readline()
                if not line:
                    return
                self.what = {**self.NOTHING, **json.loads(line)}
            self.deliver(time.monotonic())


def main():
    relay = Relay(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    relay.run(sys.stdin)
    print(json.dumps(relay.did), flush=True)


if __name__ == "__main__":
    main()
