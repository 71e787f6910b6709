// Migration of user blocks. A worker that leaves for good offers its user blocks to the nodes that
// stay. A worker that stays takes what leaving workers offer.
#include <algorithm>

#include "actors/kv_worker/kv_worker_core.h"

namespace troupe::actors {

// Drain is sent repeatedly, as to other roles. With nodes in `user_targets` this worker is leaving.
// Without any there is nothing to migrate to.
void KvWorkerCore::on_drain(Instant now, Address from, const Drain& drain, Effects& effects) {
  if (!drain.on) {
    migration_.stop();
  } else if (migration_.begun()) {
    migration_.follow(drain.user_targets);
  } else {
    begin_migration(now, drain, effects);
  }
  advance_migration(now, effects);
  effects.send(from, status(now, drain.id));
}

// When a node leaves, the cluster's pool shrinks and a part of all user blocks must be evicted.
// Ordered by last use over all nodes, this part is the same for the blocks here as for those
// elsewhere. So the most recently used blocks, up to `displacing` pages, may evict the receiver's
// least recently used ones. The others take only free pages.
void KvWorkerCore::begin_migration(Instant now, const Drain& drain, Effects& effects) {
  const auto stay = static_cast<std::uint64_t>(
      std::ranges::count_if(drain.user_targets, [this](NodeId node) { return node != config_.node; }));
  const PoolArea area = pool_.area_of(SegmentKind::user);
  const std::uint64_t displacing =
      std::uint64_t{std::max(pool_.cap(area), pool_.used(area))} * stay / (stay + 1);
  std::vector<Migration::Block> blocks;
  std::uint64_t pages = 0;
  for (const PoolBlock* block : pool_.last_used(SegmentKind::user)) {
    pages += block->pages.size();
    blocks.push_back({block->name, block->owner, block->tokens, pages <= displacing});
  }
  effects.log(LogLevel::info, "migration_begins",
              {{"blocks", blocks.size()}, {"pages", pages}, {"nodes", stay}});
  migration_.begin(now, drain.user_targets, std::move(blocks));
}

void KvWorkerCore::advance_migration(Instant now, Effects& effects) {
  if (!migration_.begun()) return;
  migration_.tick(now);
  for (auto& [to, message] : migration_.next(now, metas_.nodes(), next_serial_))
    effects.send(to, std::move(message));
  const Migration::Counts& counts = migration_.counts();
  const auto count = [&](Metric metric, std::uint64_t now_is, std::uint64_t counted_before) {
    if (now_is > counted_before) effects.count(metric, static_cast<double>(now_is - counted_before));
  };
  count(Metric::users_handed_on, counts.migrated, counted_migration_.migrated);
  count(Metric::users_held_elsewhere, counts.held_elsewhere, counted_migration_.held_elsewhere);
  count(Metric::users_left_behind, counts.left_behind, counted_migration_.left_behind);
  counted_migration_ = counts;
  if (!migration_.done()) effects.set_timer(migration_timer, now + config_.heartbeat);
  if (const auto took = migration_.take_end(now))
    effects.log(LogLevel::info, "users_blocks_handed_on",
                {{"blocks", counts.blocks},
                 {"handed_on", counts.migrated},
                 {"held_elsewhere", counts.held_elsewhere},
                 {"left_behind", counts.left_behind},
                 {"ms", took->us / 1'000}});
}

// ---- offers of other leaving workers ----

// Returns true if all wanted blocks are user blocks in the memory of the sender. An offer writes
// nothing.
bool KvWorkerCore::is_offer(Address from, const AcquireBlocks& ask) const {
  if (from.role != Role::kv_worker || from.node == config_.node || ask.read_only || ask.early ||
      !config_.pulls)
    return false;
  return !ask.wants.empty() && std::ranges::all_of(ask.wants, [&](const BlockWant& want) {
    return want.at == from.node && want.kind == SegmentKind::user;
  });
}

// Finds pages as for this node's own requests: once a request has used `keep_hotter`, the areas
// share their pages. An offer that may not evict takes only free pages.
const PoolBlock* KvWorkerCore::reserve_offered(PagePool::Want want, const AcquireBlocks& ask) {
  want.copy_of = 0;  // not a copy: the holder leaves
  if (!sketch_)
    return !ask.may_evict && pool_.pages_available(pool_.area_of(want.kind)) < pool_.pages_for(want.tokens)
               ? nullptr
               : pool_.reserve(want);
  const PagePool::EvictionPlan pages_available = pool_.plan_eviction(want.kind, want.tokens, 1);
  return !pages_available.possible || (!ask.may_evict && !pages_available.displaced.empty())
             ? nullptr
             : pool_.reserve_anywhere(want, 1);
}

}  // namespace troupe::actors
