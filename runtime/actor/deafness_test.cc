#include "runtime/actor/deafness.h"

#include <doctest/doctest.h>

namespace troupe {

TEST_CASE("a rest of up to two timers is none, of a longer one all but the last timer was missed") {
  Deafness deafness({100});
  CHECK(deafness.before({5'000}) == Duration{0});  // whatever was before the first step
  CHECK(deafness.before({5'100}) == Duration{0});
  CHECK(deafness.before({5'300}) == Duration{0});
  CHECK(deafness.before({6'300}) == Duration{900});
  CHECK(deafness.before({6'300}) == Duration{0});
}

}  // namespace troupe
