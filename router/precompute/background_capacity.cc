// Decides which KV-cache workers get background work (item blocks that no request waits for). A
// worker that repeatedly keeps nothing of it counts as full. The walk over the catalog then skips
// it; blocks of changed items are still sent to it.
#include "router/precompute/background_capacity.h"

#include <algorithm>
#include <utility>

namespace troupe::router {

BackgroundCapacity::BackgroundCapacity(const WorkerTable& workers, std::uint32_t asked_max)
    : workers_(workers), asked_max_(asked_max) {
  for (const NodeId node : workers_.nodes()) capacity_[node] = NodeCapacity::unknown;
}

void BackgroundCapacity::follow(std::set<NodeId> leaving) {
  leaving_ = std::move(leaving);
  for (auto& [node, node_capacity] : capacity_)
    if (!std::ranges::binary_search(workers_.nodes(), node)) node_capacity = NodeCapacity::unknown;
  for (const NodeId node : workers_.nodes()) capacity_.try_emplace(node, NodeCapacity::unknown);
}

void BackgroundCapacity::ask(Step step) {
  const std::vector<NodeId>& nodes = workers_.nodes();
  std::uint32_t asked = 0;
  for (std::size_t i = 0; i < nodes.size() && asked < asked_max_; ++i) {
    const NodeId node = nodes[next_asked_++ % nodes.size()];
    const NodeCapacity node_capacity = capacity_.at(node);
    if ((node_capacity != NodeCapacity::unknown && node_capacity != NodeCapacity::doubtful) ||
        !workers_.alive(step.now, node))
      continue;
    step.effects.send({node, Role::kv_worker}, StatusRequest{step.next_id++});
    ++asked;
  }
}

void BackgroundCapacity::hear_ready(NodeId node) {
  NodeCapacity& node_capacity = capacity_.at(node);
  if (node_capacity == NodeCapacity::doubtful) node_capacity = NodeCapacity::doubtful_ready;
  if (node_capacity == NodeCapacity::unknown) node_capacity = NodeCapacity::ready;
}

void BackgroundCapacity::lose(NodeId node) {
  if (const auto node_capacity = capacity_.find(node); node_capacity != capacity_.end())
    node_capacity->second = NodeCapacity::unknown;
}

void BackgroundCapacity::renew() {
  for (auto& [node, node_capacity] : capacity_)
    if (node_capacity != NodeCapacity::unknown) node_capacity = NodeCapacity::ready;
}

void BackgroundCapacity::keep(NodeId node) { capacity_.at(node) = NodeCapacity::ready; }

void BackgroundCapacity::keep_nothing(NodeId node) {
  NodeCapacity& node_capacity = capacity_.at(node);
  node_capacity = node_capacity == NodeCapacity::doubtful_ready || node_capacity == NodeCapacity::full
                      ? NodeCapacity::full
                      : NodeCapacity::doubtful;
}

bool BackgroundCapacity::some_ready() const {
  return std::ranges::any_of(capacity_,
                             [](const auto& node_capacity) { return ready(node_capacity.second); });
}

bool BackgroundCapacity::may_take(NodeId node, std::string_view model) const {
  const auto node_capacity = capacity_.find(node);
  if (node_capacity == capacity_.end() || leaving_.contains(node) ||
      !std::ranges::binary_search(workers_.nodes(), node))
    return false;
  return node_capacity->second == NodeCapacity::unknown ||
         (ready(node_capacity->second) && !workers_.lacks(node, model));
}

bool BackgroundCapacity::is_ready(Instant now, NodeId node, const std::string& model) const {
  return ready(capacity_.at(node)) && workers_.usable(now, node, model);
}

bool BackgroundCapacity::takes(Instant now, NodeId node, const std::string& model, bool walking) const {
  if (!workers_.usable(now, node, model) || leaving_.contains(node)) return false;
  const NodeCapacity node_capacity = capacity_.at(node);
  return walking ? ready(node_capacity) : node_capacity != NodeCapacity::unknown;
}

bool BackgroundCapacity::is_asked_again(Instant now, NodeId node, const std::string& model) const {
  return capacity_.at(node) == NodeCapacity::doubtful && workers_.usable(now, node, model);
}

NodeId BackgroundCapacity::next(Instant now, const std::string& model, bool walking) {
  const std::vector<NodeId>& nodes = workers_.nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const NodeId node = nodes[next_sent_++ % nodes.size()];
    if (takes(now, node, model, walking)) return node;
  }
  return 0;
}

bool BackgroundCapacity::none_has_capacity(Instant now) const {
  return std::ranges::all_of(capacity_, [&](const auto& node_capacity) {
    return node_capacity.second == NodeCapacity::full || leaving_.contains(node_capacity.first) ||
           !workers_.alive(now, node_capacity.first);
  });
}

}  // namespace troupe::router
