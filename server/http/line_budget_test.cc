#include "server/http/line_budget.h"

#include <doctest/doctest.h>

namespace troupe::server {
namespace {

TEST_CASE("line budget: lines are taken while it lasts, and again as time passes") {
  LineBudget budget(1'000, 100'000);  // 100 bytes each millisecond
  CHECK(budget.take(600, 5'000'000));
  CHECK_FALSE(budget.take(600, 5'000'000));
  CHECK(budget.take(400, 5'000'000));
  CHECK_FALSE(budget.take(1, 5'000'000));
  CHECK(budget.take(0, 5'000'000));
  CHECK_FALSE(budget.take(101, 5'001'000));
  CHECK(budget.take(100, 5'001'000));
}

TEST_CASE("line budget: a pause fills it once, not further") {
  LineBudget budget(1'000, 100'000);
  CHECK(budget.take(1'000, 1'000'000));
  CHECK_FALSE(budget.take(1'001, 60'000'000));
  CHECK(budget.take(1'000, 60'000'000));
  CHECK_FALSE(budget.take(1, 60'000'000));
}

}  // namespace
}  // namespace troupe::server
