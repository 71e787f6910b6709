#!/usr/bin/env python3
"""One request of an HSTU model, by this engine and by PyTorch, on the same weights, one thread each, in one run.

  tests/bench/peers/hstu_torch.py --bench build/tests/hstu_bench [--json FILE] [--rounds 3]

The model of random-hstu-512's shape (3 layers, 512 wide, 4 heads, generated weights); a history and 100 candidates,
all computed. PyTorch runs the published form: all rows at once, a mask, buckets by a table once for a request; as it is and
by torch.jit.trace. Rounds alternate; the best of each is what counts. Times are of CPU, as both have one thread. Before anything is timed, the task logits of both
have to agree. Needs PyTorch (apt-get install python3-torch).
"""
import argparse
import json
import math
import subprocess
import sys
import time

import numpy as np
import torch

HIDDEN, HEADS, DIM, HEAD = 512, 4, 128, 64
U64 = (1 << 64) - 1


def drawn(name, rows, columns, log2, base=0, only=None):
    seed = 0xcbf29ce484222325
    for byte in name.encode():
        seed = ((seed ^ byte) * 0x100000001b3) & U64
    index = np.arange(rows * columns, dtype=np.uint64).reshape(rows, columns) if only is None else \
        (np.array(only, dtype=np.uint64)[:, None] * np.uint64(columns) + np.arange(columns, dtype=np.uint64)[None, :])
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + (index + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    integers = (z >> np.uint64(56)).astype(np.int64) - 128
    return torch.from_numpy((base + integers * 2.0 ** (log2 - 7)).astype(np.float32))


def request_of(history, candidates):
    """As tests/bench/hstu_bench.cc draws it."""
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
        self.production, self.layers, self.rows, self.history = production, layers, history + candidates, history
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
        boundaries = torch.tensor([math.ceil(math.exp(0.301 * (k + 1))) for k in range(100)], dtype=torch.int64)
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
                w["position"] = drawn(p + "relative_attention_bias.position_weight", 1, 2 * positions - 1, 0)[0]
                w["time"] = drawn(p + "relative_attention_bias.time_weight", 1, 129, 0)[0]
            self.weights.append(w)
        self.fc1 = drawn("task_head.fc1.weight", HEAD, HIDDEN, -4).t().contiguous()
        self.fc1_bias = drawn("task_head.fc1.bias", 1, HEAD, -2)[0]
        self.fc2 = drawn("task_head.fc2.weight", 1, HEAD, -2).t().contiguous()
        self.fc2_bias = drawn("task_head.fc2.bias", 1, 1, -2)[0]

    def layer(self, x, w):
        silu, norm = torch.nn.functional.silu, torch.nn.functional.layer_norm
        width, rows = HEADS * DIM, self.rows
        if self.production:
            y = norm(x, (HIDDEN,), w["input_norm"], w["input_norm_bias"], 1e-6) @ w["uvqk"] + w["uvqk_bias"]
            u, v, q, k = y.split(width, 1)
            u = silu(u)
        else:
            u, v, q, k = silu(norm(x, (HIDDEN,), None, None, 1e-6) @ w["uvqk"]).split(width, 1)
        heads = lambda t: t.reshape(rows, HEADS, DIM).transpose(0, 1)
        scores = heads(q) @ heads(k).transpose(1, 2)
        if self.production:
            scores = scores * self.scale
        else:
            scores = scores + (w["position"][self.distance] + w["time"][self.bucket])[None]
        a = (silu(scores) / self.normaliser * self.mask[None]) @ heads(v)
        a = a.transpose(0, 1).reshape(rows, width)
        if self.production:
            gated = u * norm(a, (width,), w["output_norm"], w["output_norm_bias"], 1e-6)
            return torch.cat([u, a, gated], 1) @ w["output"] + x
        return (u * norm(a, (width,), None, None, 1e-6)) @ w["output"] + w["output_bias"] + x

    def forward(self, items):
        x = items * math.sqrt(HIDDEN) + self.positions
        for w in self.weights:
            x = self.layer(x, w)
        s = torch.nn.functional.layer_norm(x[self.history:], (HIDDEN,), None, None, 1e-6)
        return torch.nn.functional.silu(s @ self.fc1 + self.fc1_bias) @ self.fc2 + self.fc2_bias


def engine(bench, layers, history, candidates, production):
    words = [bench, "--layers", layers, "--history", history, "--candidates", candidates, "--rounds", 1]
    words += ["--production"] if production else []
    return json.loads(subprocess.run([str(word) for word in words], check=True, capture_output=True).stdout)


def timed(run, items):
    began = time.process_time()
    with torch.no_grad():
        run(items)
    return (time.process_time() - began) * 1e3


def race(bench, layers, history, candidates, production, rounds):
    model = Hstu(layers, history, candidates, production)
    with torch.no_grad():
        logits = model(model.items)[:2, 0].tolist()
        traced = torch.jit.freeze(torch.jit.trace(model.eval(), (model.items,), check_trace=False))
        traced(model.items), traced(model.items)
    ours, plain, jit, shares = [], [], [], []
    for _ in range(rounds):
        result = engine(bench, layers, history, candidates, production)
        gap = max(abs(a - b) for a, b in zip(result["task_logits"], logits))
        if gap > 1e-3:
            sys.exit(f"the engines disagree by {gap}: {result['task_logits']} and {logits}")
        ours.append(result["rounds"][0]["cpu_ms"])
        shares.append(result["rounds"][0]["attention_share"])
        plain.append(timed(model, model.items))
        jit.append(timed(traced, model.items))
    return {"layer": "production" if production else "research", "layers": layers, "history": history,
            "candidates": candidates, "engine_ms": ours, "torch_ms": plain, "torch_jit_ms": jit,
            "times_torch": min(plain) / min(ours), "times_torch_jit": min(jit) / min(ours),
            "attention_share": shares, "logits_gap": gap}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bench", required=True)
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--history", type=int, action="append")
    parser.add_argument("--layers", type=int, action="append")
    options = parser.parse_args()
    torch.set_num_threads(1)
    cells = []
    for layers in options.layers or [3]:
        for history in options.history or [1000, 5000]:
            for production in (False, True):
                cells.append(race(options.bench, layers, history, 100, production, options.rounds))
                cell = cells[-1]
                print(f"{cell['layer']:10} {layers} layers, history {history}: engine {min(cell['engine_ms']):.1f} ms, "
                      f"torch {min(cell['torch_ms']):.1f} ms ({cell['times_torch']:.2f}), "
                      f"jit {min(cell['torch_jit_ms']):.1f} ms ({cell['times_torch_jit']:.2f})", flush=True)
    if options.json:
        json.dump({"torch": torch.__version__, "threads": 1, "cells": cells}, open(options.json, "w"), indent=1)


if __name__ == "__main__":
    main()
