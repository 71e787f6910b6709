"""Chaos: real processes on hosts of their own, one fault after the other while a client asks, and a judge. Run by
run.sh. Every outcome is judged: an answer must be what a box that nothing happened to answers, an error must be typed,
and nothing may hang (promises 1, 2, 6, 7, 9, 13)."""
import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import hosts as network
from cluster import HEARTBEAT, HOSTS, ROLES, Cluster
from load import Expected, Load

DEADLINE = 1.0
GRACE = 2 * HEARTBEAT + 0.2  # promise 1, and a little for a client that shares two cores with the whole cluster
USERS = 60


class Chaos:
    def __init__(self, options):
        self.options = options
        root = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
        self.troupe = os.path.abspath(options.troupe)
        self.demo = os.path.join(root, "deploy", "demo")
        self.folder = options.folder or tempfile.mkdtemp(prefix="troupe-chaos-")
        os.makedirs(self.folder, exist_ok=True)
        self.faults, self.events = [], []
        self.hosts = self.cluster = self.load = None

    # ---- what is right ----

    def expected(self, requests):
        data = os.path.join(self.folder, "reference")
        subprocess.run([self.troupe, "import", "--model", f"{self.demo}/model", "--data-dir", data, "--data",
                        f"{self.demo}/world"], check=True, capture_output=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        box = subprocess.Popen([self.troupe, "serve", "--model", f"{self.demo}/model", "--data-dir", data, "--port",
                                str(port), "--set", "pool.precompute_items=false"], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
        try:
            for _ in range(100):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            return Expected("127.0.0.1", port, requests, ("item", "user"))
        finally:
            box.terminate()
            box.wait()

    # ---- one fault ----

    def fault(self, name, begin, end, hold=3.0, is_kill=False, lossless=False):
        """`begin`, so long, `end`, and a while to recover."""
        for _ in range(3):  # again, if the machine was too busy to tell
            time.sleep(10 * HEARTBEAT)
            at = time.monotonic()
            begin()
            time.sleep(hold)
            end()
            time.sleep(20 * HEARTBEAT)
            until = time.monotonic()
            fault = {"name": name, "at": at, "until": until, "kill": is_kill, "lossless": lossless,
                     "starved": self.load.starved(at, until)}
            self.report(fault)
            if not fault["starved"]:
                break
        self.faults.append(fault)

    def outcomes(self, since, until):
        with self.load.lock:
            return [o for o in self.load.outcomes if since <= o[0] < until]

    def report(self, fault):
        found = self.outcomes(fault["at"], fault["until"])
        count = lambda kind: sum(1 for o in found if o[1] == kind)
        bad = [o for o in found if o[1] != "ok"]
        late = lambda after: [o for o in found if o[0] >= fault["at"] + after * HEARTBEAT]
        share = lambda some: 100 * sum(1 for o in some if o[1] == "ok") / len(some) if some else 100.0
        took = sorted(1e3 * o[3] for o in found if o[1] == "ok")
        fault.update(p50_ms=took[len(took) // 2] if took else 0.0, p99_ms=took[len(took) * 99 // 100] if took else 0.0)
        fault.update(requests=len(found), ok=count("ok"), refused=count("refused"), lost=count("lost"),
                     nobody=count("nobody"), wrong=count("wrong"), hung=count("hung"), after_5=share(late(5)),
                     after_10=share(late(10)), n_5=len(late(5)), n_10=len(late(10)),
                     recovered_h=(max(o[0] for o in bad) - fault["at"]) / HEARTBEAT if bad else 0.0)
        print(f"{fault['name']:<38} {fault['requests']:>5} {fault['ok']:>5} {fault['refused']:>4} {fault['lost']:>4} "
              f"{fault['nobody']:>4} {fault['wrong']:>4} {fault['hung']:>4} {fault['after_5']:>7.2f} "
              f"{fault['after_10']:>7.2f} {fault['recovered_h']:>6.1f} {fault['p50_ms']:>6.1f} {fault['p99_ms']:>7.1f}",
              "  too busy to tell: again" if fault["starved"] else "", flush=True)

    # ---- the faults ----

    def kill(self, name):
        self.fault(f"kill -9 {name}", lambda: self.cluster.kill(name), lambda: self.cluster.start(name), is_kill=True)

    def stop(self, name):
        def begin():
            self.load.away[name] = (time.monotonic(), None)
            self.cluster.signal(name, signal.SIGSTOP)
        def end():
            self.cluster.signal(name, signal.SIGCONT)
            self.load.away[name] = (self.load.away[name][0], time.monotonic())
        self.fault(f"SIGSTOP {name}", begin, end)

    def cut(self, name):
        def begin():
            self.load.away[name] = (time.monotonic(), None)
            self.hosts.set_link(name, False)
        def end():
            self.hosts.set_link(name, True)
            self.load.away[name] = (self.load.away[name][0], time.monotonic())
        self.fault(f"link down {name}", begin, end)

    def roll(self, name):
        self.fault(f"ended in order, restarted: {name}", lambda: self.cluster.end(name),
                   lambda: self.cluster.start(name), hold=1.0, lossless=True)

    def deaf(self, name):
        self.fault(f"hears nothing: {name}", lambda: self.hosts.drop(target=name), self.hosts.drop_nothing)

    def mute(self, name):
        self.fault(f"is not heard: {name}", lambda: self.hosts.drop(source=name), self.hosts.drop_nothing)

    def slow(self, name):
        self.fault(f"1 Mbit/s to {name}", lambda: self.hosts.limit_rate(name, "1mbit"),
                   lambda: self.hosts.limit_rate(name, None))

    def damaged(self, name):
        def end():
            self.cluster.damage_disk(name)
            self.cluster.start(name)
        self.fault(f"kill -9, damaged files: {name}", lambda: self.cluster.kill(name), end, hold=1.0, is_kill=True)

    def full(self, name):
        def end():
            self.cluster.limit_disk(name, "3m")
            self.cluster.start(name)
        self.fault(f"kill -9, a full disk of 3 MB: {name}", lambda: self.cluster.kill(name), end, hold=1.0,
                   is_kill=True)

    def all_faults(self):
        self.kill("worker-1")
        self.kill("router-1")
        self.kill(self.cluster.leader())
        self.roll("worker-3")
        self.roll("router-2")
        self.stop("worker-2")
        self.cut("worker-4")
        self.deaf("worker-1")
        self.mute("worker-2")
        self.slow("worker-3")
        self.kill("etcd")
        self.kill("redis")
        self.damaged("worker-1")
        self.full("worker-4")
        self.stop(self.cluster.leader())
        self.cut("router-1")
        if self.options.long:
            for name in ROLES:
                self.roll(name)
            for turn in range(self.options.kills):
                for name in ("worker-1", "router-1", self.cluster.leader(), "worker-3", "router-2"):
                    self.kill(name)

    # ---- all of it ----

    def run(self):
        with open(f"{self.demo}/world/requests.jsonl") as file:
            lines = [json.loads(line) for _, line in zip(range(USERS), file)]
        requests = [{key: line[key] for key in ("user", "candidates")} for line in lines]
        expected = self.expected(requests)
        self.hosts = network.Hosts(HOSTS)
        self.cluster = Cluster(self.hosts, self.troupe, self.demo, self.folder)
        self.cluster.up()
        self.wait_until_ready()
        routers = [name for name, role in ROLES.items() if role == "router"]
        self.load = Load(self.hosts, "client", routers, requests, expected, self.options.rate, DEADLINE, GRACE)
        time.sleep(5)
        print(f"{'fault':<38} {'asked':>5} {'ok':>5} {'ref.':>4} {'lost':>4} {'none':>4} {'wrong':>4} {'hung':>4} "
              f"{'5H+ %':>7} {'10H+ %':>7} {'last H':>6} {'p50 ms':>6} {'p99 ms':>7}")
        self.all_faults()
        self.load.stop()
        self.pulled = self.blocks_pulled()
        return self.judge()

    def blocks_pulled(self):
        """By the workers that run now, since their last start."""
        seen = self.hosts.inside("router-2", self.troupe, "status", "--server", "127.0.0.1:8080", check=False)
        return sum(int(line.split()[-1]) for line in seen.splitlines() if "blocks_pulled" in line)

    def wait_until_ready(self):
        for _ in range(150):
            seen = self.hosts.inside("router-1", self.troupe, "status", "--server", "127.0.0.1:8080", check=False)
            actors = [line for line in seen.splitlines() if line[:4].strip().isdigit()]
            if len(actors) == 2 + 2 + 3 * 4:
                return
            time.sleep(0.2)
        raise RuntimeError(f"the cluster does not come up: see {self.folder}")

    def judge(self):
        kills = [f for f in self.faults if f["kill"]]
        def share(key, weight):
            total = sum(f[weight] for f in kills)
            return sum(f[key] * f[weight] for f in kills) / total if total else 100.0
        # Wrong is wrong on any machine.
        all_of = lambda kind: [o for o in self.load.outcomes
                               if o[1] == kind and (kind == "wrong" or not self.load.starved(o[0] - 2, o[0] + 2))]
        faults = []
        print()
        print(f"{len(self.load.outcomes)} requests: {len(all_of('ok'))} answered as a box that nothing happened to, "
              f"{len(all_of('refused'))} refused, {len(all_of('lost'))} lost with their connection, "
              f"{len(all_of('nobody'))} found no router")
        print(f"after kills: of requests 5 heartbeats or more later {share('after_5', 'n_5'):.2f} % were answered, "
              f"10 or more later {share('after_10', 'n_10'):.2f} %")
        print(f"blocks that workers pulled from each other, those of killed ones not counted: {self.pulled}")
        if self.pulled == 0:
            faults.append("no block was pulled: nothing was shown of transfers")
        if all_of("wrong"):
            faults.append(f"{len(all_of('wrong'))} wrong answers: {all_of('wrong')[0][2]}")
        if all_of("hung"):
            faults.append(f"{len(all_of('hung'))} hung: {all_of('hung')[0][2]}")
        untyped = [o for o in all_of("refused") if not o[2].startswith(("429", "503", "504"))]
        if untyped:
            faults.append(f"{len(untyped)} refusals that were not promised: {untyped[0][2]}")
        if share("after_5", "n_5") < 99:
            faults.append("fewer than 99 % answered 5 heartbeats after a kill")
        if share("after_10", "n_10") < 99.9:
            faults.append("fewer than 99.9 % answered 10 heartbeats after a kill")
        for fault in self.faults:
            if fault["starved"]:
                faults.append(f"{fault['name']}: the machine was too busy to tell, three times")
            if fault["lossless"] and fault["ok"] < fault["requests"]:
                faults.append(f"{fault['name']}: {fault['requests'] - fault['ok']} requests failed, expected none")
        for fault in faults:
            print("FAILED:", fault)
        with open(self.options.json or f"{self.folder}/chaos.json", "w") as file:
            json.dump({"faults": [{k: v for k, v in f.items() if k not in ("at", "until")} for f in self.faults],
                       "requests": len(self.load.outcomes), "failed": faults}, file, indent=1)
        with open(f"{self.folder}/history.jsonl", "w") as file:
            for sent, kind, what, took in sorted(self.load.outcomes):
                file.write(json.dumps({"at": sent - self.load.began, "took": took, "outcome": kind, "what": what}) + "\n")
        print(f"{'failed' if faults else 'passed'}; logs and history in {self.folder}")
        return 1 if faults else 0

    def remove(self, keep):
        if self.load:
            self.load.stopping = True
        if self.cluster:
            self.cluster.down()
        if self.hosts:
            self.hosts.remove()
        if not keep and not self.options.folder:
            shutil.rmtree(self.folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--troupe", required=True)
    parser.add_argument("--rate", type=float, default=40, help="requests per second")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--kills", type=int, default=20, help="long form: rounds of kills")
    parser.add_argument("--json", help="write the table here")
    parser.add_argument("--folder", help="keep data and logs here; by default they go when all passed")
    options = parser.parse_args()
    for program in ("etcd", "redis-server"):
        if shutil.which(program) is None:
            print(f"skipped: chaos needs {program}")
            return 77
    lacks = network.missing()
    if lacks:
        print(f"skipped: chaos needs {lacks}")
        return 77
    print("skipped: delay, loss and corruption on the way (no netem here), RDMA")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left behind
    chaos = Chaos(options)
    status = 1
    try:
        status = chaos.run()
    finally:
        chaos.remove(keep=status != 0)
    return status


if __name__ == "__main__":
    sys.exit(main())
