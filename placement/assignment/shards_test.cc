#include "placement/assignment/shards.h"

#include <doctest/doctest.h>

#include <numeric>

namespace troupe::placement {
namespace shards_test {

std::vector<NodeNumber> first_nodes(std::size_t count) {
  std::vector<NodeNumber> nodes(count);
  std::iota(nodes.begin(), nodes.end(), 1);
  return nodes;
}

// Returns the share of the slots that the two clusters assign to different nodes.
double changed(const Shards& a, const Shards& b) {
  double count = 0;
  for (std::size_t slot = 0; slot < a.slots().size(); ++slot)
    count += a.nodes()[a.slots()[slot]] != b.nodes()[b.slots()[slot]];
  return count / static_cast<double>(a.slots().size());
}

TEST_CASE("shards: no node has more than 3 % above an equal share of the slots") {
  for (const std::size_t nodes : {1, 2, 3, 16, 100}) {
    const Shards shards(first_nodes(nodes));
    std::vector<double> slots(nodes);
    for (const NodeIndex place : shards.slots()) ++slots.at(place);
    const double part = static_cast<double>(shards.slots().size()) / static_cast<double>(nodes);
    for (const double count : slots) CHECK(count <= part * 1.03 + 1);
  }
}

TEST_CASE("shards: a node that joins or leaves changes little more than its own share") {
  for (const std::size_t nodes : {2, 4, 16, 64}) {
    CAPTURE(nodes);
    const Shards before(first_nodes(nodes)), after(first_nodes(nodes + 1));
    CHECK(changed(before, after) >= 0.9 / static_cast<double>(nodes + 1));
    CHECK(changed(before, after) <= 1.3 / static_cast<double>(nodes + 1));
  }
  std::vector<NodeNumber> others = first_nodes(16);
  others.erase(others.begin() + 5);
  CHECK(changed(Shards(first_nodes(16)), Shards(others)) <= 1.3 / 16);
}

TEST_CASE("shards: the order of the nodes does not matter") {
  CHECK(changed(Shards({3, 1, 2}), Shards({1, 2, 3})) == 0);
}

TEST_CASE("shards: keys spread over all nodes, also when keys are small integers") {
  const Shards shards(first_nodes(4));
  std::vector<int> items(4);
  for (std::uint64_t key = 0; key < 40'000; ++key) ++items[shards.owner(key)];
  for (const int count : items) CHECK(count == doctest::Approx(10'000).epsilon(0.06));
}

TEST_CASE("shards: the key of an id never changes between versions") {
  CHECK(item_key("") == 0xcbf29ce484222325);
  CHECK(item_key("foobar") == 0x85944171f73967e8);  // the published test vector of FNV-1a
}

TEST_CASE("free bytes: a full node's item goes to the node with most free bytes, and no node is overfilled") {
  NodeCapacity capacity(3, 10);
  CHECK(capacity.take(0, 8) == 0);
  CHECK(capacity.take(1, 3) == 1);
  CHECK(capacity.take(0, 3) == 2);
  CHECK(capacity.take(0, 8) == nowhere);
  CHECK(capacity.take_everywhere(2));
  CHECK_FALSE(capacity.take_everywhere(1));
  CHECK(capacity.most_free() == 5);
}

}  // namespace shards_test
}  // namespace troupe::placement
