"""Plain programs that the tests of text rerankers compare with: Qwen3 in PyTorch in float64, one prompt at a
time and nothing cached, and byte-level BPE by its definition. Written from the definitions of the
architecture and of the tokenizer's file, without anything of the program."""

import gzip
import json
import os
import re
import sys
import unicodedata

import numpy as np
import torch

# The split of Qwen's tokenizer. PyTorch's own re has no \\p{L} and \\p{N}, so these are written out.
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def characters_in(first):
    """Returns the characters of a Unicode category as ranges for a character class."""
    ranges, begin, before = [], None, None
    for code in range(sys.maxunicode + 1):
        if not unicodedata.category(chr(code)).startswith(first):
            continue
        if before != code - 1:
            if begin is not None:
                ranges.append((begin, before))
            begin = code
        before = code
    ranges.append((begin, before))
    return "".join(f"\\U{a:08x}-\\U{b:08x}" for a, b in ranges)


def compiled(pattern):
    """Compiles the pattern with its classes written out. White space is Unicode's, which has no U+001C."""
    classes = {"L": characters_in("L"), "N": characters_in("N")}
    space = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
    out, in_class, at = "", False, 0
    while at < len(pattern):
        step = 5 if pattern.startswith("\\p{", at) else 2 if pattern[at] == "\\" else 1
        part = pattern[at : at + step]
        if step == 5:
            part = classes[part[3]] if in_class else "[" + classes[part[3]] + "]"
        elif part == r"\s":
            part = space if in_class else "[" + space + "]"
        elif part == r"\S":
            part = "[^" + space + "]"
        elif part in "[]":
            in_class = part == "["
        out += part
        at += step
    return re.compile(out)


def byte_characters():
    """Returns the character that stands for each byte."""
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in seen]
    return {byte: chr(byte) for byte in seen} | {byte: chr(256 + i) for i, byte in enumerate(others)}


class PlainTokenizer:
    """Byte-level BPE of a tokenizer.json: added tokens first, then NFC, pieces, and the merges of each."""

    def __init__(self, file):
        splits = [
            part["pattern"]["Regex"]
            for part in file["pre_tokenizer"]["pretokenizers"]
            if part["type"] == "Split"
        ]
        if splits != [PATTERN]:
            raise ValueError(f"the pattern is {splits}; expected {PATTERN}")
        self.vocab = file["model"]["vocab"]
        pairs = [tuple(m.split(" ")) if isinstance(m, str) else tuple(m) for m in file["model"]["merges"]]
        self.ranks = {pair: rank for rank, pair in enumerate(pairs)}
        self.added = {token["content"]: token["id"] for token in file["added_tokens"]}
        longest_first = sorted(map(re.escape, self.added), key=len, reverse=True)
        self.special = re.compile("(" + "|".join(longest_first) + ")")
        self.pieces, self.shown, self.known = compiled(PATTERN), byte_characters(), {}

    def merged(self, piece):
        parts = [self.shown[byte] for byte in piece.encode()]
        while len(parts) > 1:
            ranked = [(self.ranks.get(pair, 1 << 60), i) for i, pair in enumerate(zip(parts, parts[1:]))]
            rank, i = min(ranked)
            if rank == 1 << 60:
                break
            parts[i : i + 2] = [parts[i] + parts[i + 1]]
        return [self.vocab[part] for part in parts]

    def encode(self, text):
        tokens = []
        for part in self.special.split(text):
            if part in self.added:
                tokens.append(self.added[part])
                continue
            for piece in self.pieces.findall(unicodedata.normalize("NFC", part)):
                if piece not in self.known:
                    self.known[piece] = self.merged(piece)
                tokens += self.known[piece]
        return tokens


def small_tokenizer():
    """Returns a tokenizer.json with Qwen's split, a few merges and the template's added tokens."""
    vocab = {character: byte for byte, character in byte_characters().items()}
    merges = []
    for pair in "Ġ t;Ġt e;n t;Ġte nt;e s;y es;n o;Ċ Ċ;? Ċ;> :;r e;re d;Ġ red;Ġ b;Ġb l".split(";"):
        a, b = pair.split(" ")
        vocab[a + b] = len(vocab)
        merges.append([a, b])
    names = ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<|endoftext|>"]
    added = [{"id": len(vocab) + i, "content": name} for i, name in enumerate(names)]
    split = {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False}
    return {
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [split, {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}],
        },
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": vocab, "merges": merges},
        "added_tokens": added,
    }


def read_gzip_json(path):
    with gzip.open(path, "rt") as file:
        return json.load(file)


# ---- the model ----

