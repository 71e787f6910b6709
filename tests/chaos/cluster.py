"""A real cluster on those hosts: two routers, two cache-metas, four workers, an etcd and a Redis."""
import os
import shutil
import signal
import subprocess
import time

ROLES = {"router-1": "router", "router-2": "router", "meta-1": "cache_meta", "meta-2": "cache_meta",
         "worker-1": "worker", "worker-2": "worker", "worker-3": "worker", "worker-4": "worker"}
HOSTS = [*ROLES, "keeper", "client"]  # keeper: etcd and Redis
HEARTBEAT = 0.2


class Cluster:
    def __init__(self, hosts, troupe, demo, folder):
        self.hosts, self.troupe, self.demo, self.folder = hosts, troupe, demo, folder
        self.processes, self.disks = {}, []
        self.file = os.path.join(folder, "cluster.yaml")
        self._write_file()

    def data(self, name):
        return os.path.join(self.folder, name)

    def _write_file(self):
        keeper = self.hosts.address["keeper"]
        lines = ["cluster:", "  name: chaos", f"  coordination: http://{keeper}:2379",
                 f"  certificates: {self.folder}/certificates", f"  heartbeat: {int(HEARTBEAT * 1000)}ms",
                 f"features: {{store: \"redis://{keeper}:6379\", when_away: last_known}}",
                 f"model: {{directory: {self.demo}/model}}", "http: {address: 0.0.0.0, port: 8080}",
                 "pool: {memory: 48MiB}", "inference: {executors: 1, cores: 1}", "router: {deadline: 1s}",
                 "node: {notice: 500ms}", "nodes:"]
        for number, (name, role) in enumerate(ROLES.items(), 1):
            os.makedirs(self.data(name))
            lines.append(f"  - {{node: {number}, name: {name}, host: {self.hosts.address[name]}, port: 7000, "
                         f"roles: [{role}], settings: {{node: {{data_dir: {self.data(name)}}}}}}}")
        with open(self.file, "w") as file:
            file.write("\n".join(lines) + "\n")

    # ---- processes ----

    def start_etcd(self):
        url = f"http://{self.hosts.address['keeper']}"
        self._spawn("etcd", "keeper", [
            "etcd", "--data-dir", self.data("etcd"), "--listen-client-urls", f"{url}:2379", "--advertise-client-urls",
            f"{url}:2379", "--listen-peer-urls", f"{url}:2380", "--initial-advertise-peer-urls", f"{url}:2380",
            "--initial-cluster", f"default={url}:2380", "--heartbeat-interval", "50", "--election-timeout", "500"])

    def start_redis(self):
        os.makedirs(self.data("redis"), exist_ok=True)
        self._spawn("redis", "keeper", [
            "redis-server", "--bind", self.hosts.address["keeper"], "--protected-mode", "no", "--dir",
            self.data("redis"), "--appendonly", "yes", "--appendfsync", "always", "--save", ""])

    def start_node(self, name):
        self._spawn(name, name, [self.troupe, "node", "--config", self.file, "--name", name, "--set",
                                 f"node.log_file={self.folder}/{name}.log"])

    def _spawn(self, name, host, words):
        out = open(f"{self.folder}/{name}.out", "ab")
        self.processes[name] = self.hosts.start(host, words, stdout=out, stderr=subprocess.STDOUT)
        out.close()

    def start(self, name):
        {"etcd": self.start_etcd, "redis": self.start_redis}.get(name, lambda: self.start_node(name))()

    def signal(self, name, number):
        self.processes[name].send_signal(number)

    def kill(self, name):
        self.signal(name, signal.SIGKILL)
        self.processes.pop(name).wait()

    def end(self, name, limit=40):
        """In order, as an operator would."""
        self.signal(name, signal.SIGTERM)
        return self.processes.pop(name).wait(timeout=limit)

    def up(self):
        run = lambda *words: subprocess.run(words, check=True, capture_output=True)
        run(self.troupe, "certs", f"{self.folder}/certificates", "--config", self.file)
        self.start_etcd()
        self.start_redis()
        time.sleep(1.5)
        self.hosts.inside("router-1", self.troupe, "import", "--config", self.file, "--node", "router-1", "--data",
                          f"{self.demo}/world")
        for name in ROLES:
            self.start_node(name)

    def down(self):
        for process in self.processes.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
        for process in self.processes.values():
            process.wait()
        for disk in self.disks:
            subprocess.run(["umount", "-l", disk])

    def leader(self):
        """The cache-meta that leads."""
        for name in ("meta-1", "meta-2"):
            if name not in self.processes:
                continue
            status = self.hosts.inside(name, self.troupe, "status", "--server", "127.0.0.1:8080", check=False)
            rows = [line.split() for line in status.splitlines() if line.strip()]
            actor = ""
            for row in rows:
                if len(row) > 2 and row[0].isdigit():
                    actor = row[1] + "@" + row[0]
                if row[-2:] == ["leader", "yes"] and actor.startswith("cache_meta"):
                    return list(ROLES)[int(actor.split("@")[1]) - 1]
        return "meta-1"

    # ---- disks ----

    def limit_disk(self, name, size):
        """A small disk for a worker that is not running."""
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", self.data(name)], check=True)
        self.disks.append(self.data(name))

    def damage_disk(self, name):
        """Bytes in the midst of each table file of a node that is not running."""
        count = 0
        for base, _, files in os.walk(self.data(name)):
            for file in files:
                path = os.path.join(base, file)
                if file.endswith((".sst", ".log")) and os.path.getsize(path) > 200:
                    with open(path, "r+b") as bytes_:
                        bytes_.seek(os.path.getsize(path) // 2)
                        bytes_.write(b"\xa5" * 64)
                    count += 1
        return count

    def wipe_disk(self, name):
        shutil.rmtree(self.data(name), ignore_errors=True)
        os.makedirs(self.data(name), exist_ok=True)
