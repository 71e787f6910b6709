"""Prompts of a ranker in the Qwen2 form, item first with and without a repair, computed one number after the
other from the definitions (docs/concepts/, kernels/base/repair.h), without anything of the program. Small
prompts take some seconds."""

import array
import json
import math
import operator
import os
import struct


def dot(a, b):
    return sum(map(operator.mul, a, b))


def half_up(x):
    return math.floor(x + 0.5)


def read_tensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    tensors = {}
    for name, row in header.items():
        if name == "__metadata__":
            continue
        numbers = array.array("f", data[slice(*row["data_offsets"])]).tolist()
        width = row["shape"][-1] if len(row["shape"]) > 1 else 0
        tensors[name] = (
            [numbers[at : at + width] for at in range(0, len(numbers), width)] if width else numbers
        )
    return tensors


class Choice:
    """A repair such as "30:tail:mean:layer2:window4"."""

    def __init__(self, text):
        per_cent, *words = text.split(":")
        self.share = int(per_cent) / 100
        selections = ("attention", "tail", "deviation", "importance")
        self.by = next((word for word in words if word in selections), "")
        self.mean, self.exact_layers = "mean" in words, 2 if "layer2" in words else 1
        self.window = next((int(word[6:]) for word in words if word.startswith("window")), 0)


class Spans:
    """The items' tokens in the prompt: which are computed, and what the others take from their blocks."""

    def __init__(self, choice, lengths, first):
        self.choice = choice
        self.offsets = [offset for length in lengths for offset in range(length)]
        self.first, self.count = first, len(self.offsets)  # in the prompt
        shares = [half_up(choice.share * length) if not choice.by else 0 for length in lengths]
        chosen = [offset < share for length, share in zip(lengths, shares) for offset in range(length)]
        for t in range(max(0, self.count - choice.window), self.count):
            chosen[t] = True
        self.chosen, self.gap, self.attention = chosen, math.inf, [0.0] * self.count

    def choose(self, own, block):
        """Chooses by what was measured, once the second layer's keys and values are known."""
        if not self.choice.by:
            return
        divergence = [math.dist(a, b) for a, b in zip(own, block)]
        score = [0.0] * self.count
        for measured, policies in (
            (self.attention, ("attention", "tail", "importance")),
            (divergence, ("deviation", "importance")),
        ):
            mean = sum(measured) / self.count
            if self.choice.by in policies and mean > 0:
                score = [s + m / mean for s, m in zip(score, measured)]
        free = sorted((t for t in range(self.count) if not self.chosen[t]), key=lambda t: -score[t])
        budget = min(half_up(self.choice.share * self.count), len(free))
        if 0 < budget < len(free):
            self.gap = score[free[budget - 1]] - score[free[budget]]
        for t in free[:budget]:
            self.chosen[t] = True

    def substituted(self, own, block):
        """Returns the keys and values of all tokens, keys before rotation."""
        off = [[a - b for a, b in zip(x, y)] for x, y in zip(own, block)]
        made = []
        for t in range(self.count):
            if self.chosen[t]:
                made.append(own[t])
                continue
            others = [u for u in range(self.count) if self.chosen[u]] if self.choice.mean else []
            like = [u for u in others if self.offsets[u] == self.offsets[t]] or others
            if like:
                made.append([b + sum(off[u][i] for u in like) / len(like) for i, b in enumerate(block[t])])
            else:
                made.append(block[t])
        return made

    def changed(self):
        """Returns the number of tokens that differ from those of their blocks."""
        chosen = sum(self.chosen)
        return self.count if self.choice.exact_layers > 1 or (self.choice.mean and chosen) else chosen


