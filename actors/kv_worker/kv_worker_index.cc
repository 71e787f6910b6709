// The KV-cache worker and its cache-metas. Cache-metas are sent every change, and read the
// inventory a part at a time when they have missed something. The leading cache-meta names the
// owners (users or items) whose blocks are to be forgotten.
#include <algorithm>

#include "actors/kv_worker/kv_worker_core.h"
#include "runtime/actor/mutants.h"

namespace troupe::actors {

// Subscribes a cache-meta that joined the cluster later, as soon as it asks for the inventory or
// says that it leads.
bool KvWorkerCore::hear_cache_meta(const Received& received) {
  if (received.from.role != Role::cache_meta) return false;
  if (std::holds_alternative<InventoryRequest>(received.message) ||
      std::holds_alternative<LeaderBeat>(received.message))
    metas_.hear(received.from.node);
  return metas_.has(received.from.node);
}

void KvWorkerCore::on_cache_meta(const Received& received, Effects& effects) {
  if (!hear_cache_meta(received)) return effects.count(Metric::protocol_errors);
  if (const auto* found = std::get_if<BlocksFound>(&received.message)) {
    migration_.on_found(*found);  // ignores late answers
    return;
  }
  if (const auto* request = std::get_if<InventoryRequest>(&received.message)) {
    on_inventory(received.from, *request, effects);
  } else if (const auto* forget = std::get_if<Forget>(&received.message)) {
    on_forget(received.from, *forget, effects);
  } else if (const auto* beat = std::get_if<LeaderBeat>(&received.message)) {
    leader_token_ = std::max(leader_token_, beat->token);
    leader_heard_ = true;
  } else {
    effects.count(Metric::protocol_errors);
  }
}

// A request for an earlier incarnation of this worker gets no answer. The next CacheChanges names
// the present one.
void KvWorkerCore::on_inventory(Address from, const InventoryRequest& request, Effects& effects) const {
  if (request.incarnation != 0 && request.incarnation != config_.incarnation) return;
  InventoryPart part{config_.incarnation, request.after, sent_changes_.sequence};
  for (const PoolBlock* block : pool_.ready_after(request.after, config_.inventory_part + 1))
    part.blocks.push_back({block->name, block->kind, block->owner, block->tokens, block->generation});
  part.last = part.blocks.size() <= config_.inventory_part;
  if (!part.last) part.blocks.pop_back();
  effects.send(from, std::move(part));
}

// A worker that has just started knows no token and might obey a former leader's late message. So
// it obeys no leader before a LeaderBeat. A block that is not forgotten only takes pages until it
// is evicted: blocks are named by their content, so no request asks for it.
void KvWorkerCore::on_forget(Address from, const Forget& forget, Effects& effects) {
  const bool is_stale = forget.token < leader_token_ && !mutated(Mutant::ignore_fencing_token);
  // Token 0 means that a router sent it here directly; routers must ask a cache-meta instead.
  if (forget.token == 0 || is_stale) {
    effects.count(Metric::protocol_errors);
    return effects.log(LogLevel::warning, "stale_leader",
                       {{"node", from.node}, {"token", forget.token}, {"expected", leader_token_}});
  }
  leader_token_ = std::max(leader_token_, forget.token);
  if (!leader_heard_ && !mutated(Mutant::ignore_fencing_token)) return;
  const auto stays = [&](const BlockName& name) {
    return forget.present && same_block(name, *forget.present);
  };
  for (const BlockName& name : pool_.names_of(forget.kind, forget.owner)) {
    const PoolBlock* block = find(name);
    if (!block || stays(name) || (forget.below > 0 && block->tokens >= forget.below))
      continue;  // evicted by the new writer of an earlier block, or computed anew already
    const std::uint64_t generation = block->generation;
    pool_.remove(name);
    // Waiting requests want this content whatever its owner is: one of them becomes the new writer.
    fail_block(name, generation, effects);
  }
  std::vector<BlockName> stored = tier_.stored().names_of(forget.kind, forget.owner);
  std::erase_if(stored, stays);
  if (!stored.empty()) erase_stored(stored, effects);
}

// ---- changes ----

void KvWorkerCore::report_changes(Instant now, Effects& effects) {
  CacheChanges changes = take_changes(effects);
  report_pages(effects);
  const bool changed = !changes.added.empty() || !changes.removed.empty() || !changes.refused.empty() ||
                       changes.areas != sent_changes_.areas;
  if (!changed && !beat_due_) return;
  beat_due_ = false;
  changes_sent_at_ = now;
  changes.sequence = sent_changes_.sequence + 1;
  for (const NodeId node : metas_.nodes()) effects.send({node, Role::cache_meta}, changes);
  changes.added.clear();
  changes.removed.clear();
  changes.refused.clear();
  sent_changes_ = std::move(changes);
}

// Leaves out blocks that were added and removed in the same step.
CacheChanges KvWorkerCore::take_changes(Effects& effects) {
  CacheChanges changes{config_.incarnation, 0};
  changes.refused.swap(refused_);
  std::set<std::uint64_t> came, gone;  // generations
  for (const BlockEntry& block : added_) came.insert(block.generation);
  for (const RemovedBlock& block : pool_.take_removed()) {
    gone.insert(block.generation);
    if (came.count(block.generation) == 0) changes.removed.push_back({block.name, block.generation});
    if (block.evicted) effects.count(area_table[index_of(area_of(block.kind))].evicted);
  }
  std::erase_if(added_, [&](const BlockEntry& block) { return gone.count(block.generation) > 0; });
  changes.added.swap(added_);
  std::sort(changes.added.begin(), changes.added.end(),
            [](const BlockEntry& a, const BlockEntry& b) { return a.generation < b.generation; });
  const std::uint64_t page_tokens = pool_.page_tokens();
  for (std::size_t i = 0; i < pool_.areas(); ++i) {
    const auto area = static_cast<PoolArea>(i);
    const bool for_blocks = config_.pool.areas[i].kinds != 0;
    changes.areas.push_back(
        for_blocks ? AreaCapacity{pool_.pages_available(area) * page_tokens, pool_.cap(area) * page_tokens}
                   : AreaCapacity{});
  }
  return changes;
}

void KvWorkerCore::report_pages(Effects& effects) {
  counted_pages_.resize(pool_.areas());
  for (std::size_t i = 0; i < pool_.areas(); ++i) {
    const auto area = static_cast<PoolArea>(i);
    const std::pair<std::uint32_t, std::uint32_t> now{pool_.cap(area), pool_.used(area)};
    if (now == counted_pages_[i]) continue;
    counted_pages_[i] = now;
    effects.count(area_table[i].pages, now.first);
    effects.count(area_table[i].pages_used, now.second);
  }
}

}  // namespace troupe::actors
