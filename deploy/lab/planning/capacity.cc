// Searches for the smallest number of nodes that serves a load within a latency target, by doubling
// and bisecting over simulated trials.
#include "deploy/lab/planning/capacity.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>

namespace troupe::deploy {

NodeType parse_node_type(const std::string& text) {
  const std::size_t at = text.rfind('=');
  NodeType type{text.substr(0, at), 0};
  if (at != std::string::npos) {
    const char* end = text.data() + text.size();
    const auto read = std::from_chars(text.data() + at + 1, end, type.price);
    if (read.ec != std::errc() || read.ptr != end) type.price = 0;
  }
  if (type.device.empty() || !(type.price > 0 && type.price < 1e12))
    throw std::invalid_argument(
        "--node is \"" + text.substr(0, 80) +
        "\"; expected a device and the price of a node with it, such as A100-40G=3.2");
  return type;
}

Capacity find_capacity(const NodeType& type, const CapacityTarget& target, const TryNodes& try_nodes) {
  Capacity capacity{type, {}, {}};
  const auto holds = [&](std::uint32_t nodes) {
    const CapacityTrial& trial = capacity.trials.emplace_back(try_nodes(type, nodes));
    if (trial.holds(target)) capacity.least = trial;
    return trial.holds(target);
  };
  std::uint32_t too_few = 0, enough = 1;
  while (!holds(enough)) {
    if (enough >= target.nodes_max) return capacity;
    too_few = enough;
    enough = std::min(2 * enough, target.nodes_max);
  }
  while (enough - too_few > 1) {
    const std::uint32_t middle = too_few + (enough - too_few) / 2;
    (holds(middle) ? enough : too_few) = middle;
  }
  return capacity;
}

const Capacity* cheapest(const std::vector<Capacity>& all) {
  const Capacity* best = nullptr;
  for (const Capacity& one : all) {
    if (!one.least) continue;
    const bool better = !best || one.price() < best->price() ||
                        (one.price() == best->price() && one.least->nodes < best->least->nodes);
    if (better) best = &one;
  }
  return best;
}

}  // namespace troupe::deploy
