#!/usr/bin/env python3
"""Checks that SentencePiece models give the tokens of SentencePiece itself.

  tests/dialects/sentence_pieces.py --troupe build/deploy/troupe

The package's trainer makes models of both kinds and many options from the titles of the demo's catalog and
from the documentation. Each is served as tokenizer.model of a small random reranker. The tokens of many
texts, by /tokenize, are compared with the package's own. With the first model, items and rerankings of texts
have their tokens as well, a tokenizer.json of that kind beside it is passed over, and added tokens are
refused by name. Exit status 77 if PyTorch or SentencePiece is not installed.
"""
import argparse
import glob
import io
import json
import os
import random
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "../..")
TOLERANCE = 1e-4
TEXTS_AT_ONCE = 50

sys.path.append(os.path.join(ROOT, "tests"))
from python_packages import restart_or_skip

restart_or_skip("numpy", "sentencepiece", "torch")
import sentencepiece
from plain_qwen3 import PlainQwen3, random_tensors, write_model
from rerankers import Checks, near, sigmoid
from served import Served

KINDS = {
    "unigram": {"model_type": "unigram"},
    "BPE with byte fallback": {"model_type": "bpe", "byte_fallback": True},
    "unigram with byte fallback and user-defined pieces": {
        "model_type": "unigram",
        "byte_fallback": True,
        "user_defined_symbols": ["<sep>", "  ", "tent", "日本"],
    },
    "BPE with user-defined pieces": {"model_type": "bpe", "user_defined_symbols": ["<sep>", " x", "日本"]},
    "unigram with blanks behind": {"model_type": "unigram", "treat_whitespace_as_suffix": True},
    "BPE that keeps every blank": {
        "model_type": "bpe",
        "byte_fallback": True,
        "remove_extra_whitespaces": False,
        "normalization_rule_name": "identity",
        "allow_whitespace_only_pieces": True,
        "split_digits": True,
    },
    "unigram without a blank in front": {"model_type": "unigram", "add_dummy_prefix": False},
    "BPE that folds case": {"model_type": "bpe", "normalization_rule_name": "nmt_nfkc_cf"},
}
HARD = [
    "",
    "  ",
    " a  b ",
    "\u3000x\u3000",
    "ﷺ ﬁ ½ ①",
    "e\u0301 é",
    "日本語のテキスト",
    "🙂🙂👩‍👩‍👧",
    "<s> hi </s>",
    "▁▁a▁b",
    "\ttab\nnew\r\nline",
    "ÅＡＢＣ",
    "\u200bzero",
    "<sep>x<sep> <cls>",
    "a\x01b",
    "a" * 900,
    "ｶﾞ",
]
FORM = {
    "instruction": ["<s>", {"text": "Does it answer?"}],
    "history_item": [{"text": "Query: "}, "{words}"],
    "candidate": [{"text": "Document: "}, "{words}", "</s>"],
    "read_at": "</s>",
    "yes": {"text": "the"},
    "no": "▁a",
}


def corpus():
    lines = []
    for path in sorted(glob.glob(os.path.join(ROOT, "docs/**/*.md"), recursive=True)):
        with open(path) as file:
            lines += [line.strip() for line in file if line.strip()]
    with open(os.path.join(ROOT, "deploy/demo/world/items.jsonl")) as file:
        lines += [json.loads(line)["title"] for line in file]
    return lines


def trained(lines, options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=900,
        character_coverage=0.999,
        minloglevel=2,
        **options,
    )
    return model.getvalue()


def texts_to_compare(lines, draw):
    letters = "abc de .,!?'\"-_<>/|{}0123 é日本🙂\u0301\t\n▁ﬁ①Ａ"
    odd = ["".join(draw.choice(letters) for _ in range(draw.randint(0, 60))) for _ in range(400)]
    return HARD + odd + draw.sample(lines, 400)


