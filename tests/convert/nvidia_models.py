#!/usr/bin/env python3
"""Random checkpoints in the layout of NVIDIA's recsys-examples: fused, native and tensor-parallel layers,
ranking and retrieval, with and without actions, contextual tokens, norms, biases and perceptrons. Each is
converted by `troupe convert --check`, against this program's own float64 computation of the layers."""
import random

import models  # first: finds a Python that has numpy
import numpy as np

import arithmetic as a
import torch_file

BLOCK = "_hstu_block."
SPARSE = "dynamicemb_module/model._embedding_collection._model_parallel_embedding_collection"
ITEMS, ACTIONS = 9, 5


class Model:
    def __init__(self, seed):
        draw, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.draw = draw
        self.d, self.heads, self.c = draw.choice([4, 8, 12]), draw.choice([1, 2, 3]), draw.choice([2, 4, 5])
        self.layers, self.fused = draw.choice([1, 2, 3]), draw.random() < 0.5
        self.ranking, self.actions = draw.random() < 0.7, draw.random() < 0.8
        self.contexts, self.sees = draw.choice([0, 1, 2]), draw.random() < 0.7
        self.positions = draw.choice([5, 12, 64])
        self.input_norm = draw.random() < 0.8
        self.output_norm = self.fused or draw.random() < 0.7
        self.bias = self.fused or draw.random() < 0.7
        self.perceptrons = self.ranking and self.actions and draw.random() < 0.4
        self.columns = draw.choice([3, 6]) if self.perceptrons else self.d
        self.ranks = 2 if not self.fused and self.heads == 2 else 1
        self.events, self.candidates = draw.choice([8, 16]), 3
        self.scaling = draw.choice([-1, 20, 100])
        self.head = [draw.choice([3, 7]), draw.choice([1, 2, 4])]
        self.head_bias, self.gelu = draw.random() < 0.7, draw.random() < 0.3
        self.shared, self.own = {}, [{} for _ in range(self.ranks)]
        self.make_tables()
        self.blocks = [self.make_layer(layer) for layer in range(self.layers)]
        self.make_head()

    def normal(self, *shape, scale=0.3):
        return (self.numbers.normal(size=shape) * scale).astype(np.float32)

    def put(self, name, array):
        self.shared[name] = array
        return array.astype(np.float64)

    def make_tables(self):
        keys = self.numbers.choice(np.arange(-5, 500), size=ITEMS, replace=False)
        self.keys, self.item_rows = keys.astype(np.int64), self.normal(ITEMS, self.columns)
        tables = [self.normal(ACTIONS, self.columns)]
        tables += [self.normal(3 + i, self.columns) for i in range(self.contexts)]
        names = "/".join(["actions"] + [f"c{i}" for i in range(self.contexts)])
        self.put(
            f"_embedding_collection._data_parallel_embedding_collection.embeddings.{names}_weights",
            np.concatenate([table.ravel() for table in tables]),
        )
        self.position = self.put(
            BLOCK + "_preprocessor._positional_encoder._position_embeddings_weight",
            self.normal(self.positions, self.d),
        )
        through = {name: self.perceptron(name) for name in ("_item_mlp", "_contextual_mlp")}
        self.items = through["_item_mlp"](self.item_rows[np.argsort(self.keys)])
        self.action_rows = through["_item_mlp"](tables[0])
        self.context_rows = [through["_contextual_mlp"](table) for table in tables[1:]]

    def perceptron(self, name):
        if not self.perceptrons:
            return lambda rows: rows.astype(np.float64)
        parts = []
        for i, columns in ((0, self.columns), (2, self.d)):
            place = f"{BLOCK}_preprocessor.{name}._mlp.{i}."
            parts.append(self.put(place + "weight", self.normal(self.d, columns)))
            parts.append(self.put(place + "bias", self.normal(self.d)))
        return lambda rows: a.relu(rows.astype(np.float64) @ parts[0].T + parts[1]) @ parts[2].T + parts[3]

    def affine(self, present, names, size):
        if not present:
            return np.ones(size), np.zeros(size)
        return self.put(names[0], 1 + self.normal(size)), self.put(names[1], self.normal(size))

    def make_layer(self, layer):
        place, width = f"{BLOCK}_attention_layers.{layer}.", self.heads * self.c
        uvqk = self.normal(self.d, 4, self.heads, self.c)
        bias = (
            self.normal(4, self.heads, self.c) if self.bias else np.zeros((4, self.heads, self.c), np.float32)
        )
        output = self.normal(width, self.d)
        norms = ["_output_ln_dropout_mul.weight", "_output_ln_dropout_mul.bias"]
        if self.fused:
            norms = ["_output_layernorm_weight", "_output_layernorm_bias"]
            self.put(place + "_linear_uvqk_weight", uvqk.reshape(self.d, -1))
            self.put(place + "_linear_uvqk_bias", bias.reshape(-1))
            self.put(place + "_linear_proj_weight", output)
        else:
            self.put_native(place, uvqk, bias, output)
        before = [place + "_input_layernorm_weight", place + "_input_layernorm_bias"]
        return {
            "uvqk": uvqk.astype(np.float64),
            "bias": bias.astype(np.float64),
            "output": output.astype(np.float64),
            "before": self.affine(self.input_norm, before, self.d),
            "behind": self.affine(self.output_norm, [place + name for name in norms], width),
        }

    def put_native(self, place, uvqk, bias, output):
        """Rows are heads, inside each U, V, Q, K; a rank has its share of the heads."""
        rows, biases = uvqk.transpose(2, 1, 3, 0), bias.transpose(1, 0, 2)
        columns = output.T.reshape(self.d, self.heads, self.c)
        for rank, own in enumerate(self.own):
            heads = slice(rank * self.heads // self.ranks, (rank + 1) * self.heads // self.ranks)
            own[place + "_linear_uvqk.weight"] = np.ascontiguousarray(rows[heads]).reshape(-1, self.d)
            if self.bias:
                own[place + "_linear_uvqk.bias"] = np.ascontiguousarray(biases[heads]).reshape(-1)
            own[place + "_linear_proj.weight"] = np.ascontiguousarray(columns[:, heads]).reshape(self.d, -1)

    def make_head(self):
        self.head_layers, size = [], self.d
        for i, out in enumerate(self.head if self.ranking else []):
            weight = self.put(f"_mlp._mlp.{2 * i}.weight", self.normal(out, size, scale=0.6))
            bias = self.put(f"_mlp._mlp.{2 * i}.bias", self.normal(out)) if self.head_bias else np.zeros(out)
            self.head_layers.append((weight, bias))
            size = out

    def write(self, folder):
        (folder / "torch_module").mkdir()
        (folder / SPARSE).mkdir(parents=True)
        for rank in range(2):
            end = f".rank_{rank}.world_size_2"
            self.keys[rank::2].tofile(folder / SPARSE / f"items_emb_keys{end}")
            self.item_rows[rank::2].tofile(folder / SPARSE / f"items_emb_values{end}")
        for rank, own in enumerate(self.own):
            torch_file.save(folder / "torch_module" / f"model.{rank}.pth", {**self.shared, **own})
        (folder / "run.gin").write_text(self.bindings())
        return folder, folder / "run.gin"

    def bindings(self):
        contexts = [f"c{i}" for i in range(self.contexts)]
        tables = [("Dynamic", "items", "item", 1000), ("", "actions", "action", ACTIONS)]
        tables += [("", name, name, 3 + i) for i, name in enumerate(contexts)]
        lines = [
            f"NetworkArgs.num_layers = {self.layers}",
            f"NetworkArgs.hidden_size = {self.d}",
            f"NetworkArgs.num_attention_heads = {self.heads}",
            f"NetworkArgs.kv_channels = {self.c}",
            f"NetworkArgs.num_position_buckets = {self.positions}",
            f"NetworkArgs.disable_contextual_mask = {not self.sees}",
            f"NetworkArgs.scaling_seqlen = {self.scaling}",
            f"TensorModelParallelArgs.tensor_model_parallel_size = {self.ranks}",
            "BenchmarkDatasetArgs.item_feature_name = 'item'",
            f"BenchmarkDatasetArgs.contextual_feature_names = {contexts}",
            f"BenchmarkDatasetArgs.max_num_candidates = {self.candidates}",
            "f/FeatureArgs.feature_names = ['item', 'action']",
            f"f/FeatureArgs.max_sequence_length = {self.events + self.candidates}",
            "BenchmarkDatasetArgs.feature_args = [@f/FeatureArgs()]",
        ]
        for kind, name, feature, rows in tables:
            args = f"{name}/{kind}EmbeddingArgs."
            lines += [f"{args}table_name = '{name}'", f"{args}feature_names = ['{feature}']"]
            lines.append(f"{args}item_vocab_size_or_capacity = {rows}")
        named = ", ".join(f"@{name}/{kind}EmbeddingArgs()" for kind, name, _, _ in tables)
        lines.append(f"BenchmarkDatasetArgs.embedding_args = [{named}]")
        if self.actions:
            lines.append("BenchmarkDatasetArgs.action_feature_name = 'action'")
        if self.perceptrons:
            lines.append(f"NetworkArgs.item_embedding_dim = {self.columns}")
            lines.append(f"NetworkArgs.contextual_embedding_dim = {self.columns}")
        if self.ranking:
            lines += [
                f"RankingArgs.prediction_head_arch = {self.head}",
                f"RankingArgs.prediction_head_bias = {self.head_bias}",
                f"RankingArgs.prediction_head_act_type = '{'gelu' if self.gelu else 'relu'}'",
                f"RankingArgs.num_tasks = {self.head[-1]}",
            ]
        return "\n".join(lines) + "\n"

    def states(self, tokens, history):
        """States of all tokens behind the last layer; those from `history` on are candidates, apart."""
        count = len(tokens)
        places = np.minimum(np.arange(count), min(history, self.positions - 1))
        x = np.array(tokens) * self.d**0.5 + self.position[places]
        seen = np.tril(np.ones((count, count), bool))
        seen[history:, history:] = np.eye(count - history, dtype=bool)
        if self.sees:
            seen[: self.contexts, :history] = True
        longest = (self.events + self.candidates) * (2 if self.actions else 1) + self.contexts
        for block in self.blocks:
            normed = a.norm(x, 1e-5) * block["before"][0] + block["before"][1]
            u, v, q, k = np.moveaxis(
                a.silu(np.einsum("td,dphc->tphc", normed, block["uvqk"]) + block["bias"]), 1, 0
            )
            weights = a.silu(np.einsum("thc,shc->hts", q, k) / self.c**0.5) * seen
            weights /= self.scaling if self.scaling > 0 else longest
            heads = np.einsum("hts,shc->thc", weights, v).reshape(count, -1)
            gated = u.reshape(count, -1) * (a.norm(heads, 1e-5) * block["behind"][0] + block["behind"][1])
            x = gated @ block["output"] + x
        return x

    def case(self):
        draw, length = self.draw, self.draw.randint(1, self.events)
        case = {"item_ids": [draw.randint(1, ITEMS) for _ in range(length)]}
        case["actions"] = [draw.randint(0, ACTIONS - 1) for _ in range(length)]
        case["context"] = [draw.randint(0, 2 + i) for i in range(self.contexts)]
        tokens = [self.context_rows[i][value] for i, value in enumerate(case["context"])]
        for item, action in zip(case["item_ids"], case["actions"]):
            tokens.append(self.items[item - 1])
            if self.actions:
                tokens.append(self.action_rows[action])
        history = len(tokens)
        if not self.actions:
            del case["actions"]
        if not self.ranking:
            return self.retrieve(case, tokens, history)
        case["candidate_ids"] = [draw.randint(1, ITEMS) for _ in range(self.candidates)]
        tokens += [self.items[item - 1] for item in case["candidate_ids"]]
        x = a.unit(self.states(tokens, history)[history:])
        for i, (weight, bias) in enumerate(self.head_layers):
            x = x @ weight.T + bias
            if i + 1 < len(self.head_layers):
                x = a.gelu(x) if self.gelu else a.relu(x)
        return {**case, "task_logits": x.tolist()}

    def retrieve(self, case, tokens, history):
        user = a.unit(self.states(tokens, history)[history - (2 if self.actions else 1)])
        similarities = a.unit(self.items) @ user
        scored = {"item_ids_scored": list(range(1, ITEMS + 1)), "similarity": similarities.tolist()}
        return {**case, **scored, "top20": a.best(similarities, 5)}


if __name__ == "__main__":
    models.main("nvidia", Model)
