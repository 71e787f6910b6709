#!/usr/bin/env python3
"""Trains the demo ranker on users drawn from the world and writes the model directory.

  train.py [--world world] [--out model] [--first-steps N] [--plan-steps N]     about 20 minutes of one core

Part one has no candidates: every history item predicts the next event, and so does the discriminant token
after the history. Part two draws one plan per batch (user prefix, item prefix, causal) with 8 to 100
candidates. Its loss is the cross-entropy of the candidates' identifier logits at the discriminant token, plus
the losses of part one. The target is not one drawn event but the probabilities of all events, which the world
knows, so that each step teaches more. Items of the history are masked, because they are never candidates.
Training users come from their own random stream, so that no user of the demo and no held-out item is trained
on.
"""
import argparse
import json
import math
import os
import pathlib
import struct
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np
import torch

import make_world
import ranker

PLAN_CHANCES = {"up": 0.35, "ip": 0.4, "causal": 0.25}
HERE = pathlib.Path(__file__).parent


class Catalog:
    """The items of items.jsonl with the model's token ids."""

    def __init__(self, world, folder):
        records = read_jsonl(folder / "items.jsonl")
        self.ids = [r["id"] for r in records]
        assert (
            self.ids == world.ids and [r["title"] for r in records] == world.titles
        ), "items.jsonl is of another world"
        self.index = {name: i for i, name in enumerate(self.ids)}
        codes = [f"<{level}_{code}>" for level, size in zip("abc", make_world.CODES) for code in range(size)]
        names = ranker.SPECIAL + codes + [r["identifier"] for r in records]
        self.vocabulary = {name: i for i, name in enumerate(names)}
        self.input_rows = len(ranker.SPECIAL) + len(codes)
        self.tokens = torch.tensor([[self.vocabulary[t] for t in r["tokens"]] for r in records])
        form = {part: [self.vocabulary[t] for t in tokens] for part, tokens in ranker.PROMPT.items()}
        self.system, self.user, self.tail = (
            form["system"],
            form["user"],
            form["instruction"] + form["discriminant"],
        )

    def layout(self, plan, histories, candidates):
        """Returns the batch's layout. histories: batch × events, candidates: batch × count, as item
        indices."""
        events = self.tokens[histories].flatten(1)
        user = torch.cat([torch.tensor(self.user).expand(len(events), -1), events], 1)
        return ranker.layout(plan, self.system, user, self.tokens[candidates], self.tail)


