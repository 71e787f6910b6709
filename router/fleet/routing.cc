// Names the rules that choose a worker, and computes their scores from what the worker holds of the
// request and its load.
#include "router/fleet/routing.h"

#include <algorithm>
#include <array>

namespace troupe::router {
namespace {

constexpr std::array<std::string_view, 5> names{"earliest", "affinity", "hits", "load", "joint"};
constexpr double last_bonus = 0.05;  // HLEM §IV-C

}  // namespace

double routing_score(const Routing& routing, double hit, double load) {
  switch (routing.by) {
    case Routing::By::earliest:
    case Routing::By::joint:
      return 0;
    case Routing::By::affinity:
      return routing.alpha * hit - (1 - routing.alpha) * load;
    case Routing::By::hits:
      return hit;
    case Routing::By::load:
      return -load;
  }
  return 0;
}

double joint_score(const MissCosts& costs, const JointView& view) {
  const double all = costs.kv + costs.rows + costs.load;
  const double weighed = costs.kv * view.hit + costs.rows * view.found + costs.load * (1 - view.load);
  return (all > 0 ? weighed / all : 0) + (view.last ? last_bonus : 0);
}

std::optional<Routing::By> find_routing(std::string_view name) {
  const auto at = std::ranges::find(names, name);
  if (at == names.end()) return std::nullopt;
  return static_cast<Routing::By>(at - names.begin());
}

std::span<const std::string_view> routing_names() { return names; }

}  // namespace troupe::router
