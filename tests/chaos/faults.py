"""The faults, each with the condition on requests meanwhile (`expect`):
  kill      99 % answered from 5 heartbeats after the kill, 99.9 % from 10 (promise 6), over all faults of
  this kind served    99 % answered from 5 heartbeats after its begin, while it lasts: the cluster
  tolerates it, or sheds the
            node (promises 9, 11); 99.9 % from 10 heartbeats after its end
  lossless  no request fails (promise 13)
  away      Redis: one router answers from what it knows; the other one refuses, says why, and is not ready
  none      nothing wrong, nothing hung, errors typed, as for all faults"""
import random
import signal
import time

from cluster import JOINER, ROLES, ROOMY, STRICT

LINK_PORT = 7000
UNGUARDED = [8080, 2379, 6379]  # ports of clients, etcd and Redis: only TCP's checksum protects them


class Faults:
    def __init__(self, chaos):
        self.chaos, self.hosts, self.cluster = chaos, chaos.hosts, chaos.cluster
        self.load, self.writers = chaos.load, chaos.writers
        self.chance = random.Random(1)  # chooses what is damaged
        self.missed = []  # result of each step of a version change: "" or what was not done

    # ---- processes ----

    def kill(self, name, expect="kill"):
        def begin():
            self.out_of_reach(name)
            self.cluster.kill(name)

        def end():
            said = self.load.why_not[STRICT]
            self.cluster.start(name)
            self.within_reach(name)
            return {"strict_said": said} if name == "redis" else {}

        self.chaos.fault(f"kill -9 {name}", begin, end, expect=expect)

    def stop(self, name):
        def begin():
            self.out_of_reach(name)
            self.cluster.signal(name, signal.SIGSTOP)

        def end():
            self.cluster.signal(name, signal.SIGCONT)
            self.within_reach(name)

        self.chaos.fault(f"SIGSTOP {name}", begin, end)

    def roll(self, name, to=None):
        def end():
            self.cluster.program[name] = to or self.cluster.program[name]
            self.cluster.start(name)

        self.chaos.fault(
            f"{'upgraded' if to else 'ended in order, restarted'}: {name}",
            lambda: self.cluster.end(name),
            end,
            hold=0.5,
            expect="lossless",
        )

    # ---- the data of etcd ----

    def lose_etcd(self, how):
        """Kills etcd; it comes back without data, or as a copy made before a node was restarted."""

        def begin():
            if how == "restored":
                self.copy_etcd()
                self.cluster.restart_and_wait(self.chaos.busiest())  # writes what the copy lacks
            self.cluster.kill("etcd")
            self.cluster.empty_folder("etcd")
            if how == "restored":
                self.cluster.restore_folder("etcd")

        self.chaos.fault(f"etcd {how}", begin, lambda: self.cluster.start("etcd"), expect="served")

    def copy_etcd(self):
        self.cluster.kill("etcd")
        self.cluster.copy_folder("etcd")
        self.cluster.start("etcd")

    def etcd(self, names=tuple(ROLES)):
        """Loses etcd's data, then restarts nodes one after the other, while workers follow what was lost."""
        for how in ("emptied", "restored"):
            self.lose_etcd(how)
            for name in names:
                self.roll(name)

    # ---- versions ----

    def swap(self, kill=None):
        """Gives the other version to some of the users, to more, then to all. `kill`: a node that is
        killed meanwhile.

        If the fault is repeated because the machine was too busy, it changes back.
        """

        def begin():
            self.missed = [self.chaos.reload(model=self.chaos.versions[1], share=share) for share in (0, 0.2)]
            if kill:
                self.out_of_reach(kill)
                self.cluster.kill(kill)

        def end():
            if kill:
                self.cluster.start(kill)
                self.within_reach(kill)
            self.missed += [
                self.chaos.reload(model=self.chaos.versions[1], share=0.6),
                self.chaos.reload(model=self.chaos.versions[1]),
            ]
            self.chaos.versions.reverse()
            return {"missed": next(filter(None, self.missed), "")}

        self.chaos.fault(
            "another model" + (f", kill -9 {kill}" if kill else ""),
            begin,
            end,
            expect="kill" if kill else "lossless",
        )

    def take_back(self):
        """Gives the other version to a share of the users, and then withdraws it."""

        def begin():
            self.missed = [self.chaos.reload(model=self.chaos.versions[1], share=0.5)]

        def end():
            return {"missed": self.missed[0] or self.chaos.reload(model=self.chaos.versions[0])}

        self.chaos.fault("another model, taken back", begin, end, expect="lossless")

    def swaps(self):
        if not self.chaos.swaps:
            return
        self.swap()
        self.take_back()
        self.swap(kill=self.chaos.busiest())
        self.swap(kill="router-1")

    # ---- members ----

    def come_and_go(self, kill=False):
        """A worker that no file names joins, is asked, and leaves.

        `kill`: it is killed in between, and returns with its number.
        """
        number = []

        def begin():
            number[:] = [self.cluster.join()]

        def end():
            missed = (
                "" if self.load.ran_at(number[0]) else f"{JOINER}, which is node {number[0]}, got no request"
            )
            if kill:
                again = self.killed_between(number[0])
                missed = missed or again
            return {"missed": self.cluster.leave() or missed}

        self.chaos.fault(
            f"{JOINER} joins{', kill -9,' if kill else ''} and leaves",
            begin,
            end,
            expect="kill" if kill else "lossless",
        )

    def killed_between(self, number, **as_who):
        """Kills the joined node and lets it join again; returns "" or what is wrong."""
        self.cluster.kill(JOINER)
        again = self.cluster.join(**as_who)
        return "" if again == number else f"{JOINER} is node {again}; expected {number}"

    def router_comes_and_goes(self, kill=False):
        """A router joins and leaves; clients ask it while it is there, and stop before it leaves."""
        number, joined = [], []

        def begin():
            number[:] = [self.cluster.join(like="router-1")]
            joined[:] = [time.monotonic()]
            self.load.add_router(JOINER)

        def end():
            missed = "" if self.load.asked_at(JOINER, joined[0]) else f"{JOINER}, a router, answered nothing"
            at = {}
            if kill:
                at["at"] = time.monotonic()  # earlier requests do not count as hit by the kill
                self.out_of_reach(JOINER)
                again = self.killed_between(number[0], like="router-1")
                self.within_reach(JOINER)
                missed = missed or again
            self.load.remove_router(JOINER)
            return {"missed": self.cluster.leave() or missed, **at}

        self.chaos.fault(
            f"{JOINER}, a router, joins{', kill -9,' if kill else ''} and leaves",
            begin,
            end,
            expect="kill" if kill else "lossless",
        )

    def cache_meta_comes_and_goes(self):
        """A cache-meta joins; the leading one is killed; the joined one leaves, whoever leads then."""
        missed, led = [], []

        def begin():
            number = self.cluster.join(like="meta-1")
            led[:] = [self.cluster.leader()]
            missed[:] = [
                "" if self.cluster.index_blocks(number) else f"{JOINER}, a cache-meta, knows no block"
            ]
            self.cluster.kill(led[0])

        def end():
            self.cluster.start(led[0])
            return {"missed": self.cluster.leave() or missed[0]}

        self.chaos.fault(
            f"{JOINER}, a cache-meta, joins, kill -9 the leader, leaves", begin, end, expect="kill"
        )

    def die_leaving(self):
        """The joined node is killed while it leaves, for good: the others must remove it."""

        def begin():
            self.cluster.join()
            self.cluster.send_away()
            self.cluster.kill(JOINER)

        def end():
            self.cluster.send_away("--gone")
            return {"missed": f"{JOINER} is still a member" if JOINER in self.cluster.members() else ""}

        self.chaos.fault(f"{JOINER} joins, kill -9 while it leaves, gone", begin, end, expect="kill")

    def members(self):
        if self.cluster.catalog:
            return  # a joining worker has no router, and needs its catalog
        self.come_and_go()
        self.come_and_go(kill=True)
        self.die_leaving()
        self.router_comes_and_goes()
        self.router_comes_and_goes(kill=True)
        self.cache_meta_comes_and_goes()

    # ---- the network ----

    def out_of_reach(self, name):
        """Notes a router that clients cannot reach, or the store that a router does not reach."""
        self.load.away[name] = (time.monotonic(), None)
        if name in ("redis", "router-1", JOINER):
            self.writers.away.append([time.monotonic(), None])
        if name == "redis":
            self.load.insisted = {STRICT}  # it is not ready now, and would get no request otherwise

    def within_reach(self, name):
        self.load.away[name] = (self.load.away[name][0], time.monotonic())
        if name in ("redis", "router-1", JOINER):
            self.writers.away[-1][1] = time.monotonic()
        if name == "redis":
            self.load.insisted = set()

    def cut(self, name):
        def begin():
            self.out_of_reach(name)
            self.hosts.set_link(name, False)

        def end():
            self.hosts.set_link(name, True)
            self.within_reach(name)

        self.chaos.fault(f"link down {name}", begin, end)

    def deaf(self, name):
        self.chaos.fault(
            f"hears nothing: {name}", lambda: self.hosts.drop(target=name), self.hosts.drop_nothing
        )

    def mute(self, name):
        self.chaos.fault(
            f"is not heard: {name}", lambda: self.hosts.drop(source=name), self.hosts.drop_nothing
        )

    def slow(self, name):
        self.chaos.fault(
            f"1 Mbit/s to {name}",
            lambda: self.hosts.limit_rate(name, "1mbit"),
            lambda: self.hosts.limit_rate(name, None),
            expect="served",
        )

    def bad_cable(self, label, name, must, restart=False, **what):
        """Puts a relay with these faults before a node.

        `must`: what the relay must have done; otherwise nothing was tested. `restart`: restarts the node
        without its cache and disk, so that it pulls much from other workers instead of loading saved item
        blocks.
        """

        def begin():
            if name == "router-1":
                self.writers.away.append([time.monotonic(), None])
            if restart:
                self.cluster.kill(name)
                self.cluster.empty_folder(name)
            self.hosts.put_relay(name, **what)
            if restart:
                self.cluster.start(name)

        def end():
            did = self.hosts.take_relay(name)
            if name == "router-1":
                self.writers.away[-1][1] = time.monotonic()
            only_transfers = {LINK_PORT, *UNGUARDED} <= set(what.get("spared", ()))
            return {
                "relay": did,
                "transfers_flipped": did.get("flipped", 0) if only_transfers else 0,
                "idle": not did.get(must),
                "missed": "" if did.get(must) else f"the relay has {must} nothing: {did}",
            }

        self.chaos.fault(f"{label}: {name}", begin, end, expect="served", breaks=True)

    # ---- disks ----

    def damaged(self, name):
        def end():
            self.cluster.damage_disk(name)
            self.cluster.start(name)

        self.chaos.fault(
            f"kill -9, bytes changed in files: {name}",
            lambda: self.cluster.kill(name),
            end,
            hold=1.0,
            expect="kill",
        )

    def truncated(self, name):
        def end():
            self.cluster.truncate_disk(name)
            self.cluster.start(name)

        self.chaos.fault(
            f"kill -9, files cut, list of files nonsense: {name}",
            lambda: self.cluster.kill(name),
            end,
            hold=1.0,
            expect="kill",
        )

    def harmed(self, name):
        """Damages files at random between two runs of the node."""
        harm = []

        def end():
            harm.extend(self.cluster.harm_files(name, self.chance))
            self.cluster.start(name)
            return {"harm": harm}

        self.chaos.fault(
            f"kill -9, files changed, cut or gone: {name}",
            lambda: self.cluster.kill(name),
            end,
            hold=1.0,
            expect="kill",
        )

    def harmed_while_it_runs(self, name):
        """Damages files while the node runs, also open ones; then kills it, and starts it on what is left."""
        harm = []
        self.chaos.fault(
            f"files changed, cut or gone while it runs: {name}",
            lambda: harm.extend(self.cluster.harm_files(name, self.chance)),
            lambda: {"harm": harm},
            expect="served",
        )
        self.kill(name)

    def small(self, name):
        def end():
            self.cluster.limit_disk(name, "3m")
            self.cluster.start(name)

        self.chaos.fault(
            f"kill -9, a disk of 3 MB: {name}", lambda: self.cluster.kill(name), end, hold=1.0, expect="kill"
        )

    def full(self, name):
        self.chaos.fault(
            f"disk full while it runs: {name}",
            lambda: self.cluster.fill_disk(name),
            lambda: self.cluster.empty_disk(name),
            expect="served",
        )

    # ---- selections ----

    def short(self):
        self.kill(self.chaos.busiest())
        self.kill("router-1")
        self.kill(self.cluster.leader())
        self.roll(self.chaos.busiest())
        self.roll("router-2")
        self.swaps()
        self.members()
        self.stop(self.chaos.busiest())
        self.cut(self.chaos.busiest())
        self.deaf(self.chaos.busiest())
        self.mute(self.chaos.busiest())
        self.slow(self.chaos.busiest())
        self.cables()
        self.kill("etcd", expect="served")
        self.etcd(names=("router-1", "router-2"))
        self.kill("redis", expect="away")
        self.damaged(self.chaos.busiest())
        self.truncated(self.chaos.busiest())
        self.harmed(self.chaos.busiest())
        self.harmed_while_it_runs(self.chaos.busiest())
        self.small("worker-4")
        self.full(ROOMY)
        self.stop(self.cluster.leader())
        self.cut("router-1")

    def damage_transfers(self):
        """Pages that go over the links are protected as these are."""
        if not self.cluster.pulls_over_ucx():
            return
        self.bad_cable(
            "restarted, bits flipped in transfers",
            self.chaos.busiest(),
            "flipped",
            restart=True,
            flip=0.3,
            spared=[*UNGUARDED, LINK_PORT],
            least=1000,
        )

    def few(self):
        """The faults that test catalogs most: a worker that must read one, a router that uses former ones."""
        self.kill(self.chaos.busiest())
        self.damage_transfers()
        self.kill("redis", expect="away")

    def brief(self):
        """One fault of each sort."""
        self.kill(self.chaos.busiest())
        self.kill("router-1")
        self.roll(self.chaos.busiest())
        self.bad_cable("bits flipped in links", self.chaos.busiest(), "flipped", flip=0.02, ports=[LINK_PORT])
        self.damage_transfers()
        self.kill("redis", expect="away")
        self.harmed(self.chaos.busiest())
        self.cut(self.chaos.busiest())

    def cables(self):
        self.bad_cable(
            "40 to 60 ms late, both ways", self.chaos.busiest(), "carried", delay_ms=40, jitter_ms=20
        )
        self.bad_cable(
            "5 % lost, 5 % doubled, 5 % late", self.chaos.busiest(), "lost", lose=0.05, double=0.05, hold=0.05
        )
        self.bad_cable("bits flipped in links", self.chaos.busiest(), "flipped", flip=0.02, ports=[LINK_PORT])
        self.damage_transfers()
        self.bad_cable(
            "connections reset, cut short", "router-1", "reset", reset=0.005, cut=0.005, ports=[LINK_PORT]
        )

    def upgrade(self, program):
        """Upgrades routers, workers and cache-metas; half way both programs serve together for a while."""
        order = sorted(ROLES, key=lambda name: ("router", "worker", "cache_meta").index(ROLES[name]))
        for number, name in enumerate(order):
            if number == len(order) // 2:
                self.chaos.fault(
                    "half of the nodes upgraded", lambda: None, lambda: None, hold=10.0, expect="lossless"
                )
            self.roll(name, to=program)
        self.cluster.program[JOINER] = program  # for nodes that join later
