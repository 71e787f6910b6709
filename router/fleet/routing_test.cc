#include "router/fleet/routing.h"

#include <doctest/doctest.h>

namespace troupe::router {
namespace {

TEST_SUITE("routing") {
  TEST_CASE("routing score: affinity weighs hits against load, the other rules use one of them") {
    const Routing affinity{Routing::By::affinity, 0.75};
    CHECK(routing_score(affinity, 0.8, 0.4) == doctest::Approx(0.75 * 0.8 - 0.25 * 0.4));
    CHECK(routing_score({Routing::By::affinity, 1}, 0.8, 0.4) == doctest::Approx(0.8));
    CHECK(routing_score({Routing::By::affinity, 0}, 0.8, 0.4) == doctest::Approx(-0.4));
    CHECK(routing_score({Routing::By::hits}, 0.8, 0.4) == 0.8);
    CHECK(routing_score({Routing::By::load}, 0.8, 0.4) == -0.4);
    CHECK(routing_score({Routing::By::earliest}, 0.8, 0.4) == 0);
    CHECK(routing_score({Routing::By::joint}, 0.8, 0.4) == 0);
    CHECK(Routing{}.by == Routing::By::earliest);
  }

  TEST_CASE("joint score: weighs the costs of misses and adds a bonus for the last worker") {
    const MissCosts costs{6, 3, 1};
    CHECK(joint_score(costs, {1, 0, 0}) == doctest::Approx(0.7));
    CHECK(joint_score(costs, {0, 0.5, 1}) == doctest::Approx(0.15));
    CHECK(joint_score(costs, {0, 0.5, 0.5, true}) == doctest::Approx(0.15 + 0.05 + 0.05));
    CHECK(joint_score({}, {1, 1, 0}) == 0);  // the costs of misses are unknown
  }

  TEST_CASE("routing names: every name finds its rule") {
    CHECK(routing_names().size() == 5);
    for (std::size_t i = 0; i < routing_names().size(); ++i)
      CHECK(find_routing(routing_names()[i]) == static_cast<Routing::By>(i));
    CHECK(find_routing("hits") == Routing::By::hits);
    CHECK_FALSE(find_routing("nearest"));
  }
}

}  // namespace
}  // namespace troupe::router
