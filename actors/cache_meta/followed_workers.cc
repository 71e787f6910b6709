// Keeps the index of cache-meta equal to what the KV-cache workers hold. It applies each worker's
// numbered changes. After a gap it walks the worker's inventory (the list of its ready blocks) part
// by part. What the walk did not show is swept, that is, erased in small steps.
#include "actors/cache_meta/followed_workers.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace troupe::actors {

FollowedWorkers::FollowedWorkers(FollowConfig config, BlockIndex& index)
    : config_(std::move(config)), index_(index) {
  for (const NodeId node : config_.nodes) workers_[node].capacity.node = node;
}

void FollowedWorkers::start(Instant now, Effects& effects) {
  for (auto& [node, worker] : workers_) {
    worker.heard = now;
    walk(now, node, worker, effects);
  }
}

void FollowedWorkers::follow(Instant now, const std::vector<NodeId>& nodes, Effects& effects) {
  for (const NodeId node : nodes) {
    const auto [at, is_new] = workers_.try_emplace(node);
    if (!is_new) continue;
    at->second.capacity.node = node;
    at->second.heard = now;
    walk(now, node, at->second, effects);
  }
  for (auto at = workers_.begin(); at != workers_.end();) {
    const bool stays = std::ranges::find(nodes, at->first) != nodes.end();
    if (!stays) {
      index_.set_named(at->first, false);
      index_.forget_node(at->first);
    }
    at = stays ? std::next(at) : workers_.erase(at);
  }
}

// ---- messages ----

bool FollowedWorkers::on_changes(Instant now, NodeId node, CacheChanges&& changes, Effects& effects) {
  if (!is_valid(changes)) return false;
  Worker& worker = workers_.at(node);
  if (changes.incarnation < worker.incarnation) return true;  // from a process that has ended
  note_heard(now, node, worker);
  index_.sweep(config_.swept_per_message);
  if (!worker.followed || changes.incarnation != worker.incarnation) {
    start_following(node, worker, changes.incarnation, changes.sequence);
    apply(node, worker, std::move(changes));
    walk(now, node, worker, effects);
  } else if (changes.sequence == worker.applied + 1) {
    apply(node, worker, std::move(changes));
    apply_early(now, node, worker);
  } else if (changes.sequence > worker.applied) {
    keep_early(now, node, worker, std::move(changes), effects);
  }
  return true;
}

bool FollowedWorkers::on_part(Instant now, NodeId node, InventoryPart&& part, Effects& effects) {
  Worker& worker = workers_.at(node);
  if (part.incarnation == 0) return false;
  if (part.incarnation < worker.incarnation) return true;
  note_heard(now, node, worker);
  index_.sweep(config_.swept_per_message);
  if (!worker.followed || part.incarnation != worker.incarnation) {
    const bool first_answer = worker.incarnation == 0 && worker.walking && part.after == worker.after;
    start_following(node, worker, part.incarnation, part.sequence);
    if (!first_answer) {
      walk(now, node, worker, effects);
      return true;
    }
  }
  if (!worker.walking || part.after != worker.after) return true;  // late or duplicate
  if (part.sequence < worker.complete_from) return true;           // the timer requests it again
  const std::uint64_t reached = part.blocks.empty() ? part.after : part.blocks.back().generation;
  if (!part.last && reached <= part.after) return false;
  take_part(node, worker, std::move(part));
  if (part.last) {
    end_walk(now, node, worker, effects);
  } else {
    worker.after = reached;
    ask(now, node, worker, effects);
  }
  return true;
}

// Forgets the blocks of the earlier process.
void FollowedWorkers::start_following(NodeId node, Worker& worker, Incarnation incarnation,
                                      std::uint64_t sequence) {
  if (incarnation != worker.incarnation) index_.forget_node(node);
  worker.followed = true;
  worker.incarnation = incarnation;
  worker.applied = worker.complete_from = sequence;
  worker.removals.clear();
  worker.early.clear();
}

// Does not remember single blocks that found the index full. Once it has free holdings again, the
// whole inventory is walked.
void FollowedWorkers::add(NodeId node, Worker& worker, BlockEntry&& block) {
  const bool is_user = block.kind == SegmentKind::user;
  std::string user = is_user ? block.owner : std::string();
  const bool is_new = index_.add(node, std::move(block));
  if (!is_new && index_.full()) worker.missed = true;
  if (is_new && is_user) users_.push_back(std::move(user));
}

AreaCapacity FollowedWorkers::NodeCapacity::of(SegmentKind kind) const {
  const std::size_t area = index_of(area_of(kind));
  return area < areas.size() ? areas[area] : AreaCapacity{};
}

AreaCapacity FollowedWorkers::NodeCapacity::all() const {
  AreaCapacity sum;
  for (const AreaCapacity& area : areas) {
    sum.free_tokens += area.free_tokens;
    sum.total_tokens += area.total_tokens;
  }
  return sum;
}

void FollowedWorkers::apply(NodeId node, Worker& worker, CacheChanges&& changes) {
  worker.applied = changes.sequence;
  worker.capacity = {node, std::move(changes.areas)};
  for (BlockEntry& block : changes.added) add(node, worker, std::move(block));
  for (const BlockVersion& block : changes.removed) {
    index_.remove(node, block);
    if (!worker.walking) continue;
    worker.removals.push_back({changes.sequence, block});
    if (worker.removals.size() <= config_.removals_max) continue;
    worker.complete_from = worker.removals.front().sequence;
    worker.removals.pop_front();
  }
}

// Changes that stay in `early` wait for another gap, which is counted from now.
void FollowedWorkers::apply_early(Instant now, NodeId node, Worker& worker) {
  worker.early_since = now;
  while (!worker.early.empty() && worker.early.begin()->first == worker.applied + 1) {
    apply(node, worker, std::move(worker.early.extract(worker.early.begin()).mapped()));
  }
}

