// Lists the model shapes that the benchmark runs: two Qwen sizes, or a tiny one for a smoke test on
// the emulator.
#include "kernels/cuda/bench/bench_work.h"

namespace troupe::kernels::cuda {

std::vector<BenchShape> bench_shapes(bool smoke) {
  if (smoke)
    return {{.name = "tiny",
             .layers = 2,
             .hidden = 128,
             .heads = 2,
             .kv_heads = 1,
             .intermediate = 80,
             .vocabulary = 48,
             .history = 900,  // enough to be split among blocks
             .suffix = 21,
             .candidates = 3,
             .candidate_tokens = 5,
             .prefill = 40,
             .long_prefill = 90,
             .many_rows = 70,
             .few_rows = 3}};
  return {
      {.name = "qwen05", .layers = 24, .hidden = 896, .heads = 14, .kv_heads = 2, .intermediate = 4864},
      {.name = "qwen15", .layers = 28, .hidden = 1536, .heads = 12, .kv_heads = 2, .intermediate = 8960},
  };
}

DecoderConfig config_of(const BenchShape& shape) {
  DecoderConfig config;
  config.family = Family::qwen2;
  config.layers = shape.layers;
  config.hidden = shape.hidden;
  config.heads = shape.heads;
  config.kv_heads = shape.kv_heads;
  config.head_dim = shape.head_dim();
  config.intermediate = shape.intermediate;
  config.vocabulary = shape.vocabulary;
  config.positions_max = 8192;
  config.rope_theta = 1e6;
  config.qkv_bias = true;
  config.tied_embeddings = true;
  return config;
}

}  // namespace troupe::kernels::cuda
