#pragma once
// How keys and values of a token lie in memory. A page holds `page_tokens` tokens of one block, all layers:
//   page = [layer][kv_head][ keys: page_tokens × head_dim | values: page_tokens × value_dim ]
// so that one head's keys of one page are contiguous and a kernel reads them as a run. Numbers are stored as
// `format`; bytes per token: layers × kv_heads × (head_dim + value_dim) × value_bytes(format).
#include <cstddef>
#include <cstdint>

#include "kernels/base/number_formats.h"
#include "kernels/checkpoint/model.h"

namespace troupe::kernels {

struct KvLayout {
  std::uint32_t layers = 0, kv_heads = 0, head_dim = 0, page_tokens = 0;
  KvFormat format = KvFormat::f32;
  std::uint32_t value_dim = 0;  // numbers of a head's value; 0: head_dim

  std::uint32_t numbers_of_value() const { return value_dim > 0 ? value_dim : head_dim; }
  // Bytes of one head's key of one token, of its value, of a head's keys or values in a page, of a token, and
  // of a page.
  std::size_t vector_bytes() const { return head_dim * value_bytes(format); }
  std::size_t value_vector_bytes() const { return numbers_of_value() * value_bytes(format); }
  std::size_t head_bytes() const { return page_tokens * vector_bytes(); }
  std::size_t value_head_bytes() const { return page_tokens * value_vector_bytes(); }
  std::size_t page_bytes() const {
    return std::size_t{layers} * kv_heads * (head_bytes() + value_head_bytes());
  }
  std::size_t token_bytes() const { return page_bytes() / page_tokens; }
  std::size_t pages_for(std::size_t tokens) const { return (tokens + page_tokens - 1) / page_tokens; }
  // Offset in bytes of the first key / value of (layer, head) inside a page.
  std::size_t keys(std::uint32_t layer, std::uint32_t head) const {
    return (std::size_t{layer} * kv_heads + head) * (head_bytes() + value_head_bytes());
  }
  std::size_t values(std::uint32_t layer, std::uint32_t head) const {
    return keys(layer, head) + head_bytes();
  }
};

inline KvLayout kv_layout(const DecoderConfig& c, std::uint32_t page_tokens, KvFormat format) {
  return {c.layers, c.kv_heads, c.head_dim, page_tokens, format};
}

}  // namespace troupe::kernels
