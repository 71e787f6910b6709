#pragma once
// How keys and values of a token lie in memory. A page holds `page_tokens` tokens of one block, all layers:
//   page = [layer][kv_head][ keys: page_tokens × head_dim | values: page_tokens × head_dim ]   (float32)
// so that one head's keys of one page are contiguous and a kernel reads them as a run. Bytes per token:
// layers × kv_heads × head_dim × 2 × 4.
#include <cstddef>
#include <cstdint>

#include "kernels/model.h"

namespace troupe::kernels {

struct KvLayout {
  std::uint32_t layers = 0, kv_heads = 0, head_dim = 0, page_tokens = 0;

  std::size_t floats_per_head() const { return std::size_t{page_tokens} * head_dim; }
  std::size_t page_bytes() const { return std::size_t{layers} * kv_heads * 2 * floats_per_head() * sizeof(float); }
  std::size_t token_bytes() const { return page_bytes() / page_tokens; }
  std::size_t pages_for(std::size_t tokens) const { return (tokens + page_tokens - 1) / page_tokens; }
  // Offset in floats of the first key / value of (layer, head) inside a page.
  std::size_t keys(std::uint32_t layer, std::uint32_t head) const {
    return (std::size_t{layer} * kv_heads + head) * 2 * floats_per_head();
  }
  std::size_t values(std::uint32_t layer, std::uint32_t head) const {
    return keys(layer, head) + floats_per_head();
  }
};

inline KvLayout kv_layout(const DecoderConfig& c, std::uint32_t page_tokens) {
  return {c.layers, c.kv_heads, c.head_dim, page_tokens};
}

}  // namespace troupe::kernels
