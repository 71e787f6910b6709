#include "kernels/base/hash.h"

#include <doctest/doctest.h>

using namespace troupe;

// The published outputs of SplitMix64 for seed 1234567.
TEST_CASE("hash: a generator gives the published numbers of SplitMix64") {
  std::uint64_t state = 1234567;
  CHECK(next_random(state) == 6457827717110365317U);
  CHECK(next_random(state) == 3203168211198807973U);
  CHECK(next_random(state) == 9817491932198370423U);
  CHECK(spread(1234567) == 6457827717110365317U);
}

TEST_CASE("hash: texts have the published values of FNV-1a") {
  CHECK(fnv1a("") == 0xcbf29ce484222325);
  CHECK(fnv1a("a") == 0xaf63dc4c8601ec8c);
  CHECK(fnv1a("foobar") == 0x85944171f73967e8);
}
