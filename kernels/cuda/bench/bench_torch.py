"""Times PyTorch on the benchmark's work: the weights, tokens and shapes that `cuda_bench --export FOLDER`
wrote. A model's logits are compared with ours before it is timed. Among several ways to do the same in
PyTorch the fastest counts. Writes the file that `cuda_bench --peers FILE` reads. Exit status 77: no
PyTorch, or no GPU without --smoke.

  bench_torch.py FOLDER [--out FILE] [--rounds N] [--compile] [--smoke]"""
import argparse
import json
import os
import struct
import sys

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    print("skipped: no PyTorch on this machine")
    sys.exit(77)

LOGITS_OFF_MAX = 0.1  # relative to the largest: both round to bf16, PyTorch also its residual stream


def load_tensors(path, device, dtype):
    """Returns the tensors of a bf16 safetensors file."""
    data = bytearray(open(path, "rb").read())
    length, = struct.unpack_from("<Q", data)
    tensors = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            flat = torch.frombuffer(data, dtype=torch.bfloat16, offset=8 + length + begin,
                                    count=(end - begin) // 2)
            tensors[name] = flat.reshape(entry["shape"]).to(device=device, dtype=dtype)
    return tensors


# Attention: q [batch, heads, rows, dim], k and v [batch, kv_heads, keys, dim]. A row sees its keys up to
# the diagonal that ends in the lower right corner, or those that `mask` [rows, keys] allows.

def plain(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return torch.softmax(scores.masked_fill(~mask, float("-inf")).float(), -1).to(v.dtype) @ v


def with_mask(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def folded(q, k, v, mask):
    """Runs attention with the heads that share keys as rows of one head."""
    batch, heads, rows, dim = q.shape
    group = heads // k.shape[1]
    out = F.scaled_dot_product_attention(q.reshape(batch, k.shape[1], group * rows, dim), k, v,
                                         attn_mask=mask.repeat(group, 1))
    return out.reshape(q.shape)


def flash(q, k, v, mask):
    if q.shape[2] == 1:
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    if q.shape[2] == k.shape[2]:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    from torch.nn.attention.bias import causal_lower_right
    return F.scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(q.shape[2], k.shape[2]),
                                          enable_gqa=True)


def flash_expanded(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    if q.shape[2] == k.shape[2]:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    from torch.nn.attention.bias import causal_lower_right
    return F.scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(q.shape[2], k.shape[2]))


CAUSAL_WAYS = {"flash": flash, "flash, expanded": flash_expanded}
MASK_WAYS = {"mask": with_mask, "mask, folded": folded}
# Before PyTorch 2: only to test the other code of this file.
if not hasattr(F, "scaled_dot_product_attention"):
    CAUSAL_WAYS, MASK_WAYS = {}, {"plain": plain}


def sight_mask(context, lengths, device):
    """Returns the mask of rows that see the context and their own segment up to themselves."""
    rows = sum(lengths)
    mask = torch.zeros(rows, context + rows, dtype=torch.bool, device=device)
    mask[:, :context] = True
    first = 0
    for length in lengths:
        mask[first:first + length, context + first:context + first + length] = (
            torch.ones(length, length).tril().bool())
        first += length
    return mask


class Bench:
    def __init__(self, options):
        self.options = options
        self.device = "cpu" if options.smoke else "cuda"
        self.dtype = torch.float32 if options.smoke else torch.bfloat16
        self.rows = {}
        if not options.smoke:
            cache = torch.cuda.get_device_properties(0).L2_cache_size
            self.flushed = torch.empty(4 * cache, dtype=torch.uint8, device="cuda")

    def median(self, run):
        """Returns device seconds; the caches are flushed before each round."""
        if self.options.smoke:
            run()
            return 0.0
        for _ in range(3):
            run()
        pairs = []
        for _ in range(self.options.rounds):
            pairs.append((torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)))
            self.flushed.zero_()
            pairs[-1][0].record()
            run()
            pairs[-1][1].record()
        torch.cuda.synchronize()
        times = sorted(begin.elapsed_time(end) / 1e3 for begin, end in pairs)
        return times[len(times) // 2]

    def graphed(self, run):
        """Records `run` as one launch, so that the time is the device's and not Python's."""
        if self.options.smoke:
            return run
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                run()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()
        return graph.replay

    def note(self, name, variant, run):
        """Times `run`, recorded and directly, and keeps the fastest; skips what this PyTorch cannot do."""
        for way, made in ((variant, lambda: self.graphed(run)), (variant + ", not recorded", lambda: run)):
            try:
                seconds = self.median(made())
            except (RuntimeError, TypeError, ImportError, AttributeError) as error:
                self.pass_over(name, way, error)
                continue
            if name not in self.rows or seconds < self.rows[name]["seconds"]:
                self.rows[name] = {"seconds": seconds, "variant": way}

    def pass_over(self, name, variant, error):
        if self.options.smoke:
            raise error
        print(f"{name}: {variant}: {(str(error).splitlines() or [''])[0][:120]}", file=sys.stderr)
        torch.cuda.synchronize()

    def drawn(self, *shape):
        return torch.randn(*shape, device=self.device, dtype=self.dtype)

    def product(self, name, rows, inputs, outputs):
        x, weight = self.drawn(rows, inputs), self.drawn(outputs, inputs)
        self.note(name, "linear", lambda: F.linear(x, weight))

    def attend(self, name, context, segments, segment, heads, kv_heads, head_dim):
        rows = segments * segment
        q = self.drawn(1, heads, rows, head_dim)
        k = self.drawn(1, kv_heads, context + rows, head_dim)
        v = self.drawn(1, kv_heads, context + rows, head_dim)
        mask = sight_mask(context, [segment] * segments, self.device)
        for variant, way in MASK_WAYS.items():
            self.note(name, variant, lambda: way(q, k, v, mask))
        if segments == 1:
            for variant, way in CAUSAL_WAYS.items():
                self.note(name, variant, lambda: way(q, k, v, None))
            return
        # One sequence per segment, each with a copy of the cached context.
        q = self.drawn(segments, heads, segment, head_dim)
        k = self.drawn(segments, kv_heads, context + segment, head_dim)
        v = self.drawn(segments, kv_heads, context + segment, head_dim)
        for variant, way in CAUSAL_WAYS.items():
            self.note(name, variant + ", batched", lambda: way(q, k, v, None))


class Model:
    """Qwen2 for a batch of sequences of equal length behind a history with cached keys and values."""

    def __init__(self, folder, device, dtype):
        self.config = json.load(open(os.path.join(folder, "config.json")))
        self.weights = load_tensors(os.path.join(folder, "model.safetensors"), device, dtype)
        self.device, self.dtype = device, dtype
        c = self.config
        self.heads, self.kv_heads = c["num_attention_heads"], c["num_key_value_heads"]
        self.dim = c.get("head_dim") or c["hidden_size"] // self.heads
        theta = c.get("rope_theta") or c["rope_parameters"]["rope_theta"]
        self.frequencies = theta ** (-torch.arange(0, self.dim, 2, dtype=torch.float64) / self.dim)
        self.layers = []
        for i in range(c["num_hidden_layers"]):
            w = lambda part: self.weights[f"model.layers.{i}.{part}"]
            attention = [f"self_attn.{name}_proj" for name in "qkv"]
            self.layers.append({
                "qkv": torch.cat([w(a + ".weight") for a in attention]),
                "bias": torch.cat([w(a + ".bias") for a in attention]),
                "gate_up": torch.cat([w("mlp.gate_proj.weight"), w("mlp.up_proj.weight")]),
                "o": w("self_attn.o_proj.weight"), "down": w("mlp.down_proj.weight"),
                "norm": w("input_layernorm.weight"), "norm2": w("post_attention_layernorm.weight")})

    def norm(self, x, weight):
        if hasattr(F, "rms_norm"):
            return F.rms_norm(x, (x.shape[-1],), weight, self.config["rms_norm_eps"])
        wide = x.float()
        factor = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.config["rms_norm_eps"])
        return (wide * factor).to(x.dtype) * weight

    def angles(self, start, lengths):
        at = torch.cat([torch.arange(start, start + n, dtype=torch.float64) for n in lengths])
        turn = torch.cat([at[:, None] * self.frequencies] * 2, -1)
        return (turn.cos().to(device=self.device, dtype=torch.float32), turn.sin().to(device=self.device,
                                                                                      dtype=torch.float32))

    def turned(self, x, cosines, sines):
        half = self.dim // 2
        wide = x.float()
        other = torch.cat([-wide[..., half:], wide[..., :half]], -1)
        return (wide * cosines + other * sines).to(x.dtype)

    def run(self, tokens, angles, caches, history, way, mask, read, rows):
        """Returns logits of rows 0..rows for the tokens `read` of each sequence; appends keys to `caches`."""
        x = self.weights["model.embed_tokens.weight"][tokens]
        batch, count = tokens.shape
        sizes = [self.heads * self.dim, self.kv_heads * self.dim, self.kv_heads * self.dim]
        for layer, (keys, values) in zip(self.layers, caches):
            qkv = F.linear(self.norm(x, layer["norm"]), layer["qkv"], layer["bias"]).split(sizes, -1)
            q, k, v = (part.view(batch, count, -1, self.dim).transpose(1, 2) for part in qkv)
            keys[:, :, history:history + count] = self.turned(k, *angles)
            values[:, :, history:history + count] = v
            mixed = way(self.turned(q, *angles), keys, values, mask)
            x = x + F.linear(mixed.transpose(1, 2).reshape(batch, count, -1), layer["o"])
            gate, up = F.linear(self.norm(x, layer["norm2"]), layer["gate_up"]).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, layer["down"])
        last = self.norm(x[:, read], self.weights["model.norm.weight"])
        return F.linear(last, self.weights["model.embed_tokens.weight"][:rows])

    def caches(self, batch, count):
        shape = (batch, self.kv_heads, count, self.dim)
        return [[torch.zeros(shape, device=self.device, dtype=self.dtype) for _ in range(2)]
                for _ in self.layers]


