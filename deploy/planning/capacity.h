#pragma once
// How many nodes a load takes: the least count at which a trial holds a target, for each type of node, and
// what that costs. A trial is whatever says how a cluster of so many nodes does; here it is a simulated one
// (experiments/serve_trial.h). More nodes are taken to be no slower: counts are doubled until one holds, and
// halved between that and the last one that did not.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace troupe::deploy {

struct CapacityTarget {
  double p99_ms = 200;
  double lost_most = 0.001;  // share of the requests that may be refused or too late
  std::uint32_t nodes_max = 32;
};

struct NodeType {
  std::string device;  // a known one, or the file of a profile
  double price = 1;    // of one node, in any unit
};
// "A100-40G=3.2": a device and a price above 0. Throws std::invalid_argument.
NodeType parse_node_type(const std::string& text);

struct CapacityTrial {
  std::uint32_t nodes = 0;
  double p50_ms = 0, p99_ms = 0, lost = 0, token_hit_rate = 0, requests_per_s = 0;
  bool holds(const CapacityTarget& target) const {
    return p99_ms <= target.p99_ms && lost <= target.lost_most;
  }
};

struct Capacity {
  NodeType type;
  std::vector<CapacityTrial> trials;   // in the order in which they were made
  std::optional<CapacityTrial> least;  // none: not with nodes_max of them either
  double price() const { return least ? type.price * least->nodes : 0; }
};

using TryNodes = std::function<CapacityTrial(const NodeType& type, std::uint32_t nodes)>;
Capacity find_capacity(const NodeType& type, const CapacityTarget& target, const TryNodes& try_nodes);

// The one with the lowest price, of those with the same the one with fewer nodes, then the earlier; null if
// none holds.
const Capacity* cheapest(const std::vector<Capacity>& all);

}  // namespace troupe::deploy
