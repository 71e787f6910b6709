// Decides on which nodes each item block belongs at the moment. It corrects the planned assignment:
// hot items belong everywhere, and other nodes stand in for an absent one.
#include "router/precompute/current_assignment.h"

#include <algorithm>
#include <utility>

#include "kernels/base/hash.h"

namespace troupe::router {

CurrentAssignment::CurrentAssignment(const RefreshConfig& config, std::shared_ptr<const ItemAssignment> plan)
    : away_after_(config.away_after), plan_(std::move(plan)), again_after_(config.window / 4) {
  const double hot_share = config.replication.on ? 0 : config.hot_share;  // 0 until it is decided
  if (plan_ && (config.replication.on || hot_share > 0))
    hot_.emplace(placement::HotItemsConfig{.window = config.window, .hot_share = hot_share});
}

// An away node stays away until it is heard; nodes that are not in the list are forgotten.
void CurrentAssignment::follow(const std::vector<NodeId>& nodes) {
  if (nodes.empty()) return;
  if (plan_) plan_ = std::make_shared<const ItemAssignment>(plan_->over(nodes));
  std::erase_if(away_, [&](NodeId node) { return std::ranges::count(nodes, node) == 0; });
  std::erase_if(silent_since_,
                [&](const auto& silent) { return std::ranges::count(nodes, silent.first) == 0; });
}

bool CurrentAssignment::replace(std::shared_ptr<const ItemAssignment> plan) {
  if (!plan_ || plan->nodes() != plan_->nodes()) return false;
  plan_ = std::move(plan);
  return true;
}

bool CurrentAssignment::is_hot(std::string_view item) const {
  return hot_ && brought_.contains(placement::item_key(item));
}

std::vector<NodeId> CurrentAssignment::nodes_of(const std::string& item) const {
  if (!plan_) return {};
  std::vector<NodeId> nodes = is_hot(item) ? plan_->nodes() : plan_->nodes_of(item);
  if (away_.empty() || nodes.empty()) return nodes;
  std::erase_if(nodes, [&](NodeId node) { return away_.contains(node); });
  if (nodes.empty() && away_.size() < plan_->nodes().size())
    nodes.push_back(stand_in(placement::item_key(item)));
  return nodes;
}

// Uses rendezvous hashing, so that no other item moves when another node goes or returns.
NodeId CurrentAssignment::stand_in(std::uint64_t key) const {
  NodeId best = 0;
  std::uint64_t best_score = 0;
  for (const NodeId node : plan_->nodes()) {
    const std::uint64_t score = spread(key ^ spread(node));
    if (away_.contains(node) || (best != 0 && score <= best_score)) continue;
    best = node;
    best_score = score;
  }
  return best;
}

bool CurrentAssignment::touch(const ItemView& item) {
  if (!hot_) return false;
  const std::uint64_t key = placement::item_key(item.id);
  const auto change = hot_->touch(key);
  ++accesses_;
  if (change.left) brought_.erase(*change.left);
  if (!hot_->contains(key)) return false;
  const auto known = brought_.find(key);
  if (known == brought_.end()) {  // the plan may have had it on all nodes when it became hot
    if (plan_->nodes_of(std::string(item.id)).size() >= plan_->nodes().size()) return false;
    return brought_.emplace(key, HotCopy{item.block, accesses_}).second;
  }
  const bool due = known->second.block != item.block || accesses_ - known->second.at >= again_after_;
  if (due) known->second = {item.block, accesses_};
  return due;
}

std::vector<placement::AccessClass> CurrentAssignment::accesses() const {
  return hot_ ? hot_->classes() : std::vector<placement::AccessClass>{};
}

void CurrentAssignment::set_hot_count(std::uint64_t accesses) {
  if (!hot_) return;
  for (const std::uint64_t key : hot_->set_hot_count(accesses)) brought_.erase(key);
}

bool CurrentAssignment::see(Instant now, NodeId node, bool alive) {
  if (alive) {
    silent_since_.erase(node);
    return away_.erase(node) > 0;
  }
  const Instant since = silent_since_.try_emplace(node, now).first->second;
  return now - since >= away_after_ && away_.insert(node).second;
}

std::string CurrentAssignment::check_bounds() const {
  if (hot_ && brought_.size() > hot_->size_max()) return "current places: more hot items than the window has";
  return "";
}

}  // namespace troupe::router
