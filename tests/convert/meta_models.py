#!/usr/bin/env python3
"""Random checkpoints of Meta's research code over what the constructors of HSTU and SASRec take: heads,
widths, activations, concatenation, biases, softmax, norms, ratings. Each is converted by `troupe convert
--check`, against this program's own float64 computation of the published encoders."""
import random

import models  # first: finds a Python that has numpy
import numpy as np

import arithmetic as a
import torch_file

ITEMS, RATINGS, BUCKETS = 12, 6, 128


class Encoder:
    """The tables, the bindings and the similarities that both encoders have."""

    def __init__(self, draw, numbers):
        self.draw, self.numbers, self.tensors, self.lines = draw, numbers, {}, []
        self.events, self.outputs = draw.choice([4, 9]), draw.choice([1, 3])
        self.columns, self.d = draw.choice([4, 8]), 0
        self.n = self.events + self.outputs + 1
        self.ratings = 0

    def normal(self, *shape, scale=0.3):
        return (self.numbers.normal(size=shape) * scale).astype(np.float32)

    def put(self, name, array):
        self.tensors["module." + name] = array
        return array.astype(np.float64)

    def bind(self, name, value):
        self.lines.append(f"{name} = {value!r}")

    def make_tables(self):
        self.d = self.columns + self.ratings
        self.items = self.put("_embedding_module._item_emb.weight", self.normal(ITEMS + 1, self.columns))
        self.positions = self.put("_input_features_preproc._pos_emb.weight", self.normal(self.n, self.d))
        if self.ratings:
            name = "_input_features_preproc._rating_emb.weight"
            self.rating_rows = self.put(name, self.normal(RATINGS, self.ratings))
        self.layer_norm, self.item_norm = self.draw.random() < 0.3, self.draw.random() < 0.6
        self.bind("train_fn.max_sequence_length", self.events)
        self.bind("train_fn.gr_output_length", self.outputs)
        self.bind("train_fn.item_embedding_dim", self.columns)
        self.bind("train_fn.user_embedding_norm", "layer_norm" if self.layer_norm else "l2_norm")
        self.bind("train_fn.item_l2_norm", self.item_norm)
        self.bind("train_fn.temperature", self.draw.choice([0.05, 1.0]))
        self.bind("train_fn.interaction_module_type", "DotProduct")

    def write(self, folder):
        torch_file.save(folder / "checkpoint.pt", self.tensors)
        (folder / "run.gin").write_text("\n".join(self.lines) + "\n")
        return folder / "checkpoint.pt", folder / "run.gin"

    def case(self):
        draw, length = self.draw, self.draw.randint(1, self.events)
        case = {"item_ids": [draw.randint(1, ITEMS) for _ in range(length)]}
        case["ratings"] = [draw.randint(0, RATINGS - 1) for _ in range(length)]
        times = np.cumsum([draw.choice([0, 1, 50, 3000, 10**6]) for _ in range(length + 1)]) + 10**9
        case["timestamps"], case["request_timestamp"] = times[:-1].tolist(), int(times[-1])
        inputs = self.items[case["item_ids"]]
        if self.ratings:
            inputs = np.concatenate([inputs, self.rating_rows[case["ratings"]]], axis=1)
        state = self.encode(inputs * self.d**0.5 + self.positions[:length], times)[-1][: self.columns]
        user = a.norm(state, 1e-6) if self.layer_norm else a.unit(state)
        rows = a.unit(self.items[1:]) if self.item_norm else self.items[1:]
        similarities = rows @ user
        scored = {"item_ids_scored": list(range(1, ITEMS + 1)), "similarity": similarities.tolist()}
        return {**case, **scored, "top20": a.best(similarities, 5)}