class Node(Served):
    def __init__(self, troupe, model, tensors, form):
        super().__init__()
        os.mkdir(self.at("model"))
        write_model(self.at("model"), tensors)
        with open(self.at("model/tokenizer.model"), "wb") as file:
            file.write(model)
        with open(self.at("model/prompt.json"), "w") as file:
            json.dump(form, file)
        self.words = [troupe, "serve", "--model", self.at("model"), "--data-dir", self.at("data")]
        self.words += ["--set", "pool.memory=16MiB", "--set", "router.needs_items=false"]
        with open(self.at("model/tokenizer.json"), "w") as file:
            json.dump({"model": {"type": "BPE", "byte_fallback": True}}, file)
        self.serve(self.words)


def compare_tokens(node, own, texts, what, check):
    tokens = []
    for at in range(0, len(texts), TEXTS_AT_ONCE):
        asked = {"prompt": texts[at : at + TEXTS_AT_ONCE], "add_special_tokens": False}
        status, reply = node.ask("/tokenize", asked)
        tokens += reply["tokens"] if status == 200 else [reply]
    others = [(text, mine, own.encode(text)) for text, mine in zip(texts, tokens) if mine != own.encode(text)]
    check(len(tokens) == len(texts) and not others, f"{what}: equal tokens of {len(texts)} texts")
    for other in others[:3]:
        print("        ", *other)
    asked = {"prompt": "a tent"}
    with_start = [own.bos_id(), *own.encode("a tent")]
    check(node.ask("/tokenize", asked)[1]["tokens"] == with_start, f"{what}: <s> before a text by itself")


def compare_scores(node, own, model, check):
    status, _ = node.ask("/v1/items/a", {"title": "A", "tokens": "two tents"}, "PUT")
    item = node.ask("/v1/items/a")[1]
    check(
        status == 200 and item["tokens"] == own.encode("two tents") and item["text"] == "two tents",
        "an item that is stored as text has its tokens, and is returned as text",
    )
    query, documents = "what holds a tent?", ["tent pegs", "a blue lamp", "お茶"]
    start = [own.bos_id(), *own.encode("Does it answer?"), *own.encode("Query:")]
    ends = own.piece_to_id("▁the"), own.piece_to_id("▁a")
    truth = [
        sigmoid(
            model.logit_difference(
                [*start, *own.encode(" " + query + "Document:"), *own.encode(" " + document), own.eos_id()],
                *ends,
            )
        )
        for document in documents
    ]
    status, reply = node.ask("/v1/rerank", {"query": query, "documents": documents})
    rows = {row["index"]: row["relevance_score"] for row in reply.get("results", ())}
    check(
        status == 200 and all(near(rows[i], value) for i, value in enumerate(truth)),
        "a reranking of texts has the plain program's scores",
    )


def refuse_added(node, check):
    with open(node.at("model/added_tokens.json"), "w") as file:
        json.dump({"<|im_end|>": 900}, file)
    words = [word.replace(node.at("data"), node.at("other")) for word in node.words] + ["--port", "0"]
    said = subprocess.run(words, capture_output=True, text=True, timeout=60).stderr
    check(
        'added_tokens.json: token 900 is "<|im_end|>", which tokenizer.model does not have' in said,
        f"added tokens are refused by name: {said.strip()[-200:]}",
    )


def main(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    args = parser.parse_args(argv)
    check, draw, lines = Checks(), random.Random(4), corpus()
    texts = texts_to_compare(lines, draw)
    tensors = random_tensors(1000, seed=12)
    for what, options in KINDS.items():
        model = trained(lines, options)
        own = sentencepiece.SentencePieceProcessor(model_proto=model)
        first = what == next(iter(KINDS))
        form = FORM if first else FORM | {"yes": 5, "no": 6}
        with Node(args.troupe, model, tensors, form) as node:
            compare_tokens(node, own, texts, what, check)
            if first:
                compare_scores(node, own, PlainQwen3(tensors), check)
                refuse_added(node, check)
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
