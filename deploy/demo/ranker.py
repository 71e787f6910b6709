"""The demo's ranking transformer in torch: Qwen2 architecture, dense attention with an explicit mask,
three plans.

Only training needs this file. `layout` puts the tokens of one batch in the order of a plan and returns
their positions and the additive mask. All rows of a batch have the same history length and candidate
count, so nothing is padded. `check.py` defines the same plans again, as segment tables, and computes them
without torch.
"""
import dataclasses
import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional

PLANS = ("up", "ip", "causal")
SPECIAL = (
    ["<pad>", "<bos>", "<eos>", "<unk>", "<user>", "<disc>", "<yes>"]
    + [f"<instr_{i}>" for i in (1, 2, 3)]
    + [f"<sys_{i}>" for i in range(1, 8)]
    + [f"<res_{i}>" for i in range(1, 4)]
)
PROMPT = {
    "system": ["<bos>"] + [f"<sys_{i}>" for i in range(1, 8)],
    "user": ["<user>"],
    "instruction": ["<instr_1>", "<instr_2>", "<instr_3>"],
    "discriminant": ["<disc>"],
}
# Training draws all three; those that are interchangeable are equally good on the world's requests.
ARRANGEMENTS = {
    "arrangements": ["item_first", "user_first", "causal"],
    "interchangeable": ["item_first", "user_first"],
}
BLOCKED = -1e9


@dataclasses.dataclass
class Shape:
    hidden: int = 64
    layers: int = 3
    heads: int = 4
    kv_heads: int = 2
    inner: int = 192
    positions: int = 1024
    rope_theta: float = 10000.0
    epsilon: float = 1e-6

    @property
    def head(self):
        return self.hidden // self.heads


class BatchedMatmul(torch.autograd.Function):
    """Product of stacks of small matrices by numpy, which calls BLAS for each and is faster here than
    torch."""

    @staticmethod
    def forward(context, a, b):
        context.save_for_backward(a, b)
        return torch.from_numpy(np.matmul(a.detach().numpy(), b.detach().numpy()))

    @staticmethod
    def backward(context, gradient):
        a, b = (t.detach().numpy() for t in context.saved_tensors)
        g = gradient.contiguous().numpy()
        return torch.from_numpy(np.matmul(g, b.swapaxes(-1, -2))), torch.from_numpy(
            np.matmul(a.swapaxes(-1, -2), g)
        )


class RmsNorm(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.epsilon = shape.epsilon
        self.weight = nn.Parameter(torch.ones(shape.hidden))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.epsilon) * self.weight


class Layer(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        kv = shape.kv_heads * shape.head
        self.input_layernorm, self.post_attention_layernorm = RmsNorm(shape), RmsNorm(shape)
        self.q_proj, self.o_proj = nn.Linear(shape.hidden, shape.hidden), nn.Linear(
            shape.hidden, shape.hidden, bias=False
        )
        self.k_proj, self.v_proj = nn.Linear(shape.hidden, kv), nn.Linear(shape.hidden, kv)
        self.gate_proj = nn.Linear(shape.hidden, shape.inner, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.inner, bias=False)
        self.down_proj = nn.Linear(shape.inner, shape.hidden, bias=False)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=0.08 / (math.sqrt(2 * shape.layers) if "down" in name else 1))
            elif "bias" in name:
                nn.init.zeros_(weight)
        self.start_as_copy()

    @torch.no_grad()
    def start_as_copy(self, share=0.3):
        """Initializes o_proj as a scaled inverse of v_proj, so that each head first adds a part of the
        inputs that it attends to. Training converges faster from there."""
        nn.init.orthogonal_(self.v_proj.weight)
        group = self.shape.heads // self.shape.kv_heads
        of_kv_head = self.v_proj.weight.view(self.shape.kv_heads, self.shape.head, -1).repeat_interleave(
            group, 0
        )
        self.o_proj.weight.copy_(of_kv_head.flatten(0, 1).T * (share / group))

    def forward(self, x, cos, sin, mask):
        x = x + self.attend(self.input_layernorm(x), cos, sin, mask)
        y = self.post_attention_layernorm(x)
        return x + self.down_proj(functional.silu(self.gate_proj(y)) * self.up_proj(y))

    def attend(self, x, cos, sin, mask):
        """Stacks the query heads of one key-value head, so that both products are plain matrix products."""
        batch, length, _ = x.shape
        kv, group, head = self.shape.kv_heads, self.shape.heads // self.shape.kv_heads, self.shape.head
        q = rotate(self.q_proj(x).view(batch, length, kv, group, head).permute(0, 2, 3, 1, 4), cos, sin)
        k = rotate(self.k_proj(x).view(batch, length, kv, head).transpose(1, 2), cos, sin)
        v = self.v_proj(x).view(batch, length, kv, head).transpose(1, 2)
        q = (q / math.sqrt(head)).reshape(batch, kv, group * length, head)
        scores = BatchedMatmul.apply(q, k.transpose(-1, -2)).view(batch, kv, group, length, length) + mask
        mixed = BatchedMatmul.apply(scores.softmax(-1).view(batch, kv, group * length, length), v)
        return self.o_proj(
            mixed.view(batch, kv, group, length, head).permute(0, 3, 1, 2, 4).reshape(batch, length, -1)
        )


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


