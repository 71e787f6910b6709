#include "placement/popularity/hot_items.h"

#include <doctest/doctest.h>

#include <deque>
#include <map>
#include <random>
#include <set>

namespace troupe::placement {
namespace {

constexpr std::uint64_t others = 1'000'000;  // keys of items that are accessed once

TEST_CASE("hot items: an item becomes hot at its share of the window and stays until half of that") {
  HotItems items({.window = 1'000, .hot_share = 0.01, .uses_min = 1});
  for (std::uint64_t i = 0; i < 1'000; ++i) items.touch(others + i);
  for (int i = 0; i < 9; ++i) CHECK_FALSE(items.touch(7).entered);
  CHECK_FALSE(items.contains(7));
  CHECK(items.touch(7).entered);
  CHECK(items.contains(7));
  CHECK_FALSE(items.touch(7).entered);  // entered only once
  CHECK(items.size() == 1);
  std::uint64_t after = 0;
  for (bool left = false; !left; ++after) {
    const auto change = items.touch(2 * others + after);
    left = change.left.has_value();
    if (left) CHECK(*change.left == 7);
  }
  CHECK(after == 989 + 7);  // after seven of the eleven left the window, four remain
  CHECK_FALSE(items.contains(7));
  CHECK(items.size() == 0);
}

TEST_CASE("hot items: the number of accesses until a burst is detected depends only on its share") {
  HotItems items({});  // the threshold is 33 accesses
  std::mt19937_64 random(5);
  for (std::uint64_t i = 0; i < 40'000; ++i) items.touch(others + random() % 100'000);
  CHECK(items.size() == 0);
  std::uint64_t accesses = 0;
  for (bool entered = false; !entered; ++accesses)
    entered = items.touch(random() % 20 == 0 ? 7 : others + random() % 100'000).entered;
  CHECK(accesses < 33 * 20 * 2);
}

TEST_CASE("hot items: fewer accesses than uses_min are not enough, however small the share") {
  HotItems items({.window = 100, .hot_share = 1e-9});
  for (int i = 0; i < 7; ++i) CHECK_FALSE(items.touch(1).entered);
  CHECK(items.touch(1).entered);
  HotItems only({.window = 1, .hot_share = 1});
  CHECK(only.touch(1).entered);
  CHECK(only.touch(2).entered);
  CHECK_FALSE(only.contains(1));
}

TEST_CASE("hot items: a higher threshold drops items at once, a lower one takes them when they are touched") {
  HotItems items({.window = 100, .hot_share = 0.2, .uses_min = 4});
  const auto touch = [&](std::uint64_t key, int times) {
    int entered = 0;
    for (int i = 0; i < times; ++i) entered += items.touch(key).entered;
    return entered;
  };
  CHECK(touch(1, 60) == 1);
  CHECK(touch(2, 22) == 1);
  CHECK(touch(3, 9) == 0);
  CHECK(items.classes() == std::vector<AccessClass>{{60, 1}, {22, 1}, {9, 1}});
  CHECK(items.set_hot_count(50) == std::vector<std::uint64_t>{2});  // 22 is less than half of 50
  CHECK(items.contains(1));
  CHECK_FALSE(items.contains(2));
  CHECK(items.set_hot_count(2).empty());  // at least uses_min
  CHECK_FALSE(items.contains(3));
  CHECK(touch(3, 1) == 1);
  CHECK(touch(2, 1) == 1);
  CHECK(touch(4, 3) == 0);
  CHECK(touch(4, 1) == 1);
  CHECK(items.set_hot_count(0).size() == 4);  // also the one with most of the accesses
  CHECK(items.size() == 0);
  CHECK(touch(1, 100) == 0);
  CHECK(items.classes() == std::vector<AccessClass>{{100, 1}});
}

TEST_CASE("hot items: with a share of 0 no item is hot") {
  HotItems items({.window = 16, .hot_share = 0, .uses_min = 1});
  for (int i = 0; i < 40; ++i) CHECK_FALSE(items.touch(1).entered);
  CHECK(items.classes() == std::vector<AccessClass>{{16, 1}});
}

TEST_CASE("hot items: they equal an exact count, and never exceed size_max") {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  HotItems items({.window = 512, .hot_share = 0.05, .uses_min = 1});  // 26 accesses to enter, 13 to stay
  std::deque<std::uint64_t> window;
  std::map<std::uint64_t, int> counts;
  std::set<std::uint64_t> hot;
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t key = random() % (i / 2'000 % 2 == 0 ? 12 : 60);
    window.push_back(key);
    ++counts[key];
    if (window.size() > 512) {
      if (--counts[window.front()] < 13) hot.erase(window.front());
      window.pop_front();
    }
    if (counts[key] >= 26) hot.insert(key);
    items.touch(key);
    REQUIRE(items.size() == hot.size());
    for (const std::uint64_t one : hot) REQUIRE(items.contains(one));
    REQUIRE(items.size() <= items.size_max());
  }
}

// Counts the items of a window by their accesses, with a scan of all of it.
std::vector<AccessClass> scanned(const std::deque<std::uint64_t>& window) {
  std::map<std::uint64_t, std::size_t> accesses, items;
  for (const std::uint64_t key : window) ++accesses[key];
  for (const auto& [key, count] : accesses) ++items[count];
  std::vector<AccessClass> classes;
  for (auto at = items.rbegin(); at != items.rend(); ++at) classes.push_back({at->first, at->second});
  return classes;
}

// No two of the keys share a counter.
TEST_CASE("hot items: the classes equal those of a scan of the window after each access") {
  for (const std::uint32_t window_size : {1U, 300U}) {
    CAPTURE(window_size);
    std::mt19937_64 random(7);
    HotItems items({.window = window_size, .hot_share = 0.05});
    std::deque<std::uint64_t> window;
    CHECK(items.classes().empty());
    for (std::uint64_t i = 0; i < 3'000; ++i) {
      const std::uint64_t keys[] = {1, 9, 50};  // the first of these fills the window with one item
      window.push_back(random() % keys[i / 700 % 3]);
      if (window.size() > window_size) window.pop_front();
      items.touch(window.back());
      REQUIRE(items.classes() == scanned(window));
    }
  }
}

}  // namespace
}  // namespace troupe::placement
