#include "runtime/network/timer_queue.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

using namespace troupe;

namespace {

std::vector<std::uint64_t> all_due(TimerQueue& timers, Instant now) {
  std::vector<std::uint64_t> fired;
  while (const auto timer = timers.take_due(now)) fired.push_back(*timer);
  return fired;
}

TEST_CASE("timer queue: timers fire in the order of their times, equal ones in the order they were set") {
  TimerQueue timers;
  timers.add({0}, 4, {900});
  timers.add({0}, 1, {500});
  timers.add({0}, 2, {500});
  timers.add({0}, 3, {501});
  CHECK(all_due(timers, {499}).empty());
  CHECK(all_due(timers, {500}) == std::vector<std::uint64_t>{1, 2});
  CHECK(all_due(timers, {5000}) == std::vector<std::uint64_t>{3, 4});
  CHECK_FALSE(timers.wake_at());
}

TEST_CASE("timer queue: a timer in the past is due at once") {
  TimerQueue timers;
  timers.add({100}, 7, {40});
  CHECK(*timers.wake_at() == Instant{40});
  CHECK(all_due(timers, {100}) == std::vector<std::uint64_t>{7});
}

TEST_CASE("timer queue: deadlines of many requests share few wake-ups") {
  TimerQueue timers;
  std::set<std::int64_t> wakings;
  for (std::int64_t request = 0; request < 1000; ++request)  // a millisecond apart, a second ahead
    timers.add({request * 1000}, 1, {request * 1000 + 1'000'000});
  while (const auto at = timers.wake_at()) {
    wakings.insert(at->us);
    REQUIRE_FALSE(all_due(timers, *at).empty());
  }
  CHECK(wakings.size() < 130);
}

TEST_CASE("timer queue: a timer that fired early leaves no wake-up behind") {
  TimerQueue timers;
  timers.add({0}, 1, {100'000});
  timers.add({0}, 2, {900'000});
  CHECK(all_due(timers, {100'000}) == std::vector<std::uint64_t>{1});
  CHECK(timers.wake_at()->us >= 900'000);
}

TEST_CASE("timer queue: no wake-up is earlier than its timer or later than allowed") {
  const std::uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  TimerQueue timers;
  std::vector<Instant> at, latest;
  Instant now{1'000'000};
  for (int step = 0; step < 2000; ++step) {
    const std::int64_t ahead = random() % (1u << (random() % 22));
    at.push_back(now + Duration{ahead});
    latest.push_back(now + Duration{ahead + std::min<std::int64_t>(ahead / 16, 8192)});
    timers.add(now, at.size() - 1, at.back());
    if (random() % 3 == 0) continue;
    now = std::max(now, *timers.wake_at());
    for (const std::uint64_t fired : all_due(timers, now)) {
      CHECK(at[fired] <= now);
      at[fired] = {-1};
    }
    for (std::size_t i = 0; i < at.size(); ++i) CHECK((at[i].us < 0 || at[i] > now));
    if (const auto wake = timers.wake_at())
      for (std::size_t i = 0; i < at.size(); ++i) REQUIRE((at[i].us < 0 || *wake <= latest[i]));
  }
}

}  // namespace
