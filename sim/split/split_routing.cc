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

double SplitRouter::score(const NodeView& node, bool last) const {
  const double load = std::min(1.0, node.waits_us / costs_.busy_us);
  if (by_ == SplitRouting::cost)
    return -(node.waits_us + (node.has_kv ? 0 : costs_.kv_us) + (1 - node.coverage) * costs_.rows_us);
  const double kv_us = by_ == SplitRouting::emb ? 0 : costs_.kv_us,
               rows_us = by_ == SplitRouting::kv ? 0 : costs_.rows_us;
  return router::joint_score({kv_us, rows_us, costs_.load_us},
                             {node.has_kv ? 1.0 : 0.0, node.coverage, load, last});
}

std::uint32_t SplitRouter::choose(std::uint32_t user, std::span<const NodeView> nodes) {
  if (by_ == SplitRouting::home) return user_home(user, nodes.size());
  const auto known = last_.find(user);
  std::uint32_t best = 0, idle = 0;
  double most = 0;
  for (std::uint32_t n = 0; n < nodes.size(); ++n) {
    const double score = this->score(nodes[n], known != last_.end() && known->second == n);
    if (n == 0 || score > most) {
      best = n;
      most = score;
    }
    if (nodes[n].waits_us < nodes[idle].waits_us) idle = n;
  }
  if (by_ != SplitRouting::cost && nodes[best].waits_us / costs_.busy_us > router::too_busy_load) best = idle;
  last_[user] = best;
  return best;
}

}  // namespace troupe::sim
