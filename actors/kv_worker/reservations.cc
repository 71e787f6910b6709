// Reserves pages of the pool for blocks that requests want to keep: within an area, or, for
// policies that compare hotness, in all areas at once.
#include "actors/kv_worker/reservations.h"

#include <algorithm>

#include "actors/kv_worker/block_identity.h"
#include "runtime/actor/block_name.h"

namespace troupe::actors {
namespace {

// Returns the worth of a copy, 0..1; NaN counts as 0.
double copy_worth(const AcquireBlocks& ask) {
  return ask.retention.copy_worth >= 0 ? std::min(ask.retention.copy_worth, 1.0) : 0;
}

}  // namespace

void Reservations::count_wants(const AcquireBlocks& ask) {
  if (ask.retention.keep_hotter && !sketch_) sketch_.emplace(pool_.pages());
  if (!sketch_ || (!ask.may_evict && !ask.read_only)) return;
  for (const BlockWant& want : ask.wants) sketch_->touch(hash_of(want.name));
}

std::uint32_t Reservations::times_wanted(const BlockName& name) const {
  return sketch_ ? sketch_->count(hash_of(name)) : 0;
}

const PoolBlock* Reservations::reserve(const AcquireBlocks& ask, const BlockWant& want, BlockSource source,
                                       bool offered) {
  PagePool::Want block{want.name,
                       want.kind,
                       want.owner,
                       want.tokens,
                       source != BlockSource::computed,
                       source == BlockSource::pulled ? want.at : 0};
  if (offered) return reserve_offered(std::move(block), ask);
  const bool one_area = ask.retention.keep_hotter && ask.may_evict;
  return one_area ? reserve_anywhere(std::move(block), ask) : reserve_in_area(std::move(block), ask);
}

// If the area is full, a copy of another node's block stays marked as a copy, unless it belongs
// here. It is kept at its owner already, and must not displace blocks that are kept only here.
const PoolBlock* Reservations::reserve_in_area(PagePool::Want want, const AcquireBlocks& ask) {
  const bool must_evict = pool_.pages_available(pool_.area_of(want.kind)) < pool_.pages_for(want.tokens);
  if (must_evict && !ask.may_evict) return nullptr;
  if (!must_evict || ask.retention.belongs) want.copy_of = 0;
  return pool_.reserve(want, ask.retention.evict_first);
}

// An item block must be hotter than the blocks that it would evict. A user block need not be,
// because the router has weighed it already. A copy need not be either, because it counts for less
// from now on.
const PoolBlock* Reservations::reserve_anywhere(PagePool::Want want, const AcquireBlocks& ask) {
  if (ask.retention.belongs) want.copy_of = 0;
  if (want.kind != SegmentKind::user && want.copy_of == 0 && !is_used_more(want, ask)) return nullptr;
  return pool_.reserve_anywhere(want, copy_worth(ask));
}

// Finds pages as for this node's own requests: once a request has used `keep_hotter`, the areas
// share their pages. An offer that may not evict takes only free pages.
const PoolBlock* Reservations::reserve_offered(PagePool::Want want, const AcquireBlocks& ask) {
  want.copy_of = 0;  // not a copy: the holder leaves
  if (!sketch_)
    return !ask.may_evict && pool_.pages_available(pool_.area_of(want.kind)) < pool_.pages_for(want.tokens)
               ? nullptr
               : pool_.reserve(want);
  const PagePool::EvictionPlan plan = pool_.plan_eviction(want.kind, want.tokens, 1);
  return !plan.possible || (!ask.may_evict && !plan.displaced.empty()) ? nullptr
                                                                       : pool_.reserve_anywhere(want, 1);
}

// Returns true if the new block is used more often, per token, than the blocks that it would evict.
// A user block counts for no more tokens than the new block needs, because the rest of its pages is
// left to other blocks. A user block that would be evicted has long been unused, so it counts as
// wanted once.
//
// If the new block is refused, the items compared are moved back in the order of eviction. So the
// next comparison considers other blocks.
bool Reservations::is_used_more(const PagePool::Want& want, const AcquireBlocks& ask) {
  const PagePool::EvictionPlan plan = pool_.plan_eviction(want.kind, want.tokens, copy_worth(ask));
  double theirs = 0;
  for (const PoolBlock* block : plan.displaced) {
    const bool is_user = block->kind == SegmentKind::user;
    const double uses = is_user ? 1 : sketch_->count(hash_of(block->name));
    theirs += (block->is_copy() ? copy_worth(ask) : 1) * uses *
              (is_user ? std::min(want.tokens, block->tokens) : block->tokens);
  }
  if (plan.displaced.empty() || sketch_->count(hash_of(want.name)) * want.tokens > theirs) return true;
  for (const PoolBlock* block : plan.displaced)
    if (block->kind != SegmentKind::user && !block->is_copy()) pool_.defer_eviction(*block);
  return false;
}

}  // namespace troupe::actors
