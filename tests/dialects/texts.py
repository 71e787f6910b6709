#!/usr/bin/env python3
"""Checks that texts get the same scores as their tokens.

  tests/dialects/texts.py --troupe build/deploy/troupe

A small random ranker has a tokenizer.json of bytes and a few merges. Its form declares no arrangement, so
each candidate has a prompt of its own. The reference is /v1/score in our own form with token ids. vLLM's
/score and /generative_scoring, SGLang's /v1/score and a reranking of texts are compared with it. An item
whose tokens are given as text is stored as tokens, and returned as text.
"""
import argparse
import array
import json
import math
import os
import random
import subprocess
import sys
import urllib.error
import urllib.request

from served import Served

LAYERS, HIDDEN, INNER, VOCABULARY = 2, 32, 64, 320
SYSTEM, EVENT, ITEM, READ, YES, NO = 300, 301, 302, 303, 304, 305


def write_weights(path):
    chance = random.Random(7)
    shapes = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN), "model.norm.weight": (HIDDEN,)}
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        for name in ("input_layernorm", "post_attention_layernorm"):
            shapes[at + name + ".weight"] = (HIDDEN,)
        for name, rows in (("q", HIDDEN), ("k", HIDDEN), ("v", HIDDEN)):
            shapes[at + f"self_attn.{name}_proj.weight"] = (rows, HIDDEN)
            shapes[at + f"self_attn.{name}_proj.bias"] = (rows,)
        shapes[at + "self_attn.o_proj.weight"] = (HIDDEN, HIDDEN)
        shapes[at + "mlp.gate_proj.weight"] = shapes[at + "mlp.up_proj.weight"] = (INNER, HIDDEN)
        shapes[at + "mlp.down_proj.weight"] = (HIDDEN, INNER)
    header, data = {}, array.array("f")
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        begin = 4 * len(data)
        data.extend(1.0 if "norm" in name else chance.gauss(0, 0.3) for _ in range(count))
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [begin, 4 * len(data)]}
    text = json.dumps(header).encode()
    with open(path, "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text + data.tobytes())


def alphabet():
    """Returns the character of each byte."""
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in seen]
    return {byte: chr(byte) for byte in seen} | {byte: chr(256 + i) for i, byte in enumerate(others)}


def write_model(folder):
    at = lambda name: os.path.join(folder, name)
    write_weights(at("model.safetensors"))
    json.dump(
        {
            "architectures": ["Qwen2ForCausalLM"],
            "model_type": "qwen2",
            "vocab_size": VOCABULARY,
            "hidden_size": HIDDEN,
            "intermediate_size": INNER,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "hidden_act": "silu",
            "max_position_embeddings": 256,
            "rms_norm_eps": 1e-6,
            "rope_theta": 10000.0,
            "tie_word_embeddings": True,
            "torch_dtype": "float32",
        },
        open(at("config.json"), "w"),
    )
    vocab = {character: byte for byte, character in alphabet().items()}
    merges = [["r", "e"], ["re", "d"], ["b", "l"], ["bl", "ue"], ["u", "e"]]
    vocab |= {"re": 256, "red": 257, "bl": 258, "ue": 259, "blue": 260}
    merges[3], merges[4] = merges[4], merges[3]  # u e before bl ue
    added = [
        {"id": id, "content": name}
        for name, id in (
            ("<sys>", SYSTEM),
            ("<h>", EVENT),
            ("<c>", ITEM),
            ("<score>", READ),
            ("<yes>", YES),
            ("<no>", NO),
        )
    ]
    json.dump(
        {
            "normalizer": {"type": "NFC"},
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
            "decoder": {"type": "ByteLevel"},
            "model": {"type": "BPE", "vocab": vocab, "merges": merges},
            "added_tokens": added,
        },
        open(at("tokenizer.json"), "w"),
    )
    json.dump(
        {
            "instruction": ["<sys>"],
            "history_item": ["<h>", {"text": "liked "}, "{words}"],
            "candidate": ["<c>", "{words}", "<score>"],
            "read_at": "<score>",
            "yes": "<yes>",
            "no": "<no>",
        },
        open(at("prompt.json"), "w"),
    )


