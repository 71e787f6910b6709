#include "deploy/lab/planning/capacity.h"

#include <doctest/doctest.h>

#include <stdexcept>

using namespace troupe::deploy;

namespace {

// Trial in which clusters below `count` nodes are late, and those below another count refuse
// requests.
TryNodes late_below(std::uint32_t count, std::uint32_t refuses_below = 0) {
  return [=](const NodeType&, std::uint32_t nodes) {
    return CapacityTrial{
        .nodes = nodes, .p99_ms = nodes < count ? 500.0 : 100.0, .lost = nodes < refuses_below ? 0.5 : 0.0};
  };
}

std::uint32_t least(const TryNodes& nodes, std::uint32_t most = 32) {
  const Capacity found = find_capacity({"a", 1}, {.nodes_max = most}, nodes);
  return found.least ? found.least->nodes : 0;
}

Capacity priced(double price, std::uint32_t nodes) {
  return {{"a", price}, {}, CapacityTrial{.nodes = nodes}};
}

}  // namespace

TEST_CASE("capacity: the smallest number of nodes that meets the target is found") {
  for (std::uint32_t count = 1; count <= 32; ++count) {
    CHECK(least(late_below(count)) == count);
    CHECK(least(late_below(0, count)) == count);  // late and refused requests both miss the target
  }
}

TEST_CASE("capacity: one node less was tried and missed the target") {
  const Capacity found = find_capacity({"a", 1}, {}, late_below(11));
  REQUIRE(found.least);
  bool tried = false;
  for (const CapacityTrial& trial : found.trials) tried = tried || (trial.nodes == 10 && !trial.holds({}));
  CHECK(tried);
}

TEST_CASE("capacity: if the maximum misses the target there is no result, and no larger trial") {
  const Capacity found = find_capacity({"a", 1}, {.nodes_max = 12}, late_below(13));
  CHECK_FALSE(found.least);
  CHECK(found.trials.back().nodes == 12);
  CHECK(least(late_below(12), 12) == 12);
}

TEST_CASE("capacity: the cheapest type has the lowest total price, then the fewest nodes") {
  CHECK(cheapest({priced(3, 4), priced(5, 2), priced(1, 11)})->type.price == 5);
  CHECK(cheapest({priced(2, 4), priced(4, 2)})->type.price == 4);
  CHECK(cheapest({Capacity{{"a", 1}, {}, {}}}) == nullptr);
}

TEST_CASE("node type: a device and its price are parsed, or an error says what was expected") {
  CHECK(parse_node_type("A100-40G=3.2").device == "A100-40G");
  CHECK(parse_node_type("a=b.txt=2").device == "a=b.txt");
  for (const char* wrong :
       {"", "A100-40G", "A100-40G=", "=3", "A100-40G=0", "A100-40G=-1", "A100-40G=3x", "A100-40G=nan"})
    CHECK_THROWS_WITH_AS(parse_node_type(wrong), doctest::Contains("such as A100-40G=3.2"),
                         std::invalid_argument);
}
