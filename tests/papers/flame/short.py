"""FLAME's mechanisms on this machine, in a minute: the code of Tables 3, 4 and 5 runs, its answers agree, and
one bound for each mechanism holds. CPU milliseconds of passes that alternate are compared, never absolute
times."""

import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, ".."))
from checks import Report  # noqa: E402

EVENTS, CANDIDATES = 512, 128  # Table 2, base
TOLERANCE = 1e-5  # of logits
SEEDS = "1..5"  # simulated clusters; the third finds features that do not expire
PAPER_FUSED = 843.8 / 588.8  # Table 4, base: kernel fusion over the TensorRT API
PAPER_SHAPES = 1190.4 / 912  # Table 5


class Passes:
    """A process of climber_bench that runs a pass on request."""

    def __init__(self, bench, model, kind):
        self.process = subprocess.Popen(
            [bench, model, str(EVENTS), str(CANDIDATES), "1", kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.first = self.line()["first"]

    def line(self):
        text = self.process.stdout.readline()
        if not text:
            sys.exit(f"climber_bench ended with {self.process.wait()}; expected a line of JSON")
        return json.loads(text)

    def cpu_ms(self):
        self.process.stdin.write("all\n")
        self.process.stdin.flush()
        return self.line()["cpu_ms"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def fused_and_apart(bench, model, rounds):
    """Returns the ratios of CPU time by round, separate operations over fused ones, and the difference of
    their logits."""
    fused, apart = Passes(bench, model, "f32"), Passes(bench, model, "unfused")
    off = max(abs(a - b) for a, b in zip(fused.first, apart.first))
    ratios = []
    for _ in range(rounds):
        mine = fused.cpu_ms()
        ratios.append(apart.cpu_ms() / mine)
    fused.close()
    apart.close()
    return ratios, off


def shapes(bench, model, requests):
    """Returns way → pairs a CPU second, and what the bench says if the parts' answers differ from the
    whole's; there are no ways then."""
    done = subprocess.run([bench, model, str(EVENTS), str(requests)], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"shapes_bench: exit status {done.returncode}: {done.stderr.strip()[-500:]}")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {row["way"]: row["pairs_per_cpu_second"] for row in rows if "way" in row}, done.stderr.strip()


def expiry(lab):
    """Returns what simulated clusters with cached features report about rows that are too old; "" if none
    is. Clusters are drawn as `troupe-lab sim` draws them."""
    done = subprocess.run([lab, "sim", "--seeds", SEEDS], capture_output=True, text=True)
    return "" if done.returncode == 0 else " ".join((done.stdout + done.stderr).split())[:100]


def judge(ratios, off, ways, differ, expired):
    report = Report()
    what = f"no cached feature outlives its expiry (seeds {SEEDS})"
    report.holds("Table 3", what, "none", expired or "none", not expired)
    report.holds("Table 4", "logits of fused and separate operations", "equal", off, off <= TOLERANCE)
    middle = [statistics.median(ratios)]
    report.above("Table 4", "CPU, separate operations over fused", PAPER_FUSED, middle, 1.2)
    report.holds("Table 5", "logits of the shapes' parts and of the whole", "equal", differ, not differ)
    gain = ways["fixed"] / ways["dynamic"] if ways else 0
    report.say("Table 5", "pairs/s, fixed shapes over any size", PAPER_SHAPES, gain, "nothing on a CPU")
    # Four shapes, whose candidates are not padded: a cut that computes them twice would halve this.
    report.above("Table 5", "no candidate is computed twice", None, [gain], 0.7)
    return report


def main(lab, tests):
    with tempfile.TemporaryDirectory(prefix="troupe-flame-") as folder:
        model = os.path.join(folder, "model")
        subprocess.run(
            [lab, "bench", "make-model", "--shape", "flame-base", "--out", model],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        ratios, off = fused_and_apart(os.path.join(tests, "climber_bench"), model, 5)
        ways, differ = shapes(os.path.join(tests, "shapes_bench"), model, 6)
    report = judge(ratios, off, ways, differ, expiry(lab))
    report.print()
    return report.missed()
