"""Compares a cluster's answers with the plain computation, while its nodes are killed.

Three nodes, each with a router, a worker and a cache-meta, serve a ranker; a Redis and an etcd are not
disturbed. Clients ask at all of them. A node is killed with SIGKILL and started again every few seconds.
A request that is refused, or lost with its connection, is sent again, to any node, until it is answered.
"""
import http.client
import json
import os
import random
import sys
import threading
import time

from compared import Compared

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", part) for part in ("bench", "linearizability", "models")]
import loopback
from cluster import Redis

NODES, CLIENTS = ("node-1", "node-2", "node-3"), 3
# Statuses of refusals that a client may repeat: over quota, unavailable, too late.
TYPED = (429, 503, 504)
ANSWERED_WITHIN_S, RETRY_S = 60, 0.05
CHANGES = 0.05  # share of the requests before which the user gets another history
DOWN_S = 0.7  # from a kill to the restart


def settings_of(world, redis):
    form = f", prompt: {world.form_file}" if world.form_file else ""
    return [
        f'features: {{store: "redis://{loopback.ADDRESS}:{redis.port}", time_limit: 1s}}',
        # Little memory, so that blocks are evicted; assigned homes and no measured pulls, so that blocks
        # are pulled although this model computes them faster.
        "pool: {memory: 8MiB, placement: hash}",
        "inference: {executors: 1, cores: 1}",
        "router: {deadline: 3s, measure_pulls: false}",
        f"model: {{directory: {world.directory}{form}}}",
    ]


class KilledCluster(loopback.Cluster):
    """A cluster whose nodes all have all roles."""

    def __init__(self, troupe, folder, world, redis):
        super().__init__(troupe, folder, 0, settings_of(world, redis), fronts=NODES)
        text = self.file.read_text()
        self.file.write_text(text.replace("[router, cache_meta]", "[router, worker, cache_meta]"))

    def pulled(self, node):
        """Returns the blocks that the running workers pulled since they started, asked at that node."""
        actors = json.loads(loopback.ask(self.http_port[node], "GET", "/v1/cluster")[1])["actors"]
        return sum(
            int(field["value"])
            for actor in actors
            for field in actor["fields"]
            if field["name"] == "blocks_pulled"
        )

    def evicted(self, node):
        return self.metrics(node).get("troupe_blocks_evicted_total", 0)


def count_or_0(count, node):
    """Returns a count of a node, or 0 if the node does not answer in time on a busy machine: the counts
    only show what the run exercised."""
    try:
        return count(node)
    except (OSError, http.client.HTTPException):
        return 0


class Client(threading.Thread):
    """Asks one request after the other, each until it is answered, and compares the answer. Its users are
    its own, so it knows their histories."""

    def __init__(self, number, ports, world, kind):
        super().__init__(daemon=True)
        self.number, self.ports, self.world, self.kind = number, list(ports), world, kind
        self.compared, self.chance = Compared(), random.Random(number)
        # poison: refused, because it may have ended two workers; down: the node took no connection.
        kinds = ("answered", "refused", "poison", "lost", "down", "reused", "writes")
        self.outcomes = dict.fromkeys(kinds, 0)
        self.ran_at, self.stopping, self.failure = set(), False, None

    def run(self):
        try:
            while not self.stopping:
                self.ask_one()
        except Exception as error:  # the run reports it
            self.failure = error

    def ask_one(self):
        user = f"c{self.number}-{self.chance.randrange(60)}"
        if user not in self.world.users or self.chance.random() < CHANGES:
            history = self.world.draw_history()
            self.send("PUT", f"/v1/users/{user}", {"history": [str(item) for item in history]})
            self.world.users[user] = history
            self.outcomes["writes"] += 1
        candidates, named, members = self.world.draw()
        body = {"user": user, "candidates": [str(item) for item in candidates], **members}
        reply = self.send("POST", "/v1/rank", body)
        self.outcomes["answered"] += 1
        self.outcomes["reused"] += reply["tokens_reused"] > 0
        self.ran_at.add(reply["node"])
        expected = lambda served: self.world.expected(self.world.users[user], candidates, served)
        what = f"client {self.number}, user {user}, {members or 'default'}"
        self.compared.reply(self.kind, reply, candidates, self.world.allowed(named), expected, what)

    def send(self, method, path, body):
        """Returns the answer; counts refusals and lost connections on the way."""
        end = time.monotonic() + ANSWERED_WITHIN_S
        while time.monotonic() < end:
            try:
                status, text = loopback.ask(self.chance.choice(self.ports), method, path, body)
            except (OSError, http.client.HTTPException) as error:
                self.outcomes["down" if isinstance(error, ConnectionRefusedError) else "lost"] += 1
                time.sleep(RETRY_S)
                continue
            if status == 200:
                return json.loads(text)
            # Two kills while it ran make a request suspicious; it may be sent again.
            poison = '"code":"poison"' in text
            self.outcomes["poison" if poison else "refused"] += 1
            # All processes are of one build, so no router may answer with another arrangement.
            if (status not in TYPED and not poison) or '"wrong_arrangement"' in text:
                raise RuntimeError(f"{method} {path}: {status} {text[:300]}")
            time.sleep(RETRY_S)
        raise RuntimeError(f"{method} {path}: no answer within {ANSWERED_WITHIN_S} s")