class Ranker(nn.Module):
    """The ranker. `features` describes the items (items × features). An identifier row is a linear map of
    them plus a free part, which speeds up training; the saved row is the sum."""

    def __init__(self, shape, input_rows, features):
        super().__init__()
        self.shape = shape
        self.input_rows = nn.Parameter(torch.randn(input_rows, shape.hidden) * 0.05)
        self.features = torch.as_tensor(features, dtype=torch.float32)
        self.feature_map = nn.Parameter(torch.randn(self.features.shape[1], shape.hidden) * 0.05)
        self.own_rows = nn.Parameter(torch.randn(len(self.features), shape.hidden) * 0.01)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = RmsNorm(shape)
        frequency = shape.rope_theta ** (-torch.arange(0, shape.head, 2) / shape.head)
        angle = torch.outer(torch.arange(shape.positions).float(), frequency).repeat(1, 2)
        self.cos, self.sin = angle.cos(), angle.sin()

    def identifier_rows(self):
        return self.features @ self.feature_map + self.own_rows

    def forward(self, tokens, positions, mask):
        x = self.input_rows[tokens]
        for layer in self.layers:
            x = layer(x, self.cos[positions], self.sin[positions], mask)
        return self.norm(x)

    def named_tensors(self):
        """Yields the tensors under their Hugging Face names; the table has input rows, then identifier
        rows."""
        yield "model.embed_tokens.weight", torch.cat([self.input_rows, self.identifier_rows()])
        yield "model.norm.weight", self.norm.weight
        for number, layer in enumerate(self.layers):
            for name, weight in layer.named_parameters():
                part = (
                    "self_attn."
                    if name[:2] in ("q_", "k_", "v_", "o_")
                    else "mlp."
                    if "_proj" in name
                    else ""
                )
                yield f"model.layers.{number}.{part}{name}", weight


@dataclasses.dataclass
class Layout:
    tokens: torch.Tensor  # batch × length
    positions: torch.Tensor  # length
    mask: torch.Tensor  # length × length, added to the scores
    user_at: int  # where the user segment begins


def layout(plan, system, user, items, tail):
    """Returns the layout of a plan. user: batch × user tokens; items: batch × candidates × item tokens;
    system, tail: token lists."""
    batch, count, item_tokens = items.shape
    begin, span = len(system), user.shape[1]
    sys_tokens, tail_tokens = (torch.tensor(t).expand(batch, -1) for t in (system, tail))
    flat = items.reshape(batch, count * item_tokens)
    parts = [sys_tokens, flat, user, tail_tokens] if plan == "ip" else [sys_tokens, user, flat, tail_tokens]
    tokens = torch.cat(parts, 1)
    length, items_at = tokens.shape[1], begin if plan == "ip" else begin + span
    positions = torch.arange(length)
    mask = torch.full((length, length), BLOCKED).triu(1)
    if plan != "causal" and count:
        items_end = items_at + count * item_tokens
        positions[items_at:items_end] = items_at + torch.arange(item_tokens).repeat(count)
        positions[items_end:] -= (count - 1) * item_tokens
        of = torch.arange(count).repeat_interleave(item_tokens)
        mask[items_at:items_end, items_at:items_end].masked_fill_(of[:, None] != of[None], BLOCKED)
    return Layout(tokens, positions, mask, begin + count * item_tokens if plan == "ip" else begin)
