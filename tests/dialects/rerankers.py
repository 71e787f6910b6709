#!/usr/bin/env python3
"""Checks that a text reranker in the published form of Qwen3-Reranker gets the scores of a plain program.

  tests/dialects/rerankers.py --troupe build/deploy/troupe

A random model of Qwen3's architecture is served with deploy/examples/qwen3-reranker/prompt.json. Its tokens
are compared with those of the published code's prompt, which a plain tokenizer in Python makes; its scores,
over /v1/rank, /rerank, /v1/rerank and /score, and its embeddings with a plain program in PyTorch. The order
and the number of candidates change no score. The tokenizer is Qwen3's, if ../shared/tokenizers is there, else
a small one; the plain tokenizer is itself compared with golden tokens there. Exit status 77 if PyTorch is not
installed.
"""
import argparse
import base64
import gzip
import json
import math
import os
import random
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "../..")
FORM = os.path.join(ROOT, "deploy/examples/qwen3-reranker/prompt.json")
SHARED = os.path.join(ROOT, "../shared/tokenizers/qwen3")
TOLERANCE = 1e-4  # of a logit, relative where it is above 1

# Prompt of the model card of Qwen3-Reranker.
PREFIX = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the "
    'Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
)
SUFFIX = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
TASK = "Given a web search query, retrieve relevant passages that answer the query"

QUERIES = [
    "What holds a tent?",
    "red tent",
    "Explain gravity.",
    "お茶は？ ",
    "two\nlines",
    "yes or no",
    "",
]
DOCUMENTS = [
    "Tent pegs hold a tent in the wind.",
    "A blue lamp",
    " (with a blank in front)",
    "\nbegins with a line break",
    "🙂 cafe\u0301 ½",
    "tokens of two scripts: お茶 tea",
    "",
    "no?\n\n",
]

sys.path.append(os.path.join(ROOT, "tests"))
from python_packages import restart_or_skip

restart_or_skip("numpy", "torch")
from plain_qwen3 import (
    PlainQwen3,
    PlainTokenizer,
    random_tensors,
    read_gzip_json,
    small_tokenizer,
    write_model,
)
from served import Served


def published_prompt(tokenizer, query, document):
    """Returns the tokens as the published code makes them."""
    middle = f"<Instruct>: {TASK}\n<Query>: {query}\n<Document>: {document}"
    return tokenizer.encode(PREFIX) + tokenizer.encode(middle) + tokenizer.encode(SUFFIX)


def stored_prompt(tokenizer, history, document):
    """Returns the tokens of a ranking of items, whose texts became tokens when they were stored."""
    events = [token for event in history for token in tokenizer.encode(" " + event)]
    parts = [PREFIX + f"<Instruct>: {TASK}\n<Query>:", "\n<Document>:", " " + document]
    first, between, last = (tokenizer.encode(part) for part in parts)
    return first + events + between + last + tokenizer.encode(SUFFIX)


def item_texts():
    """Returns the texts of the catalog: those above that have tokens, and titles."""
    texts = [text for text in QUERIES + DOCUMENTS if text]
    if not os.path.exists(SHARED):
        return texts
    with gzip.open(os.path.join(SHARED, "golden.jsonl.gz"), "rt") as file:
        titles = [json.loads(line)["text"] for line in file]
    return texts + [title for title in random.Random(3).sample(titles, 40) if title.strip()]


class Node(Served):
    def __init__(self, troupe, tokenizer_file, tensors, texts):
        super().__init__()
        for name in ("model", "world"):
            os.mkdir(self.at(name))
        write_model(self.at("model"), tensors)
        with open(self.at("model/tokenizer.json"), "w") as file:
            json.dump(tokenizer_file, file)
        with open(FORM) as source, open(self.at("model/prompt.json"), "w") as file:
            file.write(source.read())
        with open(self.at("world/items.jsonl"), "w") as file:
            for number, text in enumerate(texts):
                file.write(json.dumps({"id": f"i{number}", "title": text[:80], "tokens": text}) + "\n")
        common = ["--model", self.at("model"), "--data-dir", self.at("data")]
        said = subprocess.run(
            [troupe, "import", *common, "--data", self.at("world")],
            check=True,
            capture_output=True,
            text=True,
        )
        self.said = said.stdout + said.stderr
        self.serve([troupe, "serve", *common, "--set", "pool.memory=64MiB"])


