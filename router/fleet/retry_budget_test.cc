#include "router/fleet/retry_budget.h"

#include <doctest/doctest.h>

namespace troupe::router {
namespace {

int spend_all(RetryBudget& budget) {
  int spent = 0;
  while (spent < 1'000 && budget.spend()) ++spent;
  return spent;
}

TEST_CASE("retry budget: the burst is available from the start, and no more") {
  RetryBudget budget(0.125, 3);
  CHECK(spend_all(budget) == 3);
}

TEST_CASE("retry budget: requests earn their share, whole retries only") {
  RetryBudget budget(0.125, 3);
  spend_all(budget);
  for (int i = 0; i < 7; ++i) budget.earn();
  CHECK_FALSE(budget.spend());
  budget.earn();
  CHECK(spend_all(budget) == 1);
}

TEST_CASE("retry budget: a long quiet time saves no more than the burst") {
  RetryBudget budget(0.125, 3);
  for (int i = 0; i < 1'000; ++i) budget.earn();
  CHECK(spend_all(budget) == 3);
}

}  // namespace
}  // namespace troupe::router
