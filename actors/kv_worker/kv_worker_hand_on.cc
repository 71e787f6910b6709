// Migration of user blocks. A worker that leaves for good offers its user blocks to the nodes that
// stay. A worker that stays takes what leaving workers offer.
#include <algorithm>

#include "actors/kv_worker/kv_worker_core.h"

namespace troupe::actors {

// Drain is sent repeatedly, as to other roles. With nodes in `users_to` this worker is leaving.
// Without any there is nothing to migrate to.
void KvWorkerCore::on_drain(Instant now, Address from, const Drain& drain, Effects& effects) {
  if (!drain.on) {
    hand_on_.stop();
  } else if (hand_on_.begun()) {
    hand_on_.follow(drain.users_to);
  } else {
    begin_hand_on(now, drain, effects);
  }
  hand_on(now, effects);
  effects.send(from, status(now, drain.id));
}

// When a node leaves, the pool shrinks and a part of all user blocks has to go. Ordered by last use
// over all nodes, this part is the same for the blocks here as for those elsewhere. So the latest
// used blocks, up to `displacing` pages, may evict the receiver's least recently used ones. The
// others take only free pages.
void KvWorkerCore::begin_hand_on(Instant now, const Drain& drain, Effects& effects) {
  const auto stay = static_cast<std::uint64_t>(
      std::ranges::count_if(drain.users_to, [this](NodeId node) { return node != config_.node; }));
  const PoolArea area = pool_.area_of(SegmentKind::user);
  const std::uint64_t displacing =
      std::uint64_t{std::max(pool_.cap(area), pool_.used(area))} * stay / (stay + 1);
  std::vector<HandOn::Block> blocks;
  std::uint64_t pages = 0;
  for (const PoolBlock* block : pool_.last_used(SegmentKind::user)) {
    pages += block->pages.size();
    blocks.push_back({block->name, block->owner, block->tokens, pages <= displacing});
  }
  effects.log(LogLevel::info, "users_blocks_leave",
              {{"blocks", blocks.size()}, {"pages", pages}, {"nodes", stay}});
  hand_on_.begin(now, drain.users_to, std::move(blocks));
}

void KvWorkerCore::hand_on(Instant now, Effects& effects) {
  if (!hand_on_.begun()) return;
  hand_on_.tick(now);
  for (auto& [to, message] : hand_on_.next(now, metas_.nodes(), next_serial_))
    effects.send(to, std::move(message));
  const HandOn::Counts& counts = hand_on_.counts();
  const auto count = [&](Metric metric, std::uint64_t now_is, std::uint64_t told) {
    if (now_is > told) effects.count(metric, static_cast<double>(now_is - told));
  };
  count(Metric::users_handed_on, counts.handed_on, told_handed_on_.handed_on);
  count(Metric::users_held_elsewhere, counts.held_elsewhere, told_handed_on_.held_elsewhere);
  count(Metric::users_left_behind, counts.left_behind, told_handed_on_.left_behind);
  told_handed_on_ = counts;
  if (!hand_on_.done()) effects.set_timer(hand_on_timer, now + config_.heartbeat);
  if (const auto took = hand_on_.take_end(now))
    effects.log(LogLevel::info, "users_blocks_handed_on",
                {{"blocks", counts.blocks},
                 {"handed_on", counts.handed_on},
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
    return !ask.may_evict && pool_.room(pool_.area_of(want.kind)) < pool_.pages_for(want.tokens)
               ? nullptr
               : pool_.reserve(want);
  const PagePool::Room room = pool_.room_anywhere(want.kind, want.tokens, 1);
  return !room.possible || (!ask.may_evict && !room.displaced.empty()) ? nullptr
                                                                       : pool_.reserve_anywhere(want, 1);
}

}  // namespace troupe::actors