def read_jsonl(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def new_model(world, catalog):
    model = ranker.Ranker(ranker.Shape(), catalog.input_rows, item_features(world))
    with torch.no_grad():  # a semantic-ID token starts as the mean of the identifier rows of its items
        rows = model.identifier_rows()
        for level in catalog.tokens.T:
            for token in level.unique():
                model.input_rows[token] = rows[level == token].mean(0)
    return model


def item_features(world):
    """Returns one-hot interest, sub-interest and style, and the log popularity, per item."""
    kind = world.interest * (world.sub.max() + 1) + world.sub
    popularity = np.log(world.popularity) - np.log(world.popularity).mean()
    marks = [np.eye(labels.max() + 1)[labels] for labels in (world.interest, kind, world.style)]
    return np.concatenate([*marks, popularity[:, None]], 1)


# ---------------------------------------------------------------- training
class Trainer:
    def __init__(self, world, catalog, model, seed):
        self.world, self.catalog, self.model = world, catalog, model
        self.rng = world.stream(make_world.TRAIN_USER_STREAM, seed)

    def batch(self, token_budget, count):
        """Draws as many users of one history length as the budget allows. Returns their histories,
        candidates, and the probabilities of the next item after each event."""
        length = self.world.draw_length(self.rng)
        near = self.rng.uniform(0.2, 0.7)
        histories, candidates, chances = [], [], []
        for _ in range(max(4, token_budget // (13 + 3 * length + 3 * count))):
            taste = self.world.draw_taste(self.rng, length)
            *history, next_item = self.world.draw_events(self.rng, taste, length + 1)
            histories.append(history)
            chances.append(self.world.next_chances(taste, history))
            candidates.append(
                self.world.draw_candidates(self.rng, history, next_item, count, near) if count else []
            )
        as_indices = lambda lists: torch.tensor(lists, dtype=torch.long)
        return (
            as_indices(histories),
            as_indices(candidates),
            torch.tensor(np.array(chances), dtype=torch.float32),
        )

    def loss(self, plan, histories, candidates, chances):
        at = self.catalog.layout(plan, histories, candidates)
        hidden = self.model(at.tokens, at.positions, at.mask)
        rows, last = self.model.identifier_rows(), hidden[:, -1]
        seen = torch.zeros_like(chances).scatter_(2, histories.unsqueeze(-1), 1).cumsum(1) > 0
        loss = cross_entropy((last @ rows.T).masked_fill(seen[:, -1], ranker.BLOCKED), chances[:, -1])
        if (
            plan != "ip"
        ):  # in the item prefix plan the user sees the candidates, which are no part of its history
            ends = at.user_at + len(self.catalog.user) - 1 + 3 * torch.arange(1, histories.shape[1] + 1)
            loss = loss + cross_entropy((hidden[:, ends] @ rows.T).masked_fill(seen, ranker.BLOCKED), chances)
        if candidates.shape[1]:
            logits = (rows[candidates] @ last.unsqueeze(-1)).squeeze(-1)
            ranking = cross_entropy(logits, chances[:, -1].gather(1, candidates))
            return loss * 0.5 + ranking, float(ranking)
        return loss, float(loss)

    def run(self, name, steps, token_budget, peak_rate, plans):
        optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=peak_rate, betas=(0.9, 0.98), weight_decay=0.01
        )
        started, shown = time.time(), {}
        for step in range(steps):
            for group in optimizer.param_groups:
                group["lr"] = peak_rate * rate_at(step / steps)
            plan = str(self.rng.choice(list(plans), p=list(plans.values())))
            count = candidate_count(self.rng) if name == "plans" else 0
            loss, figure = self.loss(plan, *self.batch(token_budget, count))
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            optimizer.step()
            key = (plan, "many" if count > 40 else "few")
            shown[key] = figure if key not in shown else 0.97 * shown[key] + 0.03 * figure
            if step % 50 == 49:
                text = ", ".join(f"{' '.join(k)} {v:.3f}" for k, v in sorted(shown.items()))
                print(f"{name} {step + 1}/{steps} {time.time() - started:.0f}s {text}", flush=True)
        return {"part": name, "steps": steps, "seconds": round(time.time() - started)}


def cross_entropy(logits, chances):
    """Returns the mean cross-entropy. `chances` are normalized, because those of candidates sum to less
    than 1."""
    chances = chances / chances.sum(-1, keepdim=True)
    return -(chances * logits.log_softmax(-1)).sum(-1).mean()


def rate_at(progress):
    """Returns the factor of the learning rate: it rises over the first 4 %, then falls along a cosine to
    0.02."""
    return min(progress / 0.04, 1.0) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * progress)))


def candidate_count(rng):
    """Draws the number of candidates: mostly few, for speed; for a quarter of the batches a demo
    request's."""
    return (
        make_world.CANDIDATES
        if rng.random() < 0.25
        else int(np.exp(rng.uniform(np.log(8), np.log(make_world.CANDIDATES))))
    )


# ---------------------------------------------------------------- measuring
def load_requests(catalog, folder):
    histories = {
        u["id"]: [catalog.index[i] for i in u["history"]] for u in read_jsonl(folder / "users.jsonl")
    }
    for r in read_jsonl(folder / "requests.jsonl"):
        candidates = [catalog.index[i] for i in r["candidates"]]
        yield histories[r["user"]], candidates, candidates.index(catalog.index[r["true_item"]])


@torch.no_grad()
def scores(model, catalog, plan, history, candidates):
    at = catalog.layout(plan, torch.tensor([history]), torch.tensor([candidates]))
    return (model.identifier_rows()[candidates] @ model(at.tokens, at.positions, at.mask)[0, -1]).numpy()


