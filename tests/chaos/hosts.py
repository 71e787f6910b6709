"""Hosts as network namespaces: each has one card, whose other end is a port of a bridge in a namespace of its own.
Nothing is touched outside of them, and nothing is left behind."""
import ctypes
import os
import subprocess

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)


def run(*words, check=True):
    done = subprocess.run(words, capture_output=True, text=True)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def missing():
    """What this machine lacks for hosts of this kind; empty: nothing."""
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

    def _build(self):
        run("ip", "netns", "add", self.space("net"))
        self.inside("net", "ip", "link", "add", "bridge", "type", "bridge")
        self.inside("net", "ip", "link", "set", "bridge", "up")
        self.inside("net", "nft", "add", "table", "bridge", "chaos")
        self.inside("net", "nft", "add chain bridge chaos forward { type filter hook forward priority 0 ; }")
        for name in self.names:
            run("ip", "netns", "add", self.space(name))
            self.inside(name, "ip", "link", "set", "lo", "up")
            self.inside("net", "ip", "link", "add", self.port(name), "type", "veth", "peer", "name", "eth0", "netns",
                        self.space(name))
            self.inside("net", "ip", "link", "set", self.port(name), "master", "bridge", "up")
            self.inside(name, "ip", "address", "add", f"{self.address[name]}/24", "dev", "eth0")
            self.inside(name, "ip", "link", "set", "eth0", "up")

    def remove(self):
        for name in [*self.names, "net"]:
            run("ip", "netns", "del", self.space(name), check=False)

    # ---- faults of the network ----

    def set_link(self, name, up):
        self.inside("net", "ip", "link", "set", self.port(name), "up" if up else "down")

    def drop(self, **where):
        """Frames between ports, one way: drop(source="a"), drop(target="b"), or both."""
        words = []
        if "source" in where:
            words += ["iifname", self.port(where["source"])]
        if "target" in where:
            words += ["oifname", self.port(where["target"])]
        self.inside("net", "nft", "add", "rule", "bridge", "chaos", "forward", *words, "drop")

    def drop_nothing(self):
        self.inside("net", "nft", "flush", "chain", "bridge", "chaos", "forward")

    def limit_rate(self, name, rate):
        """What goes to the host, such as "2mbit"; none: as fast as it can."""
        self.inside("net", "tc", "qdisc", "del", "dev", self.port(name), "root", check=False)
        if rate:
            self.inside("net", "tc", "qdisc", "add", "dev", self.port(name), "root", "tbf", "rate", rate, "burst",
                        "32kbit", "latency", "400ms")
