#include "router/fleet/leader_view.h"

#include <doctest/doctest.h>

namespace troupe::router {
namespace {

TEST_CASE("leader view: a single cache-meta leads at once, but not after three silent heartbeats") {
  LeaderView view({4}, {100});
  view.start({1'000});
  CHECK(view.leader({1'000}) == 4);
  CHECK(view.leader({1'299}) == 4);
  CHECK(view.leader({1'300}) == 0);
  view.hear({1'400}, 4, 7);
  CHECK(view.leader({1'699}) == 4);
}

TEST_CASE("leader view: the cache-meta in the router's process does not fall silent, but may be replaced") {
  LeaderView view({4, 5}, {100}, 4);
  view.start({0});
  CHECK(view.leader({0}) == 0);
  view.hear({1}, 4, 7);
  CHECK(view.leader({5'000'000}) == 4);
  view.hear({5'000'000}, 5, 8);
  CHECK(view.leader({5'000'001}) == 5);
  CHECK(view.leader({5'000'300}) == 0);
}

TEST_CASE("leader view: none of several leads before its first beat, and important messages go to all") {
  LeaderView view({4, 5}, {100});
  view.start({0});
  CHECK(view.leader({1}) == 0);
  CHECK(view.leader_or_all({1}) == std::vector<NodeId>{4, 5});
  view.hear({2}, 5, 3);
  CHECK(view.leader_or_all({3}) == std::vector<NodeId>{5});
}

TEST_CASE("leader view: without a leader, important messages go to the current cache-metas") {
  LeaderView view({4, 5}, {100});
  view.start({0});
  view.follow({5, 9});
  CHECK(view.leader_or_all({1}) == std::vector<NodeId>{5, 9});
}

TEST_CASE("leader view: a lower token is ignored, even after the leader fell silent") {
  LeaderView view({4, 5}, {100});
  view.hear({0}, 5, 3);
  view.hear({1}, 4, 2);
  CHECK(view.leader({2}) == 5);
  view.hear({400}, 4, 2);
  CHECK(view.leader({400}) == 0);
  view.hear({401}, 4, 9);
  CHECK(view.leader({402}) == 4);
}

TEST_CASE("leader view: a leader whose node was lost leads again with its next beat") {
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
