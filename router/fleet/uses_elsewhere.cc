// Counts, per home (a user's default worker), the requests of its users that ran on other workers,
// and reports them there. Homes need them to split their memory by the real demand.
#include "router/fleet/uses_elsewhere.h"

#include <algorithm>
#include <utility>

namespace troupe::router {

void UsesElsewhere::note(NodeId home, std::span<const BlockUse> uses) {
  if (uses.empty()) return;
  std::deque<BlockUse>& of = uses_[home];
  for (BlockUse use : uses) {
    const auto known = std::ranges::find(of, use.name, &BlockUse::name);
    if (known != of.end()) {
      use.times += known->times;
      of.erase(known);
    }
    of.push_back(use);
  }
  while (of.size() > kept_max) of.pop_front();
}

std::vector<BlockUse> UsesElsewhere::take(NodeId home) {
  const auto at = uses_.find(home);
  if (at == uses_.end()) return {};
  std::deque<BlockUse>& of = at->second;
  const auto end = of.begin() + static_cast<std::ptrdiff_t>(std::min(of.size(), report_max));
  std::vector<BlockUse> taken(of.begin(), end);
  of.erase(of.begin(), end);
  if (of.empty()) uses_.erase(at);
  return taken;
}

void UsesElsewhere::follow(std::span<const NodeId> workers) {
  std::erase_if(uses_,
                [&](const auto& entry) { return std::ranges::find(workers, entry.first) == workers.end(); });
}

std::size_t UsesElsewhere::kept(NodeId home) const {
  const auto at = uses_.find(home);
  return at == uses_.end() ? 0 : at->second.size();
}

}  // namespace troupe::router
