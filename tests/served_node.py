"""A process `troupe serve` of a test: its start, its port and its end."""
import os
import subprocess
import tempfile
import time

ENDS_WITHIN_S = 40


def await_port(process, port_file, said=lambda: "", within_s=None):
    """Returns the port that a node writes to its `--port-file` once it serves. Raises RuntimeError if the
    process ends before, or after `within_s` seconds. `said`: what it printed, for the error."""
    end = time.monotonic() + within_s if within_s else None
    while not os.path.exists(port_file) or not (written := open(port_file).read().strip()):
        if process.poll() is not None:
            raise RuntimeError(f"troupe serve ended with {process.returncode}. {said()[-500:]}")
        if end and time.monotonic() > end:
            raise RuntimeError(f"troupe serve does not serve after {within_s} s. {said()[-500:]}")
        time.sleep(0.05)
    return int(written)


class ServedNode:
    """A node that serves from a folder of its own; both end with the context."""

    def __init__(self, prefix):
        self.folder = tempfile.TemporaryDirectory(prefix=prefix)

    def at(self, name):
        return os.path.join(self.folder.name, name)

    def start(self, words, said=lambda: "", **outputs):
        """Starts the node and returns its port. `words`: the program, `serve`, and all options except the
        port; `outputs`: stdout and stderr."""
        port_file = self.at("port")
        command = [*words, "--port", "0", "--port-file", port_file]
        self.process = subprocess.Popen(command, **{"stdout": subprocess.DEVNULL, **outputs})
        return await_port(self.process, port_file, said)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(ENDS_WITHIN_S)
        self.folder.cleanup()
