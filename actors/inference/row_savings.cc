// Counts the time that cached embedding rows saved the passes that read them, and estimates what a
// larger or smaller cache would have saved. The allocator agent needs both to divide the pool
// between rows and blocks.
#include "actors/inference/row_savings.h"

#include <algorithm>

namespace troupe::actors {
namespace {

constexpr std::uint64_t row_samples_max = 16'384;

placement::ShadowOptions row_shadow(std::uint64_t pool_rows) {
  return {.pool = std::max<std::uint64_t>(pool_rows, 1),
          .one_of = static_cast<std::uint32_t>(pool_rows / row_samples_max + 1),
          .samples_max = static_cast<std::size_t>(std::clamp<std::uint64_t>(pool_rows, 1, row_samples_max))};
}

}  // namespace

RowSavings::RowSavings(std::uint64_t pool_rows) : shadow_(row_shadow(pool_rows)) {}

void RowSavings::use(const RowSlab::Batch& batch, double us_per_row) {
  us_per_row_ = us_per_row;
  for (const RowSlab::Row& row : batch.rows) {
    shadow_.use(std::uint64_t{batch.table} << 32 | row.row, 1, us_per_row);
    hits_.use(batch.table, row.row, row.state == RowState::ready);
    if (row.state == RowState::ready) saved_us_ += us_per_row;
  }
}

RowTotals RowSavings::totals(const RowSlab& slab) const {
  const RowSlab::Counts& counts = slab.counts();
  return {.hits = counts.hits,
          .misses = counts.misses,
          .repeats = counts.repeats,
          .evicted = counts.evicted,
          .dropped = counts.dropped,
          .corrupt = counts.discarded,
          .wants_refill = slab.wants_refill(),
          .shards = shards()};
}

ShardHitRates RowSavings::shards() const {
  static_assert(placement::ShardHits::shards == row_shards);
  return {hits_.shard_rows(), hits_.found(), us_per_row_};
}

void RowSavings::add_to(RowPages& to) const {
  const placement::Savings savings = shadow_.savings();
  to.saved_us = saved_us_;
  to.savings.assign(savings.begin(), savings.end());
}

}  // namespace troupe::actors
