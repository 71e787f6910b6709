#include "sim/host/sim_queue.h"

#include <doctest/doctest.h>

#include <map>
#include <random>

using namespace troupe;

TEST_CASE("sim queue: random pushes, pops and reschedules match a sorted map") {
  const std::uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  SimQueue<std::uint64_t> queue;
  std::map<std::pair<Instant, std::uint64_t>, std::uint64_t> sorted;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    if (random() % 5 < 3) {
      const Instant at{static_cast<std::int64_t>(random() % 50)};
      queue.push(at, i ^ 5, i);
      sorted.emplace(std::pair(at, i ^ 5), i);
    } else if (!queue.empty()) {
      CHECK(queue.next_at() == sorted.begin()->first.first);
      CHECK(queue.pop() == sorted.begin()->second);
      sorted.erase(sorted.begin());
    }
    if (i % 1000 == 999) {  // odd payloads move 7 µs later
      queue.reschedule([](std::uint64_t n, Instant at) { return n % 2 ? at + Duration{7} : at; });
      decltype(sorted) moved;
      for (const auto& [key, n] : sorted)
        moved.emplace(std::pair(n % 2 ? key.first + Duration{7} : key.first, key.second), n);
      sorted = std::move(moved);
    }
    REQUIRE(queue.size() == sorted.size());
  }
}
