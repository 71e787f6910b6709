#include "sim/base/overlap.h"

#include <doctest/doctest.h>

namespace troupe::sim {
namespace overlap_test {

Overlap of(std::int64_t computes, std::int64_t begins, std::int64_t ends) {
  return overlap_of({1'000}, {computes}, {true, {begins}, {ends}}, 4);
}

TEST_SUITE("overlap") {
  TEST_CASE("a copy that is faster than the layers delays the first one only") {
    const Overlap overlap = of(400, 1'000, 1'040);
    CHECK(overlap.takes.us == 410);
    CHECK(overlap.waited.us == 10);
    CHECK(overlap.came.us == 40);
  }

  TEST_CASE("a slow one delays every layer, and the last is computed behind it") {
    const Overlap overlap = of(40, 1'000, 1'400);
    CHECK(overlap.takes.us == 410);
    CHECK(overlap.waited.us == 370);
  }

  TEST_CASE("what has come already delays nothing; what comes after all layers would, is waited for") {
    CHECK(of(400, 500, 600).takes.us == 400);
    CHECK(of(400, 500, 600).came.us == 0);
    CHECK(of(0, 1'000, 1'400).takes.us == 401);
  }
}

}  // namespace overlap_test
}  // namespace troupe::sim
