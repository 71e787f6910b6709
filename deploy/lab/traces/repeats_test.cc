#include "deploy/lab/traces/repeats.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace troupe::deploy;

namespace {

using Ids = std::vector<std::string>;

std::optional<std::uint32_t> first_again(const Ids& ids) {  // obvious
  for (std::uint32_t i = 0; i < ids.size(); ++i)
    if (std::find(ids.begin(), ids.begin() + i, ids[i]) != ids.begin() + i) return i;
  return std::nullopt;
}

Ids numbered(std::size_t count) {
  Ids ids;
  while (ids.size() < count) ids.push_back("i" + std::to_string(ids.size()));
  return ids;
}

}  // namespace

TEST_SUITE("repeats") {
  TEST_CASE("the first id that comes again is found, list after list, whatever the hash is worth") {
    const std::uint64_t seed = 23;
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    Repeats sound, worthless([](std::string_view) { return 5; });
    for (int list = 0; list < 300; ++list) {
      Ids ids;
      const std::size_t count = random() % 200, kinds = 1 + random() % 20'000;
      while (ids.size() < count) ids.push_back("i" + std::to_string(random() % kinds));
      CHECK(sound.find(ids) == first_again(ids));
      CHECK(worthless.find(ids) == first_again(ids));
    }
  }

  TEST_CASE("ids that meet in the table cost as good as nothing more") {
    Repeats repeats([](std::string_view) { return 0; });
    Ids ids = numbered(100'000);
    CHECK_FALSE(repeats.find(ids));
    CHECK(repeats.steps() < 1'000'000);
    ids[99'999] = ids[7];
    CHECK(repeats.find(ids) == 99'999);
    CHECK(repeats.steps() < 2'000'000);
  }

  TEST_CASE("ids as they are do not meet often enough to be sorted") {
    Repeats repeats;
    for (int list = 0; list < 100; ++list) CHECK_FALSE(repeats.find(numbered(1'000)));
    CHECK(repeats.steps() < 100 * 1'000 * 2);
  }
}