void FollowedWorkers::keep_early(Instant now, NodeId node, Worker& worker, CacheChanges&& changes,
                                 Effects& effects) {
  if (worker.early.empty()) worker.early_since = now;
  worker.early.try_emplace(changes.sequence, std::move(changes));
  if (worker.early.size() > config_.early_max) close_gap(now, node, worker, effects);
}

// Skips the missing changes: a walk through the inventory finds what they contained.
void FollowedWorkers::close_gap(Instant now, NodeId node, Worker& worker, Effects& effects) {
  worker.complete_from = worker.early.begin()->first;
  worker.removals.clear();
  worker.applied = worker.complete_from - 1;
  apply_early(now, node, worker);
  if (worker.walking) {
    worker.walk_again = true;
  } else {
    walk(now, node, worker, effects);
  }
}

void FollowedWorkers::take_part(NodeId node, Worker& worker, InventoryPart&& part) {
  std::vector<std::uint64_t> gone;  // generations that were removed after this part was written
  for (const Removal& removal : worker.removals)
    if (removal.sequence > part.sequence) gone.push_back(removal.block.generation);
  std::sort(gone.begin(), gone.end());
  for (BlockEntry& block : part.blocks)
    if (!std::binary_search(gone.begin(), gone.end(), block.generation)) add(node, worker, std::move(block));
}

// ---- the walk ----

// Sends no request if a first request of a walk is still open: its answer serves this walk, too.
void FollowedWorkers::walk(Instant now, NodeId node, Worker& worker, Effects& effects) {
  const bool open = worker.walking && worker.after == 0 &&
                    now < worker.requested_at + config_.inventory_retry &&
                    (worker.requested_of == 0 || worker.requested_of == worker.incarnation);
  if (!worker.walking) {
    worker.complete_from = worker.applied;
    worker.removals.clear();
  }
  worker.walking = true;
  worker.walk_again = worker.missed = false;
  worker.after = 0;
  index_.begin_walk(node);
  if (!open) ask(now, node, worker, effects);
}

void FollowedWorkers::end_walk(Instant now, NodeId node, Worker& worker, Effects& effects) {
  index_.end_walk(node);
  worker.walking = false;
  worker.removals.clear();
  if (worker.walk_again) walk(now, node, worker, effects);
}

void FollowedWorkers::ask(Instant now, NodeId node, Worker& worker, Effects& effects) {
  worker.requested_at = now;
  worker.requested_of = worker.incarnation;
  effects.send({node, Role::kv_worker}, InventoryRequest{worker.incarnation, worker.after});
}

// ---- silence ----

void FollowedWorkers::note_heard(Instant now, NodeId node, Worker& worker) {
  worker.heard = now;
  worker.lost = false;
  index_.set_named(node, true);
}

void FollowedWorkers::on_lost(NodeId node) {
  const auto worker = workers_.find(node);
  if (worker == workers_.end()) return;
  worker->second.lost = true;
  index_.set_named(node, false);
}

void FollowedWorkers::shift_silence(Duration stall) {
  if (stall.us == 0) return;
  for (auto& [node, worker] : workers_) worker.heard = worker.heard + stall;
}

void FollowedWorkers::on_tick(Instant now, Effects& effects) {
  index_.sweep(config_.swept_per_tick);
  for (auto& [node, worker] : workers_) {
    const Duration silent = node == config_.own ? Duration{} : now - worker.heard;
    index_.set_named(node, !worker.lost && silent <= config_.silent_after);
    if (silent > config_.forget_after) forget(node, worker);
    if (silent > config_.forget_after && !config_.joined_later) continue;
    if (!worker.early.empty() && now - worker.early_since >= config_.gap_after)
      close_gap(now, node, worker, effects);
    // A worker that restarted no longer knows a cache-meta that joined later; the request
    // subscribes.
    const bool forgot = config_.joined_later && silent > config_.silent_after;
    if ((worker.walking || forgot) && now - worker.requested_at >= config_.inventory_retry) {
      ask(now, node, worker, effects);
    } else if (worker.missed && !worker.walking && index_.has_free_holdings()) {
      walk(now, node, worker, effects);
    }
  }
}

// Keeps the incarnation, so that messages of an earlier process are still recognised as stale.
void FollowedWorkers::forget(NodeId node, Worker& worker) {
  if (!worker.followed && !worker.walking) return;
  index_.forget_node(node);
  worker.followed = worker.walking = worker.walk_again = worker.missed = false;
  worker.removals.clear();
  worker.early.clear();
}

// ---- observers ----

bool FollowedWorkers::shows_capacity(NodeId node, const Worker& worker) const {
  return worker.followed && worker.capacity.all().total_tokens > 0 && index_.named(node);
}

const FollowedWorkers::NodeCapacity* FollowedWorkers::capacity(NodeId node) const {
  const auto worker = workers_.find(node);
  return worker != workers_.end() && shows_capacity(node, worker->second) ? &worker->second.capacity
                                                                          : nullptr;
}

std::size_t FollowedWorkers::syncing() const {
  return static_cast<std::size_t>(std::count_if(workers_.begin(), workers_.end(),
                                                [](const auto& entry) { return entry.second.walking; }));
}

std::string FollowedWorkers::check_bounds() const {
  for (const auto& [node, worker] : workers_) {
    const std::string where = "node " + std::to_string(node) + ": ";
    if (worker.removals.size() > config_.removals_max)
      return where + std::to_string(worker.removals.size()) + " removals kept";
    if (worker.early.size() > config_.early_max)
      return where + std::to_string(worker.early.size()) + " changes wait";
  }
  return "";
}

}  // namespace troupe::actors
