#pragma once
// Where a request goes, by what nodes hold of its user and of his rows and by how busy they are. `joint` is
// HLEM's Algorithm 1: a weighted sum of all three, the weights in proportion to what each miss costs, a bonus
// for the node that the user was sent to last, and the least busy node when the best one is too busy. `kv`
// and `emb` leave one of the two caches out, `home` goes by the user alone, and `cost` is ours: the node that
// is done first, in microseconds, as the planner weighs nodes.
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
  double coverage = 0;  // of the user's shards, those whose rows are there
  double waits_us = 0;  // until the node is free
};

struct RoutingCosts {             // microseconds, in the mean
  double kv_us = 1, rows_us = 1;  // of a history's keys and values that are missing, of all its rows
  double load_us = 1;             // of one request more that waits
  double busy_us = 30'000;        // at which a node's load is 1
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
  std::unordered_map<std::uint32_t, std::uint32_t> last_;  // of each user; looked up only
};

}  // namespace troupe::sim
