#!/usr/bin/env python3
"""Compares one request of a SASRec in this engine, PyTorch and onnxruntime: equal weights, one thread each.

  tests/bench/peers/sasrec_torch.py --bench build/tests/sasrec_bench [--peers FOLDER] [--layers 2]
                                    [--hidden 256] [--heads 4] [--history 1000] [--rounds 5] [--json FILE]

Makes a model directory with random weights. A request is a history and 100 candidates, whose logits are
read at the last event. The engine computes all of it, and once more with all but the last event reused.
The peers run the published form: all rows of all layers at once, with a mask. PyTorch runs it as it is and
by torch.jit.trace; onnxruntime (--peers names the folder where setup.sh installed it) runs the export of
torch.onnx. Rounds alternate; the best of each counts. Times are CPU times, as all have one thread. The
logits of all must agree. Needs PyTorch (apt-get install python3-torch).
"""
import argparse
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch

from hstu_torch import Onnx, timed, traced_form

ITEMS, CANDIDATES, TEMPERATURE = 100_000, 100, 0.05


def weights_of(options):
    """Returns the tensors of a random model by name."""
    random = np.random.default_rng(1)
    d, inner = options.hidden, options.hidden
    shapes = {"item_embedding.weight": (ITEMS + 1, d), "position_embedding.weight": (options.history, d)}
    for layer in range(options.layers):
        parts = {"qkv_proj": (3 * d, d), "output_proj": (d, d), "ffn.fc1": (inner, d), "ffn.fc2": (d, inner)}
        for name, shape in parts.items():
            shapes[f"layers.{layer}.{name}.weight"] = shape
            shapes[f"layers.{layer}.{name}.bias"] = shape[:1]
    return {
        name: (random.standard_normal(shape) / math.sqrt(shape[-1])).astype(np.float32)
        for name, shape in shapes.items()
    }


def write_model(folder, weights, options):
    header, at = {}, 0
    for name, values in weights.items():
        header[name] = {
            "dtype": "F32",
            "shape": list(values.shape),
            "data_offsets": [at, at + values.nbytes],
        }
        at += values.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for values in weights.values():
            out.write(values.tobytes())
    config = {
        "model_type": "sasrec",
        "num_hidden_layers": options.layers,
        "hidden_size": options.hidden,
        "num_attention_heads": options.heads,
        "intermediate_size": options.hidden,
        "hidden_activation": "relu",
        "num_items": ITEMS,
        "max_sequence_length": options.history,
        "max_output_length": 0,
        "layer_norm_eps": 1e-8,
        "input_scale": "sqrt(hidden_size)",
        "position_embedding": "absolute",
        "l2_norm_eps": 1e-6,
        "temperature": TEMPERATURE,
    }
    with open(os.path.join(folder, "config.json"), "w") as out:
        json.dump(config, out)


class Sasrec(torch.nn.Module):
    def __init__(self, weights, options):
        super().__init__()
        self.heads, self.width = options.heads, options.hidden
        tensors = {name: torch.from_numpy(values) for name, values in weights.items()}
        rows = lambda count, step: [1 + step * i % ITEMS for i in range(count)]
        table = tensors["item_embedding.weight"]
        self.items = table[rows(options.history, 7919)]
        asked = table[rows(CANDIDATES, 104_729)]
        self.asked = asked / asked.norm(dim=1, keepdim=True) / TEMPERATURE
        self.positions = tensors["position_embedding.weight"]
        self.layers = []
        for layer in range(options.layers):
            part = lambda name: tensors[f"layers.{layer}.{name}"]
            names = ("qkv_proj", "output_proj", "ffn.fc1", "ffn.fc2")
            self.layers.append([(part(n + ".weight").t().contiguous(), part(n + ".bias")) for n in names])
        row = torch.arange(options.history)
        self.mask = torch.zeros(options.history, options.history)
        self.mask[row[None, :] > row[:, None]] = -1e9

    def norm(self, x):
        return torch.nn.functional.layer_norm(x, (self.width,), None, None, 1e-8)

    def layer(self, x, parts, mask):
        (qkv, qkv_bias), output, fc1, fc2 = parts
        d, size = self.width, self.width // self.heads
        residual = self.norm(x)
        q = residual @ qkv[:, :d] + qkv_bias[:d]
        k, v = (x @ qkv[:, d:] + qkv_bias[d:]).split(d, 1)
        heads = lambda t: t.reshape(-1, self.heads, size).transpose(0, 1)
        scores = heads(q) @ heads(k).transpose(1, 2) / math.sqrt(size) + mask
        mixed = (torch.softmax(scores, -1) @ heads(v)).transpose(0, 1).reshape(-1, d)
        y = self.norm(residual + mixed @ output[0] + output[1])
        return torch.relu(y @ fc1[0] + fc1[1]) @ fc2[0] + fc2[1] + y

    def forward(self, items, mask=None):
        mask = self.mask if mask is None else mask
        x = items * math.sqrt(self.width) + self.positions
        for parts in self.layers:
            x = self.layer(x, parts, mask)
        user = x[-1] / x[-1].norm()
        return (self.asked @ user)[:, None]

    def inputs(self):
        return self.items, self.mask


def engine(options, folder, cached):
    words = [options.bench, "--model", folder, "--history", options.history, "--candidates", CANDIDATES]
    words += ["--rounds", 3] + (["--cached"] if cached else [])
    told = json.loads(subprocess.run([str(word) for word in words], check=True, capture_output=True).stdout)
    return min(told["cpu_ms"]), told["logits"]


def race(options, folder):
    weights = weights_of(options)
    write_model(folder, weights, options)
    model = Sasrec(weights, options)
    traced = traced_form(model)
    runs = {
        "engine": lambda: engine(options, folder, False),
        "engine_cached": lambda: engine(options, folder, True),
        "torch": lambda: timed(model, model.items),
        "torch_jit": lambda: timed(traced, model.items),
    }
    onnx = Onnx(model, options.peers) if options.peers else None
    if onnx:
        runs["onnxruntime"] = lambda: (lambda told: (told["cpu_ms"], told["logits"]))(onnx.run())
    times, wanted = {name: [] for name in runs}, None
    for _ in range(options.rounds + 1):  # the first warms up
        for name, run in runs.items():
            took, logits = run()
            wanted = wanted or logits
            if max(abs(a - b) for a, b in zip(wanted, logits)) > 2e-3:
                sys.exit(f"{name} disagrees: {logits} for {wanted}")
            times[name].append(took)
    if onnx:
        onnx.end()
    return {name: min(took[1:]) for name, took in times.items()}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bench", required=True)
    parser.add_argument("--peers")
    parser.add_argument("--json")
    for name, usual in (("layers", 2), ("hidden", 256), ("heads", 4), ("history", 1000), ("rounds", 5)):
        parser.add_argument("--" + name, type=int, default=usual)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="troupe-sasrec-") as folder:
        best = race(options, folder)
    peer = min(took for name, took in best.items() if not name.startswith("engine"))
    result = {
        "shape": {name: getattr(options, name) for name in ("layers", "hidden", "heads", "history")},
        "cpu_ms": best,
        "times_best_peer": peer / best["engine"],
        "times_best_peer_cached": peer / best["engine_cached"],
    }
    print(json.dumps(result, indent=1))
    if options.json:
        with open(options.json, "w") as out:
            json.dump(result, out, indent=1)
            out.write("\n")


if __name__ == "__main__":
    main()