class Node(Served):
    def __init__(self, troupe):
        super().__init__()
        os.mkdir(self.at("model"))
        write_model(self.at("model"))
        os.mkdir(self.at("world"))
        json.dump(
            {"id": "b", "title": "B", "tokens": "blue", "identifier": "<no>"},
            open(os.path.join(self.at("world"), "items.jsonl"), "w"),
        )
        common = ["--model", self.at("model"), "--data-dir", self.at("data")]
        subprocess.run(
            [troupe, "import", *common, "--data", self.at("world")], check=True, stdout=subprocess.DEVNULL
        )
        self.serve(
            [
                troupe,
                "serve",
                *common,
                "--set",
                "pool.memory=16MiB",
                "--set",
                "model.name=Qwen/Qwen3-Reranker-0.6B",
            ]
        )


def near(a, b):
    return len(a) == len(b) and all(abs(x - y) < 1e-5 for x, y in zip(a, b))


def try_texts(node):
    """Returns the names of the checks that failed."""
    wrong = []

    def check(holds, what):
        print(("ok      " if holds else "FAILED  ") + what)
        wrong.extend([] if holds else [what])

    red, blue, liked = [257], [260], list(b"liked ")
    truth = lambda query, items, labels: [
        row["scores"]
        for row in node.ask(
            "/v1/score",
            {
                "query": query,
                "items": [{"tokens": item} for item in items],
                "label_tokens": labels,
                "apply_softmax": True,
            },
        )[1]["items"]
    ]

    pairs = [
        row[0]
        for row in truth([SYSTEM, EVENT, *liked, *red], [[ITEM, *blue, READ], [ITEM, *red, READ]], [YES, NO])
    ]
    status, reply = node.ask("/score", {"text_1": "red", "text_2": ["blue", "red"]})
    check(
        status == 200
        and near([row["score"] for row in reply["data"]], pairs)
        and reply["object"] == "list"
        and [row["index"] for row in reply["data"]] == [0, 1],
        "vLLM's /score of texts: the probability of yes after each",
    )
    for names in (("queries", "documents"), ("queries", "items"), ("data_1", "data_2")):
        status, reply = node.ask("/v1/score", {names[0]: ["red", "red"], names[1]: ["blue", "red"]})
        check(
            status == 200 and near([row["score"] for row in reply["data"]], pairs),
            f"the same with {names[0]} and {names[1]}, one score each",
        )
    status, reply = node.ask(
        "/v1/rerank", {"query": "red", "documents": ["blue", {"text": "red"}], "return_documents": True}
    )
    best = 0 if pairs[0] >= pairs[1] else 1
    check(
        status == 200
        and reply["results"][0]["index"] == best
        and reply["results"][0]["document"] == {"text": ["blue", "red"][best]}
        and near([row["relevance_score"] for row in reply["results"]], sorted(pairs, reverse=True)),
        "a reranking of texts, best first",
    )

    status, reply = node.ask("/rerank", {"query": "red", "texts": ["blue", "red"], "truncate": True})
    check(
        status == 200
        and reply[0]["index"] == best
        and near([row["score"] for row in reply], sorted(pairs, reverse=True)),
        "TEI's form of the same",
    )
    asked = {"query": "red", "documents": ["blue", "red", "blue", "red blue"], "max_tokens_per_doc": 1}
    status, reply = node.ask("/v1/rerank", asked)
    check(
        status == 413 and reply["error"]["where"] == "documents[3]",
        "a document with too many tokens is named, and none is cut",
    )
    for path in ("/tokenize", "/v1/tokenize"):
        status, reply = node.ask(path, {"prompt": "liked red", "return_token_strs": True})
        check(
            status == 200
            and reply["tokens"] == [*liked, *red]
            and reply["count"] == len(reply["token_strs"]),
            f"{path} gives the tokens of a text",
        )
    check(node.ask("/info")[1]["model_type"].get("reranker") is not None, "TEI's /info says that it reranks")
    named = {"model": "Qwen/Qwen3-Reranker-0.6B", "query": "red", "documents": ["blue", "red"]}
    status, reply = node.ask("/v1/rerank", named)
    check(
        status == 200 and reply["model"] == named["model"] == node.ask("/v1/models")[1]["data"][0]["id"],
        "clients may use the model's published name (model.name)",
    )
    check(node.ask("/v1/rerank", {**named, "model": "other"})[0] == 404, "another name is 404")

    labels = [YES, NO, 9]
    rows = truth(list(b"is it "), [[*red, 33], [*blue, 33]], labels)
    asked = {"query": "is it ", "items": ["red!", "blue!"], "label_token_ids": labels, "apply_softmax": True}
    status, reply = node.ask("/v1/score", asked)
    check(
        status == 200
        and reply["object"] == "scoring"
        and all(near(a, b) for a, b in zip(reply["scores"], rows)),
        "SGLang's /v1/score of texts",
    )
    status, reply = node.ask(
        "/v1/score", asked | {"query": list(b"is it "), "items": [[*red, 33], [*blue, 33]]}
    )
    check(
        status == 200 and all(near(a, b) for a, b in zip(reply["scores"], rows)),
        "SGLang's /v1/score of token ids",
    )
    first = truth([], [[*red, 33, *b"is it "], [*blue, 33, *b"is it "]], labels)
    status, reply = node.ask("/v1/score", asked | {"item_first": True})
    check(
        status == 200 and all(near(a, b) for a, b in zip(reply["scores"], first)),
        "the same scores with items first",
    )
    asked.pop("apply_softmax")
    status, reply = node.ask("/generative_scoring", asked)
    check(
        status == 200 and near([row["score"] for row in reply["data"]], [row[0] for row in rows]),
        "vLLM's /generative_scoring",
    )
    status, reply = node.ask("/v1/score", asked)
    check(
        status == 400 and reply["error"]["where"] == "apply_softmax",
        "a request without softmax is refused and names the field",
    )

    status, _ = node.ask("/v1/items/a", {"title": "A", "tokens": "red blue", "identifier": "<yes>"}, "PUT")
    reply = node.ask("/v1/items/a")[1]
    check(
        status == 200 and reply["tokens"] == [*red, 32, *blue] and reply["text"] == "red blue",
        "an item stored as text is returned as text",
    )
    check(node.ask("/v1/items/b")[1].get("tokens") == blue, "an item imported as text has its tokens")
    status, reply = node.ask("/v1/rank", {"history": ["a"], "candidates": ["a"]})
    check(
        status == 200 and near([reply["items"][0]["score"]], [0]) is False,
        "an item imported as text is ranked",
    )
    for name in ("red", "blue"):
        node.ask(f"/v1/items/{name}", {"title": name, "tokens": name, "identifier": "<yes>"}, "PUT")
    for candidates in (["red", "blue", "a", "b"], ["b", "a", "blue", "red"], ["blue"], ["red"]):
        status, reply = node.ask("/v1/rank", {"history": ["red"], "candidates": candidates})
        scores = {item["id"]: 1 / (1 + math.exp(-item["score"])) for item in reply.get("items", ())}
        check(
            status == 200
            and reply["arrangement"] == "candidates_apart"
            and all(near([scores[name]], [of]) for name, of in zip(("blue", "red"), pairs) if name in scores),
            f"a ranking gives the scores of /score and of the reranking, in the order {' '.join(candidates)}",
        )
    status, reply = node.ask("/v1/rank", {"history": ["red"], "candidates": ["blue"], "policy": "causal"})
    check(
        status == 400 and reply["error"]["code"] == "other_policy",
        "candidates one after the other are refused, as the form does not declare them",
    )
    status, reply = node.ask("/v1/completions", {"prompt": "red blue"})
    check(
        status == 422 and reply["error"]["code"] == "not_a_generator",
        "a text prompt is parsed, and a ranker refuses to complete it",
    )
    return wrong


def main(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    args = parser.parse_args(argv)
    with Node(args.troupe) as node:
        return 1 if try_texts(node) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
