#include "kernels/cpu/engine/decoder_attention.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace troupe::kernels;

namespace {

// One group of `rows` causal rows on `context` tokens; the last row is read.
DecoderBatch causal_batch(std::uint32_t rows, std::uint32_t context) {
  DecoderBatch batch;
  for (std::uint32_t r = 0; r < rows; ++r) {
    batch.visible_begin.push_back(0);
    batch.visible_end.push_back(r + 1);
  }
  batch.spans.push_back({nullptr, 0, context});
  batch.groups.push_back({.row_begin = 0, .row_end = rows, .span_begin = 0, .span_end = 1});
  batch.read.rows = {rows - 1};
  assign_groups(batch, batch.read);
  return batch;
}

// Checks that every (row, head) is covered exactly once.
void check_covered(const AttentionParts& cut, std::uint32_t rows, std::uint32_t kv_heads) {
  std::vector<int> seen(rows * kv_heads);
  for (const AttentionPart& part : cut.parts)
    for (std::uint32_t r = part.row_begin; r < part.row_end; ++r) ++seen[r * kv_heads + part.head];
  CHECK(std::ranges::all_of(seen, [](int n) { return n == 1; }));
}

TEST_CASE("attention parts: one worker takes each head of each group whole") {
  AttentionParts cut;
  cut_attention(causal_batch(3000, 100), nullptr, 4, 2, 1, cut);
  CHECK(cut.parts.size() == 2);
  check_covered(cut, 3000, 2);
}

TEST_CASE("attention parts: two workers get row blocks, the longest first, and every row and head once") {
  AttentionParts cut;
  cut_attention(causal_batch(3001, 100), nullptr, 4, 2, 2, cut);
  CHECK(cut.parts.size() == 4);
  CHECK(cut.parts.front().row_end == 3001);
  CHECK(cut.parts.back().row_begin == 0);
  check_covered(cut, 3001, 2);
}

TEST_CASE("attention parts: few rows are not split, as each block would pack the keys again") {
  AttentionParts cut;
  cut_attention(causal_batch(40, 1000), nullptr, 4, 2, 8, cut);
  CHECK(cut.parts.size() == 2);
}

TEST_CASE("attention parts: pairs count what rows see, and in the last layer only for read rows") {
  AttentionParts cut;
  cut_attention(causal_batch(10, 7), nullptr, 2, 1, 1, cut);
  CHECK(cut.pairs == 10 * 7 + 55);
  const DecoderBatch batch = causal_batch(10, 7);
  cut_attention(batch, &batch.read, 2, 1, 1, cut);
  CHECK(cut.pairs == 17);
  REQUIRE(cut.parts.size() == 1);
  CHECK(cut.parts[0].row_end == 1);
}

TEST_CASE("attention parts: parts of a long group come before those of an earlier short one") {
  DecoderBatch batch = causal_batch(3, 0);
  for (std::uint32_t r = 0; r < 50; ++r) {
    batch.visible_begin.push_back(0);
    batch.visible_end.push_back(r + 1);
  }
  batch.groups.push_back({.row_begin = 3, .row_end = 53, .span_begin = 1, .span_end = 1});
  AttentionParts cut;
  cut_attention(batch, nullptr, 2, 1, 1, cut);
  REQUIRE(cut.parts.size() == 2);
  CHECK(cut.parts[0].group == 1);
  CHECK(cut.pairs == 6 + 50 * 51 / 2);
}

TEST_CASE("attention parts: a batch without rows has no parts") {
  AttentionParts cut;
  cut_attention(DecoderBatch(), nullptr, 2, 1, 4, cut);
  CHECK(cut.parts.empty());
}

}  // namespace
