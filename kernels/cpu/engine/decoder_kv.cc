// Holds the keys and values that one layer of a forward pass computes, rounded to their storage
// format. Segments to be cached are copied to pages. Attention gets one list of runs, wherever the
// tokens lie: in this buffer or in cached pages.
#include "kernels/cpu/engine/decoder_kv.h"

#include <algorithm>
#include <cstring>

#include "kernels/operations/narrow.h"

namespace troupe::kernels {
namespace {

void copy_tokens(const void* from, std::size_t bytes, std::byte* page, std::size_t page_bytes) {
  std::memcpy(page, from, bytes);
  std::memset(page + bytes, 0, page_bytes - bytes);
}

// Rounds rows of `width` values to `format`, stored densely at `to`.
void round_rows(KvFormat format, const float* from, std::size_t stride, std::byte* to, std::size_t rows,
                std::size_t width) {
  if (format == KvFormat::f32) {
    for (std::size_t r = 0; r < rows; ++r)
      std::memcpy(to + r * width * sizeof(float), from + r * stride, width * sizeof(float));
    return;
  }
  Narrow* const narrow = format == KvFormat::f16 ? narrowing().to_f16 : narrowing().to_bf16;
  narrow(from, stride, reinterpret_cast<std::uint16_t*>(to), rows, width);
}

}  // namespace

void LayerKv::reserve(std::uint32_t rows) {
  rows_ = rows;
  buffer_.reserve(floats(rows));
}

void LayerKv::shrink(std::size_t rows) { buffer_.shrink(floats(rows)); }

std::size_t LayerKv::floats(std::size_t rows) const {
  const std::size_t bytes = rows * layout_.kv_heads * (layout_.vector_bytes() + layout_.value_vector_bytes());
  return (bytes + sizeof(float) - 1) / sizeof(float);
}

std::byte* LayerKv::keys_of(std::uint32_t head) const {
  return reinterpret_cast<std::byte*>(buffer_.data()) +
         std::size_t{head} * rows_ * (layout_.vector_bytes() + layout_.value_vector_bytes());
}

std::byte* LayerKv::values_of(std::uint32_t head) const {
  return keys_of(head) + rows_ * layout_.vector_bytes();
}

void LayerKv::store(std::uint32_t first_row, std::uint32_t rows, const float* keys, const float* values,
                    std::size_t stride) {
  const std::size_t width = layout_.head_dim, at = first_row * layout_.vector_bytes(),
                    value_width = layout_.numbers_of_value(),
                    value_at = first_row * layout_.value_vector_bytes();
  for (std::uint32_t head = 0; head < layout_.kv_heads; ++head) {
    round_rows(layout_.format, keys + head * width, stride, keys_of(head) + at, rows, width);
    round_rows(layout_.format, values + head * value_width, stride, values_of(head) + value_at, rows,
               value_width);
  }
}

void LayerKv::store(std::uint32_t row, std::uint32_t head, const float* key, const float* value) {
  const std::size_t width = layout_.head_dim, value_width = layout_.numbers_of_value();
  round_rows(layout_.format, key, width, keys_of(head) + row * layout_.vector_bytes(), 1, width);
  round_rows(layout_.format, value, value_width, values_of(head) + row * layout_.value_vector_bytes(), 1,
             value_width);
}

void LayerKv::keep(const KeptSegment& segment, std::uint32_t layer) const {
  const std::size_t key_bytes = layout_.vector_bytes(), one_value = layout_.value_vector_bytes();
  for (std::uint32_t head = 0; head < layout_.kv_heads; ++head) {
    for (std::uint32_t done = 0, p = 0; done < segment.tokens; ++p) {
      const std::uint32_t tokens = std::min(layout_.page_tokens, segment.tokens - done);
      const std::size_t row = segment.row + done;
      std::byte* page = segment.pages[p];
      copy_tokens(keys_of(head) + row * key_bytes, tokens * key_bytes, page + layout_.keys(layer, head),
                  layout_.head_bytes());
      copy_tokens(values_of(head) + row * one_value, tokens * one_value, page + layout_.values(layer, head),
                  layout_.value_head_bytes());
      done += tokens;
    }
  }
}

KvRun LayerKv::rows(std::uint32_t head, std::uint32_t row, std::uint32_t tokens) const {
  KvRun run{keys_of(head) + row * layout_.vector_bytes(),
            values_of(head) + row * layout_.value_vector_bytes(), tokens, layout_.head_dim, layout_.format};
  run.value_stride = layout_.numbers_of_value();
  return run;
}

void LayerKv::resolve(std::span<const ContextSpan> spans, const RopeTable& key_rotations, std::uint32_t layer,
                      std::uint32_t head, std::vector<KvRun>& runs) const {
  runs.clear();
  for (const ContextSpan& span : spans) {
    if (span.page == nullptr) {
      runs.push_back(rows(head, span.row, span.tokens));
    } else {
      runs.push_back({span.page + layout_.keys(layer, head) + span.slot * layout_.vector_bytes(),
                      span.page + layout_.values(layer, head) + span.slot * layout_.value_vector_bytes(),
                      span.tokens, layout_.head_dim, layout_.format});
      runs.back().value_stride = layout_.numbers_of_value();
    }
    if (span.rotation == 0) continue;
    const std::size_t angles = (span.rotation - 1) * std::size_t{layout_.head_dim} / 2;
    runs.back().cosines = key_rotations.cosines() + angles;
    runs.back().sines = key_rotations.sines() + angles;
  }
}

}  // namespace troupe::kernels
