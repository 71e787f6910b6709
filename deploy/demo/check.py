#!/usr/bin/env python3
"""Computes the demo model in float64 without torch, and writes or checks golden.json.

  check.py [--model model] [--world world] [--write] [--examples N]

A plan is a list of segments (kind, start, sees, tokens). A token attends to all tokens of the segments
that its own segment sees, and to its own segment up to itself. The forward pass uses only such a list,
the saved tensors and config.json, so that it is independent of train.py. golden.json holds some requests
in three plans, with the candidates' logits at the last token. Without --write the file is compared with
new results. --examples prints histories and rankings.
"""
import argparse
import json
import pathlib
import struct

import numpy as np

HERE = pathlib.Path(__file__).parent
PLANS = ("up", "ip", "causal")
PARTS = ("system", "user", "instruction", "discriminant")  # lists of tokens in prompt.json
GOLDEN_LENGTHS = (6, 18, 40)  # one request for each: the first user whose history has this many events
TOLERANCE = 1e-9


def read_jsonl(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


class Model:
    def __init__(self, folder):
        self.config = json.loads((folder / "config.json").read_text())
        self.vocabulary = json.loads((folder / "vocab.json").read_text())
        form = json.loads((folder / "prompt.json").read_text())
        self.prompt = {part: [self.vocabulary[t] for t in form[part]] for part in PARTS}
        self.weights = read_safetensors(folder / "model.safetensors")

    def logits(self, segments, identifiers):
        """Returns the identifiers' logits at the last token of the segment list."""
        c, table = self.config, self.weights["model.embed_tokens.weight"]
        tokens = np.concatenate([s["tokens"] for s in segments])
        positions = np.concatenate([s["start"] + np.arange(len(s["tokens"])) for s in segments])
        allowed, turn = sight(segments), rotation(
            positions, c["hidden_size"] // c["num_attention_heads"], c["rope_theta"]
        )
        x = table[tokens]
        for number in range(c["num_hidden_layers"]):
            layer = {
                name.split(".", 3)[3]: w
                for name, w in self.weights.items()
                if name.startswith(f"model.layers.{number}.")
            }
            x = x + attention(self.normal(x, layer["input_layernorm.weight"]), layer, c, turn, allowed)
            y = self.normal(x, layer["post_attention_layernorm.weight"])
            gate = y @ layer["mlp.gate_proj.weight"].T
            x = (
                x
                + gate
                / (1 + np.exp(-gate))
                * (y @ layer["mlp.up_proj.weight"].T)
                @ layer["mlp.down_proj.weight"].T
            )
        return table[identifiers] @ self.normal(x[-1], self.weights["model.norm.weight"])

    def normal(self, x, weight):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + self.config["rms_norm_eps"]) * weight


def read_safetensors(path):
    """Reads all tensors of an F32 file as float64."""
    data = path.read_bytes()
    base = 8 + struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:base]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            tensors[name] = (
                np.frombuffer(data[base + begin : base + end], "<f4")
                .reshape(entry["shape"])
                .astype(np.float64)
            )
    return tensors


def sight(segments):
    """Returns allowed[q, k]: true if token q may attend to token k."""
    ends = np.cumsum([len(s["tokens"]) for s in segments])
    begins = np.concatenate([[0], ends[:-1]])
    allowed = np.tri(ends[-1], dtype=bool)
    for begin, end, segment in zip(begins, ends, segments):
        allowed[begin:end, :begin] = False
        for seen in segment["sees"]:
            allowed[begin:end, begins[seen] : ends[seen]] = True
    return allowed


