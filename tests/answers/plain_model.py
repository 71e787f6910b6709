"""The plain computation of a ranker in the Qwen2 form: numpy in float32, nothing cached, one prompt at a
time. Written from the definitions of the architecture and of the arrangements
(docs/concepts/plans-and-scores.md), without anything of the program."""

import json
import os
import struct

# Read when numpy is imported: servers need the other cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

# Products are written with einsum: it is faster than Debian's numpy with its reference BLAS.


def read_tensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    tensors = {}
    for name, row in header.items():
        if name != "__metadata__":
            begin, end = row["data_offsets"]
            tensors[name] = np.frombuffer(data[begin:end], np.float32).reshape(row["shape"])
    return tensors


class PlainModel:
    def __init__(self, directory):
        self.config = json.load(open(os.path.join(directory, "config.json")))
        self.tensors = read_tensors(os.path.join(directory, "model.safetensors"))
        self.heads, self.kv_heads = self.config["num_attention_heads"], self.config["num_key_value_heads"]
        self.head = self.config["hidden_size"] // self.heads

    def norm(self, x, name):
        scale = 1 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.config["rms_norm_eps"])
        return x * scale * self.tensors[name]

    def linear(self, x, name):
        y = np.einsum("td,rd->tr", x, self.tensors[name + ".weight"])
        return y + self.tensors[name + ".bias"] if name + ".bias" in self.tensors else y

    def rotate(self, x, positions):
        half = self.head // 2
        frequency = self.config["rope_theta"] ** (-np.arange(half) / half)
        angle = positions[:, None, None] * frequency
        cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    def hidden(self, prompt):
        """Returns the normalised hidden state of each token at which the prompt is read."""
        x = self.tensors["model.embed_tokens.weight"][prompt.tokens]
        positions, group = np.asarray(prompt.positions), self.heads // self.kv_heads
        unseen = np.where(prompt.mask(), np.float32(0), np.float32(-np.inf))
        layers = self.config["num_hidden_layers"]
        for layer in range(layers):
            at = f"model.layers.{layer}."
            y = self.norm(x, at + "input_layernorm.weight")
            k = self.linear(y, at + "self_attn.k_proj").reshape(len(x), self.kv_heads, self.head)
            v = self.linear(y, at + "self_attn.v_proj").reshape(len(x), self.kv_heads, self.head)
            k = np.repeat(self.rotate(k, positions).transpose(1, 0, 2), group, axis=0)
            v = np.repeat(v.transpose(1, 2, 0), group, axis=0)
            if layer == layers - 1:  # no other token's last state is used
                x, y, unseen = x[prompt.read_at], y[prompt.read_at], unseen[prompt.read_at]
            asking = positions if len(x) == len(positions) else positions[prompt.read_at]
            q = self.linear(y, at + "self_attn.q_proj").reshape(len(x), self.heads, self.head)
            q = self.rotate(q, asking).transpose(1, 0, 2) / np.float32(np.sqrt(self.head))
            weights = np.einsum("hqd,hkd->hqk", q, k)
            weights += unseen
            weights -= weights.max(axis=-1, keepdims=True)
            np.exp(weights, out=weights)
            seen = np.einsum("hqk,hdk->hqd", weights, v) / weights.sum(axis=-1, keepdims=True)
            x = x + self.linear(seen.transpose(1, 0, 2).reshape(len(x), -1), at + "self_attn.o_proj")
            y = self.norm(x, at + "post_attention_layernorm.weight")
            gate = self.linear(y, at + "mlp.gate_proj")
            up = self.linear(y, at + "mlp.up_proj")
            x = x + self.linear(gate / (1 + np.exp(-gate)) * up, at + "mlp.down_proj")
        return self.norm(x, "model.norm.weight")

    def scores(self, prompt):
        """Returns a score for each of the prompt's rows: its logit, less that of the other row if there
        is one, at its token."""
        state = self.hidden(prompt)
        table = self.tensors["model.embed_tokens.weight"]
        weights = table[prompt.rows] - (0 if prompt.less is None else table[prompt.less])
        return weights @ state[0] if len(state) == 1 else np.sum(weights * state, axis=-1)


