#include "placement/popularity/popularity.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>

namespace troupe::placement {
namespace {

// Returns a window of 100 us in 10 buckets of 10 us.
Popularity<std::string> small(std::size_t keys_max = 8) {
  return Popularity<std::string>({100, 10, keys_max});
}

TEST_CASE("popularity: each use inside the window counts once") {
  auto popularity = small();
  CHECK(popularity.frequency("ann", 0) == 0);
  for (std::int64_t now : {0, 5, 30}) popularity.touch("ann", now);
  popularity.touch("bob", 30);
  CHECK(popularity.frequency("ann", 30) == 3);
  CHECK(popularity.frequency("bob", 30) == 1);
}

TEST_CASE("popularity: a use fades while its bucket leaves the window, and then counts 0") {
  auto popularity = small();
  popularity.touch("ann", 0);
  CHECK(popularity.frequency("ann", 99) == 1);
  CHECK(popularity.frequency("ann", 100) == 1);
  CHECK(popularity.frequency("ann", 105) == doctest::Approx(0.5));
  CHECK(popularity.frequency("ann", 110) == 0);
  CHECK(popularity.frequency("ann", 1'000'000) == 0);
}

TEST_CASE("popularity: a window of fewer microseconds than buckets has buckets of one microsecond") {
  Popularity<std::string> popularity({5, 10, 8});
  popularity.touch("ann", 0);
  CHECK(popularity.frequency("ann", 9) == 1);
  CHECK(popularity.frequency("ann", 11) == 0);
}

TEST_CASE("popularity: a use after a long pause counts as one") {
  auto popularity = small();
  for (int i = 0; i < 50; ++i) popularity.touch("ann", i);
  popularity.touch("ann", 5'000);
  CHECK(popularity.frequency("ann", 5'000) == 1);
}

TEST_CASE("popularity: a full table forgets the least recently used key") {
  auto popularity = small(2);
  popularity.touch("ann", 0);
  popularity.touch("bob", 1);
  popularity.touch("ann", 12);
  popularity.touch("cid", 13);
  CHECK(popularity.keys() == 2);
  CHECK(popularity.frequency("bob", 13) == 0);
  CHECK(popularity.frequency("ann", 13) == 2);
  CHECK(popularity.frequency("cid", 13) == 1);
}

TEST_CASE("popularity: among uses in one bucket, the key added first is forgotten first") {
  auto popularity = small(2);
  for (const char* key : {"ann", "bob", "ann", "cid"}) popularity.touch(key, 5);
  CHECK(popularity.frequency("ann", 5) == 0);
  CHECK(popularity.frequency("bob", 5) == 1);
}

TEST_CASE("popularity: touch_all counts as single touches do, and known keys stay") {
  auto popularity = small(3);
  popularity.touch("ann", 0);
  popularity.touch("bob", 12);
  popularity.touch_all(std::vector<std::string>{"cid", "ann", "dan", "dan", "ann"}, 23);
  CHECK(popularity.keys() == 3);
  CHECK(popularity.frequency("ann", 23) == 3);
  CHECK(popularity.frequency("bob", 23) == 0);
  CHECK(popularity.frequency("cid", 23) == 1);
  CHECK(popularity.frequency("dan", 23) == 2);
}

TEST_CASE("popularity: frequencies equal those of a list of all uses (random histories)") {
  const unsigned seed = 20261123;
  CAPTURE(seed);
  std::mt19937 random(seed);
  auto popularity = small(1'000);
  std::vector<std::pair<std::string, std::int64_t>> buckets;  // key and bucket of every use
  std::int64_t now = 0;
  for (int step = 0; step < 400; ++step, now += random() % 9) {
    std::vector<std::string> keys(random() % 5);
    for (std::string& key : keys) key = std::to_string(random() % 20);
    popularity.touch_all(keys, now);
    for (const std::string& key : keys) buckets.emplace_back(key, now / 10);
    const std::string asked = std::to_string(random() % 20);
    double uses = 0;
    for (const auto& [key, bucket] : buckets)
      if (key == asked && bucket >= now / 10 - 10)
        uses += bucket == now / 10 - 10 ? 1 - static_cast<double>(now % 10) / 10 : 1;
    CHECK(popularity.frequency(asked, now) == doctest::Approx(uses));
  }
}

TEST_CASE("popularity: the hottest keys come first, ties by key") {
  auto popularity = small();
  for (const char* key : {"b", "a", "c", "c", "d"}) popularity.touch(key, 1);
  const auto hottest = popularity.hottest(3, 9, 1);
  REQUIRE(hottest.size() == 3);
  CHECK(hottest[0] == std::pair<std::string, double>("c", 2));
  CHECK(hottest[1].first == "a");
  CHECK(hottest[2].first == "b");
  CHECK(popularity.hottest(9, 9, 1).size() == 4);
}

TEST_CASE("popularity: the hottest keys are searched only among the most recently used ones") {
  auto popularity = small();
  for (const char* key : {"old", "old", "b", "c"}) popularity.touch(key, 0);
  const auto hottest = popularity.hottest(9, 2, 1);
  REQUIRE(hottest.size() == 2);
  CHECK(hottest[0].first == "b");
}

TEST_CASE(
    "popularity: the estimate lies between the uses surely inside and those not surely outside the window") {
  const unsigned seed = 20260101;
  CAPTURE(seed);
  std::mt19937 random(seed);
  auto popularity = small();
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
