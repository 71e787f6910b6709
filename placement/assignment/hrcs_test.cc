#include "placement/assignment/hrcs.h"

#include <doctest/doctest.h>

#include <limits>
#include <numeric>
#include <stdexcept>

#include "kernels/base/hash.h"

namespace troupe::placement {
namespace hrcs_test {

std::vector<NodeNumber> first_nodes(std::size_t count) {
  std::vector<NodeNumber> nodes(count);
  std::iota(nodes.begin(), nodes.end(), 1);
  return nodes;
}

constexpr std::uint64_t plenty = 1ULL << 60;

// Random access counts and sizes of a few thousand items.
struct World {
  explicit World(std::uint64_t seed, std::size_t count = 3'000) {
    std::vector<std::uint32_t> bytes;
    std::vector<std::uint64_t> keys;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t random = spread(seed * 1'000'003 + i);
      counts.push_back(random % 97 == 0 ? random % 5'000 : random % 40);
      bytes.push_back(static_cast<std::uint32_t>(100 + (random >> 32) % 400));
      keys.push_back(spread(random));
    }
    items = Items(std::move(bytes), std::move(keys));
    accesses = AccessDistribution::from_counts(counts);
  }
  std::vector<std::uint64_t> counts;
  Items items{1, 1};
  AccessDistribution accesses = AccessDistribution::zipf(1, 0);
};

TEST_CASE("HRCS: the maximum remote share equals the paper's equation") {
  // 20 ms of computing; a tenth of it is for pulls. In 2 ms a link of 400,000 tokens per second
  // carries 800 tokens.
  const ReplicationInput input{20'000, 0.1, 400'000, 100, 10, 4};
  CHECK(communication_ratio_max(input) == doctest::Approx(800.0 * 3 / (1000.0 * 4)));
  ReplicationInput alone = input;
  alone.nodes = 1;
  CHECK(communication_ratio_max(alone) == 0);
}

TEST_CASE("HRCS: the hottest items are replicated until the CDF reaches 1 - R_max") {
  const auto accesses = AccessDistribution::from_counts(std::vector<std::uint64_t>{1, 4, 2, 0, 1});
  CHECK(replicated_items(accesses, 0.5) == 1);
  CHECK(replicated_items(accesses, 0.49) == 2);
  CHECK(replicated_items(accesses, 0.25) == 2);
  CHECK(replicated_items(accesses, 0) == 4);
  // Algorithm 1 replicates one item before it tests the condition
  CHECK(replicated_items(accesses, 1.7) == 1);
}

TEST_CASE("HRCS: with memory for all items the decision equals Algorithm 1") {
  for (const double ratio : {0.0, 0.1, 0.4, 0.9, 2.0}) {
    const World world(3);
    const HrcsDecision decision = decide_replication(ratio, world.accesses, world.items, 4, plenty);
    CHECK(decision.replicated == replicated_items(world.accesses, ratio));
    CHECK(decision.by_algorithm == decision.replicated);
    CHECK(decision.placed == world.items.count());
    CHECK(decision.hot_share == world.accesses.share_at(decision.replicated - 1));
  }
}

TEST_CASE("HRCS: with little memory fewer items are replicated, and sharded accesses stay within R_max") {
  const auto accesses = AccessDistribution::zipf(1'000'000, 0.7);
  const Items items(1'000'000, 100);
  const double ratio = 0.2;
  const HrcsDecision decision = decide_replication(ratio, accesses, items, 16, 2'000'000);
  CHECK(decision.replicated < decision.by_algorithm);
  CHECK(decision.placed < items.count());
  CHECK(decision.placed == decision.replicated + 16 * (20'000 - decision.replicated));
  const auto sharded = [&](std::uint64_t replicated) {
    return accesses.cdf(replicated + 16 * (20'000 - replicated)) - accesses.cdf(replicated);
  };
  CHECK(sharded(decision.replicated) <= ratio);
  CHECK(sharded(decision.replicated - 1) > ratio);
}

TEST_CASE("HRCS: the threshold of counted items replicates what Algorithm 1 replicates") {
  const std::vector<AccessClass> counted{{40, 1}, {10, 3}, {5, 6}, {0, 90}};  // 100 accesses
  // 41 % of the accesses may be remote: 40 + 2 * 10 reach 59 %, and the third equal item is replicated, too.
  CHECK(decide_threshold(0.41, counted, 4, 10, plenty).accesses == 10);
  CHECK(decide_threshold(0.41, counted, 4, 10, plenty).items == 4);
  CHECK(decide_threshold(0.61, counted, 4, 10, plenty).accesses == 40);
  CHECK(decide_threshold(0, counted, 4, 10, plenty).accesses == 5);
  CHECK(decide_threshold(0, counted, 4, 10, plenty).items == 10);
}

TEST_CASE("HRCS: the threshold replicates one class if the network is no limit, and nothing on one node") {
  const std::vector<AccessClass> counted{{9, 2}, {1, 50}};
  CHECK(decide_threshold(7, counted, 4, 10, plenty).accesses == 9);
  CHECK(decide_threshold(7, counted, 4, 10, plenty).items == 2);
  CHECK(decide_threshold(0, counted, 1, 10, plenty).accesses == 0);
}

TEST_CASE("HRCS: the threshold leaves out a class that does not fit into memory, and all with tiny memory") {
  const std::vector<AccessClass> counted{{40, 1}, {10, 3}, {5, 6}};
  CHECK(decide_threshold(0, counted, 4, 10, 9).items == 0);
  CHECK(decide_threshold(0, counted, 4, 10, 9).accesses == 0);
  CHECK(decide_threshold(0, counted, 4, 10, 30).accesses == 40);
  CHECK(decide_threshold(0, counted, 4, 10, 40).items == 4);
}

TEST_CASE("HRCS: the threshold of one class per item equals the decision's access share") {
  for (const double ratio : {0.05, 0.3, 0.7}) {
    std::vector<AccessClass> counted;
    std::vector<std::uint64_t> counts;
    for (std::uint64_t rank = 0; rank < 500; ++rank) {
      counted.push_back({1'000 - rank, 1});
      counts.push_back(1'000 - rank);
    }
    const auto accesses = AccessDistribution::from_counts(counts);
    const HrcsDecision decision = decide_replication(ratio, accesses, Items(500, 10), 5, plenty);
    const HotThreshold threshold = decide_threshold(ratio, counted, 5, 10, plenty);
    CHECK(threshold.items == decision.replicated);
    CHECK(threshold.accesses == counts[decision.replicated - 1]);
  }
}

TEST_CASE("HRCS: without memory for one item nothing is placed") {
  const World world(1);
  const HrcsDecision decision = decide_replication(0.3, world.accesses, world.items, 3, 5);
  CHECK(decision.replicated == 0);
  CHECK(decision.placed == 0);
  CHECK(place_hot_and_cold(9, world.accesses, world.items, first_nodes(3), 5) ==
        Placement(first_nodes(3), world.items.count()));
}

TEST_CASE("HRCS: replicated items are the hottest, and no node exceeds its memory") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    const World world(seed);
    const std::uint64_t memory = 20'000 + spread(seed) % 600'000;
    const std::size_t nodes = 1 + seed % 7;
    const HrcsDecision decision = decide_replication(0.3, world.accesses, world.items, nodes, memory);
    const std::uint64_t wanted = seed % 3 == 0 ? 500 : decision.replicated;  // also more items than fit
    for (const Placement& placement :
         {place_hot_and_cold(wanted, world.accesses, world.items, first_nodes(nodes), memory),
          place_everywhere(world.accesses, world.items, first_nodes(nodes), memory),
          place_by_hash(world.accesses, world.items, first_nodes(nodes), memory)})
      for (const std::uint64_t bytes : bytes_per_node(placement, world.items)) CHECK(bytes <= memory);
    const Placement placement =
        place_hot_and_cold(decision.replicated, world.accesses, world.items, first_nodes(nodes), memory);
    for (std::uint64_t rank = 0; rank < world.items.count(); ++rank)
      CHECK((placement.place(world.accesses.item_at(rank)) == everywhere) == (rank < decision.replicated));
  }
}

TEST_CASE("HRCS: with memory for all items every item is placed, and sharded items are spread evenly") {
  const World world(8, 40'000);
  const Placement hash = place_by_hash(world.accesses, world.items, first_nodes(8), plenty);
  const double part = static_cast<double>(world.items.total_bytes()) / 8;
  for (const std::uint64_t bytes : bytes_per_node(hash, world.items))
    CHECK(static_cast<double>(bytes) == doctest::Approx(part).epsilon(0.08));
  const Placement all = place_everywhere(world.accesses, world.items, first_nodes(8), plenty);
  for (std::uint64_t item = 0; item < world.items.count(); ++item) {
    CHECK(all.place(static_cast<ItemNumber>(item)) == everywhere);
    CHECK(hash.place(static_cast<ItemNumber>(item)) < 8);
  }
}

TEST_CASE("HRCS: a joining node moves little more than its share of the items") {
  const World world(5, 20'000);
  const auto on = [&](std::size_t nodes) {
    return place_hot_and_cold(100, world.accesses, world.items, first_nodes(nodes), plenty);
  };
  const Placement before = on(9), after = on(10);
  std::size_t gains = 0, replicas = 0;
  for (const PlacementMove& move : moves(before, after)) {
    gains += move.gains;
    replicas += move.gains && after.place(move.item) == everywhere;
    if (move.gains) CHECK(move.from != 0);
  }
  CHECK(replicas == 100);
  CHECK(gains - replicas < 20'000 * 1.2 / 10);
  CHECK(after == on(10));
}

TEST_CASE("HRCS: an input that is not positive and finite is refused") {
  const ReplicationInput sound{20'000, 0.1, 400'000, 100, 10, 4};
  using Member = double ReplicationInput::*;
  for (const Member member :
       {&ReplicationInput::prefill_us, &ReplicationInput::alpha, &ReplicationInput::tokens_per_s,
        &ReplicationInput::candidates, &ReplicationInput::item_tokens})
    for (const double wrong : {0.0, -1.0, std::numeric_limits<double>::infinity()}) {
      ReplicationInput input = sound;
      input.*member = wrong;
      CHECK_THROWS_AS(communication_ratio_max(input), std::invalid_argument);
    }
  ReplicationInput nobody = sound;
  nobody.nodes = 0;
  CHECK_THROWS_WITH_AS(communication_ratio_max(nobody),
                       "hrcs: nodes is 0.000000; expected a positive number of nodes", std::invalid_argument);
}

}  // namespace hrcs_test
}  // namespace troupe::placement
