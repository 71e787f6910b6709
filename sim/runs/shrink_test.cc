#include "sim/runs/shrink.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace troupe;
using namespace troupe::sim;

namespace {

std::vector<Fault> faults(int count) {
  std::vector<Fault> list;
  for (int i = 0; i < count; ++i) list.push_back({.node = static_cast<NodeId>(i + 1)});
  return list;
}

auto needs(std::vector<NodeId> nodes, int& runs) {
  return [nodes, &runs](const std::vector<Fault>& list) {
    ++runs;
    return std::all_of(nodes.begin(), nodes.end(), [&](NodeId node) {
      return std::any_of(list.begin(), list.end(), [&](const Fault& fault) { return fault.node == node; });
    });
  };
}

}  // namespace

TEST_CASE("shrink: of forty faults the two that matter are left, in their order") {
  int runs = 0;
  const auto left = shrink(faults(40), needs({33, 7}, runs), 1000);
  REQUIRE(left.size() == 2);
  CHECK(left[0].node == 7);
  CHECK(left[1].node == 33);
  CHECK(runs < 120);
}

TEST_CASE("shrink: a run that fails without faults needs none") {
  int runs = 0;
  CHECK(shrink(faults(5), needs({}, runs), 1000).empty());
}

TEST_CASE("shrink: after runs_max runs the shortest list so far is returned") {
  int runs = 0;
  const auto left = shrink(faults(40), needs({1, 40}, runs), 4);
  CHECK(runs <= 4);
  CHECK(left.size() >= 2);
  CHECK(needs({1, 40}, runs)(left));
}
