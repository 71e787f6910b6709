#pragma once
// Routes a request by what nodes hold of its user's keys and rows and by their load. `joint` is
// HLEM's Algorithm 1: a weighted sum of all three, with weights proportional to the cost of each
// miss, and a bonus for the user's last node. If the best node is too busy, the least busy one is
// chosen. `kv` and `emb` ignore one of the two caches, and `home` uses only the user. `cost` is not
// from the paper: it chooses the node that finishes first, in microseconds, as the planner does.
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace troupe::sim {

enum class SplitRouting : std::uint8_t { home, kv, emb, joint, cost };
inline constexpr std::string_view routing_names[] = {"home", "kv", "emb", "joint", "cost"};

struct NodeView {
  bool has_kv = false;
  double coverage = 0;  // share of recently used rows of the user's shards that are in memory
  double waits_us = 0;  // time until the node is free
};

struct RoutingCosts {             // mean microseconds
  double kv_us = 1, rows_us = 1;  // of a history's missing keys and values; of all its rows
  double load_us = 1;             // of one more waiting request
  double busy_us = 30'000;        // waiting time at which a node's load is 1
};

std::uint32_t user_home(std::uint32_t user, std::size_t nodes);

class SplitRouter {
 public:
  SplitRouter(SplitRouting by, const RoutingCosts& costs) : by_(by), costs_(costs) {}
  std::uint32_t choose(std::uint32_t user, std::span<const NodeView> nodes);

 private:
  double score(const NodeView& node, bool last) const;

  SplitRouting by_;
  RoutingCosts costs_;
  // Node of each user's last request; looked up only.
  std::unordered_map<std::uint32_t, std::uint32_t> last_;
};

}  // namespace troupe::sim
