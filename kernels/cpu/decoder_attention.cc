#include "kernels/cpu/decoder_attention.h"

#include <algorithm>

namespace troupe::kernels {
namespace {

// A part packs the keys it sees for itself; with fewer query vectors than this that would cost too much.
constexpr std::uint32_t query_vectors_min = 384;

}  // namespace

void cut_attention(const DecoderBatch& batch, AttendingRows attending, std::uint32_t heads,
                   std::uint32_t kv_heads, std::uint32_t workers, AttentionParts& out) {
  const bool read = attending == AttendingRows::read;
  const auto& begins = read ? batch.read_begin : batch.visible_begin;
  const auto& ends = read ? batch.read_end : batch.visible_end;
  out.parts.clear();
  out.pairs = 0;
  const std::uint32_t wanted = workers == 1 ? 1 : 2 * workers;
  const auto whole_parts = static_cast<std::uint32_t>(batch.groups.size()) * kv_heads;
  const std::uint32_t cuts = (wanted + whole_parts - 1) / std::max(1u, whole_parts);
  const std::uint32_t rows_min = std::max(1u, query_vectors_min * kv_heads / heads);
  for (std::uint32_t g = 0; g < batch.groups.size(); ++g) {
    const RowGroup& group = batch.groups[g];
    const std::uint32_t begin = read ? group.read_begin : group.row_begin;
    const std::uint32_t end = read ? group.read_end : group.row_end;
    if (begin == end) continue;
    std::size_t context = 0;
    for (std::uint32_t s = group.span_begin; s < group.span_end; ++s) context += batch.spans[s].tokens;
    for (std::uint32_t r = begin; r < end; ++r)
      out.pairs += static_cast<double>(context + ends[r] - begins[r]);
    const std::uint32_t blocks = std::clamp((end - begin) / rows_min, 1u, std::max(1u, cuts));
    for (std::uint32_t block = blocks; block-- > 0;) {
      const std::uint32_t from = begin + (end - begin) * block / blocks;
      const std::uint32_t to = begin + (end - begin) * (block + 1) / blocks;
      for (std::uint32_t head = 0; head < kv_heads; ++head) out.parts.push_back({g, head, from, to});
    }
  }
}

}  // namespace troupe::kernels
