#include "kernels/cpu/decoder_kv.h"

#include <algorithm>

namespace troupe::kernels {
namespace {

void copy_tokens(const float* from, std::size_t tokens, std::size_t width, float* page,
                 std::size_t page_tokens) {
  float* end = std::copy(from, from + tokens * width, page);
  std::fill(end, page + page_tokens * width, 0.0f);
}

}  // namespace

void LayerKv::reserve(std::uint32_t rows) {
  rows_ = rows;
  buffer_.reserve(std::size_t{rows} * layout_.kv_heads * layout_.head_dim * 2);
}

void LayerKv::store(const float* keys, const float* values, std::size_t stride) {
  const std::size_t width = layout_.head_dim, part = rows_ * width;
  for (std::uint32_t head = 0; head < layout_.kv_heads; ++head) {
    float* to = buffer_.data() + head * 2 * part;
    for (std::size_t r = 0; r < rows_; ++r, to += width) {
      const std::size_t from = r * stride + head * width;
      std::copy_n(keys + from, width, to);
      std::copy_n(values + from, width, to + part);
    }
  }
}

void LayerKv::keep(const KeptSegment& segment, std::uint32_t layer) const {
  for (std::uint32_t head = 0; head < layout_.kv_heads; ++head) {
    for (std::uint32_t done = 0, p = 0; done < segment.tokens; ++p) {
      const std::uint32_t tokens = std::min(layout_.page_tokens, segment.tokens - done);
      const KvRun from = rows(head, segment.row + done, tokens);
      float* page = segment.pages[p];
      copy_tokens(from.keys, tokens, layout_.head_dim, page + layout_.keys(layer, head), layout_.page_tokens);
      copy_tokens(from.values, tokens, layout_.head_dim, page + layout_.values(layer, head),
                  layout_.page_tokens);
      done += tokens;
    }
  }
}

KvRun LayerKv::rows(std::uint32_t head, std::uint32_t row, std::uint32_t tokens) const {
  const std::size_t width = layout_.head_dim, part = rows_ * width;
  const float* keys = buffer_.data() + head * 2 * part + row * width;
  return {keys, keys + part, tokens, layout_.head_dim};
}

void LayerKv::resolve(std::span<const ContextSpan> spans, std::uint32_t layer, std::uint32_t head,
                      std::vector<KvRun>& runs) const {
  runs.clear();
  const std::size_t keys = layout_.keys(layer, head), values = layout_.values(layer, head);
  for (const ContextSpan& span : spans) {
    runs.push_back(span.page == nullptr
                       ? rows(head, span.row, span.tokens)
                       : KvRun{span.page + keys, span.page + values, span.tokens, layout_.head_dim});
  }
}

}  // namespace troupe::kernels
