#pragma once
// Decides whether a block gets pages of the pool, and at the cost of which other blocks. A request
// says by its retention what may be evicted for it. Policies that decide by hotness (`keep_hotter`)
// compare how often blocks were wanted lately; only they pay for counting it.
#include <cstdint>
#include <optional>

#include "placement/popularity/frequency_sketch.h"
#include "runtime/actor/messages.h"
#include "runtime/pool/page_pool.h"

namespace troupe::actors {

// Origin of a reserved block's bytes: computed by the request, or copied from a node or the tier.
enum class BlockSource : std::uint8_t { computed, pulled, loaded };

class Reservations {
 public:
  explicit Reservations(PagePool& pool) : pool_(pool) {}

  // Counts the wants of a request. Reads of other nodes count, too.
  void count_wants(const AcquireBlocks& ask);
  // Returns how often the block was wanted lately, as counted by the sketch; 0 if nothing counts.
  std::uint32_t times_wanted(const BlockName& name) const;

  // Returns null if no pages can be had: the request then computes the block for itself and keeps
  // nothing. `offered`: the request is a leaving worker's offer.
  const PoolBlock* reserve(const AcquireBlocks& ask, const BlockWant& want, BlockSource source, bool offered);

 private:
  const PoolBlock* reserve_in_area(PagePool::Want want, const AcquireBlocks& ask);
  const PoolBlock* reserve_anywhere(PagePool::Want want, const AcquireBlocks& ask);
  const PoolBlock* reserve_offered(PagePool::Want want, const AcquireBlocks& ask);
  bool is_used_more(const PagePool::Want& want, const AcquireBlocks& ask);

  PagePool& pool_;
  // Exists once a request wanted hotter blocks kept (Retention::keep_hotter).
  std::optional<placement::FrequencySketch> sketch_;
};

}  // namespace troupe::actors
