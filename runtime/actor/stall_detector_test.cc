#include "runtime/actor/stall_detector.h"

#include <doctest/doctest.h>

namespace troupe {

TEST_CASE(
    "stall detector: a gap of up to two timer periods is no stall; of a longer one all but one period "
    "counts") {
  StallDetector detector({100});
  CHECK(detector.before({5'000}) == Duration{0});  // time before the first step does not count
  CHECK(detector.before({5'100}) == Duration{0});
  CHECK(detector.before({5'300}) == Duration{0});
  CHECK(detector.before({6'300}) == Duration{900});
  CHECK(detector.before({6'300}) == Duration{0});
}

}  // namespace troupe
