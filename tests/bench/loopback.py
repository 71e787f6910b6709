"""A cluster of real processes on this machine's loopback: etcd, front nodes with a router and a
cache-meta, and
workers, all on free ports. Needs no root and no namespaces."""
import http.client
import json
import pathlib
import shutil
import socket
import subprocess
import time

ADDRESS = "127.0.0.1"
UP_LIMIT_S = 60


def missing():
    """Returns what this machine lacks for it; "" = nothing."""
    return "" if shutil.which("etcd") else "etcd"


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind((ADDRESS, 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def ask(port, method, path, body=None, limit=5):
    """Returns status and text."""
    connection = http.client.HTTPConnection(ADDRESS, port, timeout=limit)
    try:
        connection.request(method, path, None if body is None else json.dumps(body))
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def run(troupe, *words):
    done = subprocess.run([str(troupe), *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"troupe {words[0]}: {done.stderr.strip()}")


class Cluster:
    """A cluster.

    `settings`: lines of the cluster file for all nodes; with several fronts they must name a Redis.
    `own`: further sections of settings for some nodes, by name. `worker`: the roles of nodes that are not
    fronts. `roles`: the roles of some nodes, by name.
    """

    def __init__(
        self, troupe, folder, workers, settings, fronts=("front",), own=None, worker="worker", roles=None
    ):
        self.troupe, self.folder = troupe, pathlib.Path(folder)
        self.fronts = list(fronts)
        self.names = self.fronts + [f"worker-{i + 1}" for i in range(workers)]
        self.processes = {}
        ports = free_ports(2 + 2 * len(self.names))
        self.etcd, self.etcd_peer = (f"http://{ADDRESS}:{port}" for port in ports[:2])
        self.http_port = dict(zip(self.names, ports[2::2]))
        self.file = self.folder / "cluster.yaml"
        lines = [
            "cluster:",
            "  name: loopback",
            f"  coordination: {self.etcd}",
            "transfer: {devices: lo}",
            *settings,
            "nodes:",
        ]
        for number, (name, port) in enumerate(zip(self.names, ports[3::2]), 1):
            (self.folder / name).mkdir()
            own_roles = "router, cache_meta" if name in self.fronts else worker
            if roles and name in roles:
                own_roles = roles[name]
            more = f", {own[name]}" if own and name in own else ""
            lines.append(
                f"  - {{node: {number}, name: {name}, host: {ADDRESS}, port: {port}, roles: [{own_roles}], "
                f"settings: {{node: {{data_dir: {self.folder / name}}}, http: {{port: "
                f"{self.http_port[name]}}}{more}}}}}"
            )
        self.file.write_text("\n".join(lines) + "\n")

    def number(self, name):
        return self.names.index(name) + 1

    def workers(self):
        """Returns the numbers of the workers that run."""
        return [self.number(name) for name in self.names[len(self.fronts) :] if self.runs(name)]

    def runs(self, name):
        return name in self.processes and self.processes[name].poll() is None

    def spawn(self, name, *words):
        with open(self.folder / f"{name}.out", "ab") as out:
            self.processes[name] = subprocess.Popen([*map(str, words)], stdout=out, stderr=subprocess.STDOUT)

    def start_etcd(self):
        self.spawn(
            "etcd",
            "etcd",
            "--data-dir",
            self.folder / "etcd",
            "--listen-client-urls",
            self.etcd,
            "--advertise-client-urls",
            self.etcd,
            "--listen-peer-urls",
            self.etcd_peer,
            "--initial-advertise-peer-urls",
            self.etcd_peer,
            "--initial-cluster",
            f"default={self.etcd_peer}",
        )
        port = int(self.etcd.rsplit(":", 1)[1])
        self.wait("etcd", lambda: ask(port, "GET", "/health")[0] == 200)

    def start(self, name, *words):
        self.spawn(
            name,
            self.troupe,
            "node",
            "--config",
            self.file,
            "--name",
            name,
            "--set",
            f"node.log_file={self.folder / name}.log",
            *words,
        )

    def start_all(self, data):
        run(self.troupe, "import", "--config", self.file, "--node", self.fronts[0], "--data", data)
        self.start_etcd()
        for name in self.names:
            self.start(name)
        for name in self.names:
            self.wait_until_ready(name)

    def up(self, data):
        self.start_all(data)
        self.wait("the precomputed blocks", lambda: self.router()["precompute"] == "done", limit=300)

    def wait(self, what, is_there, limit=UP_LIMIT_S):
        until = time.monotonic() + limit
        while time.monotonic() < until:
            for name, process in self.processes.items():
                if process.poll() is not None:
                    raise RuntimeError(
                        f"{name} ended with {process.returncode}; see {self.folder}/{name}.out"
                    )
            try:
                if is_there():
                    return
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.05)
        raise RuntimeError(f"{what}: not so after {limit} s; see {self.folder}")

    def wait_until_ready(self, name):
        self.wait(name, lambda: ask(self.http_port[name], "GET", "/v2/health/ready")[0] == 200)

    def router(self):
        """Returns the router's fields as `troupe status` shows them."""
        actors = json.loads(ask(self.http_port[self.fronts[0]], "GET", "/v1/cluster")[1])["actors"]
        fields = next((actor["fields"] for actor in actors if actor["role"] == "router"), None)
        if fields is None:
            raise OSError("the router does not answer in time")
        return {field["name"]: field["value"] for field in fields}

    def metrics(self, node):
        """Returns sums over all labels, by name."""
        sums = {}
        for line in ask(self.http_port[node], "GET", "/metrics")[1].splitlines():
            if not line.startswith("#"):
                name, amount = line.rsplit(" ", 1)
                name = name.split("{")[0]
                sums[name] = sums.get(name, 0) + float(amount)
        return sums

    def kill(self, name):
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def end(self):
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()
