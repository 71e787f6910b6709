#pragma once
// Counts the time that cached embedding rows saved the passes that read them. It also estimates
// what a larger or smaller cache would have saved. A shadow cache samples the rows that passes
// wanted. It also counts which shards (runs of rows) of the table were found in the cache. The
// caller gives the time of fetching one row.
#include <cstdint>

#include "placement/popularity/shard_hits.h"
#include "placement/split/shadow_cache.h"
#include "runtime/actor/ports.h"
#include "runtime/pool/row_slab.h"

namespace troupe::actors {

class RowSavings {
 public:
  explicit RowSavings(std::uint64_t pool_rows);  // rows that the whole pool would hold

  void use(const RowSlab::Batch& batch, double us_per_row);
  void add_to(RowPages& to) const;  // sets the saved time and the savings curve
  // Returns the slab's counts and which shards were cached. The caller adds the byte counts.
  RowTotals totals(const RowSlab& slab) const;

 private:
  ShardHitRates shards() const;
  placement::ShadowCache shadow_;
  placement::ShardHits hits_;
  double saved_us_ = 0, us_per_row_ = 0;
};

}  // namespace troupe::actors
