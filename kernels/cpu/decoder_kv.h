#pragma once
// Keys and values of one forward pass, one layer at a time. Those of computed rows lie here, head by head, so
// that the rows of a group are one run whatever their segments; the next layer overwrites them. Segments that
// are to stay are copied to their pages as well. Cached segments are read from their pages in place.
#include <span>
#include <vector>

#include "kernels/attend.h"
#include "kernels/cpu/decoder_batch.h"
#include "kernels/cpu/decoder_buffer.h"
#include "kernels/kv_layout.h"

namespace troupe::kernels {

class LayerKv {
 public:
  explicit LayerKv(const KvLayout& layout) : layout_(layout) {}

  void reserve(std::uint32_t rows);
  // Row r's keys, all heads side by side, are at keys + r*stride; its values at values + r*stride.
  void store(const float* keys, const float* values, std::size_t stride);
  // Copies the segment's rows to its pages and zeroes the tokens of the last page that it does not fill:
  // pages are moved and checksummed whole.
  void keep(const KeptSegment& segment, std::uint32_t layer) const;

  // Keys and values of rows [row, row + tokens).
  KvRun rows(std::uint32_t head, std::uint32_t row, std::uint32_t tokens) const;
  // Replaces `runs` by where the spans lie.
  void resolve(std::span<const ContextSpan> spans, std::uint32_t layer, std::uint32_t head,
               std::vector<KvRun>& runs) const;

 private:
  KvLayout layout_;
  std::uint32_t rows_ = 0;
  FloatBuffer buffer_;  // [kv_head][keys: rows × head_dim | values: rows × head_dim]
};

}  // namespace troupe::kernels