class Hstu(Encoder):
    def __init__(self, draw, numbers):
        super().__init__(draw, numbers)
        self.heads, self.dqk, self.dv = draw.choice([1, 2, 3]), draw.choice([2, 3, 5]), draw.choice([2, 3, 5])
        self.softmax, self.concat = draw.random() < 0.25, draw.random() < 0.4
        self.active = draw.random() < 0.7
        self.biased = not self.softmax or draw.random() < 0.5
        self.ratings = draw.choice([0, 0, 0, 4])
        self.make_tables()
        self.bind("train_fn.main_module", "HSTU")
        layers = draw.choice([1, 2, 3])
        shape = {"num_blocks": layers, "num_heads": self.heads, "dqk": self.dqk, "dv": self.dv}
        for name, value in shape.items():
            self.bind("hstu_encoder." + name, value)
        self.bind("hstu_encoder.normalization", "softmax_rel_bias" if self.softmax else "rel_bias")
        self.bind("hstu_encoder.linear_activation", "silu" if self.active else "none")
        self.bind("hstu_encoder.concat_ua", self.concat)
        self.bind("hstu_encoder.enable_relative_attention_bias", self.biased)
        self.layers = [self.make_layer(f"_hstu._attention_layers.{i}.") for i in range(layers)]

    def make_layer(self, place):
        value, query = self.heads * self.dv, self.heads * self.dqk
        layer = {
            "uvqk": self.put(place + "_uvqk", self.normal(self.d, 2 * value + 2 * query)),
            "weight": self.put(place + "_o.weight", self.normal(self.d, (3 if self.concat else 1) * value)),
            "bias": self.put(place + "_o.bias", self.normal(self.d)),
        }
        if self.biased:
            layer["times"] = self.put(place + "_rel_attn_bias._ts_w", self.normal(BUCKETS + 1))
            layer["places"] = self.put(place + "_rel_attn_bias._pos_w", self.normal(2 * self.n - 1))
        return layer

    def pair_bias(self, layer, times):
        """Of all pairs of the padded sequence. The position behind the last event has the request's time."""
        if not self.biased:
            return np.zeros((self.n, self.n))
        padded = np.zeros(self.n + 1, np.int64)
        padded[: len(times)] = times
        padded[self.n] = padded[self.n - 1]
        apart = np.abs(padded[1:, None] - padded[None, :-1]).clip(1).astype(np.float32)
        buckets = np.minimum((np.log(apart) / np.float32(0.301)).astype(np.int64), BUCKETS)
        places = np.arange(self.n)
        return layer["places"][self.n - 1 + places[None, :] - places[:, None]] + layer["times"][buckets]

    def attend(self, layer, q, k, v, times):
        count, bias = len(q), self.pair_bias(layer, times)
        seen = np.tril(np.ones((count, count)))
        if self.softmax:  # the published code has no axis of heads here, and masks behind the softmax
            logits = np.pad(q @ k.T, ((0, 0), (0, self.n - count))) + bias[:count]
            return (a.softmax(logits / self.dqk**0.5)[:, :count] * seen) @ v
        q, k, v = (x.reshape(count, self.heads, -1) for x in (q, k, v))
        weights = a.silu(np.einsum("ihd,jhd->hij", q, k) + bias[:count, :count]) / self.n * seen
        return np.einsum("hij,jhd->ihd", weights, v).reshape(count, -1)

    def encode(self, x, times):
        value, query = self.heads * self.dv, self.heads * self.dqk
        for layer in self.layers:
            projected = a.norm(x, 1e-6) @ layer["uvqk"]
            projected = a.silu(projected) if self.active else projected
            u, v, q, k = np.split(projected, [value, 2 * value, 2 * value + query], axis=1)
            normed = a.norm(self.attend(layer, q, k, v, times), 1e-6)
            inputs = np.concatenate([u, normed, u * normed], axis=1) if self.concat else u * normed
            x = inputs @ layer["weight"].T + layer["bias"] + x
        return x


class Sasrec(Encoder):
    def __init__(self, draw, numbers):
        super().__init__(draw, numbers)
        self.make_tables()
        self.heads, self.inner = draw.choice([1, 2, 4]), draw.choice([3, 8])
        self.gelu, layers = draw.random() < 0.5, draw.choice([1, 2, 3])
        shape = {"num_blocks": layers, "num_heads": self.heads, "ffn_hidden_dim": self.inner}
        for name, value in shape.items():
            self.bind("sasrec_encoder." + name, value)
        self.bind("sasrec_encoder.ffn_activation_fn", "gelu" if self.gelu else "relu")
        self.layers = [self.make_layer(i) for i in range(layers)]

    def make_layer(self, i):
        attention, forward = f"attention_layers.{i}.", f"forward_layers.{i}._conv1d."
        return [
            self.put(attention + "in_proj_weight", self.normal(3 * self.d, self.d)),
            self.put(attention + "in_proj_bias", self.normal(3 * self.d)),
            self.put(attention + "out_proj.weight", self.normal(self.d, self.d)),
            self.put(attention + "out_proj.bias", self.normal(self.d)),
            self.put(forward + "0.weight", self.normal(self.inner, self.d, 1))[:, :, 0],
            self.put(forward + "0.bias", self.normal(self.inner)),
            self.put(forward + "3.weight", self.normal(self.d, self.inner, 1))[:, :, 0],
            self.put(forward + "3.bias", self.normal(self.d)),
        ]

    def encode(self, x, _):
        later = np.triu(np.full((len(x), len(x)), -np.inf), 1)
        for project, bias, out, out_bias, up, up_bias, down, down_bias in self.layers:
            normed = a.norm(x, 1e-8)  # queries are normed, keys and values are not
            q, k, v = (
                (rows @ project[part].T + bias[part]).reshape(len(x), self.heads, -1)
                for rows, part in zip((normed, x, x), (slice(i * self.d, (i + 1) * self.d) for i in range(3)))
            )
            weights = a.softmax(np.einsum("ihd,jhd->hij", q, k) / q.shape[2] ** 0.5 + later)
            heads = np.einsum("hij,jhd->ihd", weights, v).reshape(len(x), -1)
            y = a.norm(normed + heads @ out.T + out_bias, 1e-8)
            inner = y @ up.T + up_bias
            x = (a.gelu(inner) if self.gelu else a.relu(inner)) @ down.T + down_bias + y
        return x


def make(seed):
    draw = random.Random(seed)
    return (Sasrec if draw.random() < 0.3 else Hstu)(draw, np.random.default_rng(seed))


if __name__ == "__main__":
    models.main("meta-research", make)
