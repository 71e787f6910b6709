#include "placement/split/shadow_cache.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <list>
#include <vector>

#include "kernels/base/hash.h"

namespace troupe::placement {
namespace shadow_cache_test {

// Counts the hits of an LRU cache with `capacity` entries, implemented in the obvious way.
std::uint64_t hits_of(std::uint64_t capacity, const std::vector<std::uint64_t>& keys) {
  std::list<std::uint64_t> cache;
  std::uint64_t hits = 0;
  for (const std::uint64_t key : keys) {
    const auto at = std::ranges::find(cache, key);
    hits += at != cache.end();
    if (at != cache.end()) cache.erase(at);
    cache.push_front(key);
    if (cache.size() > capacity) cache.pop_back();
  }
  return hits;
}

std::vector<std::uint64_t> skewed_keys(std::size_t count, std::uint64_t range, std::uint64_t seed) {
  std::vector<std::uint64_t> keys;
  for (std::size_t i = 0; i < count; ++i) {
    const double unit = static_cast<double>(spread(seed * 1'000'003 + i) >> 11) * 0x1p-53;
    keys.push_back(static_cast<std::uint64_t>(static_cast<double>(range) * unit * unit * unit));
  }
  return keys;
}

TEST_CASE("recency stack: a distance is the size of what was used since, plus the key's own") {
  RecencyStack stack(8);
  CHECK_FALSE(stack.use(1, 10));
  CHECK_FALSE(stack.use(2, 5));
  CHECK_FALSE(stack.use(3, 1));
  CHECK(stack.use(2, 5) == 6U);
  CHECK(stack.use(1, 20) == 26U);  // its size has grown
  CHECK(stack.use(1, 20) == 20U);
}

TEST_CASE("recency stack: the least recently used keys beyond the limits are forgotten") {
  RecencyStack stack(2);
  for (std::uint64_t key = 1; key <= 3; ++key) stack.use(key, 1);
  CHECK_FALSE(stack.use(1, 1));
  CHECK(stack.use(3, 1) == 2U);
  stack.trim(1);
  CHECK(stack.keys() == 1);
  CHECK_FALSE(stack.use(1, 1));
}

TEST_CASE("recency stack: one pass gives the hits of caches of all sizes") {
  const auto keys = skewed_keys(4'000, 300, 5);
  RecencyStack stack(300);
  std::vector<std::uint64_t> found(301);
  for (const std::uint64_t key : keys)
    if (const auto distance = stack.use(key, 1)) ++found[*distance];
  for (const std::uint64_t capacity : {1U, 7U, 60U, 299U}) {
    std::uint64_t hits = 0;
    for (std::uint64_t d = 0; d <= capacity; ++d) hits += found[d];
    CHECK(hits == hits_of(capacity, keys));
  }
}

TEST_CASE("shadow cache: savings equal those of caches with each share of the pool") {
  const auto keys = skewed_keys(6'000, 400, 9);
  ShadowCache shadow({.pool = 200, .kept = 1});
  for (const std::uint64_t key : keys) shadow.use(key, 1, 2.0);
  for (const std::uint64_t share : {10U, 50U, 100U})
    CHECK(shadow.savings()[share] == doctest::Approx(2.0 * static_cast<double>(hits_of(2 * share, keys))));
}

TEST_CASE("shadow cache: a sample of the keys gives nearly the same savings") {
  const auto keys = skewed_keys(200'000, 20'000, 3);
  ShadowCache whole({.pool = 4'000, .samples_max = 8'000, .kept = 1}),
      sample({.pool = 4'000, .one_of = 8, .kept = 1});
  for (const std::uint64_t key : keys) {
    whole.use(key, 1, 1.0);
    sample.use(key, 1, 1.0);
  }
  // Whether the sample contains the hottest keys is chance, but caches of all sizes hold those.
  const auto more = [](ShadowCache& shadow, std::size_t share) {
    return shadow.savings()[share] - shadow.savings()[10];
  };
  for (const std::size_t share : {20U, 50U, 100U})
    CHECK(more(sample, share) == doctest::Approx(more(whole, share)).epsilon(0.15));
}

TEST_CASE("shadow cache: older windows count less, and a curve describes one window") {
  ShadowCache shadow({.pool = 100, .kept = 0.5});
  shadow.use(1, 1, 4.0);
  shadow.use(1, 1, 4.0);
  CHECK(shadow.savings()[100] == doctest::Approx(4));
  shadow.next_window();
  CHECK(shadow.savings()[100] == doctest::Approx(2 / 1.5));
}

}  // namespace shadow_cache_test
}  // namespace troupe::placement