def kill_on(cluster, clients, requests, kills, every):
    """Kills one node after the other until so many requests were answered and so many nodes were killed.
    Returns the number of kills and of pulled and evicted blocks."""
    done = pulled = evicted = 0
    began = time.monotonic()
    while all(client.is_alive() for client in clients):
        answered = sum(client.outcomes["answered"] for client in clients)
        if answered >= requests and done >= kills:
            break
        if time.monotonic() < began + every:
            time.sleep(0.05)
            continue
        victim = NODES[done % len(NODES)]
        other = NODES[(done + 1) % len(NODES)]
        pulled = max(pulled, count_or_0(cluster.pulled, other))
        evicted += count_or_0(cluster.evicted, victim)
        cluster.kill(victim)
        done += 1
        time.sleep(DOWN_S)
        cluster.start(victim)
        cluster.wait_until_ready(victim)
        began = time.monotonic()
    pulled = max(pulled, count_or_0(cluster.pulled, NODES[0]))
    return done, pulled, evicted + sum(count_or_0(cluster.evicted, node) for node in NODES)


def check_cluster(troupe, folder, worlds, name, requests, kills, every):
    """Returns what was compared. `worlds`: gives the world of a client by its number; `kills`: at least so
    many, one every `every` seconds."""
    compared = Compared()
    redis = Redis(folder)
    try:
        cluster = KilledCluster(troupe, folder, worlds(0), redis)
    except BaseException:
        redis.end()
        raise
    try:
        cluster.start_all(worlds(0).data)
        ports = [cluster.http_port[node] for node in NODES]
        clients = [Client(number, ports, worlds(number), name) for number in range(CLIENTS)]
        began = time.monotonic()
        for client in clients:
            client.start()
        done, pulled, evicted = kill_on(cluster, clients, requests, kills, every)
        for client in clients:
            client.stopping = True
        for client in clients:
            client.join(2 * ANSWERED_WITHIN_S)
        judge(compared, clients, name)
        sums = {key: sum(client.outcomes[key] for client in clients) for key in clients[0].outcomes}
        attempts = sums["answered"] + sums["refused"] + sums["poison"] + sums["lost"]
        compared.notes[name] = {
            **sums,
            "kills": done,
            "seconds": round(time.monotonic() - began),
            "share_refused": (sums["refused"] + sums["poison"]) / max(1, attempts),
            "share_lost": sums["lost"] / max(1, attempts),
            "pulled": pulled,
            "evicted": evicted,
        }
    finally:
        cluster.end()
        redis.end()
    return compared


def judge(compared, clients, name):
    for client in clients:
        compared.add(client.compared)
        if client.failure or client.is_alive():
            compared.faults.append(f"{name}: client {client.number}: {client.failure or 'does not end'}")
    if not any(client.outcomes["reused"] for client in clients):
        compared.faults.append(f"{name}: nothing was reused")
    ran_at = set().union(*(client.ran_at for client in clients))
    if len(ran_at) < len(NODES):
        compared.faults.append(f"{name}: requests ran at nodes {sorted(ran_at)} alone")
