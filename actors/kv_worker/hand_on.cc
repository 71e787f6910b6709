#include "actors/kv_worker/hand_on.h"

#include <algorithm>
#include <iterator>

#include "placement/assignment/homes.h"
#include "runtime/actor/planted.h"
#include "runtime/actor/user_home.h"

namespace troupe::actors {

using placement::home_rank;

void HandOn::begin(Instant now, std::vector<NodeId> nodes, std::vector<Block> blocks) {
  stop();
  begun_ = true;
  told_ = false;
  began_ = now;
  nodes_ = std::move(nodes);
  std::erase(nodes_, own_);
  counts_ = {.blocks = blocks.size()};
  if (planted(Bug::keep_users_blocks)) return;
  if (nodes_.empty()) {
    counts_.left_behind = blocks.size();
    return;
  }
  unknown_.assign(std::make_move_iterator(blocks.begin()), std::make_move_iterator(blocks.end()));
}

void HandOn::stop() {
  begun_ = false;
  unknown_.clear();
  look_up_.reset();
  known_.clear();
  lines_.clear();
  offers_.clear();
  rests_.clear();
  full_.clear();
}

// Blocks queued for a node that no longer stays go to another node. An open offer to it still gets
// its answer or times out.
void HandOn::follow(std::vector<NodeId> nodes) {
  std::erase(nodes, own_);
  if (nodes == nodes_ || nodes.empty()) return;
  nodes_ = std::move(nodes);
  for (auto& [node, line] : lines_) std::ranges::move(line, std::back_inserter(known_));
  lines_.clear();
}

std::size_t HandOn::waiting() const {
  std::size_t blocks = known_.size();
  for (const auto& [node, line] : lines_) blocks += line.size();
  return blocks;
}

std::size_t HandOn::blocks_open() const {
  std::size_t blocks = unknown_.size() + waiting() + (look_up_ ? look_up_->blocks.size() : 0);
  for (const auto& [node, asked] : offers_) blocks += asked.blocks.size();
  return blocks;
}

std::optional<Duration> HandOn::take_end(Instant now) {
  if (!done() || std::exchange(told_, true)) return std::nullopt;
  return now - began_;
}

// Prefers the home; each try moves on to the next node in the same order. Nodes in back-off are
// skipped while there are others.
NodeId HandOn::target(Instant now, const Block& block) const {
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
  const auto awake = std::ranges::find_if(nodes, [&](NodeId node) { return !rests(now, node); });
  return awake == nodes.end() ? nodes.front() : *awake;
}

bool HandOn::rests(Instant now, NodeId node) const {
  const auto rest = rests_.find(node);
  return rest != rests_.end() && now < rest->second;
}

void HandOn::line_up(Instant now, Block block) {
  const NodeId node = target(now, block);
  if (node == 0)
    ++counts_.left_behind;
  else
    lines_[node].push_back(std::move(block));
}

void HandOn::try_again(Block block) {
  if (++block.tries >= bounds_.tries_max)
    ++counts_.left_behind;
  else
    known_.push_back(std::move(block));
}

HandOn::Said HandOn::next(Instant now, std::span<const NodeId> cache_metas, std::uint64_t& next_id) {
  Said said;
  if (!begun_) return said;
  if (!look_up_ && !unknown_.empty() && waiting() < bounds_.waiting_max) {
    const NodeId meta = cache_metas.empty() ? 0 : cache_metas[asked_metas_ % cache_metas.size()];
    const std::uint64_t id = next_id++;
    LookupBlocks question = look_up(now, id);
    if (meta != 0) said.push_back({{meta, Role::cache_meta}, std::move(question)});
  }
  for (; !known_.empty(); known_.pop_front()) line_up(now, std::move(known_.front()));
  for (auto& [node, line] : lines_) {
    if (line.empty() || rests(now, node) || offers_.contains(node)) continue;
    const std::uint64_t id = next_id++;
    said.push_back({{node, Role::kv_worker}, offer(now, node, line, id)});
  }
  return said;
}

LookupBlocks HandOn::look_up(Instant now, std::uint64_t id) {
  LookupBlocks question{.id = id, .prefer = nodes_, .count_access = false, .all_holders = true};
  look_up_ = Asked{id, now + bounds_.lookup_wait, {}};
  while (!unknown_.empty() && look_up_->blocks.size() < bounds_.looked_up) {
    const Block& block = look_up_->blocks.emplace_back(std::move(unknown_.front()));
    unknown_.pop_front();
    question.blocks.push_back({block.name, SegmentKind::user, block.tokens});
  }
  return question;
}

AcquireBlocks HandOn::offer(Instant now, NodeId node, std::deque<Block>& from, std::uint64_t id) {
  AcquireBlocks ask{.id = id, .budget_us = bounds_.patience.us};
  ask.may_evict = from.front().displaces;
  ask.retention.belongs = true;
  Asked& asked = offers_[node] = {id, now + bounds_.patience + bounds_.rest, {}};
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

bool HandOn::on_found(const BlocksFound& found) {
  if (!look_up_ || look_up_->id != found.id) return false;
  std::span<const NodeId> holders = found.holders;
  for (std::size_t i = 0; i < look_up_->blocks.size(); ++i) {
    const std::size_t count =
        i < found.counts.size() ? std::min<std::size_t>(found.counts[i], holders.size()) : 0;
    const auto stays = [&](NodeId node) { return std::ranges::find(nodes_, node) != nodes_.end(); };
    if (std::ranges::any_of(holders.first(count), stays))
      ++counts_.held_elsewhere;
    else
      known_.push_back(std::move(look_up_->blocks[i]));
    holders = holders.subspan(count);
  }
  look_up_.reset();
  return true;
}

// A read grant means that the node has the block.
bool HandOn::on_answer(Instant now, Address from, const BlocksAcquired& answer) {
  const auto at = offers_.find(from.node);
  if (at == offers_.end() || at->second.id != answer.id) return false;
  Asked asked = std::move(at->second);
  offers_.erase(at);
  bool took = false;
  const bool displaces = asked.blocks.front().displaces;
  for (std::size_t i = 0; i < asked.blocks.size(); ++i) {
    const bool there = i < answer.grants.size() && answer.grants[i].grant == Grant::read;
    took = took || there;
    counts_.handed_on += there;
    if (!there) try_again(std::move(asked.blocks[i]));
  }
  if (took)
    full_.erase(from.node);
  else
    note_vain(now, from.node, displaces);
  return true;
}

void HandOn::note_vain(Instant now, NodeId node, bool displaces) {
  rests_[node] = now + bounds_.rest;
  if (!displaces && ++full_[node] >= bounds_.full_after) give_back_line(node);
}

void HandOn::give_back_line(NodeId node) {
  if (auto line = lines_.extract(node)) std::ranges::move(line.mapped(), std::back_inserter(known_));
}

void HandOn::lose(Instant now, NodeId node) {
  if (!begun_) return;
  if (auto asked = offers_.extract(node))
    for (Block& block : asked.mapped().blocks) try_again(std::move(block));
  rests_[node] = now + bounds_.rest;
  give_back_line(node);
}

// Blocks of an unanswered lookup are offered anyway: the answers to the offers show who has them.
void HandOn::tick(Instant now) {
  if (look_up_ && now >= look_up_->until) {
    ++asked_metas_;
    std::ranges::move(look_up_->blocks, std::back_inserter(known_));
    look_up_.reset();
  }
  std::vector<NodeId> silent;
  for (const auto& [node, asked] : offers_)
    if (now >= asked.until) silent.push_back(node);
  for (const NodeId node : silent) lose(now, node);
}

std::string HandOn::check_bounds() const {
  if (blocks_open() > counts_.blocks)
    return "blocks to migrate: " + std::to_string(blocks_open()) + " of " + std::to_string(counts_.blocks);
  for (const auto& [node, asked] : offers_)
    if (asked.blocks.size() > bounds_.part_blocks)
      return "blocks offered at a time: " + std::to_string(asked.blocks.size());
  return "";
}

}  // namespace troupe::actors
