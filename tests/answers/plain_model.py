"""The plain computation of a ranker in the Qwen2 form: numpy in float32, nothing cached, one prompt at a
time. Written from the definitions of the architecture and of the arrangements
(docs/concepts/plans-and-scores.md), without anything of the program."""

import json
import os
import struct

import numpy as np


def read_tensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    tensors = {}
    for name, row in header.items():
        if name != "__metadata__":
            begin, end = row["data_offsets"]
            tensors[name] = np.frombuffer(data[begin:end], np.float32).reshape(row["shape"])
    return tensors


class PlainModel:
    def __init__(self, directory):
        self.config = json.load(open(os.path.join(directory, "config.json")))
        self.tensors = read_tensors(os.path.join(directory, "model.safetensors"))
        self.heads, self.kv_heads = self.config["num_attention_heads"], self.config["num_key_value_heads"]
        self.head = self.config["hidden_size"] // self.heads

    def norm(self, x, name):
        scale = 1 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.config["rms_norm_eps"])
        return x * scale * self.tensors[name]

    def linear(self, x, name):
        y = x @ self.tensors[name + ".weight"].T
        return y + self.tensors[name + ".bias"] if name + ".bias" in self.tensors else y

    def rotate(self, x, positions):
        half = self.head // 2
        frequency = self.config["rope_theta"] ** (-np.arange(half) / half)
        angle = positions[:, None, None] * frequency
        cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    def hidden(self, tokens, positions, mask):
        """Returns the normalised hidden state of every token. `mask`[i][j]: token i sees token j."""
        x = self.tensors["model.embed_tokens.weight"][tokens]
        positions, group = np.asarray(positions), self.heads // self.kv_heads
        hidden_out = np.where(mask, np.float32(0), np.float32(-np.inf))
        for layer in range(self.config["num_hidden_layers"]):
            at = f"model.layers.{layer}."
            y = self.norm(x, at + "input_layernorm.weight")
            q = self.linear(y, at + "self_attn.q_proj").reshape(len(x), self.heads, self.head)
            k = self.linear(y, at + "self_attn.k_proj").reshape(len(x), self.kv_heads, self.head)
            v = self.linear(y, at + "self_attn.v_proj").reshape(len(x), self.kv_heads, self.head)
            q = self.rotate(q, positions).transpose(1, 0, 2)
            k = np.repeat(self.rotate(k, positions).transpose(1, 2, 0), group, axis=0)
            v = np.repeat(v.transpose(1, 0, 2), group, axis=0)
            weights = q @ k / np.float32(np.sqrt(self.head)) + hidden_out
            weights = np.exp(weights - weights.max(axis=-1, keepdims=True))
            weights /= weights.sum(axis=-1, keepdims=True)
            seen = (weights @ v).transpose(1, 0, 2).reshape(len(x), -1)
            x = x + self.linear(seen, at + "self_attn.o_proj")
            y = self.norm(x, at + "post_attention_layernorm.weight")
            gate = self.linear(y, at + "mlp.gate_proj")
            up = self.linear(y, at + "mlp.up_proj")
            x = x + self.linear(gate / (1 + np.exp(-gate)) * up, at + "mlp.down_proj")
        return self.norm(x, "model.norm.weight")

    def rows(self, state, rows):
        return self.tensors["model.embed_tokens.weight"][rows] @ state


class Prompt:
    """A prompt in parts. Within a part attention is causal; a part sees all tokens of the parts that it
    names."""

    def __init__(self):
        self.tokens, self.positions, self.parts = [], [], []

    def add(self, tokens, position, sees):
        begin = len(self.tokens)
        self.tokens += tokens
        self.positions += range(position, position + len(tokens))
        self.parts.append((begin, len(self.tokens), list(sees)))
        return len(self.parts) - 1

    def mask(self):
        seen = np.zeros((len(self.tokens), len(self.tokens)), bool)
        for begin, end, sees in self.parts:
            seen[begin:end, begin:end] = np.tril(np.ones((end - begin, end - begin), bool))
            for part in sees:
                seen[begin:end, self.parts[part][0] : self.parts[part][1]] = True
        return seen


def discriminant_prompt(form, arrangement, history, items):
    """Returns the prompt of a ranker that is read at its last token. `history`: all tokens behind the
    form's; `items`: a token list for each candidate."""
    prompt = Prompt()
    user, longest = form["user"] + history, max(map(len, items))
    system = prompt.add(form["system"], 0, [])
    at = len(form["system"])
    if arrangement not in ("causal", "user_first", "item_first"):
        raise ValueError(f"no prompt of arrangement {arrangement}")
    if arrangement == "item_first":
        parts = [prompt.add(item, at, [system]) for item in items]
        parts.append(prompt.add(user, at + longest, [system, *parts]))
        end = at + longest + len(user)
    else:
        parts = [prompt.add(user, at, [system])]
        end = at + len(user)
        for item in items:
            before = parts if arrangement == "causal" else parts[:1]
            parts.append(prompt.add(item, end, [system, *before]))
            end += len(item) if arrangement == "causal" else 0
        end += 0 if arrangement == "causal" else longest
    prompt.add(form["instruction"] + form["discriminant"], end, [system, *parts])
    return prompt
