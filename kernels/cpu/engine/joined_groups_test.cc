#include "kernels/cpu/engine/joined_groups.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace troupe::kernels;

namespace {
namespace joined_groups_test {

constexpr std::uint32_t cached = 40;

// A cached history of two pages, `events` computed after it, then `candidates` that see all of them.
DecoderBatch batch_of(std::uint32_t events, std::uint32_t candidates) {
  static const std::byte pages[2]{};
  DecoderBatch batch;
  batch.tokens.resize(events + candidates);
  for (std::uint32_t r = 0; r < events; ++r) {
    batch.visible_begin.push_back(0);
    batch.visible_end.push_back(r + 1);
  }
  for (std::uint32_t r = 0; r < candidates; ++r) {
    batch.visible_begin.push_back(r);
    batch.visible_end.push_back(r + 1);
  }
  for (int group = 0; group < 2; ++group)
    for (const std::byte& page : pages) batch.spans.push_back({.page = &page, .tokens = cached / 2});
  batch.spans.push_back({.row = 0, .tokens = events});
  batch.groups.push_back({.row_begin = 0, .row_end = events, .span_begin = 0, .span_end = 2});
  batch.groups.push_back(
      {.row_begin = events, .row_end = events + candidates, .span_begin = 2, .span_end = 5});
  return batch;
}

AttentionParts parts_of(const DecoderBatch& batch, std::uint32_t workers = 1) {
  AttentionParts parts;
  cut_attention(batch, nullptr, 2, 2, workers, parts);
  return parts;
}

TEST_CASE("joined groups: a few new events and the candidates behind them are one part per head") {
  const DecoderBatch batch = batch_of(3, 100);
  AttentionParts parts = parts_of(batch);
  REQUIRE(parts.parts.size() == 4);
  JoinedRows rows;
  join_groups(batch, parts, rows);
  REQUIRE(parts.parts.size() == 2);
  for (std::uint32_t head = 0; head < 2; ++head) {
    const AttentionPart& part = parts.parts[head];
    CHECK(part.head == head);
    CHECK(part.group == 1);
    CHECK(part.row_begin == 0);
    CHECK(part.row_end == 103);
    CHECK(part.pairs == 3 * cached + 6 + 100 * (cached + 3 + 1));
  }
  REQUIRE(rows.context_end.size() == 103);
  CHECK(std::ranges::equal(std::span(rows.context_end).first(4), std::vector{41u, 42u, 43u, 43u}));
  CHECK(std::ranges::equal(std::span(rows.tail_end).first(5), std::vector{0u, 0u, 0u, 1u, 2u}));
  CHECK(rows.context_end.back() == cached + 3);
  CHECK(rows.tail_end.back() == 100);
}

TEST_CASE("joined groups: blocks of many candidates stay, and the first takes the events") {
  const DecoderBatch batch = batch_of(3, 2000);
  AttentionParts parts = parts_of(batch, 4);
  REQUIRE(parts.parts.size() > 4);
  const std::size_t before = parts.parts.size();
  JoinedRows rows;
  join_groups(batch, parts, rows);
  CHECK(parts.parts.size() == before - 2);
  std::vector<int> seen(2 * batch.rows());
  for (const AttentionPart& part : parts.parts)
    for (std::uint32_t r = part.row_begin; r < part.row_end; ++r) ++seen[2 * r + part.head];
  CHECK(std::ranges::all_of(seen, [](int n) { return n == 1; }));
}

TEST_CASE("joined groups: others stay apart") {
  const auto joins = [](const DecoderBatch& batch) {
    AttentionParts parts = parts_of(batch);
    JoinedRows rows;
    join_groups(batch, parts, rows);
    CHECK(rows.context_end.empty() == (parts.parts.size() == 4));
    return parts.parts.size() == 2;
  };
  CHECK(joins(batch_of(3, 100)));
  CHECK_FALSE(joins(batch_of(100, 100)));  // many rows pack the keys for themselves
  DecoderBatch batch = batch_of(3, 100);
  batch.visible_begin[2] = 1;  // an event that does not see the one before
  CHECK_FALSE(joins(batch));
  batch = batch_of(3, 100);
  batch.spans[3].page = batch.spans[2].page;  // another history
  CHECK_FALSE(joins(batch));
  batch = batch_of(3, 100);
  batch.spans[2].slot = 1;
  CHECK_FALSE(joins(batch));
  batch = batch_of(3, 100);
  batch.spans[2].position = 1;  // the page at another place of the prompt
  CHECK_FALSE(joins(batch));
  batch = batch_of(3, 100);
  const std::int64_t time = 0;
  batch.spans[3].features = &time;  // or at other times
  CHECK_FALSE(joins(batch));
  batch = batch_of(3, 100);
  batch.spans[4].tokens = 2;  // candidates that do not see the last event
  CHECK_FALSE(joins(batch));
  batch = batch_of(3, 100);
  batch.groups[1].span_end = 4;  // or none
  CHECK_FALSE(joins(batch));
}

}  // namespace joined_groups_test
}  // namespace
