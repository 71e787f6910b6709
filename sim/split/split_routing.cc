// Chooses the node for a request in a pool-split experiment, by HLEM's Algorithm 1 or a simpler
// rule.
#include "sim/split/split_routing.h"

#include <algorithm>

#include "kernels/base/hash.h"
#include "router/fleet/routing.h"

namespace troupe::sim {

std::uint32_t user_home(std::uint32_t user, std::size_t nodes) {
  return static_cast<std::uint32_t>(spread(user) % nodes);
}

namespace {

double wait_of(const NodeView& node) { return std::max(node.waits_us, node.copies_us); }

// Returns the load as the production router computes it: a queue as long as the request counts 0.5.
double load_of(const RoutingCosts& costs, const NodeView& node) {
  const double wait = wait_of(node);
  return wait > 0 ? wait / (wait + costs.load_us) : 0;
}

}  // namespace

double SplitRouter::score(const RoutingCosts& costs, const NodeView& node, bool last) const {
  if (by_ == SplitRouting::cost)
    return -(std::max(node.copies_us + (1 - node.coverage) * costs.rows_us, node.waits_us) +
             (node.has_kv ? 0 : costs.kv_us));
  const double kv_us = by_ == SplitRouting::emb ? 0 : costs.kv_us,
               rows_us = by_ == SplitRouting::kv ? 0 : costs.rows_us;
  return router::joint_score({kv_us, rows_us, costs.load_us},
                             {node.has_kv ? 1.0 : 0.0, node.coverage, load_of(costs, node), last});
}

std::uint32_t SplitRouter::choose(std::uint32_t user, const RoutingCosts& costs,
                                  std::span<const NodeView> nodes) {
  if (by_ == SplitRouting::home) return user_home(user, nodes.size());
  const auto known = last_.find(user);
  std::uint32_t best = 0, idle = 0;
  double most = 0;
  for (std::uint32_t n = 0; n < nodes.size(); ++n) {
    const double score = this->score(costs, nodes[n], known != last_.end() && known->second == n);
    if (n == 0 || score > most) {
      best = n;
      most = score;
    }
    if (wait_of(nodes[n]) < wait_of(nodes[idle])) idle = n;
  }
  const auto too_busy = [&](std::uint32_t n) { return load_of(costs, nodes[n]) > router::too_busy_load; };
  if (by_ != SplitRouting::cost && too_busy(best) && !too_busy(idle)) best = idle;
  last_[user] = best;
  return best;
}

}  // namespace troupe::sim
