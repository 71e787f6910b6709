#pragma once
// Keys and values of one forward pass, one layer at a time. Computed rows are stored here, head by
// head, so that the rows of a group are one run whatever their segments; the next layer overwrites
// them. They are rounded to the layout's format once, when they are stored. Segments to be kept are
// copied to their pages bit by bit, so results do not depend on whether a segment is read from here
// or, in a later pass, from pages.
#include <span>
#include <vector>

#include "kernels/cpu/engine/decoder_buffer.h"
#include "kernels/cpu/engine/decoder_rope.h"
#include "kernels/decoder/decoder_batch.h"
#include "kernels/operations/attend.h"
#include "kernels/operations/kv_layout.h"

namespace troupe::kernels {

class LayerKv {
 public:
  explicit LayerKv(const KvLayout& layout) : layout_(layout) {}

  void reserve(std::uint32_t rows);
  void shrink(std::size_t rows);  // frees memory beyond so many rows
  // Stores rows [first_row, first_row + rows). Row r's keys, all heads side by side, are at keys +
  // (r - first_row)*stride, its values likewise. Safe from several threads for distinct rows.
  void store(std::uint32_t first_row, std::uint32_t rows, const float* keys, const float* values,
             std::size_t stride);
  // Stores one head's key and value of a row.
  void store(std::uint32_t row, std::uint32_t head, const float* key, const float* value);
  // Copies the segment's rows to its pages and zeroes the tokens of the last page that it does not
  // fill: pages are moved and checksummed whole.
  void keep(const KeptSegment& segment, std::uint32_t layer) const;

  // Returns keys and values of rows [row, row + tokens).
  KvRun rows(std::uint32_t head, std::uint32_t row, std::uint32_t tokens) const;
  // Sets `runs` to where the head's keys and values of each span lie: in this buffer, or in a
  // cached page. Keys cached at another position get the angles that rotate them to their position
  // here. `key_rotations`: angles of the batch's rotations.
  void resolve(std::span<const ContextSpan> spans, const RopeTable& key_rotations, std::uint32_t layer,
               std::uint32_t head, std::vector<KvRun>& runs) const;

 private:
  std::size_t floats(std::size_t rows) const;
  // Returns the address of a head's first key, or first value.
  std::byte* keys_of(std::uint32_t head) const;
  std::byte* values_of(std::uint32_t head) const;

  KvLayout layout_;
  std::uint32_t rows_ = 0;
  FloatBuffer buffer_;  // bytes: [kv_head][keys: rows × head_dim | values: rows × value_dim]
};

}  // namespace troupe::kernels
