// Reports of the KV-cache worker to the cache-metas. Every one of them is sent every change, and a
// heartbeat if nothing changes.
#include "actors/kv_worker/index_reports.h"

#include <algorithm>
#include <set>

namespace troupe::actors {

IndexReports::IndexReports(const KvWorkerConfig& config, PagePool& pool)
    : config_(config), pool_(pool), metas_(config.cache_metas) {}

bool IndexReports::hear(Address from, const Message& message) {
  if (from.role != Role::cache_meta) return false;
  if (std::holds_alternative<InventoryRequest>(message) || std::holds_alternative<LeaderBeat>(message))
    metas_.hear(from.node);
  return metas_.has(from.node);
}

void IndexReports::start(Instant now, Effects& effects) {
  beat_due_ = true;
  effects.set_timer(KvWorkerTimer::heartbeat, now + config_.heartbeat);
}

void IndexReports::on_timer(Instant now, Effects& effects) {
  beat_due_ = now - sent_at_ >= config_.heartbeat;
  effects.set_timer(KvWorkerTimer::heartbeat, (beat_due_ ? now : sent_at_) + config_.heartbeat);
}

// A request for an earlier incarnation of this worker gets no answer. The next CacheChanges names
// the present one.
void IndexReports::on_inventory(Address from, const InventoryRequest& request, Effects& effects) const {
  if (request.incarnation != 0 && request.incarnation != config_.incarnation) return;
  InventoryPart part{config_.incarnation, request.after, sequence_};
  for (const PoolBlock* block : pool_.ready_after(request.after, config_.inventory_part + 1))
    part.blocks.push_back({block->name, block->kind, block->owner, block->tokens, block->generation});
  part.last = part.blocks.size() <= config_.inventory_part;
  if (!part.last) part.blocks.pop_back();
  effects.send(from, std::move(part));
}

void IndexReports::note_added(const PoolBlock& block) {
  added_.push_back({block.name, block.kind, block.owner, block.tokens, block.generation});
}

void IndexReports::note_refused(const BlockName& name) { refused_.push_back(name); }

// ---- changes ----

void IndexReports::report(Instant now, Effects& effects) {
  CacheChanges changes = take_changes(effects);
  count_pages(effects);
  const bool changed = !changes.added.empty() || !changes.removed.empty() || !changes.refused.empty();
  if (!changed && !beat_due_ && !has_new_capacities()) return;
  beat_due_ = false;
  sent_at_ = now;
  changes.sequence = ++sequence_;
  sent_areas_.clear();
  for (std::size_t i = 0; i < pool_.areas(); ++i) sent_areas_.push_back(capacity_of(i));
  changes.areas = sent_areas_;
  for (const NodeId node : metas_.nodes()) effects.send({node, Role::cache_meta}, changes);
}

// Leaves out blocks that were added and removed in the same step.
CacheChanges IndexReports::take_changes(Effects& effects) {
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
  return changes;
}

// Returns zeros for an area without blocks.
AreaCapacity IndexReports::capacity_of(std::size_t i) const {
  const auto area = static_cast<PoolArea>(i);
  if (config_.pool.areas[i].kinds == 0) return {};
  const std::uint64_t page_tokens = pool_.page_tokens();
  return {pool_.pages_available(area) * page_tokens, pool_.cap(area) * page_tokens};
}

bool IndexReports::has_new_capacities() const {
  if (sent_areas_.size() != pool_.areas()) return true;
  for (std::size_t i = 0; i < sent_areas_.size(); ++i)
    if (!(sent_areas_[i] == capacity_of(i))) return true;
  return false;
}

void IndexReports::count_pages(Effects& effects) {
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
