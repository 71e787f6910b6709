#include "actors/inference/refill_pace.h"

#include <doctest/doctest.h>

namespace troupe::actors {
namespace {

TEST_CASE("refill pace: prefetched bytes keep the allowed pace, less bytes that passes missed") {
  RefillPace pace(1'000'000, {100});  // a byte per microsecond
  CHECK(pace.allowed({40}) == 40);
  pace.spend(30);
  CHECK(pace.allowed({50}) == 20);
  CHECK(pace.allowed({900}) == 100);  // no more credit is kept
  pace.spend(150);
  CHECK(pace.allowed({930}) == 0);
  CHECK(pace.allowed({990}) == 40);
}

TEST_CASE("refill pace: missed bytes are owed for one interval at most") {
  RefillPace pace(1'000'000, {100});
  pace.spend(1'000'000);
  CHECK(pace.allowed({100}) == 0);
  CHECK(pace.allowed({150}) == 50);
}

TEST_CASE("refill pace: without a pace nothing is prefetched") {
  CHECK(RefillPace(0, {100}).allowed({1'000'000}) == 0);
}

}  // namespace
}  // namespace troupe::actors
