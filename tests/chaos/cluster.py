"""A real cluster on the test's hosts: two routers, two cache-metas, four workers, an etcd and a Redis."""
import glob
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "disk"))
from damage import DAMAGES, choose_file, damage

ROLES = {
    "router-1": "router",
    "router-2": "router",
    "meta-1": "cache_meta",
    "meta-2": "cache_meta",
    "worker-1": "worker",
    "worker-2": "worker",
    "worker-3": "worker",
    "worker-4": "worker",
}
JOINER = "joiner"  # a joining node, which the file does not name
HOSTS = [*ROLES, "keeper", "client", JOINER]  # keeper: etcd and Redis
HEARTBEAT = 0.2
STRICT = "router-2"
ROOMY = "worker-3"  # has its own disk from the beginning, which is large enough
TENANTS = ("", "north", "south")  # each has a key; items belong to the first, which has no name


class Cluster:
    def __init__(
        self,
        hosts,
        troupe,
        demo,
        folder,
        first=None,
        clear=False,
        prompt=None,
        catalog=False,
        models=(),
        versions=None,
        placement="hash",
        transport="auto",
    ):
        """Prepares the folder and the cluster file.

        `first`: the program that nodes start with; `troupe` is what they are upgraded to. `clear`: no
        TLS. `prompt`: a prompt form other than the model's own. `catalog`: workers compute with the
        catalog, so each has a router, too. `models`: name, directory, data and settings of each of
        several models; () = the demo's. `versions`: a folder of versions of the model; the first one is
        served at first. `placement`: pool.placement, or "metis" for a plan that groups items, with which
        requests go to the worker that has most of their items. `transport`: transfer.transport.
        """
        self.hosts, self.troupe, self.demo, self.folder = hosts, troupe, demo, folder
        self.program = dict.fromkeys([*ROLES, JOINER], first or troupe)
        self.processes, self.disks = {}, []
        self.lock = threading.RLock()  # guards processes: threads start, end and watch them
        self.closing = False
        self.deaths = []  # (time, name, how) of processes that ended by themselves
        self.file = os.path.join(folder, "cluster.yaml")
        self.clear, self.prompt, self.catalog, self.models = clear, prompt, catalog, list(models)
        self.versions = versions
        self.placement, self.transport = placement, transport
        self.keys = {}  # by tenant
        self.joiner_like = None  # the node whose roles the joining node has; None = a worker
        self._write_file()

    def pulls_over_ucx(self):
        return self.transport == "ucx" or (self.transport == "auto" and self.clear)

    def data(self, name):
        return os.path.join(self.folder, name)

    def _write_file(self):
        keeper = self.hosts.address["keeper"]
        lines = [
            "cluster:",
            "  name: chaos",
            f"  coordination: http://{keeper}:2379",
            "" if self.clear else f"  certificates: {self.folder}/certificates",
            f"  heartbeat: {int(HEARTBEAT * 1000)}ms",
            f'features: {{store: "redis://{keeper}:6379", on_outage: last_known, time_limit: 400ms}}',
            *self._model_lines(),
            f"http: {{address: 0.0.0.0, port: 8080, api_keys: {self.folder}/keys.jsonl}}",
            f"transfer: {{transport: {self.transport}}}",
            f"pool: {{memory: 48MiB, placement: {self._placement()}}}",
            "inference: {executors: 1, cores: 1}",
            # Requests go to the worker to which blocks are assigned, so a worker that lost its blocks
            # must pull them. Otherwise requests would go to workers with blocks, and nothing would be
            # pulled: the model is so small that computing is faster than pulling.
            f"router: {{deadline: 1s, measure_pulls: false{self._routing()}}}",
            "node: {drain_notice: 500ms}",
            "nodes:",
        ]
        for number, (name, role) in enumerate(ROLES.items(), 1):
            os.makedirs(self.data(name))
            # One router answers from what it knows while Redis is away; the other one refuses.
            away = ", features: {on_outage: refuse}" if name == STRICT else ""
            lines.append(
                f"  - {{node: {number}, name: {name}, host: {self.hosts.address[name]}, port: 7000, "
                f"roles: [{role}{', router' if self.catalog and role == 'worker' else ''}], settings: "
                f"{{node: {{data_dir: {self.data(name)}}}{away}}}}}"
            )
        with open(self.file, "w") as file:
            file.write("\n".join(lines) + "\n")

    def _placement(self):
        if self.placement != "metis":
            return self.placement
        plan = os.path.join(self.folder, "plan.json")
        workers = [str(number) for number, role in enumerate(ROLES.values(), 1) if role == "worker"]
        words = ["--data", f"{self.demo}/world", "--nodes", ",".join(workers), "--memory", "2GB"]
        subprocess.run(
            [f"{self.troupe}-lab", "plan", *words, "--placement", "metis", "--json", plan],
            check=True,
            capture_output=True,
        )
        return f'"{plan}:metis"'

    def _routing(self):
        return ", routing: affinity" if self.placement == "metis" else ""

    def _model_lines(self):
        if not self.models:
            directory = f"{self.folder}/served" if self.versions else f"{self.demo}/model"
            more = (f", prompt: {self.prompt}" if self.prompt else "") + (
                f", versions: {self.versions}" if self.versions else ""
            )
            return [f"model: {{directory: {directory}{more}}}"]
        return [
            "models:",
            *(
                f"  - {{name: {name}, directory: {directory}{settings}}}"
                for name, directory, _, settings in self.models
            ),
        ]

    # ---- keys ----

    def make_keys(self):
        for tenant in TENANTS:
            made = subprocess.run(
                [
                    self.troupe,
                    "keys",
                    "add",
                    f"{self.folder}/keys.jsonl",
                    "--tenant",
                    tenant,
                    *([] if tenant else ["--admin"]),
                ],
                check=True,
                capture_output=True,
                text=True,
            )
            self.keys[tenant] = made.stdout.strip()
        with open(f"{self.folder}/key", "w") as file:
            file.write(self.keys[""])

    def headers(self, tenant=""):
        return {"authorization": f"Bearer {self.keys[tenant]}"}

    def status(self, name):
        """Returns what `troupe status` at that node says of the actors: (number, role, fields as pairs)."""
        told = self.hosts.inside(
            name,
            self.troupe,
            "status",
            "--json",
            "-",
            "--server",
            "127.0.0.1:8080",
            "--key-file",
            f"{self.folder}/key",
            check=False,
        )
        actors = json.loads(told)["actors"] if told.startswith("{") else []
        return [
            (actor["node"], actor["role"], [(field["name"], field["value"]) for field in actor["fields"]])
            for actor in actors
        ]

    # ---- processes ----

    def start_etcd(self):
        url = f"http://{self.hosts.address['keeper']}"
        self._spawn(
            "etcd",
            "keeper",
            [
                "etcd",
                "--data-dir",
                self.data("etcd"),
                "--listen-client-urls",
                f"{url}:2379",
                "--advertise-client-urls",
                f"{url}:2379",
                "--listen-peer-urls",
                f"{url}:2380",
                "--initial-advertise-peer-urls",
                f"{url}:2380",
                "--initial-cluster",
                f"default={url}:2380",
                "--heartbeat-interval",
                "50",
                "--election-timeout",
                "500",
            ],
        )

    def start_redis(self):
        """Starts Redis with a log that is written to the kernel before an answer, which survives a kill.

        It is not synced to the disk: a disk that stalls for half a second is no fault of the cluster, and the
        strict router would refuse meanwhile.
        """
        os.makedirs(self.data("redis"), exist_ok=True)
        self._spawn(
            "redis",
            "keeper",
            [
                "redis-server",
                "--bind",
                self.hosts.address["keeper"],
                "--protected-mode",
                "no",
                "--dir",
                self.data("redis"),
                "--appendonly",
                "yes",
                "--appendfsync",
                "no",
                "--save",
                "",
            ],
        )

    def start_node(self, name):
        joining = [
            "--join",
            f"{self.hosts.address[name]}:7000",
            "--set",
            f"node.data_dir={self._joiner_data()}",
            "--set",
            "node.leave_time_min=2s",
            *(["--like", self.joiner_like] if self.joiner_like else []),
        ]
        self._spawn(
            name,
            name,
            [
                self.program[name],
                "node",
                "--config",
                self.file,
                "--name",
                name,
                "--set",
                f"node.log_file={self.folder}/{name}.log",
                *(joining if name == JOINER else []),
            ],
        )

    def _spawn(self, name, host, words):
        with self.lock, open(f"{self.folder}/{name}.out", "ab") as out:
            if self.closing:
                raise RuntimeError(f"{name} cannot start while the cluster shuts down")
            if name in self.processes and self.processes[name].poll() is None:
                raise RuntimeError(f"{name} is started and runs already; expected one process per name")
            self.processes[name] = self.hosts.start(host, words, stdout=out, stderr=subprocess.STDOUT)

    def start(self, name):
        {"etcd": self.start_etcd, "redis": self.start_redis}.get(name, lambda: self.start_node(name))()

    def signal(self, name, number):
        self.processes[name].send_signal(number)

    def take(self, name):
        with self.lock:
            return self.processes.pop(name)

    def kill(self, name):
        process = self.take(name)
        process.kill()
        process.wait()

    def end(self, name, limit=40):
        """Ends a node in order, as an operator would."""
        process = self.take(name)
        try:
            process.terminate()
            status = process.wait(timeout=limit)
        finally:  # it is not in the list any more
            process.kill()
            process.wait()
        if status != 0:
            self.deaths.append((time.monotonic(), name, f"was asked to end, and ended with {status}"))

    def restart_and_wait(self, name, limit=20):
        """Restarts a node in order, until it serves again."""
        served = self._begins(name)
        self.end(name)
        self.start(name)
        until = time.monotonic() + limit
        while self._begins(name) == served:
            if time.monotonic() > until:
                raise RuntimeError(f"{name} does not serve after {limit} s; see {self.folder}/{name}.out")
            time.sleep(0.1)

    def raise_dead(self):
        """Restarts what ended by itself, as systemd would."""
        with self.lock:
            if self.closing:
                return
            dead = [
                (name, process.poll())
                for name, process in self.processes.items()
                if process.poll() is not None
            ]
            for name, status in dead:
                self.deaths.append(
                    (time.monotonic(), name, f"ended by itself with {status}: {self._last_words(name)}")
                )
                self.start(name)

    def _last_words(self, name):
        with open(f"{self.folder}/{name}.out", errors="replace") as file:
            return next((line.strip() for line in reversed(file.readlines()) if line.strip()), "")[:300]

    def up(self):
        run = lambda *words: subprocess.run(words, check=True, capture_output=True)
        run(self.troupe, "certs", f"{self.folder}/certificates", "--config", self.file, "--node", JOINER)
        self.make_keys()
        self.start_etcd()
        self.start_redis()
        time.sleep(1.5)
        rows = [(["--served", name], data) for name, _, data, _ in self.models] or [
            ([], f"{self.demo}/world")
        ]
        for served, data in rows:
            self.hosts.inside(
                "router-1",
                self.troupe,
                "import",
                "--config",
                self.file,
                "--node",
                "router-1",
                *served,
                "--data",
                data,
            )
        self.limit_disk(ROOMY, "128m")
        for name in ROLES:
            self.start_node(name)

    def down(self):
        with self.lock:
            self.closing = True
        try:
            for process in self.processes.values():
                process.send_signal(signal.SIGCONT)
                process.kill()
            for process in self.processes.values():
                process.wait()
        finally:
            for disk in self.disks:
                subprocess.run(["umount", "-l", disk])

    # ---- members ----

    def members(self):
        told = self.hosts.inside("router-1", self.troupe, "members", "--config", self.file, "--json", "-")
        return {member["name"]: member for member in json.loads(told)["members"]}

    def _joiner_data(self):
        return f"{self.data(JOINER)}-{self.joiner_like or 'worker'}"

    def join(self, like=None, limit=15):
        """Lets the joining node join, with the roles of `like`, until it serves and is asked; returns its
        number."""
        self.joiner_like = like
        os.makedirs(self._joiner_data(), exist_ok=True)
        served = self._begins(JOINER)
        self.start(JOINER)
        until = time.monotonic() + limit
        while (
            self._begins(JOINER) == served
            or (known := self.members().get(JOINER, {})).get("since") != "joined"
        ):
            if time.monotonic() > until:
                raise RuntimeError(f"{JOINER} has not joined after {limit} s; see {self.folder}/{JOINER}.log")
            time.sleep(0.1)
        return known["node"]

    def _begins(self, name):
        """Returns how often it has started to serve."""
        out = pathlib.Path(f"{self.folder}/{name}.out")
        return out.read_text(errors="replace").count("troupe serves on") if out.exists() else 0

    def send_away(self, *words):
        self.hosts.inside(
            "router-1",
            self.troupe,
            "leave",
            "--config",
            self.file,
            "--name",
            JOINER,
            *(words or ("--no-wait",)),
        )

    def leave(self, limit=60):
        """Lets the joining node leave, and waits for its end; returns "" or what is wrong."""
        process = self.take(JOINER)
        try:
            self.send_away()
            status = process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            return f"{JOINER} does not leave within {limit} s"
        finally:  # it is not in the list any more
            process.kill()
            process.wait()
        if status != 0 or JOINER in self.members():
            return f"{JOINER} has left with {status}; members: {sorted(self.members())}"
        return ""

    def _cache_metas(self, name):
        """Returns (number, field, value) of the cache-metas, asked at that node."""
        for number, role, fields in self.status(name):
            if role == "cache_meta":
                for field, value in fields:
                    yield number, field, value

    def leader(self):
        """Returns the number of the leading cache-meta."""
        for name in ("meta-1", "meta-2"):
            if name not in self.processes:
                continue
            for number, field, value in self._cache_metas(name):
                if (field, value) == ("leader", "yes"):
                    return list(ROLES)[number - 1]
        return "meta-1"

    def index_blocks(self, number, limit=5):
        """Returns how many blocks that cache-meta knows; it may take a while until it knows some."""
        until = time.monotonic() + limit
        while True:
            told = [
                int(value)
                for node, field, value in self._cache_metas(JOINER)
                if (node, field) == (number, "index_blocks")
            ]
            if any(told) or time.monotonic() > until:
                return sum(told)
            time.sleep(0.2)

    # ---- disks ----

    def limit_disk(self, name, size):
        """Gives a worker that is not running a small disk."""
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", self.data(name)], check=True)
        self.disks.append(self.data(name))

    def fill_disk(self, name):
        """Fills the disk to the last byte, while the worker runs."""
        with open(os.path.join(self.data(name), "filler"), "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass

    def empty_disk(self, name):
        os.remove(os.path.join(self.data(name), "filler"))

    def _files(self, name):
        for base, _, files in os.walk(self.data(name)):
            for file in files:
                if os.path.isfile(path := os.path.join(base, file)):  # skips sockets
                    yield path

    def empty_folder(self, name):
        """Empties the folder of a node that is not running, as with a new disk."""
        for entry in os.scandir(self.data(name)):
            shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.remove(entry.path)

    def copy_folder(self, name):
        """Copies the folder of a process that is not running."""
        shutil.rmtree(self.data(f"{name}-copy"), ignore_errors=True)
        shutil.copytree(self.data(name), self.data(f"{name}-copy"))

    def restore_folder(self, name):
        """Puts the copy into the empty folder of a process that is not running."""
        shutil.copytree(self.data(f"{name}-copy"), self.data(name), dirs_exist_ok=True)

    def damage_disk(self, name):
        """Overwrites bytes in the middle of each table and log of a node that is not running."""
        for path in self._files(name):
            if path.endswith((".sst", ".log")) and os.path.getsize(path) > 200:
                with open(path, "r+b") as file:
                    file.seek(os.path.getsize(path) // 2)
                    file.write(b"\xa5" * 64)

    def harm_files(self, name, chance, count=6):
        """Damages some of its files, whether it runs or not (tests/disk/damage.py); returns what was done."""
        self._remove_seen(name)
        done = []
        while len(done) < count:
            try:
                _, file = choose_file(pathlib.Path(self.data(name)), chance)
                what = damage(file, chance.choice(DAMAGES), chance)
                done += [f"{file.name} {what}"] if what else []
            except FileNotFoundError:  # compacted meanwhile
                pass
        return done

    def _remove_seen(self, name):
        """Removes stores that were set aside, as an operator would: with two of them no third is set
        aside."""
        for seen in glob.glob(os.path.join(self.data(name), "rocksdb.damaged*")):
            shutil.rmtree(seen)

    def truncate_disk(self, name):
        """Cuts each file in half, and writes nonsense to files of one line, which name the others."""
        self._remove_seen(name)
        for path in self._files(name):
            if os.path.basename(path) == "CURRENT":
                with open(path, "w") as file:
                    file.write("MANIFEST-nonsense\n")
            elif os.path.basename(path) != "LOCK":
                os.truncate(path, os.path.getsize(path) // 2)
