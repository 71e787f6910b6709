#include "sim/base/overlap.h"

#include <doctest/doctest.h>

namespace troupe::sim {
namespace overlap_test {

Layers four(std::int64_t compute) { return {{1'000}, {compute}, 4}; }
std::int64_t computed(std::int64_t until, std::int64_t compute, std::int64_t begins, std::int64_t ends) {
  return computed_by({until}, four(compute), {{begins}, {ends}}).us;
}

TEST_SUITE("overlap") {
  TEST_CASE("overlap: a copy faster than the layers delays only the first layer") {
    CHECK(computed(1'010, 400, 1'000, 1'040) == 0);
    CHECK(computed(1'041, 400, 1'000, 1'040) == 31);
    CHECK(computed(2'000, 400, 1'000, 1'040) == 400);
  }

  TEST_CASE("overlap: a slow copy delays every layer, and the last layer is computed after it ends") {
    CHECK(computed(1'105, 40, 1'000, 1'400) == 5);
    CHECK(computed(1'150, 40, 1'000, 1'400) == 10);
    CHECK(computed(1'401, 40, 1'000, 1'400) == 31);
  }

  TEST_CASE("overlap: a finished copy delays nothing; nothing is computed before a copy begins") {
    CHECK(computed(1'300, 400, 500, 600) == 300);
    CHECK(computed(1'300, 400, 1'300, 1'300) == 0);
  }

  TEST_CASE("overlap: a failed batch stops at the end of its current layer") {
    CHECK(left_of_layer({130}, four(400)).us == 70);
    CHECK(left_of_layer({200}, four(400)).us == 0);
    CHECK(left_of_layer({0}, four(400)).us == 0);
    CHECK(left_of_layer({0}, four(0)).us == 0);
  }
}

}  // namespace overlap_test
}  // namespace troupe::sim
