#include "deploy/data/duplicate_finder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace troupe::deploy;

namespace {

using Ids = std::vector<std::string>;

std::optional<std::uint32_t> first_again(const Ids& ids) {  // the obvious reference
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
  TEST_CASE("repeats: the first repeated id is found in list after list, even with a useless hash") {
    const std::uint64_t seed = 23;
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    DuplicateFinder sound, worthless([](std::string_view) { return 5; });
    for (int list = 0; list < 300; ++list) {
      Ids ids;
      const std::size_t count = random() % 200, kinds = 1 + random() % 20'000;
      while (ids.size() < count) ids.push_back("i" + std::to_string(random() % kinds));
      CHECK(sound.find(ids) == first_again(ids));
      CHECK(worthless.find(ids) == first_again(ids));
    }
  }

  TEST_CASE("repeats: colliding ids do not make the search quadratic") {
    DuplicateFinder repeats([](std::string_view) { return 0; });
    Ids ids = numbered(100'000);
    CHECK_FALSE(repeats.find(ids));
    CHECK(repeats.steps() < 1'000'000);
    ids[99'999] = ids[7];
    CHECK(repeats.find(ids) == 99'999);
    CHECK(repeats.steps() < 2'000'000);
  }

  TEST_CASE("repeats: ordinary ids collide too rarely to be sorted") {
    DuplicateFinder repeats;
    for (int list = 0; list < 100; ++list) CHECK_FALSE(repeats.find(numbered(1'000)));
    CHECK(repeats.steps() < 100 * 1'000 * 2);
  }
}