def layouts(work):
    """Returns the ways to arrange a pass as batches: (variant, segments of each sequence)."""
    segments = work["segments"]
    yield "", [segments]
    if len(segments) > 1:
        yield ", batched", [[segment] for segment in segments]


def measure_pass(bench, model, work):
    history = torch.tensor([work["history"]], dtype=torch.long, device=bench.device)
    past = history.shape[1]
    before = None
    if past > 0:
        before = model.caches(1, past)
        way = next(iter((CAUSAL_WAYS | MASK_WAYS).values()))
        model.run(history, model.angles(0, [past]), before, 0, way,
                  sight_mask(0, [past], bench.device), [-1], 1)
    for layout, sequences in layouts(work):
        lengths = [len(segment) for segment in sequences[0]]
        tokens = torch.tensor([sum(sequence, []) for sequence in sequences], device=bench.device)
        caches = model.caches(len(sequences), past + sum(lengths))
        for cache, known in zip(caches, before or []):
            for part in range(2):
                cache[part][:, :, :past] = known[part]
        angles = model.angles(work["start"], lengths)
        read = (torch.tensor(lengths).cumsum(0) - 1).to(bench.device)
        mask = sight_mask(past, lengths, bench.device)
        ways = dict(MASK_WAYS)
        if len(lengths) == 1:
            ways.update(CAUSAL_WAYS)
        for variant, way in ways.items():
            run = lambda: model.run(tokens, angles, caches, past, way, mask, read, work["rows"])
            measure_way(bench, work, variant + layout, run)


