"""Hosts as network namespaces: each has one card, whose other end is a port of a bridge in its own namespace.
Changes nothing outside of them, and leaves nothing behind."""
import ctypes
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import threading

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
SIOCETHTOOL = 0x8946
OFFLOADS = {"checksums": 0x17, "TCP segments": 0x1F, "segments": 0x24}  # ethtool's commands to set them


def run(*words, check=True):
    done = subprocess.run(words, capture_output=True, text=True)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def missing():
    """Returns what this machine lacks for such hosts; "" = nothing."""
    if os.geteuid() != 0:
        return "root"
    for program in ("ip", "nft", "tc"):
        if subprocess.run(["which", program], capture_output=True).returncode != 0:
            return f"the program {program}"
    probe = f"troupe-{os.getpid()}-probe"
    if subprocess.run(["ip", "netns", "add", probe], capture_output=True).returncode != 0:
        return "network namespaces"
    run("ip", "netns", "del", probe)
    return ""


class Hosts:
    subnet = "10.89.0"

    def __init__(self, names):
        self.mark = f"troupe-{os.getpid()}"
        self.names = list(names)
        self.address = {name: f"{self.subnet}.{i + 1}" for i, name in enumerate(self.names)}
        self.relays = {}  # relay processes, by host
        try:
            self._build()
        except BaseException:
            self.remove()
            raise

    def space(self, name):
        return f"{self.mark}-{name}"

    def port(self, name):
        return f"port{self.names.index(name) + 1}"

    def inside(self, name, *words, check=True):
        return run("ip", "netns", "exec", self.space(name), *words, check=check)

    def start(self, name, words, **options):
        return subprocess.Popen(["ip", "netns", "exec", self.space(name), *words], **options)

    def enter(self, name):
        """Moves the calling thread, and no other, to that host."""
        with open(f"/var/run/netns/{self.space(name)}") as space:
            if LIBC.setns(space.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")

    def _send_plainly(self, name, card):
        """Makes frames leave this card as on a real wire: unbatched and with checksums."""

        def change():
            self.enter(name)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
                for command in OFFLOADS.values():
                    value = ctypes.create_string_buffer(struct.pack("II", command, 0))
                    request = struct.pack("16sP", card.encode(), ctypes.addressof(value)) + bytes(16)
                    fcntl.ioctl(any_socket, SIOCETHTOOL, request)

        thread = threading.Thread(target=change)  # a namespace belongs to a thread
        thread.start()
        thread.join()

    def _build(self):
        run("ip", "netns", "add", self.space("net"))
        self.inside("net", "ip", "link", "add", "bridge", "type", "bridge")
        self.inside("net", "ip", "link", "set", "bridge", "up")
        self.inside("net", "nft", "add", "table", "bridge", "chaos")
        self.inside("net", "nft", "add chain bridge chaos forward { type filter hook forward priority 0 ; }")
        for name in self.names:
            run("ip", "netns", "add", self.space(name))
            self.inside(name, "ip", "link", "set", "lo", "up")
            self.inside(
                "net",
                "ip",
                "link",
                "add",
                self.port(name),
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                self.space(name),
            )
            self.inside("net", "ip", "link", "set", self.port(name), "master", "bridge", "up")
            self.inside(name, "ip", "address", "add", f"{self.address[name]}/24", "dev", "eth0")
            self.inside(name, "ip", "link", "set", "eth0", "up")

    def remove(self):
        try:
            for name in list(self.relays):
                self.take_relay(name)
        finally:
            for name in [*self.names, "net"]:
                run("ip", "netns", "del", self.space(name), check=False)

    # ---- network faults ----

    def set_link(self, name, up):
        self.inside("net", "ip", "link", "set", self.port(name), "up" if up else "down")

    def drop(self, **where):
        """Drops frames between ports, one way: drop(source="a"), drop(target="b"), or both."""
        words = []
        if "source" in where:
            words += ["iifname", self.port(where["source"])]
        if "target" in where:
            words += ["oifname", self.port(where["target"])]
        self.inside("net", "nft", "add", "rule", "bridge", "chaos", "forward", *words, "drop")

    def drop_nothing(self):
        self.inside("net", "nft", "flush", "chain", "bridge", "chaos", "forward")

    def limit_rate(self, name, rate):
        """Limits the rate to the host, such as "2mbit"; None = unlimited."""
        self.inside("net", "tc", "qdisc", "del", "dev", self.port(name), "root", check=False)
        if rate:
            self.inside(
                "net",
                "tc",
                "qdisc",
                "add",
                "dev",
                self.port(name),
                "root",
                "tbf",
                "rate",
                rate,
                "burst",
                "32kbit",
                "latency",
                "400ms",
            )

    # ---- a bad cable ----

    def put_relay(self, name, **what):
        """Puts a relay (relay.py) between that host and the bridge; connections continue through it."""
        card = f"relay{self.names.index(name) + 1}"
        self.inside("net", "ip", "link", "add", card, "type", "veth", "peer", "name", f"{card}b")
        self.inside("net", "ip", "link", "set", card, "up")
        self.inside("net", "ip", "link", "set", f"{card}b", "up")
        self._send_plainly(name, "eth0")
        self._send_plainly("net", f"{card}b")
        relay = self.start(
            "net",
            [sys.executable, os.path.join(os.path.dirname(__file__), "relay.py"), self.port(name), card, "1"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.relays[name] = relay
        relay.stdout.readline()  # waits until it is ready
        self.set_relay(name, **what)
        self.inside("net", "ip", "link", "set", self.port(name), "nomaster")
        self.inside("net", "ip", "link", "set", f"{card}b", "master", "bridge")

    def set_relay(self, name, **what):
        self.relays[name].stdin.write(json.dumps(what) + "\n")
        self.relays[name].stdin.flush()

    def take_relay(self, name):
        """Removes the relay; returns what it did, by kind."""
        card = f"relay{self.names.index(name) + 1}"
        self.inside("net", "ip", "link", "del", card, check=False)
        self.inside("net", "ip", "link", "set", self.port(name), "master", "bridge", check=False)
        said, _ = self.relays.pop(name).communicate()
        return json.loads(said or "{}")
