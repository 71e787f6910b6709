#include "placement/assignment/co_occurrence.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <stdexcept>

#include "kernels/base/hash.h"
#include "placement/assignment/hrcs.h"

namespace troupe::placement {
namespace {

constexpr std::uint64_t plenty = 1ULL << 60;

// Requests about `groups` topics of 50 items. A request has 10 items of one topic; one request in
// four ends with a random item.
struct World {
  World(std::size_t groups, std::uint64_t seed) {
    const std::size_t count = groups * 50;
    std::vector<std::uint64_t> counts(count);
    std::uint64_t state = spread(seed);
    const auto draw = [&](std::uint64_t below) { return (state = spread(state)) % below; };
    for (int r = 0; r < 4'000; ++r) {
      const std::uint64_t topic = draw(groups);
      std::vector<ItemNumber> request;
      for (int i = 0; i < 10; ++i) request.push_back(static_cast<ItemNumber>(topic * 50 + draw(50)));
      if (draw(4) == 0) request.back() = static_cast<ItemNumber>(draw(count));
      requests.add(request);
      for (const ItemNumber item : request) ++counts[item];
    }
    std::vector<std::uint32_t> bytes;
    std::vector<std::uint64_t> keys;
    for (std::size_t i = 0; i < count; ++i) {
      bytes.push_back(static_cast<std::uint32_t>((i < count / 4 ? 900 : 100) + draw(200)));
      keys.push_back(i);
    }
    items = Items(std::move(bytes), std::move(keys));
    accesses = AccessDistribution::from_counts(counts);
  }
  Requests requests;
  Items items{1, 1};
  AccessDistribution accesses = AccessDistribution::zipf(1, 0);
};

TEST_CASE("co-occurrence: a pair counts once per request that has both items, and is stored at both ends") {
  Requests requests;
  requests.add(std::array<ItemNumber, 4>{4, 1, 4, 2});
  requests.add(std::array<ItemNumber, 3>{1, 4, 3});
  requests.add(std::array<ItemNumber, 1>{0});
  const CoOccurrence pairs = count_pairs(requests, {1, 1, 1, 0, 1});
  CHECK(pairs.items == std::vector<ItemNumber>{1, 2, 4});
  CHECK(pairs.graph.begins == std::vector<std::uint64_t>{0, 2, 4, 6});
  CHECK(pairs.graph.neighbours == std::vector<std::uint32_t>{1, 2, 0, 2, 0, 1});
  CHECK(pairs.graph.weights == std::vector<std::uint32_t>{1, 2, 1, 1, 2, 1});
}

TEST_CASE(
    "co-occurrence: two items that share requests only with each other are each other's only neighbours") {
  Requests requests;
  requests.add(std::array<ItemNumber, 2>{1, 2});
  const CoOccurrence pairs = count_pairs(requests, {1, 1, 1});
  CHECK(pairs.items == std::vector<ItemNumber>{1, 2});
  CHECK(pairs.graph.begins == std::vector<std::uint64_t>{0, 1, 2});
  CHECK(pairs.graph.neighbours == std::vector<std::uint32_t>{1, 0});
}

TEST_CASE("co-occurrence: pairs that are merged in several batches add up") {
  Requests requests;
  for (ItemNumber i = 0; i < 4'000; ++i) {
    std::vector<ItemNumber> request(60);
    std::iota(request.begin(), request.end(), i % 200);
    requests.add(request);  // 1,770 pairs each: seven million in all
  }
  const CoOccurrence pairs = count_pairs(requests, std::vector<std::uint8_t>(300, 1));
  CHECK(pairs.items.size() == 259);
  CHECK(std::accumulate(pairs.graph.weights.begin(), pairs.graph.weights.end(), 0.0) == 2.0 * 4'000 * 1'770);
  CHECK(pairs.graph.neighbours[0] == 1);  // items 0 and 1 share the requests that begin with 0
  CHECK(pairs.graph.weights[0] == 20);
}

TEST_CASE("partition: two cliques are cut where few edges cross, with equal results each time") {
  Requests requests;
  requests.add(std::array<ItemNumber, 5>{0, 2, 4, 6, 8});
  requests.add(std::array<ItemNumber, 5>{1, 3, 5, 7, 9});
  const CoOccurrence pairs = count_pairs(requests, std::vector<std::uint8_t>(10, 1));
  const std::vector<std::uint64_t> weights(10, 70'000'000'000);
  const std::vector<NodeIndex> parts = partition(pairs.graph, weights, 2);
  for (std::size_t i = 2; i < 10; ++i) CHECK(parts[i] == parts[i % 2]);
  CHECK(parts[0] != parts[1]);
  CHECK(partition(pairs.graph, weights, 2) == parts);
  CHECK(partition(pairs.graph, weights, 1) == std::vector<NodeIndex>(10, 0));
  CHECK(partition({}, {}, 3).empty());
  CHECK_THROWS_AS(partition(pairs.graph, weights, 0), std::invalid_argument);
}

TEST_CASE("co-occurrence: bytes are balanced within the tolerance, and the hottest 0.1 % are replicated") {
  const World world(40, 5);
  const Placement placement =
      place_by_co_occurrence(world.requests, world.accesses, world.items, {1, 2, 3, 4, 5}, plenty);
  const std::uint64_t hottest = hottest_per_mille(world.items.count());
  CHECK(hottest == 2);
  std::uint64_t of_all = 0;
  for (std::uint64_t rank = 0; rank < world.items.count(); ++rank) {
    const ItemNumber item = world.accesses.item_at(rank);
    CHECK((placement.place(item) == everywhere) == (rank < hottest));
    CHECK(placement.place(item) != nowhere);
    if (rank < hottest) of_all += world.items.bytes(item);
  }
  const double part = static_cast<double>(world.items.total_bytes() - of_all) / 5;
  for (const std::uint64_t bytes : bytes_per_node(placement, world.items))
    CHECK(static_cast<double>(bytes - of_all) <= part * (partition_tolerance + 0.005));
}

TEST_CASE("co-occurrence: requests about one topic find its items on one node, while hashing scatters them") {
  const World seen(40, 5), later(40, 6);
  const Placement placement =
      place_by_co_occurrence(seen.requests, seen.accesses, seen.items, {1, 2, 3, 4, 5}, plenty);
  const Placement hash = place_by_hash(seen.accesses, seen.items, {1, 2, 3, 4, 5}, plenty);
  CHECK(count_shares(placement, later.requests, 1).best > 0.9);
  CHECK(count_shares(hash, later.requests, 1).best < 0.6);
}

TEST_CASE(
    "co-occurrence: a part stays on the node that has most of its bytes, whatever number METIS gives it") {
  const World world(40, 5);
  const auto place = [&](std::vector<NodeNumber> nodes, const Placement* earlier) {
    return place_by_co_occurrence(world.requests, world.accesses, world.items, std::move(nodes), plenty,
                                  earlier);
  };
  const Placement first = place({1, 2, 3, 4, 5}, nullptr);
  Placement turned({1, 2, 3, 4, 5}, world.items.count());
  for (ItemNumber item = 0; item < world.items.count(); ++item)
    turned.put(item, first.place(item) == everywhere ? everywhere : NodeIndex((first.place(item) + 2) % 5));
  std::size_t changed = 0;
  for (const PlacementMove& move : moves(turned, place({1, 2, 3, 4, 5}, &turned))) changed += move.gains;
  CHECK(changed < 10);  // items without edges keep the node of their shard
  const Placement with_six = place({1, 2, 3, 4, 5, 6}, &first), unaware = place({1, 2, 3, 4, 5, 6}, nullptr);
  CHECK(moves(first, with_six).size() < moves(first, unaware).size());
  const Placement without_two = place({1, 3, 4, 5}, &first);
  CHECK(expected_shares(without_two, world.accesses).nowhere == 0);
}

TEST_CASE("co-occurrence: with little memory the coldest items are nowhere, and no node exceeds its memory") {
  const World world(40, 9);
  for (const std::uint64_t memory : {150'000, 90'000, 1'500, 10}) {
    const Placement placement =
        place_by_co_occurrence(world.requests, world.accesses, world.items, {1, 2, 3, 4, 5}, memory);
    for (const std::uint64_t bytes : bytes_per_node(placement, world.items)) CHECK(bytes <= memory);
    const ExpectedShares shares = expected_shares(placement, world.accesses);
    const ExpectedShares hash =
        expected_shares(place_by_hash(world.accesses, world.items, {1, 2, 3, 4, 5}, memory), world.accesses);
    CHECK(shares.nowhere >= hash.nowhere);
    CHECK(shares.nowhere <= hash.nowhere + 0.05);
  }
}

}  // namespace
}  // namespace troupe::placement
