#include "placement/heat/popularity.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

namespace troupe::placement {
namespace {

// A window of 100 us in 10 buckets of 10 us.
Popularity small(std::size_t keys_max = 8) { return Popularity({100, 10, keys_max}); }

TEST_CASE("each use inside the window counts once") {
  Popularity popularity = small();
  CHECK(popularity.frequency("ann", 0) == 0);
  for (std::int64_t now : {0, 5, 30}) popularity.touch("ann", now);
  popularity.touch("bob", 30);
  CHECK(popularity.frequency("ann", 30) == 3);
  CHECK(popularity.frequency("bob", 30) == 1);
}

TEST_CASE("a use fades out while its bucket leaves the window, and is gone after it") {
  Popularity popularity = small();
  popularity.touch("ann", 0);
  CHECK(popularity.frequency("ann", 99) == 1);
  CHECK(popularity.frequency("ann", 100) == 1);
  CHECK(popularity.frequency("ann", 105) == doctest::Approx(0.5));
  CHECK(popularity.frequency("ann", 110) == 0);
  CHECK(popularity.frequency("ann", 1'000'000) == 0);
}

TEST_CASE("a use after a long pause starts again at one") {
  Popularity popularity = small();
  for (int i = 0; i < 50; ++i) popularity.touch("ann", i);
  popularity.touch("ann", 5'000);
  CHECK(popularity.frequency("ann", 5'000) == 1);
}

TEST_CASE("a full table gives up the key that was used longest ago") {
  Popularity popularity = small(2);
  popularity.touch("ann", 0);
  popularity.touch("bob", 1);
  popularity.touch("ann", 12);
  popularity.touch("cid", 13);
  CHECK(popularity.keys() == 2);
  CHECK(popularity.frequency("bob", 13) == 0);
  CHECK(popularity.frequency("ann", 13) == 2);
  CHECK(popularity.frequency("cid", 13) == 1);
}

TEST_CASE("uses in one bucket are as old as each other: the key that came first goes first") {
  Popularity popularity = small(2);
  for (const char* key : {"ann", "bob", "ann", "cid"}) popularity.touch(key, 5);
  CHECK(popularity.frequency("ann", 5) == 0);
  CHECK(popularity.frequency("bob", 5) == 1);
}

TEST_CASE("the hottest keys come first, ties by key") {
  Popularity popularity = small();
  for (const char* key : {"b", "a", "c", "c", "d"}) popularity.touch(key, 1);
  const auto hottest = popularity.hottest(3, 9, 1);
  REQUIRE(hottest.size() == 3);
  CHECK(hottest[0] == std::pair<std::string, double>("c", 2));
  CHECK(hottest[1].first == "a");
  CHECK(hottest[2].first == "b");
  CHECK(popularity.hottest(9, 9, 1).size() == 4);
}

TEST_CASE("the hottest keys are looked for among those used last only") {
  Popularity popularity = small();
  for (const char* key : {"old", "old", "b", "c"}) popularity.touch(key, 0);
  const auto hottest = popularity.hottest(9, 2, 1);
  REQUIRE(hottest.size() == 2);
  CHECK(hottest[0].first == "b");
}

TEST_CASE("the estimate lies between the uses surely inside the window and those not surely outside") {
  const unsigned seed = 20260101;
  CAPTURE(seed);
  std::mt19937 random(seed);
  Popularity popularity = small();
  std::vector<std::int64_t> uses;
  for (std::int64_t now = 0; now < 3'000; now += 1 + random() % 13) {
    if (random() % 3 != 0) {
      popularity.touch("ann", now);
      uses.push_back(now);
    }
    const auto since = [&](std::int64_t from) {
      return std::count_if(uses.begin(), uses.end(), [&](std::int64_t t) { return t >= from; });
    };
    CHECK(popularity.frequency("ann", now) >= since(now - 90) - 1e-9);
    CHECK(popularity.frequency("ann", now) <= since(now - 110) + 1e-9);
  }
}

}  // namespace
}  // namespace troupe::placement
