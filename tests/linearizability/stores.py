"""Two Redis servers, one a replica of the other. A test kills the primary, restarts it with its file, or
promotes the
replica. The primary always has the same port, as behind a virtual address."""
import pathlib
import socket
import subprocess
import time

ADDRESS = "127.0.0.1"


class Refusal(Exception):
    """Redis answers with an error, for example while it loads its file."""


def talk(port, *words, limit=2.0):
    """Sends one command; returns the first line of the answer, or the content of a text."""
    command = f"*{len(words)}\r\n" + "".join(f"${len(str(word))}\r\n{word}\r\n" for word in words)
    with socket.create_connection((ADDRESS, port), timeout=limit) as connection:
        connection.sendall(command.encode())
        answer = connection.makefile("rb")
        head = answer.readline().decode().strip()
        if head.startswith("-"):
            raise Refusal(f"Redis answers {words} with {head}")
        return answer.read(int(head[1:])).decode() if head.startswith("$") and head != "$-1" else head


def until(what, is_so, limit=10.0):
    end = time.monotonic() + limit
    while time.monotonic() < end:
        try:
            if is_so():
                return
        except (OSError, Refusal):
            pass
        time.sleep(0.01)
    raise RuntimeError(f"{what}: not so after {limit} s")


class Stores:
    def __init__(self, folder, ports):
        """`ports`: of the primary, and of the replica."""
        self.folder, self.ports = pathlib.Path(folder), list(ports)
        self.names = ["redis-a", "redis-b"]  # the primary's first
        self.processes = {}

    @property
    def url(self):
        return f"redis://{ADDRESS}:{self.ports[0]}"

    @property
    def replica_url(self):
        return f"redis://{ADDRESS}:{self.ports[1]}"

    def _start(self, name, port, *words):
        data = self.folder / name
        data.mkdir(parents=True, exist_ok=True)
        with open(self.folder / f"{name}.out", "ab") as out:
            self.processes[name] = subprocess.Popen(
                [
                    "redis-server",
                    "--bind",
                    ADDRESS,
                    "--port",
                    str(port),
                    "--dir",
                    str(data),
                    "--appendonly",
                    "yes",
                    "--appendfsync",
                    "always",
                    "--save",
                    "",
                    "--repl-diskless-sync-delay",
                    "0",
                    *words,
                ],
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        until(f"{name} answers", lambda: talk(port, "PING") == "+PONG")

    def start_primary(self):
        self._start(self.names[0], self.ports[0])

    def start_replica(self):
        self._start(self.names[1], self.ports[1], "--replicaof", f"{ADDRESS} {self.ports[0]}")
        until(
            "the replica is in sync",
            lambda: "master_link_status:up" in talk(self.ports[1], "INFO", "replication"),
        )

    def kill_primary(self):
        process = self.processes.pop(self.names[0])
        process.kill()
        process.wait()

    def detach(self):
        """Cuts the replica off from the primary, which does not notice yet."""
        talk(self.ports[1], "REPLICAOF", "NO", "ONE")

    def promote(self):
        """Promotes the replica after the primary was killed; the other server restarts as its replica."""
        self.detach()
        talk(self.ports[1], "CONFIG", "SET", "port", str(self.ports[0]))
        until("the new primary answers", lambda: talk(self.ports[0], "PING") == "+PONG")
        self.names.reverse()

    def end(self):
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()
