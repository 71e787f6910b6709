#include "router/suspects.h"

#include <doctest/doctest.h>

namespace troupe::router {
namespace {

TEST_CASE("strikes add up, and are forgotten after a while") {
  Suspects suspects(4, {100});
  CHECK(suspects.strikes({0}, 7) == 0);
  CHECK(suspects.strike({0}, 7, true) == 1);
  CHECK(suspects.strike({50}, 7, true) == 2);
  CHECK(suspects.strikes({149}, 7) == 2);
  CHECK(suspects.strikes({150}, 7) == 0);
  CHECK(suspects.strike({151}, 7, true) == 1);
}

TEST_CASE("another router's count is taken over once, and never lowers the own one") {
  Suspects suspects(4);
  suspects.hear({0}, {7, 1});
  suspects.hear({1}, {7, 1});
  CHECK(suspects.strikes({2}, 7) == 1);
  suspects.strike({3}, 7, true);
  suspects.hear({4}, {7, 1});
  CHECK(suspects.strikes({5}, 7) == 2);
}

TEST_CASE("losses beside others are one strike in all; another router's word clears") {
  Suspects suspects(4);
  CHECK(suspects.strike({0}, 7, false) == 1);
  CHECK(suspects.strike({1}, 7, false) == 1);
  CHECK(suspects.strike({2}, 7, true) == 2);
  suspects.hear({3}, {7, 0});
  CHECK(suspects.strikes({4}, 7) == 0);
}

TEST_CASE("the oldest goes when there are too many, and who ran well is cleared") {
  Suspects suspects(2);
  suspects.strike({0}, 1, true);
  suspects.strike({1}, 2, true);
  suspects.strike({2}, 1, true);  // the younger one now
  suspects.strike({3}, 3, true);
  CHECK(suspects.size() == 2);
  CHECK(suspects.strikes({4}, 2) == 0);
  CHECK(suspects.strikes({4}, 1) == 2);
  suspects.clear(1);
  CHECK(suspects.strikes({4}, 1) == 0);
  CHECK(suspects.size() == 1);
}

}  // namespace
}  // namespace troupe::router
