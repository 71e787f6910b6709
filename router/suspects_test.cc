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

TEST_CASE("strikes for the loss of a process are taken back when it is heard again, and no others") {
  Suspects suspects(4);
  suspects.strike({0}, 7, true);
  suspects.doubt({0}, 7, 3, 50);
  suspects.strike({1}, 7, true);
  suspects.doubt({1}, 7, 4, 60);
  CHECK(suspects.take_back({10}, 3, 50, {-1}).empty());  // heard too early to tell
  CHECK(suspects.take_back({10}, 5, 50, {10}).empty());
  const auto changed = suspects.take_back({10}, 3, 50, {10});
  REQUIRE(changed.size() == 1);
  CHECK(changed[0].fingerprint == 7);
  CHECK(changed[0].strikes == 1);
  CHECK(suspects.strikes({10}, 7) == 1);
  CHECK(suspects.take_back({10}, 3, 50, {10}).empty());  // once
  CHECK(suspects.take_back({10}, 4, 61, {10}).empty());  // a later process: that one is gone
  CHECK(suspects.take_back({10}, 4, 60, {10}).empty());
  CHECK(suspects.strikes({10}, 7) == 1);
}

TEST_CASE("what was cleared, or never kept, is not taken back") {
  Suspects suspects(1);
  suspects.doubt({0}, 5, 3, 50);
  suspects.strike({0}, 7, true);
  suspects.doubt({0}, 7, 3, 50);
  suspects.clear(7);
  suspects.strike({1}, 7, true);  // of another loss, which is sure
  CHECK(suspects.take_back({10}, 3, 50, {10}).empty());
  CHECK(suspects.strikes({10}, 7) == 1);
}

}  // namespace troupe::router