class Checks:
    def __init__(self):
        self.failed = []

    def __call__(self, holds, what):
        print(("ok      " if holds else "FAILED  ") + what)
        self.failed += [] if holds else [what]


def near(a, b):
    return abs(a - b) <= TOLERANCE * max(1, abs(b))


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def check_plain_tokenizer(tokenizer, check):
    with gzip.open(os.path.join(SHARED, "golden.jsonl.gz"), "rt") as file:
        rows = [json.loads(line) for line in file]
    check(
        all(tokenizer.encode(row["text"]) == row["ids"] for row in rows),
        f"the plain tokenizer gives the golden tokens of {len(rows)} texts",
    )


def check_tokens(node, tokenizer, texts, check):
    for query in ("red tent", "yes or no", "two\nlines"):
        for document in DOCUMENTS[:6]:
            asked = {
                "history": [f"i{texts.index(query)}"],
                "candidates": [f"i{texts.index(document)}"],
                "explain": True,
            }
            status, reply = node.ask("/v1/rank", asked)
            tokens = [t for s in reply.get("explanation", {}).get("segments", []) for t in s["tokens"]]
            check(
                status == 200 and tokens == published_prompt(tokenizer, query, document),
                f"the prompt of {query!r} and {document!r} has the published code's tokens",
            )
    prompts = [published_prompt(tokenizer, query, document) for query in QUERIES for document in DOCUMENTS]
    wholes = [
        f"{PREFIX}<Instruct>: {TASK}\n<Query>: {query}\n<Document>: {document}{SUFFIX}"
        for query in QUERIES
        for document in DOCUMENTS
    ]
    tokens = [
        t
        for i in range(0, len(wholes), 10)
        for t in node.ask("/tokenize", {"prompt": wholes[i : i + 10]})[1]["tokens"]
    ]
    check(tokens == prompts, f"/tokenize gives the tokens of {len(wholes)} whole prompts")


def reranked(node, path, query, documents):
    """Returns the relevance of each document, in their order."""
    if path == "/score":
        status, reply = node.ask(path, {"text_1": query, "text_2": documents})
        rows = [(row["index"], row["score"]) for row in reply.get("data", ())]
    elif path == "/rerank":
        status, reply = node.ask(path, {"query": query, "texts": documents})
        rows = [(row["index"], row["score"]) for row in reply] if status == 200 else []
    else:
        status, reply = node.ask(path, {"query": query, "documents": documents})
        rows = [(row["index"], row["relevance_score"]) for row in reply.get("results", ())]
    return [score for _, score in sorted(rows)] if status == 200 else [reply]


def check_texts(node, tokenizer, model, labels, check):
    shuffled = random.Random(5)
    for query in QUERIES:
        truth = {
            document: sigmoid(model.logit_difference(published_prompt(tokenizer, query, document), *labels))
            for document in DOCUMENTS
        }
        for path in ("/v1/rerank", "/rerank", "/v2/rerank", "/score"):
            orders = [DOCUMENTS, shuffled.sample(DOCUMENTS, len(DOCUMENTS)), shuffled.sample(DOCUMENTS, 3)]
            check(
                all(
                    len(scores) == len(order) and all(near(s, truth[d]) for s, d in zip(scores, order))
                    for order in orders
                    for scores in [reranked(node, path, query, order)]
                ),
                f"{path} of {query!r}: the plain program's relevance in any order",
            )
    one = ("tents? ", "pegs")
    truth = sigmoid(model.logit_difference(published_prompt(tokenizer, *one), *labels))
    status, reply = node.ask("/v1/score", {"queries": [one[0], "b"], "documents": [one[1], "b"]})
    check(status == 200 and near(reply["data"][0]["score"], truth), "a query for each document")