def rotation(positions, head, theta):
    """Returns the complex factors of RoPE: element j rotates together with element j + head / 2."""
    return np.exp(1j * np.outer(positions, theta ** (-2.0 * np.arange(head // 2) / head)))


def rotate(x, turn):
    half = x.shape[-1] // 2
    z = (x[..., :half] + 1j * x[..., half:]) * turn
    return np.concatenate([z.real, z.imag], -1)


def attention(x, layer, config, turn, allowed):
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    q, k, v = (x @ layer[f"self_attn.{n}_proj.weight"].T + layer[f"self_attn.{n}_proj.bias"] for n in "qkv")
    q, k, v = (
        t.reshape(len(x), n, -1).transpose(1, 0, 2) for t, n in ((q, heads), (k, kv_heads), (v, kv_heads))
    )
    q, k = rotate(q, turn), rotate(k, turn)
    mixed = []
    for head in range(heads):
        shared = head * kv_heads // heads
        score = np.where(allowed, q[head] @ k[shared].T / np.sqrt(q.shape[-1]), -np.inf)
        weight = np.exp(score - score.max(1, keepdims=True))
        mixed.append(weight / weight.sum(1, keepdims=True) @ v[shared])
    return np.concatenate(mixed, 1) @ layer["self_attn.o_proj.weight"].T


def plan_segments(plan, prompt, history, candidates):
    """Returns the segments of a plan. history, candidates: the items' token lists. Every segment comes after
    those that it sees."""
    user = prompt["user"] + [t for item in history for t in item]
    after_system, longest = len(prompt["system"]), max(map(len, candidates))
    segments = [("system", 0, [], prompt["system"])]
    if plan == "ip":
        segments += [("item", after_system, [0], item) for item in candidates]
        segments.append(("user", after_system + longest, list(range(len(segments))), user))
        tail = after_system + longest + len(user)
    else:
        segments.append(("user", after_system, [0], user))
        start = after_system + len(user)
        for item in candidates:
            segments.append(("item", start, [0, 1] if plan == "up" else list(range(len(segments))), item))
            start += len(item) if plan == "causal" else 0
        tail = start + (longest if plan == "up" else 0)
    segments.append(("instruction", tail, list(range(len(segments))), prompt["instruction"]))
    tail += len(prompt["instruction"])
    segments.append(("discriminant", tail, list(range(len(segments))), prompt["discriminant"]))
    return [dict(zip(("kind", "start", "sees", "tokens"), s)) for s in segments]


class World:
    def __init__(self, folder):
        self.items = {r["id"]: r for r in read_jsonl(folder / "items.jsonl")}
        self.histories = {r["id"]: r["history"] for r in read_jsonl(folder / "users.jsonl")}
        self.requests = read_jsonl(folder / "requests.jsonl")

    def rank(self, model, request, plan):
        """Returns the segment table, the candidates' identifier tokens and their logits."""
        tokens = lambda ids: [[model.vocabulary[t] for t in self.items[i]["tokens"]] for i in ids]
        segments = plan_segments(
            plan, model.prompt, tokens(self.histories[request["user"]]), tokens(request["candidates"])
        )
        identifiers = [model.vocabulary[self.items[i]["identifier"]] for i in request["candidates"]]
        return segments, identifiers, model.logits(segments, identifiers)


def golden(model, world):
    requests = []
    for length in GOLDEN_LENGTHS:
        request = next(r for r in world.requests if len(world.histories[r["user"]]) == length)
        plans = {}
        for plan in PLANS:
            segments, identifiers, logits = world.rank(model, request, plan)
            plans[plan] = {"segments": segments, "logits": [float(f"{x:.12g}") for x in logits]}
        requests.append(
            {
                "user": request["user"],
                "candidates": request["candidates"],
                "identifiers": identifiers,
                "plans": plans,
            }
        )
    return {
        "note": "identifier logits of the candidates at the last token, "
        "float64 from the saved float32 tensors; sees = indices of earlier segments, attended to in full; "
        "inside a segment attention is causal",
        "requests": requests,
    }


def difference(now, before):
    """Returns the largest absolute difference of the logits; the segment tables must be equal."""
    largest = 0.0
    for a, b in zip(now["requests"], before["requests"], strict=True):
        for plan in PLANS:
            if a["plans"][plan]["segments"] != b["plans"][plan]["segments"]:
                raise SystemExit(
                    f"golden.json: segments of {a['user']} in plan {plan} differ from those computed now"
                )
            gap = np.abs(np.subtract(a["plans"][plan]["logits"], b["plans"][plan]["logits"])).max()
            largest = max(largest, float(gap))
    return largest


def show(model, world, request):
    title = lambda i: world.items[i]["title"]
    print(
        f"\n{request['user']}: history, newest last"
        + "".join(f"\n    {title(i)}" for i in world.histories[request["user"]][-12:])
    )
    print(f"  next in truth: {title(request['true_item'])}")
    for plan in PLANS:
        _, _, logits = world.rank(model, request, plan)
        best = np.argsort(-logits, kind="stable")[:5]
        print(
            f"  top 5, {plan}:"
            + "".join(f"\n    {logits[j]:7.3f}  {title(request['candidates'][j])}" for j in best)
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=pathlib.Path, default=HERE / "model")
    parser.add_argument("--world", type=pathlib.Path, default=HERE / "world")
    parser.add_argument("--golden", type=pathlib.Path, default=HERE / "golden.json")
    parser.add_argument("--write", action="store_true", help="write golden.json instead of comparing with it")
    parser.add_argument(
        "--examples", type=int, default=0, metavar="N", help="print the first N users' rankings"
    )
    arguments = parser.parse_args()
    model, world = Model(arguments.model), World(arguments.world)
    for request in world.requests[: arguments.examples]:
        show(model, world, request)
    now = golden(model, world)
    if arguments.write:
        arguments.golden.write_text(json.dumps(now, separators=(",", ":")) + "\n")
        return
    gap = difference(now, json.loads(arguments.golden.read_text()))
    print(f"largest difference from {arguments.golden.name}: {gap:.3g}; allowed {TOLERANCE:.0g}")
    raise SystemExit(gap > TOLERANCE)


if __name__ == "__main__":
    main()
