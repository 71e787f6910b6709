#!/usr/bin/env python3
"""Measures how fast pages come from another host: two network namespaces with a veth pair, an owner and
readers.

  tests/bench/transfer.py [--bench build/tests/transfer_bench] [--rounds 9] [--seconds 0.25] [--json FILE]
  tests/bench/transfer.py --blocks 1048576,4194304 --together 64     # pulls of 64 blocks of 16 and of 64 KiB
  tests/bench/transfer.py --smoke     # one short round, for ctest

Each round runs all systems once, one after the other: the transports (transfer_bench), over UCX in the
clear (pull) and sealed, over links in the clear (links) and with TLS (tls); a plain socket (the same
program, with the system's buffers and with small ones), which is the ideal; ucx_perftest with the segments
that the transport over UCX uses. Exit status 77 if this machine has no network namespaces."""
import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCKS = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20]
SEVERAL = 4
SMALL_BUFFERS = 128 << 10
UP_LIMIT_S = 10
OWNER, PORT, PERFTEST_PORT = "10.91.0.1", 7000, 7001
PERFTEST_SETTINGS = {"UCX_TLS": "tcp", "UCX_TCP_TX_SEG_SIZE": "64K", "UCX_TCP_RX_SEG_SIZE": "64K"}


class Pair:
    """Two namespaces, owner and reader; removes them at the end."""

    def __init__(self):
        self.mark = f"transfer-{os.getpid()}"

    def __enter__(self):
        try:
            self._build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _build(self):
        run("ip", "netns", "add", self.space("owner"))
        run("ip", "netns", "add", self.space("reader"))
        run(
            "ip",
            "link",
            "add",
            "eth0",
            "netns",
            self.space("owner"),
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            self.space("reader"),
        )
        for number, name in enumerate(("owner", "reader"), 1):
            run("ip", "-n", self.space(name), "address", "add", f"10.91.0.{number}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                run("ip", "-n", self.space(name), "link", "set", device, "up")
        limit = time.monotonic() + UP_LIMIT_S
        while not all(self.is_up(name) for name in ("owner", "reader")):  # the kernel takes up to a second
            if time.monotonic() > limit:
                raise RuntimeError(
                    f"the veth pair of {self.mark} is not up after {UP_LIMIT_S} s; expected one second"
                )
            time.sleep(0.05)

    def __exit__(self, *_):
        for name in ("owner", "reader"):
            subprocess.run(["ip", "netns", "del", self.space(name)], capture_output=True)

    def space(self, name):
        return f"{self.mark}-{name}"

    def is_up(self, name):
        words = ["ip", "-n", self.space(name), "-br", "link", "show", "eth0"]
        return " UP " in subprocess.run(words, capture_output=True, text=True).stdout

    def words(self, name, *words):
        return ["ip", "netns", "exec", self.space(name), *map(str, words)]


def run(*words):
    subprocess.run(words, check=True, capture_output=True)


def missing():
    """Returns what this machine lacks; "" = nothing."""
    if os.geteuid() != 0:
        return "root"
    if not shutil.which("ip"):
        return "the program ip"
    try:
        with Pair():
            return ""
    except subprocess.CalledProcessError:
        return "network namespaces with a veth pair"


class Race:
    def __init__(self, pair, bench, seconds, together):
        self.pair, self.bench, self.seconds, self.together = pair, bench, seconds, together
        self.owner = subprocess.Popen(
            pair.words("owner", bench, "own", "--port", PORT, "--device", "eth0"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            self.owner.stdout.readline()  # waits until it listens
        except BaseException:
            self.end()
            raise

    def end(self):
        self.owner.stdin.close()
        try:
            self.owner.wait(timeout=10)
        finally:
            self.owner.kill()
            self.owner.wait()

    def ours(self, how, block, at_once, *more):
        done = subprocess.run(
            self.pair.words(
                "reader",
                self.bench,
                "read",
                "--from",
                f"{OWNER}:{PORT}",
                "--how",
                how,
                "--block",
                block,
                "--at-once",
                at_once,
                "--together",
                self.together,
                "--seconds",
                self.seconds,
                "--device",
                "eth0",
                *more,
            ),
            capture_output=True,
            text=True,
            timeout=60,
        )
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        return json.loads(done.stdout)

    def perftest(self, test, block, at_once, percentile):
        """Runs ucx_perftest, which polls both cores without pause and neither checks nor reads the bytes."""
        count = max(12, int(self.seconds * 0.5e9 / (block + 100_000)))
        options = [
            "-t",
            test,
            "-s",
            block,
            "-n",
            count,
            "-w",
            max(4, count // 10),
            "-O",
            at_once,
            "-R",
            percentile,
            "-p",
            PERFTEST_PORT,
            "-f",
        ]
        settings = {**os.environ, **PERFTEST_SETTINGS}
        server = subprocess.Popen(
            self.pair.words("owner", "ucx_perftest", "-p", PERFTEST_PORT),
            env=settings,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            for _ in range(50):  # until it listens
                time.sleep(0.05)
                client = subprocess.run(
                    self.pair.words("reader", "ucx_perftest", OWNER, *options),
                    env=settings,
                    capture_output=True,
                    text=True,
                    timeout=60,
                )
                if client.returncode == 0:
                    break
            # columns: iterations, percentile us, recent and overall average us, MiB/s, messages/s
            numbers = [float(word) for word in client.stdout.strip().splitlines()[-1].split()]
        finally:
            server.kill()
            server.wait()
        return {"gb_s": numbers[5] * 2**20 / 1e9, f"p{percentile}_us": numbers[1]}

    def round(self, number, block, has_perftest):
        small = ("--socket-buffers", SMALL_BUFFERS)
        percentile = 99 if number % 2 else 50  # it can report only one of them
        yield "copy", self.ours("copy", block, 1)
        for what in ("checksum", "seal", "open"):
            yield what, self.ours(what, block, 1)
        for at_once in (1, SEVERAL):
            for how in ("pull", "sealed", "links", "tls"):
                yield f"{how} x{at_once}", self.ours(how, block, at_once)
            yield f"socket x{at_once}", self.ours("socket", block, at_once)
            yield f"small buffers x{at_once}", self.ours("socket", block, at_once, *small)
            for test in ("ucp_get", "tag_bw", "ucp_am_bw") if has_perftest else ():
                if at_once > 1 or test == "ucp_get":  # the others do not wait for an answer
                    yield f"{test} x{at_once}", self.perftest(test, block, at_once, percentile)


def median(rounds, name):
    values = [one[name] for one in rounds if name in one]
    return statistics.median(values) if values else None


def summary(block, results):
    line = {"block": block}
    for name, rounds in results.items():
        line[name] = {what: median(rounds, what) for what in ("gb_s", "p50_us", "p99_us", "cpu_s_per_gb")}
        line[name]["best_gb_s"] = max(one["gb_s"] for one in rounds)
    for at_once in (1, SEVERAL):
        others = {
            name: line[name]["gb_s"]
            for name in line
            if name
            in (f"socket x{at_once}", f"ucp_get x{at_once}", f"tag_bw x{at_once}", f"ucp_am_bw x{at_once}")
        }
        better = max(others, key=others.get)
        ours = line[f"pull x{at_once}"]["gb_s"]
        line[f"ratio x{at_once}"] = {
            "better": better,
            "of_it": ours / others[better],
            "of_small_buffer_socket": ours / line[f"small buffers x{at_once}"]["gb_s"],
            "sealed_of_it": line[f"sealed x{at_once}"]["gb_s"] / ours,
            "tls_of_sealed": line[f"tls x{at_once}"]["gb_s"] / line[f"sealed x{at_once}"]["gb_s"],
            "tls_of_socket": line[f"tls x{at_once}"]["gb_s"] / line[f"socket x{at_once}"]["gb_s"],
        }
    return line


def name_of(block):
    return f"{block >> 20} MiB" if block >= 1 << 20 else f"{block >> 10} KiB"


def show(lines):
    for at_once in (1, SEVERAL):
        names = [name for name in lines[0] if name.endswith(f" x{at_once}") and not name.startswith("ratio")]
        print(
            f"\n{'one pull at a time' if at_once == 1 else f'{at_once} at once'}: GB/s, median of the rounds"
        )
        print(
            f"{'block':>8}",
            *(f"{name.rsplit(' ', 1)[0]:>15}" for name in names),
            "  share of the better of socket and UCX; sealed over open; TLS over sealed and over socket",
        )
        for line in lines:
            ratio = line[f"ratio x{at_once}"]
            print(
                f"{name_of(line['block']):>8}",
                *(f"{line[name]['gb_s']:>20.2f}" for name in names),
                f"  {100 * ratio['of_it']:.0f} % ({ratio['better'].split()[0]}); "
                f"{100 * ratio['sealed_of_it']:.0f} %; "
                f"{100 * ratio['tls_of_sealed']:.0f} % and {100 * ratio['tls_of_socket']:.0f} %",
            )
    print("\nlatency of one pull: us p50 / p99, and its basic operations")
    names = [name for name in lines[0] if name.endswith(" x1") and not name.startswith("ratio")]
    print(
        f"{'block':>8}",
        *(f"{name.rsplit(' ', 1)[0]:>15}" for name in names),
        f"{'memcpy':>10}{'checksum':>10}{'seal':>10}{'open':>10}",
    )
    for line in lines:
        cells = (f"{line[name]['p50_us'] or 0:.0f} / {line[name]['p99_us'] or 0:.0f}" for name in names)
        print(
            f"{name_of(line['block']):>8}",
            *(f"{cell:>15}" for cell in cells),
            *(f"{line[name]['p50_us']:>10.1f}" for name in ("copy", "checksum", "seal", "open")),
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bench", default=ROOT / "build/tests/transfer_bench")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.25)
    parser.add_argument("--blocks", default=",".join(map(str, BLOCKS)))
    parser.add_argument("--together", type=int, default=1, help="blocks of a pull, which share its bytes")
    parser.add_argument("--json")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # runs the cleanup
    if options.smoke:
        options.rounds, options.seconds, options.blocks = 1, 0.02, "4096,1048576"
    lacks = missing()
    if lacks:
        print(f"skipped: this machine has no {lacks}", file=sys.stderr)
        return 77
    has_perftest = shutil.which("ucx_perftest") is not None
    if not has_perftest:
        print("without ucx_perftest: the package ucx-utils is not installed", file=sys.stderr)
    blocks = [int(block) for block in options.blocks.split(",")]
    results = {block: {} for block in blocks}
    load = os.getloadavg()
    with Pair() as pair:
        race = Race(pair, options.bench, options.seconds, options.together)
        try:
            for number in range(options.rounds):
                for block in blocks:
                    for name, one in race.round(number, block, has_perftest):
                        results[block].setdefault(name, []).append(one)
        finally:
            race.end()
    lines = [summary(block, results[block]) for block in blocks]
    show(lines)
    print(
        f"\n{options.rounds} rounds; load average {load[0]:.1f} before, {os.getloadavg()[0]:.1f} after; "
        f"{os.cpu_count()} cores"
    )
    if options.json:
        about = {
            "rounds": options.rounds,
            "seconds": options.seconds,
            "together": options.together,
            "load_before": load[0],
            "load_after": os.getloadavg()[0],
            "lines": lines,
        }
        pathlib.Path(options.json).write_text(json.dumps(about, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
