// Plans the migration of user blocks when their worker leaves the cluster for good: which block is
// offered to which staying node, in which order, and when an offer is repeated elsewhere. Without
// it, every user of that worker would start with a miss.
#include "actors/kv_worker/migration.h"

#include <algorithm>
#include <iterator>

#include "placement/assignment/homes.h"
#include "runtime/actor/user_home.h"

namespace troupe::actors {

using placement::home_rank;

// ---- begin and end ----

void Migration::on_drain(Instant now, Drain&& drain, const PagePool& pool, Effects& effects) {
  if (!drain.on) {
    stop();
  } else if (begun_) {
    follow(std::move(drain.user_targets));
  } else {
    begin(now, std::move(drain.user_targets), pool, effects);
  }
}

// When a node leaves, the cluster's pool shrinks and a part of all user blocks must be evicted.
// Ordered by last use over all nodes, this part is the same for the blocks here as for those
// elsewhere. So the most recently used blocks, up to `displacing` pages, may evict the receiver's
// least recently used ones. The others take only free pages.
void Migration::begin(Instant now, std::vector<NodeId>&& nodes, const PagePool& pool, Effects& effects) {
  stop();
  begun_ = true;
  end_reported_ = false;
  began_ = now;
  nodes_ = std::move(nodes);
  std::erase(nodes_, own_);
  const std::uint64_t stay = nodes_.size();
  const PoolArea area = pool.area_of(SegmentKind::user);
  const std::uint64_t displacing =
      std::uint64_t{std::max(pool.cap(area), pool.used(area))} * stay / (stay + 1);
  std::vector<Block> blocks;
  std::uint64_t pages = 0;
  for (const PoolBlock* block : pool.last_used(SegmentKind::user)) {
    pages += block->pages.size();
    blocks.push_back({block->name, block->owner, block->tokens, pages <= displacing});
  }
  effects.log(LogLevel::info, "migration_begins",
              {{"blocks", blocks.size()}, {"pages", pages}, {"nodes", stay}});
  counts_ = {.blocks = blocks.size()};
  if (nodes_.empty()) {
    counts_.left_behind = blocks.size();
    return;
  }
  not_looked_up_.assign(std::make_move_iterator(blocks.begin()), std::make_move_iterator(blocks.end()));
}

void Migration::stop() {
  begun_ = false;
  not_looked_up_.clear();
  look_up_.reset();
  to_offer_.clear();
  queues_.clear();
  offers_.clear();
  back_off_until_.clear();
  full_.clear();
}

// Blocks queued for a node that no longer stays go to another node. An open offer to it still gets
// its answer or times out.
void Migration::follow(std::vector<NodeId>&& nodes) {
  std::erase(nodes, own_);
  if (nodes == nodes_ || nodes.empty()) return;
  nodes_ = std::move(nodes);
  for (auto& [node, queue] : queues_) std::ranges::move(queue, std::back_inserter(to_offer_));
  queues_.clear();
}

std::size_t Migration::waiting() const {
  std::size_t blocks = to_offer_.size();
  for (const auto& [node, queue] : queues_) blocks += queue.size();
  return blocks;
}

std::size_t Migration::blocks_open() const {
  std::size_t blocks = not_looked_up_.size() + waiting() + (look_up_ ? look_up_->blocks.size() : 0);
  for (const auto& [node, asked] : offers_) blocks += asked.blocks.size();
  return blocks;
}

void Migration::advance(Instant now, std::span<const NodeId> cache_metas, Serials& serials,
                        Effects& effects) {
  if (!begun_) return;
  end_unanswered(now);
  send_next(now, cache_metas, serials, effects);
  count(effects);
  if (!done()) effects.set_timer(KvWorkerTimer::migration, now + tick_);
  report_end(now, effects);
}

void Migration::count(Effects& effects) {
  const auto add = [&](Metric metric, std::uint64_t now_is, std::uint64_t counted_before) {
    if (now_is > counted_before) effects.count(metric, static_cast<double>(now_is - counted_before));
  };
  add(Metric::users_handed_on, counts_.migrated, counted_.migrated);
  add(Metric::users_held_elsewhere, counts_.held_elsewhere, counted_.held_elsewhere);
  add(Metric::users_left_behind, counts_.left_behind, counted_.left_behind);
  counted_ = counts_;
}

void Migration::report_end(Instant now, Effects& effects) {
  if (!done() || std::exchange(end_reported_, true)) return;
  effects.log(LogLevel::info, "users_blocks_handed_on",
              {{"blocks", counts_.blocks},
               {"handed_on", counts_.migrated},
               {"held_elsewhere", counts_.held_elsewhere},
               {"left_behind", counts_.left_behind},
               {"ms", (now - began_).us / 1'000}});
}

// ---- lookups and offers ----

// Prefers the home; each try moves on to the next node in the same order. Nodes in back-off are
// skipped while there are others.
NodeId Migration::target(Instant now, const Block& block) const {
  std::vector<NodeId> nodes = nodes_;
  const std::uint64_t user = owner_hash(block.owner);
  std::ranges::sort(nodes, [&](NodeId a, NodeId b) {
    const std::uint64_t rank_a = home_rank(user, spread(a)), rank_b = home_rank(user, spread(b));
    return rank_a != rank_b ? rank_a > rank_b : a < b;
  });
  std::erase_if(nodes, [&](NodeId node) {
    const auto full = full_.find(node);
    return !block.displaces && full != full_.end() && full->second >= bounds_.full_after;
  });
  if (nodes.empty()) return 0;
  std::ranges::rotate(nodes, nodes.begin() + static_cast<std::ptrdiff_t>(block.tries % nodes.size()));
  const auto awake = std::ranges::find_if(nodes, [&](NodeId node) { return !is_in_back_off(now, node); });
  return awake == nodes.end() ? nodes.front() : *awake;
}

bool Migration::is_in_back_off(Instant now, NodeId node) const {
  const auto back_off = back_off_until_.find(node);
  return back_off != back_off_until_.end() && now < back_off->second;
}

void Migration::enqueue(Instant now, Block block) {
  const NodeId node = target(now, block);
  if (node == 0)
    ++counts_.left_behind;
  else
    queues_[node].push_back(std::move(block));
}

void Migration::retry_block(Block block) {
  if (++block.tries >= bounds_.tries_max)
    ++counts_.left_behind;
  else
    to_offer_.push_back(std::move(block));
}

void Migration::send_next(Instant now, std::span<const NodeId> cache_metas, Serials& serials,
                          Effects& effects) {
  if (!look_up_ && !not_looked_up_.empty() && waiting() < bounds_.waiting_max) {
    const NodeId meta = cache_metas.empty() ? 0 : cache_metas[failed_lookups_ % cache_metas.size()];
    LookupBlocks question = look_up(now, serials.next());
    if (meta != 0) effects.send({meta, Role::cache_meta}, std::move(question));
  }
  for (; !to_offer_.empty(); to_offer_.pop_front()) enqueue(now, std::move(to_offer_.front()));
  for (auto& [node, queue] : queues_) {
    if (queue.empty() || is_in_back_off(now, node) || offers_.contains(node)) continue;
    effects.send({node, Role::kv_worker}, offer(now, node, queue, serials.next()));
  }
}

LookupBlocks Migration::look_up(Instant now, std::uint64_t id) {
  LookupBlocks question{.id = id, .prefer = nodes_, .count_access = false, .all_holders = true};
  look_up_ = OpenRequest{id, now + bounds_.lookup_wait, {}};
  while (!not_looked_up_.empty() && look_up_->blocks.size() < bounds_.lookup_blocks) {
    const Block& block = look_up_->blocks.emplace_back(std::move(not_looked_up_.front()));
    not_looked_up_.pop_front();
    question.blocks.push_back({block.name, SegmentKind::user, block.tokens});
  }
  return question;
}

AcquireBlocks Migration::offer(Instant now, NodeId node, std::deque<Block>& from, std::uint64_t id) {
  AcquireBlocks ask{.id = id, .budget_us = bounds_.offer_wait.us};
  ask.may_evict = from.front().displaces;
  ask.retention.belongs = true;
  OpenRequest& asked = offers_[node] = {id, now + bounds_.offer_wait + bounds_.back_off, {}};
  std::uint64_t tokens = 0;
  while (!from.empty() && asked.blocks.size() < bounds_.part_blocks &&
         from.front().displaces == ask.may_evict) {
    tokens += from.front().tokens;
    if (!asked.blocks.empty() && tokens > bounds_.part_tokens) break;
    const Block& block = asked.blocks.emplace_back(std::move(from.front()));
    from.pop_front();
    ask.wants.push_back({block.name, SegmentKind::user, block.owner, block.tokens, own_});
  }
  return ask;
}

bool Migration::on_found(const BlocksFound& found) {
  if (!look_up_ || look_up_->id != found.id) return false;
  std::span<const NodeId> holders = found.holders;
  for (std::size_t i = 0; i < look_up_->blocks.size(); ++i) {
    const std::size_t count =
        i < found.counts.size() ? std::min<std::size_t>(found.counts[i], holders.size()) : 0;
    const auto stays = [&](NodeId node) { return std::ranges::find(nodes_, node) != nodes_.end(); };
    if (std::ranges::any_of(holders.first(count), stays))
      ++counts_.held_elsewhere;
    else
      to_offer_.push_back(std::move(look_up_->blocks[i]));
    holders = holders.subspan(count);
  }
  look_up_.reset();
  return true;
}

// A read grant means that the node has the block.
bool Migration::on_answer(Instant now, Address from, const BlocksAcquired& answer) {
  const auto at = offers_.find(from.node);
  if (at == offers_.end() || at->second.id != answer.id) return false;
  OpenRequest asked = std::move(at->second);
  offers_.erase(at);
  bool took = false;
  const bool displaces = asked.blocks.front().displaces;
  for (std::size_t i = 0; i < asked.blocks.size(); ++i) {
    const bool there = i < answer.grants.size() && answer.grants[i].grant == Grant::read;
    took = took || there;
    counts_.migrated += there;
    if (!there) retry_block(std::move(asked.blocks[i]));
  }
  if (took)
    full_.erase(from.node);
  else
    note_failed_offer(now, from.node, displaces);
  return true;
}

void Migration::note_failed_offer(Instant now, NodeId node, bool displaces) {
  back_off_until_[node] = now + bounds_.back_off;
  if (!displaces && ++full_[node] >= bounds_.full_after) requeue_blocks(node);
}

void Migration::requeue_blocks(NodeId node) {
  if (auto queue = queues_.extract(node)) std::ranges::move(queue.mapped(), std::back_inserter(to_offer_));
}

void Migration::lose(Instant now, NodeId node) {
  if (!begun_) return;
  if (auto asked = offers_.extract(node))
    for (Block& block : asked.mapped().blocks) retry_block(std::move(block));
  back_off_until_[node] = now + bounds_.back_off;
  requeue_blocks(node);
}

// Blocks of an unanswered lookup are offered anyway: the answers to the offers show who has them.
void Migration::end_unanswered(Instant now) {
  if (look_up_ && now >= look_up_->until) {
    ++failed_lookups_;
    std::ranges::move(look_up_->blocks, std::back_inserter(to_offer_));
    look_up_.reset();
  }
  std::vector<NodeId> silent;
  for (const auto& [node, asked] : offers_)
    if (now >= asked.until) silent.push_back(node);
  for (const NodeId node : silent) lose(now, node);
}

std::string Migration::check_bounds() const {
  if (blocks_open() > counts_.blocks)
    return "blocks to migrate: " + std::to_string(blocks_open()) + " of " + std::to_string(counts_.blocks);
  for (const auto& [node, asked] : offers_)
    if (asked.blocks.size() > bounds_.part_blocks)
      return "blocks offered at a time: " + std::to_string(asked.blocks.size());
  return "";
}

}  // namespace troupe::actors
