#include "sim/split/split_routing.h"

#include <algorithm>

#include "placement/heat/spread.h"

namespace troupe::sim {
namespace {

constexpr double overload = 0.85, affinity_bonus = 0.05;  // HLEM §IV-C

}  // namespace

std::uint32_t user_home(std::uint32_t user, std::size_t nodes) { return static_cast<std::uint32_t>(spread(user) % nodes); }

double SplitRouter::score(const NodeView& node, bool last) const {
  const double load = std::min(1.0, node.waits_us / costs_.busy_us);
  if (by_ == SplitRouting::cost)
    return -(node.waits_us + (node.has_kv ? 0 : costs_.kv_us) + (1 - node.coverage) * costs_.rows_us);
  const double kv = by_ == SplitRouting::emb ? 0 : costs_.kv_us, rows = by_ == SplitRouting::kv ? 0 : costs_.rows_us;
  const double all = kv + rows + costs_.load_us;
  return (kv * node.has_kv + rows * node.coverage + costs_.load_us * (1 - load)) / all + (last ? affinity_bonus : 0);
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
  if (by_ != SplitRouting::cost && nodes[best].waits_us / costs_.busy_us > overload) best = idle;
  last_[user] = best;
  return best;
}

}  // namespace troupe::sim
