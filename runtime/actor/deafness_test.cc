#include "runtime/actor/deafness.h"

#include <doctest/doctest.h>

namespace troupe {

TEST_CASE(
    "stall detector: a gap of up to two timer periods is no stall; of a longer one all but one period "
    "counts") {
  Deafness deafness({100});
  CHECK(deafness.before({5'000}) == Duration{0});  // time before the first step does not count
  CHECK(deafness.before({5'100}) == Duration{0});
  CHECK(deafness.before({5'300}) == Duration{0});
  CHECK(deafness.before({6'300}) == Duration{900});
  CHECK(deafness.before({6'300}) == Duration{0});
}

}  // namespace troupe
