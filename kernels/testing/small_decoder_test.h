#pragma once
// Test helper: a decoder of two layers with grouped queries, whose widths are not multiples of a
// vector's.
#include "kernels/checkpoint/model.h"

namespace troupe::kernels {

inline DecoderConfig small_config() {
  DecoderConfig config;
  config.layers = 2, config.hidden = 24, config.heads = 4, config.kv_heads = 2, config.head_dim = 8;
  config.intermediate = 36, config.vocabulary = 50, config.positions_max = 300, config.qkv_bias = true;
  return config;
}

}  // namespace troupe::kernels
