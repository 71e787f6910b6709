#!/usr/bin/env python3
"""Compares one request of an HSTU model in this engine, PyTorch and onnxruntime: equal weights, one
thread each.

  tests/bench/peers/hstu_torch.py --bench build/tests/hstu_bench [--peers FOLDER] [--layers 3 --layers 6]
                                  [--history 1000 ...] [--layer research --layer production] [--json FILE]
                                  [--rounds 3]

The model has the shape of random-hstu-512 (512 wide, 4 heads, generated weights); a history and 100
candidates are all computed. The peers run the published form: all rows at once, a mask, buckets from a
table made once per request. PyTorch runs it as it is and by torch.jit.trace; onnxruntime (--peers names
the folder where setup.sh installed it) runs the export of torch.onnx.

With more than 8,000 rows the peers compute one head after the other, to save memory. torch.jit, which
turns inputs into constants, is then skipped, and there is one round. Rounds alternate; the best of each
engine counts. Times are CPU times, as all have one thread. The task logits of all must agree. Needs
PyTorch (apt-get install python3-torch), and some 16 GB of memory for a history of 15,000.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch

HIDDEN, HEADS, DIM, HEAD = 512, 4, 128, 64
ROWS_AT_ONCE = 8_000  # maximum rows for which all heads are computed at once
HERE = os.path.dirname(os.path.abspath(__file__))
U64 = (1 << 64) - 1


def drawn(name, rows, columns, log2, base=0, only=None):
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = ((seed ^ byte) * 0x100000001B3) & U64
    index = (
        np.arange(rows * columns, dtype=np.uint64).reshape(rows, columns)
        if only is None
        else (
            np.array(only, dtype=np.uint64)[:, None] * np.uint64(columns)
            + np.arange(columns, dtype=np.uint64)[None, :]
        )
    )
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + (index + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    integers = (z >> np.uint64(56)).astype(np.int64) - 128
    return torch.from_numpy((base + integers * 2.0 ** (log2 - 7)).astype(np.float32))


def request_of(history, candidates):
    """Returns a request drawn as in tests/bench/hstu_bench.cc."""
    state = 1

    def draw():
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) & U64
        return state >> 33

    items, times, now = [], [], 1_600_000_000
    for _ in range(history):
        items.append(1 + draw() % 100_000)
        times.append(now)
        now += draw() % 200_000 if draw() % 10 == 0 else draw() % 600
    return items, times, now, [1 + draw() % 100_000 for _ in range(candidates)]


class Hstu(torch.nn.Module):
    def __init__(self, layers, history, candidates, production):
        super().__init__()
        items, times, now, asked = request_of(history, candidates)
        self.production, self.layers, self.rows, self.history = (
            production,
            layers,
            history + candidates,
            history,
        )
        positions = history + 1
        self.items = drawn("item_embedding.weight", 0, HIDDEN, -4, only=items + asked)
        at = torch.tensor(list(range(history)) + [history] * candidates)
        self.positions = drawn("position_embedding.weight", positions, HIDDEN, -2)[at]
        self.normaliser = float(positions)
        i = torch.arange(self.rows)
        self.mask = ((i[None, :] <= i[:, None]) & (i[None, :] < history)) | (i[None, :] == i[:, None])
        self.mask = self.mask.float()
        key = torch.tensor(times + [now] * candidates, dtype=torch.int64)
        query = torch.tensor(times[1:] + [now] * (candidates + 1), dtype=torch.int64)
        boundaries = torch.tensor(
            [math.ceil(math.exp(0.301 * (k + 1))) for k in range(100)], dtype=torch.int64
        )
        between = (query[:, None] - key[None, :]).abs().clamp(min=1)
        self.bucket = torch.bucketize(between, boundaries, right=True)
        self.distance = positions - 1 + at[None, :] - at[:, None]
        self.scale = 1 / math.sqrt(DIM) if production else 1.0
        width = HEADS * DIM
        self.weights = []
        for l in range(layers):
            p = f"layers.{l}."
            w = {"uvqk": drawn(p + "uvqk_proj.weight", 4 * width, HIDDEN, -4).t().contiguous()}
            if production:
                w["uvqk_bias"] = drawn(p + "uvqk_proj.bias", 1, 4 * width, -2)[0]
                w["output"] = drawn(p + "output_proj.weight", HIDDEN, 3 * width, -5).t().contiguous()
                for norm in ("input_norm", "output_norm"):
                    w[norm] = drawn(p + norm + ".weight", 1, HIDDEN, -2, 1)[0]
                    w[norm + "_bias"] = drawn(p + norm + ".bias", 1, HIDDEN, -2)[0]
            else:
                w["output"] = drawn(p + "output_proj.weight", HIDDEN, width, -4).t().contiguous()
                w["output_bias"] = drawn(p + "output_proj.bias", 1, HIDDEN, -2)[0]
                w["position"] = drawn(p + "relative_attention_bias.position_weight", 1, 2 * positions - 1, 0)[
                    0
                ]
                w["time"] = drawn(p + "relative_attention_bias.time_weight", 1, 129, 0)[0]
            self.weights.append(w)
        self.fc1 = drawn("task_head.fc1.weight", HEAD, HIDDEN, -4).t().contiguous()
        self.fc1_bias = drawn("task_head.fc1.bias", 1, HEAD, -2)[0]
        self.fc2 = drawn("task_head.fc2.weight", 1, HEAD, -2).t().contiguous()
        self.fc2_bias = drawn("task_head.fc2.bias", 1, 1, -2)[0]

    def norm(self, x, weight=None, bias=None):
        return torch.nn.functional.layer_norm(x, (x.shape[-1],), weight, bias, 1e-6)

    def attend(self, q, k, v, mask, bias):
        scores = q @ k.transpose(-2, -1)
        scores = scores * self.scale if bias is None else scores + bias
        return (torch.nn.functional.silu(scores) / self.normaliser * mask) @ v

    def layer(self, x, w, mask, distance, bucket):
        silu = torch.nn.functional.silu
        width, rows = HEADS * DIM, self.rows
        if self.production:
            y = self.norm(x, w["input_norm"], w["input_norm_bias"]) @ w["uvqk"] + w["uvqk_bias"]
            u, v, q, k = y.split(width, 1)
            u = silu(u)
        else:
            u, v, q, k = silu(self.norm(x) @ w["uvqk"]).split(width, 1)
        heads = lambda t: t.reshape(rows, HEADS, DIM).transpose(0, 1)
        bias = None if self.production else w["position"][distance] + w["time"][bucket]
        if rows <= ROWS_AT_ONCE:
            a = self.attend(heads(q), heads(k), heads(v), mask[None], None if bias is None else bias[None])
            a = a.transpose(0, 1).reshape(rows, width)
        else:
            parts = zip(q.split(DIM, 1), k.split(DIM, 1), v.split(DIM, 1))
            a = torch.cat([self.attend(*part, mask, bias) for part in parts], 1)
        if self.production:
            gated = u * self.norm(a, w["output_norm"], w["output_norm_bias"])
            return torch.cat([u, a, gated], 1) @ w["output"] + x
        return (u * self.norm(a)) @ w["output"] + w["output_bias"] + x

    def forward(self, items, *given):
        """`given`: the mask, and for a research layer the distances and buckets; by default its own."""
        given = given or self.inputs()[1:]
        mask, distance, bucket = given if len(given) == 3 else (*given, None, None)
        x = items * math.sqrt(HIDDEN) + self.positions
        for w in self.weights:
            x = self.layer(x, w, mask, distance, bucket)
        s = self.norm(x[self.history :])
        return torch.nn.functional.silu(s @ self.fc1 + self.fc1_bias) @ self.fc2 + self.fc2_bias

    def inputs(self):
        return (
            (self.items, self.mask)
            if self.production
            else (self.items, self.mask, self.distance, self.bucket)
        )


class Onnx:
    """The same model in a process that runs a pass for each line of input."""

    def __init__(self, model, peers):
        self.folder = tempfile.TemporaryDirectory(prefix="troupe-hstu-onnx-")
        # onnxruntime-node 1.30 crashes on a transformation of opset 17's layer norms.
        names = ["items", "mask", "distance", "bucket"][: len(model.inputs())]
        with torch.no_grad():
            torch.onnx.export(
                model,
                model.inputs(),
                os.path.join(self.folder.name, "model.onnx"),
                opset_version=16,
                input_names=names,
                output_names=["logits"],
            )
        told = []
        for name, values in zip(names, model.inputs()):
            values.numpy().tofile(os.path.join(self.folder.name, name + ".bin"))
            told.append(
                {
                    "name": name,
                    "type": "int64" if values.dtype == torch.int64 else "float32",
                    "shape": list(values.shape),
                }
            )
        with open(os.path.join(self.folder.name, "inputs.json"), "w") as out:
            json.dump(told, out)
        self.process = subprocess.Popen(
            [
                "node",
                "--max-old-space-size=8192",
                os.path.join(HERE, "hstu_onnx.mjs"),
                peers,
                self.folder.name,
                "1",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.line()

    def line(self):
        text = self.process.stdout.readline()
        if not text:
            sys.exit(f"onnxruntime ended with {self.process.wait()}")
        return json.loads(text)

    def run(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.line()

    def end(self):
        self.process.stdin.close()
        self.process.wait()
        self.folder.cleanup()


def engine(bench, layers, history, candidates, production):
    words = [bench, "--layers", layers, "--history", history, "--candidates", candidates, "--rounds", 1]
    words += ["--production"] if production else []
    return json.loads(subprocess.run([str(word) for word in words], check=True, capture_output=True).stdout)


def timed(run, items):
    """Returns milliseconds of CPU, and the first two task logits."""
    began = time.process_time()
    with torch.no_grad():
        logits = run(items)
    return (time.process_time() - began) * 1e3, logits[:2, 0].tolist()


def traced_form(model):
    with torch.no_grad():
        traced = torch.jit.freeze(torch.jit.trace(model.eval(), (model.items,), check_trace=False))
        traced(model.items), traced(model.items)
    return traced


def once(model, peers):
    """Runs a pass in its own process, so that its memory is free for the next."""
    onnx = Onnx(model, peers)
    told = onnx.run()
    onnx.end()
    return told["cpu_ms"], told["logits"]


def peers_of(model, is_long, options):
    """Returns functions that run a pass and time it, by name; and the processes to end."""
    peers, onnx = {}, None
    if options.peers and is_long:
        peers["onnxruntime"] = lambda: once(model, options.peers)
    elif options.peers:
        onnx = Onnx(model, options.peers)
        peers["onnxruntime"] = lambda: (lambda told: (told["cpu_ms"], told["logits"]))(onnx.run())
    peers["torch"] = lambda: timed(model, model.items)
    if not is_long:
        traced = traced_form(model)
        peers["torch_jit"] = lambda: timed(traced, model.items)
    return peers, onnx


def race(bench, layers, history, candidates, production, options):
    model = Hstu(layers, history, candidates, production)
    is_long = history + candidates > ROWS_AT_ONCE
    peers, onnx = peers_of(model, is_long, options)
    if not is_long:
        for run in peers.values():
            run()
    ours, shares, floors, times, gap = [], [], [], {name: [] for name in peers}, 0
    for _ in range(1 if is_long else options.rounds):
        result = engine(bench, layers, history, candidates, production)
        ours.append(result["rounds"][0]["cpu_ms"])
        shares.append(result["rounds"][0]["attention_share"])
        floors.append(result["rounds"][0]["floor_ms"])
        for name, run in peers.items():
            took, logits = run()
            times[name].append(took)
            gap = max([gap, *(abs(a - b) for a, b in zip(result["task_logits"], logits))])
            if gap > 1e-3:
                sys.exit(f"{name} disagrees by {gap}: {logits} for {result['task_logits']}")
    if onnx:
        onnx.end()
    return {
        "layer": "production" if production else "research",
        "layers": layers,
        "history": history,
        "candidates": candidates,
        "engine_ms": ours,
        **{f"{name}_ms": took for name, took in times.items()},
        **{f"times_{name}": min(took) / min(ours) for name, took in times.items()},
        "attention_share": shares,
        "floor_ms": floors,
        "logits_gap": gap,
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bench", required=True)
    parser.add_argument("--peers")
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--history", type=int, action="append")
    parser.add_argument("--layers", type=int, action="append")
    parser.add_argument("--layer", choices=["research", "production"], action="append")
    options = parser.parse_args()
    torch.set_num_threads(1)
    cells = []
    for history in options.history or [1000, 5000]:
        for layers in options.layers or [3]:
            for layer in options.layer or ["research", "production"]:
                cells.append(race(options.bench, layers, history, 100, layer == "production", options))
                cell = cells[-1]
                peers = [name[6:] for name in cell if name.startswith("times_")]
                print(
                    f"{layer:10} {layers} layers, history {history}: engine {min(cell['engine_ms']):.1f} ms"
                    + "".join(
                        f", {name} {min(cell[name + '_ms']):.1f} ms ({cell['times_' + name]:.2f})"
                        for name in peers
                    ),
                    flush=True,
                )
                if options.json:  # saves the results so far, in case the next run takes too long
                    with open(options.json, "w") as out:
                        json.dump({"torch": torch.__version__, "threads": 1, "cells": cells}, out, indent=1)
                        out.write("\n")


if __name__ == "__main__":
    main()
