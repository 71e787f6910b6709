#include "actors/inference/refill_pace.h"

#include <doctest/doctest.h>

namespace troupe::actors {
namespace {

TEST_CASE("bytes ahead come at the pace that is allowed, less what passes have missed") {
  RefillPace pace(1'000'000, {100});  // a byte a microsecond
  CHECK(pace.allowed({40}) == 40);
  pace.spend(30);
  CHECK(pace.allowed({50}) == 20);
  CHECK(pace.allowed({900}) == 100);  // no more is kept
  pace.spend(150);
  CHECK(pace.allowed({930}) == 0);
  CHECK(pace.allowed({990}) == 40);
}

TEST_CASE("what passes have missed is owed for one interval, however much it was") {
  RefillPace pace(1'000'000, {100});
  pace.spend(1'000'000);
  CHECK(pace.allowed({100}) == 0);
  CHECK(pace.allowed({150}) == 50);
}

TEST_CASE("without a pace nothing is fetched ahead") {
  CHECK(RefillPace(0, {100}).allowed({1'000'000}) == 0);
}

}  // namespace
}  // namespace troupe::actors
