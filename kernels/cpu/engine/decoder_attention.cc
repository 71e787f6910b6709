// Splits the attention of a pass into parts that keep all threads busy. A part is one key-value
// head of a group of rows, or of a block of these rows.
#include "kernels/cpu/engine/decoder_attention.h"

#include <algorithm>
#include <tuple>

namespace troupe::kernels {
namespace {

// Each part packs the keys that it sees for itself; with fewer query vectors that would cost too
// much.
constexpr std::uint32_t query_vectors_min = 384;

}  // namespace

void cut_attention(const DecoderBatch& batch, const RowSet* attending, std::uint32_t heads,
                   std::uint32_t kv_heads, std::uint32_t workers, AttentionParts& out) {
  const auto& begins = attending != nullptr ? attending->begin : batch.visible_begin;
  const auto& ends = attending != nullptr ? attending->end : batch.visible_end;
  out.parts.clear();
  out.pairs = 0;
  const std::uint32_t wanted = workers == 1 ? 1 : 2 * workers;
  const auto whole_parts = static_cast<std::uint32_t>(batch.groups.size()) * kv_heads;
  const std::uint32_t cuts = (wanted + whole_parts - 1) / std::max(1u, whole_parts);
  const std::uint32_t rows_min = std::max(1u, query_vectors_min * kv_heads / heads);
  for (std::uint32_t g = 0; g < batch.groups.size(); ++g) {
    const RowGroup& group = batch.groups[g];
    const std::uint32_t begin = attending != nullptr ? attending->groups[g].begin : group.row_begin;
    const std::uint32_t end = attending != nullptr ? attending->groups[g].end : group.row_end;
    if (begin == end) continue;
    std::size_t context = 0;
    for (std::uint32_t s = group.span_begin; s < group.span_end; ++s) context += batch.spans[s].tokens;
    const std::uint32_t blocks = std::clamp((end - begin) / rows_min, 1u, std::max(1u, cuts));
    for (std::uint32_t block = 0; block < blocks; ++block) {
      AttentionPart part{g, 0, begin + (end - begin) * block / blocks,
                         begin + (end - begin) * (block + 1) / blocks};
      for (std::uint32_t r = part.row_begin; r < part.row_end; ++r)
        part.pairs += static_cast<double>(context + ends[r] - begins[r]);
      out.pairs += part.pairs;
      for (; part.head < kv_heads; ++part.head) out.parts.push_back(part);
    }
  }
  // Equal parts are ordered by group and rows, so that results do not depend on the sort.
  std::ranges::sort(out.parts, [](const AttentionPart& a, const AttentionPart& b) {
    if (a.pairs != b.pairs) return a.pairs > b.pairs;
    return std::tie(a.group, a.row_begin, a.head) < std::tie(b.group, b.row_begin, b.head);
  });
}

}  // namespace troupe::kernels
