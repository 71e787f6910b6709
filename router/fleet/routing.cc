#include "router/fleet/routing.h"

#include <algorithm>
#include <array>

namespace troupe::router {
namespace {

constexpr std::array<std::string_view, 4> names{"earliest", "affinity", "hits", "load"};

}  // namespace

double routing_score(const Routing& routing, double hit, double load) {
  switch (routing.by) {
    case Routing::By::earliest:
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

std::optional<Routing::By> find_routing(std::string_view name) {
  const auto at = std::ranges::find(names, name);
  if (at == names.end()) return std::nullopt;
  return static_cast<Routing::By>(at - names.begin());
}

std::span<const std::string_view> routing_names() { return names; }

}  // namespace troupe::router