class Prompt:
    """A prompt in parts. Within a part attention is causal; a part sees all tokens of the parts that it
    names."""

    def __init__(self):
        self.tokens, self.positions, self.parts = [], [], []
        # Indices of the tokens at which scores are read, one for all candidates or one for each; the row
        # of the table that gives each candidate's logit; a row whose logit is subtracted; None = none.
        self.read_at, self.rows, self.less = [], [], None

    def add(self, tokens, position, sees):
        begin = len(self.tokens)
        self.tokens += tokens
        self.positions += range(position, position + len(tokens))
        self.parts.append((begin, len(self.tokens), list(sees)))
        return len(self.parts) - 1

    def read_here(self):
        """Notes that a score is read at the last token that was added."""
        self.read_at.append(len(self.tokens) - 1)

    def mask(self):
        """Returns for each token (row) which tokens it sees."""
        seen = np.zeros((len(self.tokens), len(self.tokens)), bool)
        for begin, end, sees in self.parts:
            seen[begin:end, begin:end] = np.tril(np.ones((end - begin, end - begin), bool))
            for first, last in self._runs(sees):
                seen[begin:end, first:last] = True
        return seen

    def _runs(self, parts):
        """Returns the token ranges of these parts, adjacent ones as one."""
        runs = []
        for part in parts:
            begin, end, _ = self.parts[part]
            if runs and runs[-1][1] == begin:
                runs[-1][1] = end
            else:
                runs.append([begin, end])
        return runs


def discriminant_prompt(form, arrangement, history, items, identifiers):
    """Returns the prompt of a ranker that is read at a discriminant.

    `history`: all tokens behind the form's; `items`: a token list for each candidate; `identifiers`: the
    row of each candidate.
    """
    prompt = Prompt()
    prompt.rows = list(identifiers)
    user, longest = form["user"] + history, max(map(len, items))
    closing = form["instruction"] + form["discriminant"]
    system = prompt.add(form["system"], 0, [])
    at = len(form["system"])
    if arrangement == "candidates_apart":
        return _apart(prompt, [system, prompt.add(user, at, [system])], at + len(user), items, closing)
    if arrangement == "item_first":
        parts = [prompt.add(item, at, [system]) for item in items]
        parts.append(prompt.add(user, at + longest, [system, *parts]))
        end = at + longest + len(user)
    elif arrangement in ("causal", "user_first"):
        parts = [prompt.add(user, at, [system])]
        end = at + len(user)
        for item in items:
            before = parts if arrangement == "causal" else parts[:1]
            parts.append(prompt.add(item, end, [system, *before]))
            end += len(item) if arrangement == "causal" else 0
        end += 0 if arrangement == "causal" else longest
    else:
        raise ValueError(f"no prompt of arrangement {arrangement}")
    prompt.add(closing, end, [system, *parts])
    prompt.read_here()
    return prompt


def scored_prompt(form, arrangement, events, items):
    """Returns the prompt of a ranker that is read behind each candidate.

    `form`: the keys of such a prompt.json, as token lists; `events` and `items`: the words of each event
    and each candidate. The newest `max_history` events are read.
    """
    prompt = Prompt()
    prompt.rows, prompt.less = [form["yes"]] * len(items), form["no"]
    event, _ = around_words(form["history_item"])
    before, score = around_words(form["candidate"])
    system = prompt.add(form["instruction"], 0, [])
    user = [token for words in events[-form["max_history"] :] for token in event + words]
    at = len(form["instruction"])
    parts = [system, prompt.add(user, at, [system])]
    at += len(user)
    items = [before + words for words in items]
    if arrangement in ("candidates_apart", "user_first"):  # the same prompt in such a form
        return _apart(prompt, parts, at, items, score)
    if arrangement == "item_first":
        return _scored_behind_user(form, user, items, score)
    if arrangement != "causal":
        raise ValueError(f"no prompt of arrangement {arrangement}")
    for item in items:
        parts.append(prompt.add(item + score, at, parts))
        prompt.read_here()
        at += len(item) + len(score)
    return prompt


def _scored_behind_user(form, user, items, score):
    """Returns the item-first prompt: each candidate's score is behind the user, and sees that candidate."""
    prompt = Prompt()
    prompt.rows, prompt.less = [form["yes"]] * len(items), form["no"]
    system, at = prompt.add(form["instruction"], 0, []), len(form["instruction"])
    parts = [prompt.add(item, at, [system]) for item in items]
    at += max(map(len, items))
    of_user = prompt.add(user, at, [system, *parts])
    for part in parts:
        prompt.add(score, at + len(user), [system, part, of_user])
        prompt.read_here()
    return prompt


def around_words(tokens):
    at = tokens.index("{words}")
    return tokens[:at], tokens[at + 1 :]


def _apart(prompt, before, at, items, closing):
    """Adds each candidate, with the tokens behind which it is read, as the only one behind `before`."""
    for item in items:
        prompt.add(item + closing, at, before)
        prompt.read_here()
    return prompt