class ItemModel:
    def __init__(self, directory):
        self.config = json.load(open(os.path.join(directory, "config.json")))
        self.tensors = read_tensors(os.path.join(directory, "model.safetensors"))
        self.heads, self.kv_heads = self.config["num_attention_heads"], self.config["num_key_value_heads"]
        self.head = self.config["hidden_size"] // self.heads

    def norm(self, x, name):
        scale = 1 / math.sqrt(dot(x, x) / len(x) + self.config["rms_norm_eps"])
        return [a * scale * w for a, w in zip(x, self.tensors[name + ".weight"])]

    def linear(self, x, name):
        y = [dot(row, x) for row in self.tensors[name + ".weight"]]
        bias = self.tensors.get(name + ".bias")
        return [a + b for a, b in zip(y, bias)] if bias else y

    def rotated(self, x, position):
        half, made = self.head // 2, []
        for at in range(0, len(x), self.head):
            a, b = x[at : at + half], x[at + half : at + self.head]
            angles = [position * self.config["rope_theta"] ** (-i / half) for i in range(half)]
            made += [p * math.cos(w) - q * math.sin(w) for p, q, w in zip(a, b, angles)]
            made += [q * math.cos(w) + p * math.sin(w) for p, q, w in zip(a, b, angles)]
        return made

    def attend(self, q, keys, values, seen):
        """Returns what the heads mix, and the attention to each seen token, summed over the heads."""
        mixed, received = [], [0.0] * len(seen)
        for h in range(self.heads):
            at = h // (self.heads // self.kv_heads) * self.head
            own = q[h * self.head : (h + 1) * self.head]
            logits = [dot(own, keys[t][at : at + self.head]) / math.sqrt(self.head) for t in seen]
            most = max(logits)
            weights = [math.exp(x - most) for x in logits]
            total = sum(weights)
            received = [r + w / total for r, w in zip(received, weights)]
            for i in range(at, at + self.head):
                mixed.append(sum(w * values[t][i] for w, t in zip(weights, seen)) / total)
        return mixed, received

    def run(self, tokens, positions, seen, read_at=(-1,), spans=None, blocks=None, attending=0):
        """Returns the final states of the tokens `read_at`, and each layer's keys and values, keys before
        rotation.

        `seen`: for each token the tokens that it sees. `spans`: those that are filled from `blocks`, the
        keys and values of their tokens in each layer. Attention is counted from token `attending` on.
        """
        x = [self.tensors["model.embed_tokens.weight"][t] for t in tokens]
        kept, width = [], self.kv_heads * self.head
        for layer in range(self.config["num_hidden_layers"]):
            at = f"model.layers.{layer}."
            y = [self.norm(row, at + "input_layernorm") for row in x]
            q = [self.linear(row, at + "self_attn.q_proj") for row in y]
            kv = [
                self.linear(row, at + "self_attn.k_proj") + self.linear(row, at + "self_attn.v_proj")
                for row in y
            ]
            kept.append(list(kv))
            if spans:
                span = slice(spans.first, spans.first + spans.count)
                if layer == 1:
                    spans.choose(kv[span], blocks[layer])
                if layer >= spans.choice.exact_layers:
                    kv[span] = spans.substituted(kv[span], blocks[layer])
            keys = [self.rotated(row[:width], p) for row, p in zip(kv, positions)]
            values = [row[width:] for row in kv]
            for t in range(len(x)):
                mixed, received = self.attend(self.rotated(q[t], positions[t]), keys, values, seen[t])
                x[t] = [a + b for a, b in zip(x[t], self.linear(mixed, at + "self_attn.o_proj"))]
                if spans and layer == 0 and t >= attending:
                    for u, share in zip(seen[t], received):
                        if 0 <= u - spans.first < spans.count:
                            spans.attention[u - spans.first] += share
            for t in range(len(x)):
                y = self.norm(x[t], at + "post_attention_layernorm")
                gate, up = self.linear(y, at + "mlp.gate_proj"), self.linear(y, at + "mlp.up_proj")
                y = [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)]
                x[t] = [a + b for a, b in zip(x[t], self.linear(y, at + "mlp.down_proj"))]
        return [self.norm(x[t], "model.norm") for t in read_at], kept

    def logit(self, state, row):
        return dot(self.tensors["model.embed_tokens.weight"][row], state)

    def plain(self, tokens):
        """Returns the last token's final state of a plain causal prompt."""
        count = len(tokens)
        return self.run(tokens, range(count), [range(t + 1) for t in range(count)])[0][0]

    def blocks(self, system, items):
        """Returns each layer's keys and values of the items' tokens, each item alone behind the system."""
        layers = [[] for _ in range(self.config["num_hidden_layers"])]
        for item in items:
            count = len(system) + len(item)
            _, kept = self.run(system + item, range(count), [range(t + 1) for t in range(count)])
            for layer, kv in zip(layers, kept):
                layer += kv[len(system) :]
        return layers

    def item_first(self, system, items, user, closing, each, repair):
        """Returns the final states at which the items are scored, and the spans: what was chosen of them.

        `closing` are the tokens behind the user, once, or with `each` for each item; these see the system,
        their item and the user. `repair`: the text behind "item+", "0" for none.
        """
        tokens, positions = list(system), list(range(len(system)))
        runs = []  # of the items' tokens
        for item in items:
            runs.append(range(len(tokens), len(tokens) + len(item)))
            tokens += item
            positions += range(len(system), len(system) + len(item))
        at, begin = len(system) + max(map(len, items)), len(tokens)
        tokens += user
        positions += range(at, at + len(user))
        # All tokens see all before them, those of the items too: where these may not, they keep their blocks.
        seen = [range(t + 1) for t in range(len(tokens))]
        read_at, of_user = [], range(begin, len(tokens))
        for run in runs if each else [range(len(system), begin)]:
            before = [*range(len(system)), *run, *of_user]
            for i, token in enumerate(closing):
                before.append(len(tokens))
                seen.append(list(before))
                tokens.append(token)
                positions.append(at + len(user) + i)
            read_at.append(len(tokens) - 1)
        spans = Spans(Choice(repair), [len(item) for item in items], len(system))
        attending = begin if spans.choice.by == "tail" else 0
        blocks = self.blocks(system, items)
        return self.run(tokens, positions, seen, read_at, spans, blocks, attending)[0], spans
