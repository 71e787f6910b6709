#pragma once
// Finds the smallest number of nodes that serves a load within a target, for each type of node, and
// its price. A trial reports how a cluster of a given size performs; here trials are simulated
// (deploy/lab/experiments/serve_trial.h). The search assumes that more nodes are never slower. It
// doubles the number until a trial meets the target, then bisects between that and the last
// failure.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace troupe::deploy {

struct CapacityTarget {
  double p99_ms = 200;
  double lost_most = 0.001;  // maximum fraction of requests that are refused or late
  std::uint32_t nodes_max = 32;
};

struct NodeType {
  std::string device;  // name of a known device, or file of a profile
  double price = 1;    // price of one node, in any unit
};
// Parses "A100-40G=3.2": a device and a price above 0. Throws std::invalid_argument.
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
  std::vector<CapacityTrial> trials;  // in the order of their runs
  // smallest trial that meets the target; unset: none up to nodes_max does
  std::optional<CapacityTrial> least;
  double price() const { return least ? type.price * least->nodes : 0; }
};

using TryNodes = std::function<CapacityTrial(const NodeType& type, std::uint32_t nodes)>;
Capacity find_capacity(const NodeType& type, const CapacityTarget& target, const TryNodes& try_nodes);

// Returns the type with the lowest total price; ties go to fewer nodes, then to the earlier type.
// Null if no type meets the target.
const Capacity* cheapest(const std::vector<Capacity>& all);

}  // namespace troupe::deploy