SHAPE = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 16384,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
}


def random_tensors(vocabulary, seed):
    random = np.random.default_rng(seed)
    hidden, inner, head = SHAPE["hidden_size"], SHAPE["intermediate_size"], SHAPE["head_dim"]
    heads, kv = SHAPE["num_attention_heads"], SHAPE["num_key_value_heads"]
    draw = lambda *shape: random.normal(0, 0.35, shape).astype(np.float32)
    near_one = lambda size: random.normal(1, 0.2, size).astype(np.float32)
    tensors = {"model.embed_tokens.weight": draw(vocabulary, hidden), "model.norm.weight": near_one(hidden)}
    for layer in range(SHAPE["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        tensors |= {
            at + "input_layernorm.weight": near_one(hidden),
            at + "post_attention_layernorm.weight": near_one(hidden),
            at + "self_attn.q_proj.weight": draw(heads * head, hidden),
            at + "self_attn.k_proj.weight": draw(kv * head, hidden),
            at + "self_attn.v_proj.weight": draw(kv * head, hidden),
            at + "self_attn.o_proj.weight": draw(hidden, heads * head),
            at + "self_attn.q_norm.weight": near_one(head),
            at + "self_attn.k_norm.weight": near_one(head),
            at + "mlp.gate_proj.weight": draw(inner, hidden),
            at + "mlp.up_proj.weight": draw(inner, hidden),
            at + "mlp.down_proj.weight": draw(hidden, inner),
        }
    return tensors


def write_model(folder, tensors):
    """Writes config.json and model.safetensors of a Qwen3 with tied embeddings."""
    vocabulary = len(tensors["model.embed_tokens.weight"])
    config = SHAPE | {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": vocabulary,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
    }
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file)
    header, at = {}, 0
    for name, tensor in tensors.items():
        header[name] = {
            "dtype": "F32",
            "shape": list(tensor.shape),
            "data_offsets": [at, at + tensor.nbytes],
        }
        at += tensor.nbytes
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            file.write(tensor.tobytes())


class PlainQwen3:
    def __init__(self, tensors):
        self.tensors = {name: torch.from_numpy(tensor).double() for name, tensor in tensors.items()}

    def norm(self, x, name):
        mean = x.pow(2).mean(-1, keepdim=True)
        return x * torch.rsqrt(mean + SHAPE["rms_norm_eps"]) * self.tensors[name + ".weight"]

    def linear(self, x, name):
        return x @ self.tensors[name + ".weight"].T

    def heads_of(self, x, at, name, count):
        x = self.linear(x, at + name + "_proj").reshape(len(x), count, SHAPE["head_dim"])
        return x if name == "v" else rotated(self.norm(x, at + name + "_norm"))

    def attention(self, x, at):
        heads, kv = SHAPE["num_attention_heads"], SHAPE["num_key_value_heads"]
        q = self.heads_of(x, at, "q", heads)
        k = self.heads_of(x, at, "k", kv).repeat_interleave(heads // kv, 1)
        v = self.heads_of(x, at, "v", kv).repeat_interleave(heads // kv, 1)
        scores = torch.einsum("thd,shd->hts", q, k) / SHAPE["head_dim"] ** 0.5
        later = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
        weights = scores.masked_fill(later, float("-inf")).softmax(-1)
        mixed = torch.einsum("hts,shd->thd", weights, v)
        return self.linear(mixed.reshape(len(x), -1), at + "o_proj")

    def state(self, tokens):
        """Returns the final hidden state of the last token, behind the last norm."""
        x = self.tensors["model.embed_tokens.weight"][torch.tensor(tokens)]
        for layer in range(SHAPE["num_hidden_layers"]):
            at = f"model.layers.{layer}."
            x = x + self.attention(self.norm(x, at + "input_layernorm"), at + "self_attn.")
            y = self.norm(x, at + "post_attention_layernorm")
            gate = torch.nn.functional.silu(self.linear(y, at + "mlp.gate_proj"))
            x = x + self.linear(gate * self.linear(y, at + "mlp.up_proj"), at + "mlp.down_proj")
        return self.norm(x, "model.norm")[-1]

    def logit_difference(self, tokens, yes, no):
        rows = self.tensors["model.embed_tokens.weight"]
        return float(self.state(tokens) @ (rows[yes] - rows[no]))

    def embedding(self, tokens):
        state = self.state(tokens)
        return (state / state.norm()).tolist()


def rotated(x):
    half = SHAPE["head_dim"] // 2
    frequency = SHAPE["rope_theta"] ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = torch.arange(len(x), dtype=torch.float64)[:, None, None] * frequency
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1)