def quality(ranks):
    """Returns recall and NDCG. ranks: rank of the true item among the candidates, 0 is best."""
    ranks = np.array(ranks)
    gain = np.where(ranks < 10, 1 / np.log2(ranks + 2), 0)
    return {
        "recall@1": round(float((ranks < 1).mean()), 4),
        "recall@5": round(float((ranks < 5).mean()), 4),
        "recall@10": round(float((ranks < 10).mean()), 4),
        "ndcg@10": round(float(gain.mean()), 4),
    }


def rank_of(values, place):
    """Returns the rank of one value, from 0; ties count against it."""
    return int((np.asarray(values) >= values[place]).sum()) - 1


def measure(model, catalog, world, folder):
    rng, ranks = np.random.default_rng(3), {}
    for (history, candidates, place), (_, _, _, taste) in zip(
        load_requests(catalog, folder), make_world.demo_users(world)
    ):
        ways = {plan: scores(model, catalog, plan, history, candidates) for plan in ranker.PLANS}
        ways["random"] = rng.random(len(candidates))
        ways["popularity"] = world.popularity[candidates]
        ways["mean latent vector of the history"] = world.latent[candidates] @ world.latent[history].mean(0)
        ways["the law that drew the user"] = world.next_chances(taste, history)[-1][candidates]
        for name, values in ways.items():
            ranks.setdefault(name, []).append(rank_of(values, place))
    return {name: quality(r) for name, r in ranks.items()}


# ---------------------------------------------------------------- writing
def write_safetensors(path, tensors):
    header, blobs, offset = {"__metadata__": {"format": "pt"}}, [], 0
    for name, tensor in sorted(tensors):
        blob = tensor.detach().contiguous().numpy().astype("<f4").tobytes()
        header[name] = {
            "dtype": "F32",
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + len(blob)],
        }
        offset += len(blob)
        blobs.append(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def write_config(path, shape, vocabulary):
    path.write_text(
        json.dumps(
            {
                "architectures": ["Qwen2ForCausalLM"],
                "model_type": "qwen2",
                "vocab_size": len(vocabulary),
                "hidden_size": shape.hidden,
                "intermediate_size": shape.inner,
                "num_hidden_layers": shape.layers,
                "num_attention_heads": shape.heads,
                "num_key_value_heads": shape.kv_heads,
                "hidden_act": "silu",
                "max_position_embeddings": shape.positions,
                "rms_norm_eps": shape.epsilon,
                "rope_theta": shape.rope_theta,
                "tie_word_embeddings": True,
                "use_sliding_window": False,
                "attention_dropout": 0.0,
                "bos_token_id": 1,
                "eos_token_id": 2,
                "pad_token_id": 0,
                "torch_dtype": "float32",
            },
            indent=1,
        )
        + "\n"
    )


def write_model(folder, model, catalog):
    folder.mkdir(parents=True, exist_ok=True)
    write_safetensors(folder / "model.safetensors", model.named_tensors())
    write_config(folder / "config.json", model.shape, catalog.vocabulary)
    (folder / "vocab.json").write_text(json.dumps(catalog.vocabulary, separators=(",", ":")) + "\n")
    (folder / "prompt.json").write_text(json.dumps(ranker.PROMPT | ranker.ARRANGEMENTS, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--world", type=pathlib.Path, default=HERE / "world")
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "model")
    parser.add_argument("--world-seed", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first-steps", type=int, default=2500)
    parser.add_argument("--plan-steps", type=int, default=1500)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    world = make_world.World(arguments.world_seed)
    catalog = Catalog(world, arguments.world)
    model = new_model(world, catalog)
    trainer = Trainer(world, catalog, model, arguments.seed)
    log = [
        trainer.run("histories", arguments.first_steps, 1500, 4e-3, {"up": 1.0}),
        trainer.run("plans", arguments.plan_steps, 4000, 2e-3, PLAN_CHANCES),
    ]
    write_model(arguments.out, model, catalog)
    metrics = {
        "requests": 500,
        "candidates": make_world.CANDIDATES,
        "note": "ties count against the true item",
        "metrics": measure(model, catalog, world, arguments.world),
        "training": log,
        "parameters": sum(t.numel() for _, t in model.named_tensors()),
    }
    (arguments.out / "metrics.json").write_text(json.dumps(metrics, indent=1) + "\n")
    print(json.dumps(metrics["metrics"], indent=1))


if __name__ == "__main__":
    main()
