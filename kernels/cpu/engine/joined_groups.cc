// Finds the groups whose attention is joined, and what their rows then see.
#include "kernels/cpu/engine/joined_groups.h"

#include <algorithm>
#include <span>

namespace troupe::kernels {
namespace {

// With more rows than that, packing the keys twice is below a hundredth of the work.
constexpr std::uint32_t first_rows_max = 64;

std::uint32_t context_of(const DecoderBatch& batch, const RowGroup& group) {
  std::uint32_t tokens = 0;
  for (std::uint32_t s = group.span_begin; s < group.span_end; ++s) tokens += batch.spans[s].tokens;
  return tokens;
}

// A page that two segments share holds keys of other positions and times for each of them.
bool same_keys(const ContextSpan& a, const ContextSpan& b) {
  if (a.page != b.page || a.tokens != b.tokens || a.rotation != b.rotation) return false;
  if (a.page == nullptr) return a.row == b.row;
  return a.slot == b.slot && a.position == b.position && a.features == b.features;
}

// Returns the tokens of the spans [begin, end) that are the rows from `row` on; 0 if they are others.
std::uint32_t rows_from(std::span<const ContextSpan> spans, std::uint32_t row) {
  std::uint32_t count = 0;
  for (const ContextSpan& span : spans) {
    if (span.page != nullptr || span.rotation != 0 || span.row != row + count) return 0;
    count += span.tokens;
  }
  return count;
}

bool may_join(const DecoderBatch& batch, const RowGroup& first, const RowGroup& second) {
  const std::uint32_t rows = first.row_end - first.row_begin, spans = first.span_end - first.span_begin;
  if (rows > first_rows_max || second.row_begin != first.row_end) return false;
  if (second.span_end - second.span_begin <= spans) return false;
  for (std::uint32_t s = 0; s < spans; ++s)
    if (!same_keys(batch.spans[first.span_begin + s], batch.spans[second.span_begin + s])) return false;
  const auto own =
      std::span(batch.spans).subspan(second.span_begin + spans, second.span_end - second.span_begin - spans);
  if (rows_from(own, first.row_begin) != rows) return false;
  const auto begins = std::span(batch.visible_begin).subspan(first.row_begin, rows);
  return std::ranges::all_of(begins, [](std::uint32_t begin) { return begin == 0; });
}

}  // namespace

void join_groups(const DecoderBatch& batch, AttentionParts& parts, JoinedRows& rows) {
  rows.context_end.clear();
  rows.tail_end.clear();
  for (std::uint32_t g = 0; g + 1 < batch.groups.size(); ++g) {
    const RowGroup &first = batch.groups[g], &second = batch.groups[g + 1];
    if (!may_join(batch, first, second)) continue;
    if (rows.context_end.empty()) {
      rows.tail_end = batch.visible_end;
      for (const RowGroup& group : batch.groups)
        rows.context_end.resize(group.row_end, context_of(batch, group));
    }
    for (std::uint32_t row = first.row_begin; row < first.row_end; ++row) {
      rows.context_end[row] += batch.visible_end[row];
      rows.tail_end[row] = 0;
    }
    // Few rows are one part per head. Those of the second group that begin with its first row take them.
    double pairs = 0;
    std::erase_if(parts.parts, [&](const AttentionPart& part) {
      if (part.group == g) pairs = part.pairs;
      return part.group == g;
    });
    for (AttentionPart& part : parts.parts)
      if (part.group == g + 1 && part.row_begin == second.row_begin)
        part.row_begin = first.row_begin, part.pairs += pairs;
    ++g;
  }
}

}  // namespace troupe::kernels
