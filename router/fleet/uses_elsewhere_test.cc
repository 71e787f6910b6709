#include "router/fleet/uses_elsewhere.h"

#include <doctest/doctest.h>

#include <numeric>

namespace troupe::router {
namespace uses_elsewhere_test {

BlockUse use(std::uint8_t n, float us = 5) {
  BlockUse result{{}, 4, 1, us};
  result.name.bytes[0] = n;
  return result;
}

TEST_CASE("uses elsewhere: each home hears once of its own users") {
  UsesElsewhere uses;
  uses.note(1, std::vector{use(1), use(2)});
  uses.note(2, std::vector{use(3)});
  CHECK(uses.take(1) == std::vector{use(1), use(2)});
  CHECK(uses.take(1).empty());
  CHECK(uses.take(3).empty());
  CHECK(uses.take(2) == std::vector{use(3)});
  CHECK(uses.homes() == 0);
}

TEST_CASE("uses elsewhere: a block wanted again before its report has two uses and the later time") {
  UsesElsewhere uses;
  uses.note(1, std::vector{use(1), use(2)});
  uses.note(1, std::vector{use(1, 7)});
  BlockUse twice = use(1, 7);
  twice.times = 2;
  CHECK(uses.take(1) == std::vector{use(2), twice});
}

TEST_CASE("uses elsewhere: the most recent uses are kept, and a few are reported at a time") {
  UsesElsewhere uses;
  for (int n = 0; n < 300; ++n) {
    BlockUse one = use(static_cast<std::uint8_t>(n));
    one.name.bytes[1] = static_cast<std::uint8_t>(n / 256);
    uses.note(1, std::vector{one});
  }
  CHECK(uses.kept(1) == UsesElsewhere::kept_max);
  const std::vector<BlockUse> reported = uses.take(1);
  CHECK(reported.size() == UsesElsewhere::report_max);
  CHECK(reported.front().name.bytes[0] == 300 - UsesElsewhere::kept_max);
  CHECK(uses.kept(1) == UsesElsewhere::kept_max - UsesElsewhere::report_max);
}

TEST_CASE("uses elsewhere: a node that has left gets no reports") {
  UsesElsewhere uses;
  for (const NodeId node : {1U, 2U}) uses.note(node, std::vector{use(1)});
  uses.follow(std::vector<NodeId>{2, 3});
  CHECK(uses.kept(1) == 0);
  CHECK(uses.kept(2) == 1);
}

}  // namespace uses_elsewhere_test
}  // namespace troupe::router
