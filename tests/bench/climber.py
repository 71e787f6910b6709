#!/usr/bin/env python3
"""Compares user-item pairs a second of Climber at FLAME's sizes: Troupe, onnxruntime and PyTorch on equal
weights.

    tests/bench/climber.py --peers FOLDER [--search] [--rounds N] [--json FILE]

FOLDER: where tests/bench/peers/setup.sh installed onnxruntime and fma_now. PyTorch is Debian's
python3-torch (with libopenblas0-pthread for its matrix products). Engines are processes that wait; passes
alternate between engines, so that all see the same machine. --search tries every peer's settings first
and takes the fastest of each; without it the settings that were best on the machine of the results are
used. An engine whose first logits differ is a fault.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SHAPES = {"base": (512, 128), "long": (1024, 512)}
ONNX_SETTINGS = ["", "mode=parallel", "spin=1", "flush=1", "prepack=0", "level=extended"]
FORMS = ["mask", "split"]
TOLERANCE = 1e-5


class Engine:
    def __init__(self, name, words, environment=None, workloads=("all",)):
        self.name, self.workloads, self.runs = name, workloads, {w: [] for w in workloads}
        self.process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
            stderr=subprocess.DEVNULL,
        )
        self.ready = self.line()

    def line(self):
        text = self.process.stdout.readline()
        if not text:
            sys.exit(f"{self.name}: ended with {self.process.wait()}")
        return json.loads(text)

    def passes(self):
        for workload in self.workloads:
            self.process.stdin.write(workload + "\n")
            self.process.stdin.flush()
            self.runs[workload].append(self.line())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Bench:
    def __init__(self, options, shape, threads):
        self.options, self.shape, self.threads = options, shape, threads
        self.events, self.candidates = SHAPES[shape]
        self.model = os.path.join(options.peers, "models", "flame-" + shape)
        if not os.path.exists(self.model):
            subprocess.check_call(
                [options.lab, "bench", "make-model", "--shape", "flame-" + shape, "--out", self.model],
                stdout=subprocess.DEVNULL,
            )
        self.items = json.load(open(os.path.join(self.model, "config.json")))["num_items"]

    def sizes(self):
        return [str(self.events), str(self.candidates)]

    def troupe(self, weights="f32"):
        return Engine(
            "Troupe" + ("" if weights == "f32" else f" {weights}"),
            [self.options.bench, self.model, *self.sizes(), str(self.threads), weights],
            workloads=("all", "cached"),
        )

    def torch(self, form):
        return Engine(
            f"PyTorch {form}",
            [
                "/usr/bin/python3",
                f"{HERE}/peers/climber_torch.py",
                "run",
                self.model,
                *self.sizes(),
                str(self.threads),
                form,
            ],
            {
                "FMA_NOW": os.path.join(self.options.peers, "fma_now"),
                "OPENBLAS_NUM_THREADS": str(self.threads),
                "OMP_NUM_THREADS": str(self.threads),
            },
        )

    def onnx(self, form, settings):
        file = f"{self.model}-{form}.onnx"
        if not os.path.exists(file):
            subprocess.check_call(
                [
                    "/usr/bin/python3",
                    f"{HERE}/peers/climber_torch.py",
                    "export",
                    self.model,
                    *self.sizes(),
                    form,
                    file,
                ],
                stderr=subprocess.DEVNULL,
            )
        return Engine(
            f"onnxruntime {form} {settings}".strip(),
            [
                "node",
                f"{HERE}/peers/climber_onnx.mjs",
                self.options.peers,
                file,
                str(self.items),
                *self.sizes(),
                str(self.threads),
                settings,
            ],
        )

    def fastest(self, makers, rounds):
        """Returns the maker of the fastest engine: least CPU time with one thread, least wall time with
        several."""
        measure = "cpu_ms" if self.threads == 1 else "wall_ms"
        tried = []
        for make in makers:
            engine = make()
            for _ in range(rounds):
                engine.passes()
            engine.close()
            tried.append((min(run[measure] for run in engine.runs["all"]), engine.name, make))
            print(f"  {engine.name:40} {tried[-1][0]:8.1f} ms", flush=True)
        return min(tried, key=lambda one: one[0])

    def peers(self):
        onnx = [lambda f=f, s=s: self.onnx(f, s) for f in FORMS for s in ONNX_SETTINGS]
        torch = [lambda f=f: self.torch(f) for f in FORMS + ["jit-" + f for f in FORMS]]
        if self.options.search:
            return [self.fastest(makers, 4)[2] for makers in (onnx, torch)]
        return [
            lambda: self.onnx("split", self.options.onnx_settings),
            lambda: self.torch(self.options.torch_form),
        ]

    def run(self):
        engines = (
            [self.troupe(), self.troupe("unfused")]
            + ([self.troupe("int8")] if self.options.int8 else [])
            + [make() for make in self.peers()]
        )
        want = engines[0].ready["first"]
        for engine in engines:
            off = max(abs(a - b) for a, b in zip(engine.ready["first"], want))
            if off > (TOLERANCE if "int8" not in engine.name else 1):
                sys.exit(f"{engine.name}: its logits differ by {off}; expected at most {TOLERANCE}")
        for _ in range(self.options.rounds):
            for engine in engines:
                engine.passes()
        for engine in engines:
            engine.close()
        return [
            self.figures(engine, workload, engines[0].ready["operations"])
            for engine in engines
            for workload in engine.workloads
        ]

    def figures(self, engine, workload, operations):
        runs = engine.runs[workload]
        middle = {key: statistics.median(run[key] for run in runs) for key in ("wall_ms", "cpu_ms", "fma")}
        floor = statistics.median(operations[workload] / run["fma"] * 1e3 for run in runs)  # ms of one thread
        walls = sorted(run["wall_ms"] for run in runs)
        return {
            "shape": self.shape,
            "threads": self.threads,
            "engine": engine.name,
            "workload": "history cached" if workload == "cached" else "all computed",
            "wall_ms": round(middle["wall_ms"], 2),
            "wall_ms_min": round(walls[0], 2),
            "wall_ms_p99": round(walls[(99 * len(walls) - 1) // 100], 2),
            "cpu_ms": round(middle["cpu_ms"], 2),
            "pairs_per_second": round(self.candidates / middle["wall_ms"] * 1e3),
            "pairs_per_cpu_second": round(self.candidates / middle["cpu_ms"] * 1e3),
            "fma_gflops": round(middle["fma"] / 1e9, 1),
            "floor_cpu_ms": round(floor, 2),
            "share_of_floor": round(floor / middle["cpu_ms"], 3),
            "rounds": len(runs),
        }


def show(rows):
    print(
        f"{'shape':5} {'threads':>7} {'engine':34} {'workload':15} {'wall ms':>8} {'pairs/s':>8} "
        f"{'CPU ms':>8} {'of floor':>8}"
    )
    for row in rows:
        print(
            f"{row['shape']:5} {row['threads']:7} {row['engine']:34} {row['workload']:15} "
            f"{row['wall_ms']:8.1f} "
            f"{row['pairs_per_second']:8} {row['cpu_ms']:8.1f} {100 * row['share_of_floor']:6.0f} %",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", required=True, type=os.path.abspath)
    parser.add_argument("--lab", default=f"{ROOT}/build/deploy/troupe-lab")
    parser.add_argument("--bench", default=f"{ROOT}/build/tests/climber_bench")
    parser.add_argument("--shapes", default="base,long")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--search", action="store_true")
    parser.add_argument("--int8", action="store_true", help="also run Troupe with int8 weights")
    parser.add_argument("--onnx-settings", default="mode=parallel")
    parser.add_argument("--torch-form", default="split")
    parser.add_argument("--json")
    options = parser.parse_args()
    os.makedirs(os.path.join(options.peers, "models"), exist_ok=True)
    rows = []
    for shape in options.shapes.split(","):
        for threads in map(int, options.threads.split(",")):
            rows += Bench(options, shape, threads).run()
    show(rows)
    if options.json:
        with open(options.json, "w") as out:
            out.write("[\n" + ",\n".join(" " + json.dumps(row) for row in rows) + "\n]\n")


if __name__ == "__main__":
    main()
