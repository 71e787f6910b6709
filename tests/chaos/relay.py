"""A bad cable in user space: carries frames between two network cards and damages some.

It delays, loses, doubles, reorders or damages frames, or ends their connections. Each line of JSON on
standard input changes its settings; at its end it prints what it did. hosts.py runs it in the bridge's
namespace. It replaces netem,
which many kernels lack, and can do more: damage that TCP's checksums do not show, and resets."""
import heapq
import itertools
import json
import random
import select
import socket
import struct
import sys
import time

OUTGOING = 4  # packet type of frames that this host sends itself
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
        """Recomputes the checksums, so that only layers above TCP can notice the damage."""
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
        """Turns the segment into a reset; its receiver believes that the peer sent it."""
        self.frame[self.tcp + 13] = RST | ACK
        self.frame[self.tcp + 12] = 5 << 4
        del self.frame[self.tcp + 20 :]
        self.end = self.tcp + 20
        struct.pack_into("!H", self.frame, self.ip + 2, self.end - self.ip)
        return self.mend_checksums()

    def cut(self, chance):
        """Keeps half of the content, and marks it as the end of the connection."""
        self.end = self.payload + chance.randrange(1, self.end - self.payload)
        del self.frame[self.end :]
        self.frame[self.tcp + 13] = FIN | PSH | ACK
        struct.pack_into("!H", self.frame, self.ip + 2, self.end - self.ip)
        return self.mend_checksums()


class Relay:
    """Settings are shares of frames to lose, double or hold (which lets others pass).

    Shares of TCP segments to flip, reset or cut apply to segments with `least` bytes of content or more,
    of connections with one of `ports` (empty = all) and none of `spared`. delay_ms with jitter_ms applies
    both ways.
    """

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
        self.waiting, self.order = [], itertools.count()  # (time, order, card, frame)
        self.last = [0.0, 0.0]  # time of the last frame in order, by card
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
        """Returns the content of a frame after damage."""
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
            except OSError:  # the card is down or full; the frame is lost
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
