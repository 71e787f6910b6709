#!/usr/bin/env python3
"""Climber in PyTorch: a peer of tests/bench/climber.py, and the exporter of the same model to ONNX.

    climber_torch.py run    MODEL EVENTS CANDIDATES THREADS FORM
    climber_torch.py export MODEL EVENTS CANDIDATES FORM OUT.onnx

FORM `mask`: each tower attends over all its rows with a mask, as a port of the model would. FORM `split`:
the history has a causal mask; candidates attend to the history and to themselves, which skips pairs that
no row sees. A prefix `jit-`, as in `jit-split`: traced and frozen. The scenario's temperatures are folded
into the queries' weights. Needs Debian's python3-torch; the safetensors file is read by this program
itself.
"""
import json
import math
import os
import resource
import struct
import subprocess
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


def read_model(folder):
    config = json.load(open(os.path.join(folder, "config.json")))
    data = open(os.path.join(folder, "model.safetensors"), "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, stored in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + offset for offset in stored["data_offsets"])
        tensors[name] = (
            torch.frombuffer(bytearray(data[begin:end]), dtype=torch.float32).reshape(stored["shape"]).clone()
        )
    return config, tensors


def affine(tensors, name):
    layer = nn.Linear(*reversed(tensors[name + ".weight"].shape))
    layer.weight.data, layer.bias.data = tensors[name + ".weight"], tensors[name + ".bias"]
    return layer


def norm(tensors, name, epsilon):
    layer = nn.LayerNorm(tensors[name + ".weight"].shape[0], eps=epsilon)
    layer.weight.data, layer.bias.data = tensors[name + ".weight"], tensors[name + ".bias"]
    return layer


class Layer(nn.Module):
    def __init__(self, config, tensors, at, temperatures, history, form):
        super().__init__()
        self.heads, self.history, self.form = config["num_attention_heads"], history, form
        self.attention_norm = norm(tensors, at + "attention_norm", config["layer_norm_eps"])
        self.ffn_norm = norm(tensors, at + "ffn_norm", config["layer_norm_eps"])
        self.qkv, self.output = affine(tensors, at + "qkv_proj"), affine(tensors, at + "output_proj")
        self.fc1, self.fc2 = affine(tensors, at + "ffn.fc1"), affine(tensors, at + "ffn.fc2")
        width = config["hidden_size"] // self.heads
        for head, temperature in enumerate(temperatures):
            rows = slice(head * width, (head + 1) * width)
            self.qkv.weight.data[rows] /= temperature
            self.qkv.bias.data[rows] /= temperature

    def forward(self, x, mask):
        rows, hidden = x.shape
        q, k, v = (
            self.qkv(self.attention_norm(x))
            .view(rows, 3, self.heads, hidden // self.heads)
            .permute(1, 2, 0, 3)
        )
        if self.form == "mask":
            mixed = torch.matmul(torch.softmax(torch.matmul(q, k.transpose(1, 2)) + mask, -1), v)
        else:
            n = self.history
            qh, kh, vh, qc, kc, vc = q[:, :n], k[:, :n], v[:, :n], q[:, n:], k[:, n:], v[:, n:]
            keys = kh.transpose(1, 2)
            past = torch.matmul(torch.softmax(torch.matmul(qh, keys) + mask, -1), vh)
            weights = torch.softmax(
                torch.cat([torch.matmul(qc, keys), (qc * kc).sum(-1, keepdim=True)], -1), -1
            )
            mixed = torch.cat([past, torch.matmul(weights[:, :, :n], vh) + weights[:, :, n:] * vc], 1)
        x = x + self.output(mixed.permute(1, 0, 2).reshape(rows, hidden))
        return x + self.fc2(F.silu(self.fc1(self.ffn_norm(x))))


class Climber(nn.Module):
    """Inputs: `items` and `actions` of the history, oldest first, as many as every tower reads; and
    `candidates`."""

    def __init__(self, config, tensors, scenario, candidates, form):
        super().__init__()
        self.items, self.actions = nn.Parameter(tensors["item_embedding.weight"]), nn.Parameter(
            tensors["action_embedding.weight"]
        )
        self.positions, self.towers, self.norms = nn.ParameterList(), nn.ModuleList(), nn.ModuleList()
        self.lengths = [block["max_sequence_length"] for block in config["blocks"]]
        layers, heads = config["num_hidden_layers"], config["num_attention_heads"]
        fc1, fc2 = affine(tensors, "temperature.fc1"), affine(tensors, "temperature.fc2")
        for k, n in enumerate(self.lengths):
            at = f"blocks.{k}."
            table = tensors[at + "position_embedding.weight"]
            self.positions.append(nn.Parameter(torch.cat([table[:n], table[n:].expand(candidates, -1)])))
            z = torch.cat(
                [
                    tensors["temperature.strategy_embedding.weight"][k],
                    tensors["temperature.scenario_embedding.weight"][scenario],
                ]
            )
            g = fc2(torch.tanh(fc1(z))).view(layers, heads)
            scale = (math.sqrt(config["hidden_size"] // heads) * torch.exp(g)).tolist()
            self.towers.append(
                nn.ModuleList(
                    Layer(config, tensors, f"{at}layers.{l}.", scale[l], n, form) for l in range(layers)
                )
            )
            self.norms.append(norm(tensors, at + "final_norm", config["layer_norm_eps"]))
            rows = n if form == "split" else n + candidates
            sees = torch.ones(rows, rows).tril()
            if form == "mask":
                sees[n:, n:] = torch.eye(candidates)
            self.register_buffer(f"mask{k}", (1 - sees) * -1e30)
        self.gate = affine(tensors, "fusion.gate")
        self.experts = nn.ModuleList(affine(tensors, f"experts.{x}.fc") for x in range(config["num_experts"]))
        tasks = range(len(config["tasks"]))
        self.task_gates = nn.ModuleList(affine(tensors, f"tasks.{t}.gate") for t in tasks)
        self.heads1 = nn.ModuleList(affine(tensors, f"tasks.{t}.tower.fc1") for t in tasks)
        self.heads2 = nn.ModuleList(affine(tensors, f"tasks.{t}.tower.fc2") for t in tasks)

    def forward(self, items, actions, candidates):
        ends = []
        for k, n in enumerate(self.lengths):
            ids = torch.cat([items[-n:], candidates])
            done = torch.cat([actions[-n:], torch.zeros_like(candidates)])
            x = F.embedding(ids, self.items) + F.embedding(done, self.actions) + self.positions[k]
            for layer in self.towers[k]:
                x = layer(x, getattr(self, f"mask{k}"))
            ends.append(self.norms[k](x[n:]))
        e = torch.cat(ends, 1)
        fused = torch.sigmoid(self.gate(e)) * e
        opinions = torch.stack([F.silu(expert(fused)) for expert in self.experts], 1)
        logits = []
        for gate, head1, head2 in zip(self.task_gates, self.heads1, self.heads2):
            mixed = (torch.softmax(gate(fused), -1).unsqueeze(-1) * opinions).sum(1)
            logits.append(head2(F.silu(head1(mixed))))
        return torch.cat(logits, 1)


def request(config, events, candidates):  # drawn as in climber_bench.cc
    items = torch.tensor([1 + 7919 * i % config["num_items"] for i in range(events)])
    actions = torch.tensor([4 + i % 2 for i in range(events)])
    return items, actions, torch.tensor([1 + 104729 * j % config["num_items"] for j in range(candidates)])


def build(folder, events, candidates, form):
    config, tensors = read_model(folder)
    with torch.no_grad():
        model = Climber(config, tensors, 0, candidates, form.removeprefix("jit-")).eval()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    return model, request(config, events, candidates)


def run(folder, events, candidates, threads, form):
    torch.set_num_threads(threads)
    model, asked = build(folder, events, candidates, form)
    rate = [os.environ["FMA_NOW"], str(threads)]
    with torch.inference_mode():
        if form.startswith("jit-"):
            model = torch.jit.freeze(torch.jit.trace(model, asked))
        for _ in range(3):
            logits = model(*asked)
        print(json.dumps({"first": logits[:8, 0].tolist()}), flush=True)
        for _ in sys.stdin:
            before = float(subprocess.check_output(rate))
            used, begin = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
            model(*asked)
            wall, end = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF)
            cpu = end.ru_utime + end.ru_stime - used.ru_utime - used.ru_stime
            fma = (before + float(subprocess.check_output(rate))) / 2
            print(json.dumps({"wall_ms": 1e3 * wall, "cpu_ms": 1e3 * cpu, "fma": 1e9 * fma}), flush=True)


def export(folder, events, candidates, form, out):
    model, asked = build(folder, events, candidates, form)
    with torch.inference_mode(False), torch.no_grad():
        torch.onnx.export(
            model,
            asked,
            out,
            opset_version=17,
            input_names=["items", "actions", "candidates"],
            output_names=["logits"],
            do_constant_folding=True,
        )


if __name__ == "__main__":
    what, folder, events, candidates = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    if what == "run":
        run(folder, events, candidates, int(sys.argv[5]), sys.argv[6])
    else:
        export(folder, events, candidates, sys.argv[5], sys.argv[6])
