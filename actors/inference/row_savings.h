#pragma once
// What rows of embedding tables that were at hand saved their passes, and would have saved with another share
// of the node's pool: a sampled shadow cache of the rows that passes wanted; and which parts of the table
// were at hand. Whoever holds the rows says what fetching one takes.
#include <cstdint>

#include "placement/popularity/shard_hits.h"
#include "placement/split/shadow_cache.h"
#include "runtime/actor/ports.h"
#include "runtime/pool/row_slab.h"

namespace troupe::actors {

class RowSavings {
 public:
  explicit RowSavings(std::uint64_t pool_rows);  // that the whole pool would hold

  void use(const RowSlab::Batch& batch, double us_per_row);
  void tell(RowPages& to) const;
  // What a slab counts, and which shards were at hand; whoever holds the rows adds their bytes.
  RowTotals totals(const RowSlab& slab) const;

 private:
  ShardsFound shards() const;
  placement::ShadowCache shadow_;
  placement::ShardHits hits_;
  double saved_us_ = 0, us_per_row_ = 0;
};

}  // namespace troupe::actors