def measure_way(bench, work, variant, run):
    try:
        got = run().reshape(len(work["logits"]), -1)[:, :len(work["logits"][0])].float().cpu()
    except (RuntimeError, TypeError, ImportError, AttributeError) as error:
        return bench.pass_over(work["name"], variant, error)
    want = torch.tensor(work["logits"])
    off = ((got - want).abs().max() / want.abs().max().clamp(min=1)).item()
    print(f"{work['name']}: {variant}: logits off by {off:.2g} of the largest", file=sys.stderr)
    if not off <= LOGITS_OFF_MAX:
        sys.exit(f"{work['name']}: {variant}: PyTorch's logits differ; expected at most {LOGITS_OFF_MAX}")
    bench.note(work["name"], variant, run)
    if bench.options.compile:
        bench.note(work["name"], variant + ", compiled", torch.compile(run))


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--out")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    if not options.smoke and not torch.cuda.is_available():
        print("skipped: no GPU that PyTorch can use")
        sys.exit(77)
    works = json.load(open(os.path.join(options.folder, "works.json")))
    bench = Bench(options)
    torch.manual_seed(works["seed"] % 2**32)
    for work in works["works"]:
        getattr(bench, work["kind"])(work["name"], **work["numbers"])
    for name in dict.fromkeys(work["model"] for work in works["passes"]):
        model = Model(os.path.join(options.folder, name), bench.device, bench.dtype)
        for work in works["passes"]:
            if work["model"] == name:
                measure_pass(bench, model, work)
    if options.out and not options.smoke:
        json.dump({"name": "PyTorch " + torch.__version__, "rows": bench.rows},
                  open(options.out, "w"), indent=1)
    print(f"{len(bench.rows)} rows" + (" tried" if options.smoke else " measured"))


if __name__ == "__main__":
    main()
