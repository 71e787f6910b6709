#include "runtime/actor/attention.h"

#include <doctest/doctest.h>

namespace troupe {

TEST_CASE("a rest of up to two timers is none, of a longer one all but the last timer was missed") {
  Attention attention({100});
  CHECK(attention.deaf({5'000}) == Duration{0});  // whatever was before the first step
  CHECK(attention.deaf({5'100}) == Duration{0});
  CHECK(attention.deaf({5'300}) == Duration{0});
  CHECK(attention.deaf({6'300}) == Duration{900});
  CHECK(attention.deaf({6'300}) == Duration{0});
}

}  // namespace troupe
