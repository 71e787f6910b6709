#!/usr/bin/env python3
"""Compares a whole beam search with llama.cpp's, on the same shapes and the same machine, in rotation.

  tests/bench/peers/beams.py --lab build/deploy/troupe-lab --peers FOLDER --shapes tiny,small --rounds 5
                               --json FILE

FOLDER is what setup.sh made. A request computes a prompt and searches --width paths of three tokens:
log-softmax over 32,768 tokens, the best continuations, the parents' keys and values. First each setting
of llama.cpp is tried once: prebuilt with f16 weights or with its BLAS backend and f32, one or two
threads, flash attention on or off. Then the best of them, with a tuned and with a plain selection, and
Troupe run in rotation. Troupe searches among 20,000 random items, with
probabilities over the vocabulary, like llama.cpp, and over the tokens that may follow; and once more
without items, over the whole vocabulary. The search after an existing prompt is reported, too: from
llama.cpp's own times, and from a separate run of Troupe. Wall and CPU time are medians over rounds;
the multiply-add rate is sampled beside each.
"""
import argparse
import glob
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SHAPES = {
    "tiny": "4,256,4,2,1024,32768",
    "small": "12,512,8,2,2048,32768",
    "qwen05": "24,896,14,2,4864,32768",
}
STEPS = 3
# Search variants of Troupe, and the tokens over which they normalise probabilities. llama.cpp normalises over
# the vocabulary.
OURS = (("troupe", "vocabulary"), ("troupe", "allowed"), ("unconstrained", "vocabulary"))


def openblas_core():
    flags = open("/proc/cpuinfo").read()
    return "SKYLAKEX" if "avx512vl" in flags else "HASWELL" if "avx2" in flags else ""


class Llama:
    def __init__(self, peers, shape, blas, threads, flash, select="heap"):
        self.blas, self.threads, self.flash, self.select = blas, threads, flash, select
        weights = "f32" if blas else "f16"
        self.model = os.path.join(peers, "models", f"{shape}-{weights}.gguf")
        if not os.path.exists(self.model):
            subprocess.run(
                ["node", os.path.join(HERE, "make_model.mjs"), "gguf", weights, SHAPES[shape], self.model],
                check=True,
            )
        self.backends = (
            os.path.join(peers, "blas")
            if blas
            else glob.glob(os.path.join(peers, "npm/node_modules/@node-llama-cpp/*/bins/*"))[0]
        )
        self.program = os.path.join(peers, "llama_beams")
        self.name = (
            f"llama.cpp{'+OpenBLAS f32' if blas else ' f16'}, {threads} thread{'s' if threads > 1 else ''}, "
            f"flash attention {flash}, {select} selection"
        )

    def with_selection(self, select, peers, shape):
        return Llama(peers, shape, self.blas, self.threads, self.flash, select)

    def run(self, args, requests):
        environment = {
            **os.environ,
            "OPENBLAS_NUM_THREADS": str(self.threads),
            "OPENBLAS_CORETYPE": openblas_core(),
        }
        words = [
            self.program,
            self.backends,
            self.model,
            self.threads,
            self.flash,
            self.select,
            args.width,
            args.prompt,
            STEPS,
            requests,
        ]
        done = subprocess.run(
            [str(word) for word in words], env=environment, check=True, capture_output=True, text=True
        )
        runs = [json.loads(line) for line in done.stdout.splitlines()]
        return [{**run, "search_ms": run["wall_ms"] - run["prompt_ms"]} for run in runs]


class Troupe:
    def __init__(self, shape, threads, engine, normalised):
        self.shape, self.threads, self.engine, self.normalised = shape, threads, engine, normalised
        self.name = (
            f"troupe{'' if engine == 'troupe' else ' ' + engine}, over {normalised}, {threads} "
            f"thread{'s' if threads > 1 else ''}"
        )

    def run(self, args, requests):
        whole, search = self.call(args, requests, ["--prefill"]), self.call(args, requests, [])
        return [
            {
                "wall_ms": whole["p50_ms"],
                "cpu_ms": whole["cpu_ms"],
                "search_ms": search["p50_ms"],
                "fma_gflops": whole["fma_gflops"],
            }
        ] * requests

    def call(self, args, requests, more):
        words = [
            args.lab,
            "bench",
            "generate",
            "--shape",
            self.shape,
            "--width",
            args.width,
            "--prompt",
            args.prompt,
            "--requests",
            requests,
            "--threads",
            self.threads,
            "--engines",
            self.engine,
            "--normalised",
            self.normalised,
            "--json",
            "-",
            *more,
        ]
        done = subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True)
        return json.loads(done.stdout)["runs"][0]


def median(runs, what):
    return statistics.median(run[what] for run in runs)


def figures(name, runs):
    return {"engine": name, **{what: median(runs, what) for what in runs[0]}, "requests": len(runs)}


def race(args, shape):
    tried = []
    settings = [
        (blas, threads, flash)
        for blas in (True, False)
        for threads in args.threads
        for flash in ("on", "off")
    ]
    for blas, threads, flash in [(True, 1, "on")] if args.untried else settings:
        peer = Llama(args.peers, shape, blas, threads, flash)
        tried.append((peer, figures(peer.name, peer.run(args, 1))))
        print(f"{shape:7} tried {peer.name}: {tried[-1][1]['wall_ms']:.0f} ms", flush=True)
    best = min(tried, key=lambda one: one[1][args.by])[0]
    engines = [best, best.with_selection("plain", args.peers, shape)]
    engines += [
        Troupe(shape, threads, engine, normalised) for threads in args.threads for engine, normalised in OURS
    ]
    runs = {engine: [] for engine in engines}
    for _ in range(args.rounds):
        for engine in engines:
            runs[engine] += engine.run(args, args.requests)
    rows = [figures(engine.name, runs[engine]) for engine in engines]
    ours = min(row[args.by] for row in rows if row["engine"].startswith("troupe,"))
    for row in rows:
        print(
            f"{shape:7} {row['engine']:75} {row['wall_ms']:9.1f} ms, {row['cpu_ms']:9.1f} CPU ms, "
            f"{row[args.by] / ours:5.2f} x; the search "
            f"{row['search_ms']:7.1f} ms",
            flush=True,
        )
    return {"shape": shape, "tried": [row for _, row in tried], "raced": rows}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lab", required=True)
    parser.add_argument("--peers", required=True)
    parser.add_argument("--shapes", default="tiny")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--prompt", type=int, default=1500)
    parser.add_argument("--threads", default="1,2", type=lambda text: [int(word) for word in text.split(",")])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=3, help="requests of each engine in a round")
    parser.add_argument(
        "--untried",
        action="store_true",
        help="only llama.cpp with its BLAS backend, one thread and flash attention",
    )
    parser.add_argument(
        "--by",
        default="wall_ms",
        choices=("wall_ms", "cpu_ms"),
        help="figure to compare: CPU time, with one thread, if other work shares the cores",
    )
    parser.add_argument("--json")
    args = parser.parse_args()
    races = [race(args, shape) for shape in args.shapes.split(",")]
    if args.json:
        kept = {name: value for name, value in vars(args).items() if name not in ("lab", "peers", "json")}
        json.dump({"options": kept, "steps": STEPS, "races": races}, open(args.json, "w"), indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
