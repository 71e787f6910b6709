"""Byte-level BPE as described by a Hugging Face tokenizer.json of Qwen, with the standard library alone.

It is good enough for titles and descriptions; special tokens in texts are not recognized.

    qwen_tokens.py FOLDER    # checks tokenizer.json.gz against the texts of golden.jsonl.gz
"""
import functools
import gzip
import json
import os
import re
import sys
import unicodedata

# Qwen's pattern. Python's `re` knows no \p{N}; its \d lacks fractions, superscripts and the like.
NUMBERS = "".join(
    sign for sign in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(sign) in ("Nl", "No")
)
LETTER = rf"[^\W\d_{NUMBERS}]"
PIECES = re.compile(
    rf"'(?:s|t|re|ve|m|ll|d)|(?:[^\w\r\n]|_)?{LETTER}+|[\d{NUMBERS}]| ?(?:[^\s\w]|_)+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+",
    re.IGNORECASE,
)


def byte_letters():
    """Returns the letter for each byte in the vocabulary."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {byte: chr(256 + i) for i, byte in enumerate(others)}


class Tokenizer:
    def __init__(self, file):
        with gzip.open(file, "rt", encoding="utf-8") as text:
            model = json.load(text)["model"]
        self.ids = model["vocab"]
        merges = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
        self.ranks = {tuple(merge): rank for rank, merge in enumerate(merges)}
        self.letters = byte_letters()
        self.piece = functools.lru_cache(100_000)(self.merged)

    def merged(self, piece):
        parts = [self.letters[byte] for byte in piece.encode()]
        while len(parts) > 1:
            pairs = [
                (self.ranks.get(pair, len(self.ranks)), i) for i, pair in enumerate(zip(parts, parts[1:]))
            ]
            rank, at = min(pairs)
            if rank == len(self.ranks):
                break
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return [self.ids[part] for part in parts]

    def encode(self, text):
        return [
            token
            for piece in PIECES.findall(unicodedata.normalize("NFC", text))
            for token in self.piece(piece)
        ]


def main():
    tokenizer = Tokenizer(os.path.join(sys.argv[1], "tokenizer.json.gz"))
    right, wrong = 0, []
    with gzip.open(os.path.join(sys.argv[1], "golden.jsonl.gz"), "rt", encoding="utf-8") as golden:
        for line in map(json.loads, golden):
            if tokenizer.encode(line["text"]) == line["ids"]:
                right += 1
            else:
                wrong.append((line["set"], line["text"]))
    print(f"{right} of {right + len(wrong)} texts as in golden.jsonl.gz")
    for which, text in wrong[:20]:
        print(f"  {which}: {text[:80]!r}")
    return 1 if sum(which != "extra" for which, _ in wrong) > 0 else 0


if __name__ == "__main__":
    sys.exit(main())