def check_items(node, tokenizer, model, labels, texts, check):
    shuffled = random.Random(6)
    for history in ([0], [1, 2], [3, 1, 5]):
        wanted = shuffled.sample(range(len(texts)), min(12, len(texts)))
        truth = {
            item: model.logit_difference(
                stored_prompt(tokenizer, [texts[event] for event in history], texts[item]), *labels
            )
            for item in wanted
        }
        for order in (wanted, wanted[::-1], wanted[:1], shuffled.sample(wanted, 4)):
            asked = {"history": [f"i{e}" for e in history], "candidates": [f"i{item}" for item in order]}
            status, reply = node.ask("/v1/rank", asked)
            scores = {item["id"]: item["score"] for item in reply.get("items", ())}
            check(
                status == 200
                and reply["arrangement"] == "candidates_apart"
                and all(near(scores[f"i{item}"], truth[item]) for item in order),
                f"/v1/rank of {len(order)} items behind {len(history)}: the plain program's scores",
            )


def check_embeddings(node, tokenizer, model, check):
    texts = [text for text in QUERIES + DOCUMENTS if text]
    truth = [model.embedding(tokenizer.encode(text)) for text in texts]
    same = lambda vector, row: len(vector) == len(row) and all(abs(a - b) < 1e-5 for a, b in zip(vector, row))
    status, reply = node.ask("/v1/embeddings", {"input": texts, "model": "troupe", "user": "someone"})
    rows = [row["embedding"] for row in reply.get("data", ())]
    check(
        status == 200
        and len(rows) == len(texts)
        and all(map(same, rows, truth))
        and reply["usage"]["prompt_tokens"] == sum(len(tokenizer.encode(text)) for text in texts),
        f"/v1/embeddings of {len(texts)} texts: the plain program's last state, of length 1",
    )
    ids = [tokenizer.encode(text) for text in texts]
    status, reply = node.ask("/v1/embeddings", {"input": ids, "encoding_format": "base64"})
    packed = [base64.b64decode(row["embedding"]) for row in reply.get("data", ())]
    check(
        status == 200
        and len(packed) == len(truth)
        and all(same(struct.unpack(f"<{len(p) // 4}f", p), row) for p, row in zip(packed, truth)),
        "the same of token ids, in base64",
    )
    status, reply = node.ask("/v1/embeddings", {"input": texts[0], "dimensions": 8})
    check(status == 400 and reply["error"]["where"] == "dimensions", "dimensions are refused by name")
    status, reply = node.ask("/v1/embeddings", {"input": ""})
    check(status == 400 and reply["error"]["code"] == "empty_item", "a text without tokens is refused")


def check_stored(node, tokenizer, texts, check):
    check("warning" not in node.said, "an import of items without identifiers warns of nothing")
    item = node.ask("/v1/items/i0")[1]
    check(
        item.get("tokens") == tokenizer.encode(" " + texts[0])
        and item.get("text") == texts[0]
        and item.get("identifier") == -1,
        "an item has the tokens of its text behind a blank, and no identifier",
    )
    status, _ = node.ask("/v1/items/new", {"title": "n", "tokens": "a new text"}, "PUT")
    tokens = node.ask("/v1/items/new")[1].get("tokens")
    check(status == 200 and tokens == tokenizer.encode(" a new text"), "the same of an item that is put")


def main(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    args = parser.parse_args(argv)
    check = Checks()
    if os.path.exists(SHARED):
        tokenizer_file = read_gzip_json(os.path.join(SHARED, "tokenizer.json.gz"))
    else:
        print("skipped: no ../shared/tokenizers/qwen3, so a small tokenizer stands for Qwen3's")
        tokenizer_file = small_tokenizer()
    tokenizer = PlainTokenizer(tokenizer_file)
    if os.path.exists(SHARED):
        check_plain_tokenizer(tokenizer, check)
    vocabulary = max(max(tokenizer.vocab.values()), max(tokenizer.added.values())) + 9
    tensors = random_tensors(vocabulary, seed=11)
    model, texts = PlainQwen3(tensors), item_texts()
    (yes,), (no,) = tokenizer.encode("yes"), tokenizer.encode("no")
    with Node(args.troupe, tokenizer_file, tensors, texts) as node:
        check_stored(node, tokenizer, texts, check)
        check_tokens(node, tokenizer, texts, check)
        check_texts(node, tokenizer, model, (yes, no), check)
        check_items(node, tokenizer, model, (yes, no), texts, check)
        check_embeddings(node, tokenizer, model, check)
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
