// Measures which shards (runs of rows) of an embedding table a node lately had in its memory.
// Routers send requests where their rows are.
#include "placement/popularity/shard_hits.h"

#include <cmath>

namespace troupe::placement {
namespace {

// Rows of a shard until its counts are halved.
constexpr float wants_per_halving = 256;

}  // namespace

// Merges pairs of neighbouring shards.
void ShardHits::widen() {
  for (std::uint32_t i = 0; i < shards; ++i) {
    const bool some = 2 * i + 1 < shards;
    const Shard a = some ? shards_[2 * i] : Shard{}, b = some ? shards_[2 * i + 1] : Shard{};
    shards_[i] = {a.wanted + b.wanted, a.found + b.found};
  }
  shard_rows_ *= 2;
}

void ShardHits::use(std::uint32_t table, std::uint32_t row, bool found) {
  if (table_ != table) *this = {};
  if (!table_) shard_rows_ = 1;
  table_ = table;
  while (row / shard_rows_ >= shards) widen();
  Shard& shard = shards_[row / shard_rows_];
  ++shard.wanted;
  shard.found += found;
  if (shard.wanted >= 2 * wants_per_halving) shard = {shard.wanted / 2, shard.found / 2};
}

std::array<std::uint8_t, ShardHits::shards> ShardHits::found() const {
  std::array<std::uint8_t, shards> hundredths{};
  for (std::uint32_t i = 0; i < shards; ++i)
    if (shards_[i].wanted > 0)
      hundredths[i] = static_cast<std::uint8_t>(std::lround(100 * shards_[i].found / shards_[i].wanted));
  return hundredths;
}

}  // namespace troupe::placement
