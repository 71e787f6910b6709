#include "router/request/pull_cost.h"

#include <doctest/doctest.h>

namespace troupe::router {
namespace {

TEST_CASE("pull cost: the start value holds until a pull is measured") {
  PullCost cost(0.25);
  CHECK(cost.share() == 0.25);
  cost.beat();
  CHECK(cost.share() == 0.25);
}

TEST_CASE("pull cost: measurements gain weight, as a ratio of sums") {
  PullCost cost(0.25);
  cost.note(2'000, 1'000, 100);  // half of the computing time
  CHECK(cost.share() > 0.25);
  CHECK(cost.share() < 0.3);
  for (int i = 0; i < 1'000; ++i) cost.note(2'000, 1'000, 100);
  CHECK(cost.share() == doctest::Approx(0.5).epsilon(0.01));
  for (int i = 0; i < 100'000; ++i) cost.note(200, 2, 100);  // a hundredth of the computing time
  CHECK(cost.share() == doctest::Approx(0.055).epsilon(0.1));
}

TEST_CASE("pull cost: pulls slower than computing give 1 and are tried again after a while") {
  PullCost cost(0.25);
  for (int i = 0; i < 1'000; ++i) cost.note(2'000, 6'000, 100);
  CHECK(cost.share() == 1);
  int beats = 0;
  for (; cost.share() == 1; ++beats) cost.beat();
  CHECK(beats > 100);  // of 200 ms: not at once
  CHECK(beats < 600);
  for (int i = 0; i < 2'000; ++i) cost.beat();
  CHECK(cost.share() == doctest::Approx(0.25).epsilon(0.01));
}

TEST_CASE("pull cost: empty measurements change nothing") {
  PullCost cost(0.25);
  cost.note(0, 1'000, 100);
  cost.note(2'000, 0, 100);
  CHECK(cost.share() == 0.25);
}

TEST_CASE("pull cost: tokens per second are those of the last pulls, also long after them") {
  PullCost cost(0.25);
  CHECK(cost.tokens_per_s() == 0);
  cost.note(2'000, 1'000, 50);
  CHECK(cost.tokens_per_s() == doctest::Approx(50'000));
  for (int i = 0; i < 1'000; ++i) cost.note(2'000, 500, 50);
  CHECK(cost.tokens_per_s() == doctest::Approx(100'000).epsilon(0.01));
  for (int i = 0; i < 100'000; ++i) cost.beat();
  CHECK(cost.tokens_per_s() == doctest::Approx(100'000).epsilon(0.01));
}

TEST_CASE("pull cost: a start value of one or zero stays") {
  CHECK(PullCost(1).share() == 1);
  CHECK(PullCost(0).share() == 0);
}

}  // namespace
}  // namespace troupe::router
