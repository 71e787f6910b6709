// Places items by HRCS ("hot replicated, cold sharded", BAT): the hottest items are on every node,
// the others on one node each. As many are replicated as needed for pulls of the others not to
// delay requests.
#include "placement/assignment/hrcs.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "kernels/base/check.h"
#include "placement/assignment/shards.h"

namespace troupe::placement {

namespace {

void check(const char* what, double value, const char* expected) {
  if (value > 0 && std::isfinite(value)) return;
  throw std::invalid_argument(std::string("hrcs: ") + what + " is " + std::to_string(value) +
                              "; expected a positive number of " + expected);
}

// Counts how many of the hottest items fit into a number of bytes.
class HottestBytes {
 public:
  HottestBytes(const AccessDistribution& accesses, const Items& items) : items_(items) {
    if (items.one_size()) return;
    sums_.reserve(items.count() + 1);
    sums_.push_back(0);
    for (std::uint64_t rank = 0; rank < items.count(); ++rank)
      sums_.push_back(sums_.back() + items.bytes(accesses.item_at(rank)));
  }
  double bytes(std::uint64_t hottest) const {
    return sums_.empty() ? static_cast<double>(hottest) * static_cast<double>(items_.bytes(0))
                         : static_cast<double>(sums_[hottest]);
  }
  std::uint64_t within(double bytes) const {
    if (bytes >= static_cast<double>(items_.total_bytes())) return items_.count();
    if (sums_.empty()) return static_cast<std::uint64_t>(bytes / static_cast<double>(items_.bytes(0)));
    const auto above = std::upper_bound(sums_.begin(), sums_.end(), static_cast<std::uint64_t>(bytes));
    return static_cast<std::uint64_t>(above - sums_.begin()) - 1;
  }

 private:
  const Items& items_;
  std::vector<std::uint64_t> sums_;  // [items + 1] bytes of the hottest 0, 1, 2, … items
};

}  // namespace

double communication_ratio_max(const ReplicationInput& in) {
  check("the prefill time", in.prefill_us, "microseconds");
  check("alpha", in.alpha, "1, a share of the prefill time");
  check("the link's speed", in.tokens_per_s, "tokens a second");
  check("candidates", in.candidates, "items per request");
  check("item tokens", in.item_tokens, "tokens");
  check("nodes", in.nodes, "nodes");
  const double allowed_s = in.alpha * in.prefill_us / 1e6;
  return allowed_s * in.tokens_per_s * (in.nodes - 1.0) / (in.candidates * in.item_tokens * in.nodes);
}

std::uint64_t replicated_items(const AccessDistribution& accesses, double ratio_max) {
  return std::max<std::uint64_t>(1, accesses.reaching(1 - ratio_max));
}

HrcsDecision decide_replication(double ratio_max, const AccessDistribution& accesses, const Items& items,
                                std::size_t nodes, std::uint64_t memory_bytes) {
  TROUPE_CHECK(accesses.items() == items.count(), "accesses and items describe the same catalog");
  const HottestBytes hottest(accesses, items);
  const auto memory = static_cast<double>(memory_bytes), others = static_cast<double>(nodes) - 1;
  // A replicated item takes space on every node; the memory left over holds sharded items.
  const auto placed = [&](std::uint64_t replicated) {
    return hottest.within(memory + others * (memory - hottest.bytes(replicated)));
  };
  // Replicating more items leaves fewer accesses to the sharded ones, so a binary search finds the
  // least number.
  std::uint64_t low = 0, high = hottest.within(memory);
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (accesses.cdf(middle) >= accesses.cdf(placed(middle)) - ratio_max) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  HrcsDecision decision{.ratio_max = ratio_max, .by_algorithm = replicated_items(accesses, ratio_max)};
  decision.replicated = std::min(std::max<std::uint64_t>(1, low), hottest.within(memory));
  decision.placed = placed(decision.replicated);
  if (decision.replicated > 0) decision.hot_share = accesses.share_at(decision.replicated - 1);
  return decision;
}

HotThreshold decide_threshold(double ratio_max, std::span<const AccessClass> counted, std::size_t nodes,
                              std::uint64_t block_bytes, std::uint64_t memory_bytes) {
  if (nodes < 2) return {};
  const AccessDistribution accesses = AccessDistribution::from_classes(counted);
  const Items items(accesses.items(), block_bytes);
  const std::uint64_t replicated =
      decide_replication(ratio_max, accesses, items, nodes, memory_bytes).replicated;
  HotThreshold threshold;
  for (const AccessClass& next : counted) {
    const std::uint64_t with_next = threshold.items + next.items;
    if (threshold.items >= replicated || with_next > memory_bytes / block_bytes) break;
    threshold = {next.accesses, with_next};
  }
  return threshold;
}

Placement place_hot_and_cold(std::uint64_t replicated, const AccessDistribution& accesses, const Items& items,
                             std::vector<NodeNumber> nodes, std::uint64_t memory_bytes) {
  const Shards shards(std::move(nodes));
  return place_hottest_first(replicated, accesses, items, shards.nodes(), memory_bytes,
                             [&](ItemNumber item) { return shards.owner(items.key(item)); });
}

Placement place_everywhere(const AccessDistribution& accesses, const Items& items,
                           std::vector<NodeNumber> nodes, std::uint64_t memory_bytes) {
  TROUPE_CHECK(accesses.items() == items.count(), "accesses and items describe the same catalog");
  Placement placement(std::move(nodes), items.count());
  NodeCapacity capacity(1, memory_bytes);  // all nodes have the same memory, so one entry counts for all
  for (std::uint64_t rank = 0; rank < items.count() && capacity.most_free() >= items.smallest_bytes();
       ++rank) {
    const ItemNumber item = accesses.item_at(rank);
    if (capacity.take_everywhere(items.bytes(item))) placement.put(item, everywhere);
  }
  return placement;
}

Placement place_by_hash(const AccessDistribution& accesses, const Items& items, std::vector<NodeNumber> nodes,
                        std::uint64_t memory_bytes) {
  return place_hot_and_cold(0, accesses, items, std::move(nodes), memory_bytes);
}

}  // namespace troupe::placement
