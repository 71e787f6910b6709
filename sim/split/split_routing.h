#pragma once
// Routes a request by what nodes hold of its user's keys and rows and by their load. `joint` is
// HLEM's Algorithm 1 as the production router has it (router/fleet/routing.h, worker_table.cc): a
// weighted sum of all three, with weights proportional to the cost of each miss of this request, and a
// bonus for the user's last node. Load is wait / (wait + time of the request). If the best node is too
// busy, the least busy one is chosen, unless that one is too busy as well. `kv` and `emb` ignore one of
// the two caches, and `home` uses only the user. `cost` is not from the paper: it chooses the node that
// finishes first, in microseconds, as the planner does.
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
  double coverage = 0;   // share of recently used rows of the user's shards that are in memory
  double waits_us = 0;   // time until the device is free
  double copies_us = 0;  // time until the host link is free
};

struct RoutingCosts {             // microseconds, of one request
  double kv_us = 1, rows_us = 1;  // of its missing keys and values; of all its rows
  double load_us = 1;             // to compute it with no keys and values held
};

std::uint32_t user_home(std::uint32_t user, std::size_t nodes);

class SplitRouter {
 public:
  explicit SplitRouter(SplitRouting by) : by_(by) {}
  std::uint32_t choose(std::uint32_t user, const RoutingCosts& costs, std::span<const NodeView> nodes);

 private:
  double score(const RoutingCosts& costs, const NodeView& node, bool last) const;

  SplitRouting by_;
  // Node of each user's last request; looked up only.
  std::unordered_map<std::uint32_t, std::uint32_t> last_;
};

}  // namespace troupe::sim
