#include "router/fleet/leader_view.h"

#include <doctest/doctest.h>

namespace troupe::router {
namespace {

TEST_CASE("a lone cache-meta is asked at once, and not after three silent heartbeats") {
  LeaderView view({4}, {100});
  view.start({1'000});
  CHECK(view.leader({1'000}) == 4);
  CHECK(view.leader({1'299}) == 4);
  CHECK(view.leader({1'300}) == 0);
  view.hear({1'400}, 4, 7);
  CHECK(view.leader({1'699}) == 4);
}

TEST_CASE("of several none leads before its first beat, and what matters is told to all of them") {
  LeaderView view({4, 5}, {100});
  view.start({0});
  CHECK(view.leader({1}) == 0);
  CHECK(view.audience({1}) == std::vector<NodeId>{4, 5});
  view.hear({2}, 5, 3);
  CHECK(view.audience({3}) == std::vector<NodeId>{5});
}

TEST_CASE("what matters is told to whoever is there by then while nobody leads") {
  LeaderView view({4, 5}, {100});
  view.start({0});
  view.follow({5, 9});
  CHECK(view.audience({1}) == std::vector<NodeId>{5, 9});
}

TEST_CASE("a lower token has no power, not even after the leader fell silent") {
  LeaderView view({4, 5}, {100});
  view.hear({0}, 5, 3);
  view.hear({1}, 4, 2);
  CHECK(view.leader({2}) == 5);
  view.hear({400}, 4, 2);
  CHECK(view.leader({400}) == 0);
  view.hear({401}, 4, 9);
  CHECK(view.leader({402}) == 4);
}

TEST_CASE("a leader whose node is gone leads again with its next beat") {
  LeaderView view({4, 5}, {100});
  view.hear({0}, 5, 3);
  view.lose(4);
  CHECK(view.leader({1}) == 5);
  view.lose(5);
  CHECK(view.leader({1}) == 0);
  view.hear({2}, 5, 3);
  CHECK(view.leader({3}) == 5);
}

}  // namespace
}  // namespace troupe::router
