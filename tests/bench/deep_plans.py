#!/usr/bin/env python3
"""Checks that a repair chosen on a trained ranker of four layers also works in deeper ones.

Makes rankers of random weights, 4 to 24 layers deep, with the trained one's vocabulary and prompts, and
runs `troupe-lab bench plans` on each. Their rankings mean nothing, so only the overlap of the ten best with
the plain prompt's is printed. Weights are normal, wide enough to keep a token's length, so that attention
is uneven, as in trained
models."""

import argparse
import array
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SHARED = os.path.join(HERE, "..", "..", "..", "shared")


def tensors(config):
    """Returns name → (shape, standard deviation of its values; 0 = all ones)."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    head = hidden // config["num_attention_heads"]
    kv = head * config["num_key_value_heads"]
    yield "model.embed_tokens.weight", (config["vocab_size"], hidden), 1.0
    yield "model.norm.weight", (hidden,), 0
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        for norm in ["input_layernorm", "post_attention_layernorm"]:
            yield f"{at}{norm}.weight", (hidden,), 0
        for name, rows, columns in [
            ("self_attn.q_proj", hidden, hidden),
            ("self_attn.k_proj", kv, hidden),
            ("self_attn.v_proj", kv, hidden),
            ("self_attn.o_proj", hidden, hidden),
            ("mlp.gate_proj", inner, hidden),
            ("mlp.up_proj", inner, hidden),
            ("mlp.down_proj", hidden, inner),
        ]:
            yield f"{at}{name}.weight", (rows, columns), 1 / math.sqrt(columns)
        for name, rows in [("q_proj", hidden), ("k_proj", kv), ("v_proj", kv)]:
            yield f"{at}self_attn.{name}.bias", (rows,), 0.1


def write_model(folder, like, layers, seed, **changes):
    with open(os.path.join(like, "config.json")) as file:
        config = dict(json.load(file), num_hidden_layers=layers, **changes)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file)
    for name in ["vocab.json", "eval.tsv.gz", "prompt.json"]:
        if os.path.exists(os.path.join(like, name)):
            os.symlink(os.path.abspath(os.path.join(like, name)), os.path.join(folder, name))
    chance, header, at, parts = random.Random(seed), {}, 0, []
    for name, shape, spread in tensors(config):
        count = math.prod(shape)
        values = array.array(
            "f", (chance.gauss(0, spread) for _ in range(count)) if spread else [1.0] * count
        )
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + 4 * count]}
        at += 4 * count
        parts.append(values)
    told = json.dumps(header).encode()
    told += b" " * (-len(told) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(told)) + told)
        for values in parts:
            values.tofile(file)


def plans(options, layers, seed):
    with tempfile.TemporaryDirectory() as folder:
        write_model(folder, options.model, layers, seed)
        answered = os.path.join(folder, "plans.json")
        subprocess.run(
            [
                options.lab,
                "bench",
                "plans",
                "--model",
                folder,
                "--data",
                options.data,
                "--plans",
                "causal,blocks",
                "--selection",
                options.selection,
                "--correction",
                options.correction,
                "--repair",
                options.repair,
                "--events",
                str(options.events),
                "--json",
                answered,
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        with open(answered) as file:
            return json.load(file)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lab", default=os.path.join(HERE, "..", "..", "build", "deploy", "troupe-lab"))
    parser.add_argument(
        "--model",
        default=os.path.join(SHARED, "models", "tiny-ranker-games"),
        help="model whose vocabulary and prompts are used",
    )
    parser.add_argument("--data", default=os.path.join(SHARED, "data", "amazon-games"))
    parser.add_argument("--layers", default="4,8,16,24")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--selection", default="importance,tail,deviation")
    parser.add_argument("--correction", default="none,mean+layer2")
    parser.add_argument("--repair", default="30")
    parser.add_argument("--events", type=int, default=100)
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    if not os.path.exists(os.path.join(options.model, "config.json")):
        print(f"skipped: no model in {options.model}")
        return 77
    rows = []
    print(f"{'layers':>6} {'seed':>4}  {'plan':<18} {'selection':<11} {'correction':<12} overlap@10")
    for layers in map(int, options.layers.split(",")):
        for seed in range(1, options.seeds + 1):
            for run in plans(options, layers, seed)["runs"]:
                row = dict(
                    layers=layers,
                    seed=seed,
                    **{
                        key: run.get(key)
                        for key in ["plan", "repair", "selection", "correction", "overlap@10"]
                    },
                )
                rows.append(row)
                overlap = row["overlap@10"]
                print(
                    f"{layers:>6} {seed:>4}  {row['plan']:<18} {row['selection']:<11} "
                    f"{row['correction']:<12} "
                    f"{overlap['mean']:.3f} ± {overlap['standard_error']:.3f}",
                    flush=True,
                )
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"events": options.events, "rows": rows}, file, indent=1)
            file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
