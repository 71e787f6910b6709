#include "runtime/features/expiring_profiles.h"

#include <doctest/doctest.h>

#include <memory>
#include <random>
#include <string>

namespace troupe {
namespace expiring_profiles_test {

using Source = Features::Source;

ExpiryOptions options() {
  return {.expiry = {1'000},
          .stale_for = {500},
          .unknown_expiry = {100},
          .jitter = 0,
          .bytes_max = 1 << 20,
          .asking = {80}};
}
ProfilePointer profile(std::uint64_t version, std::size_t events = 1) {
  return std::make_shared<const Profile>(
      Profile{version, std::vector<Token>(events, 1), std::vector<std::uint32_t>(events, 1), {}});
}

TEST_CASE("expiring profiles: a profile is fresh for its expiry, then stale, then missing") {
  ExpiringProfiles profiles(options());
  CHECK(profiles.find("u", {0}, false).of == Source::missing);
  profiles.put("u", profile(3), {10});
  CHECK(profiles.find("u", {1'009}, false).of == Source::cache);
  CHECK(profiles.find("u", {1'009}, false).row->version == 3);
  CHECK(profiles.find("u", {1'010}, false).of == Source::stale);
  CHECK(profiles.find("u", {1'509}, false).row->version == 3);
  CHECK(profiles.find("u", {1'510}, false).of == Source::missing);
  CHECK_FALSE(profiles.find("u", {1'510}, false).row);
}

TEST_CASE("expiring profiles: an absent user is remembered for a shorter time") {
  ExpiringProfiles profiles(options());
  profiles.put("u", nullptr, {0});
  CHECK(profiles.find("u", {99}, false).of == Source::cache);
  CHECK_FALSE(profiles.find("u", {99}, false).row);
  CHECK(profiles.find("u", {100}, false).of == Source::missing);
}

TEST_CASE("expiring profiles: one finder must read, and another one if that reading fails") {
  ExpiringProfiles profiles(options());
  CHECK(profiles.find("u", {0}, true).ask);
  CHECK_FALSE(profiles.find("u", {1}, true).ask);
  CHECK_FALSE(profiles.find("u", {2}, false).ask);
  CHECK(profiles.find("u", {80}, true).ask);  // the first reading never ended
  profiles.failed("u", {85});
  CHECK_FALSE(profiles.find("u", {94}, true).ask);
  CHECK(profiles.find("u", {95}, true).ask);
  profiles.put("u", profile(1), {95});
  CHECK_FALSE(profiles.find("u", {96}, true).ask);
  CHECK(profiles.find("u", {1'095}, true).ask);
  CHECK_FALSE(profiles.find("u", {1'096}, true).ask);
  CHECK(profiles.find("u", {1'096}, true).of == Source::stale);
}

TEST_CASE("expiring profiles: a reading from before a write is neither used nor stored late") {
  ExpiringProfiles profiles(options());
  profiles.put("u", profile(1), {0});
  profiles.written("u", {10});
  CHECK(profiles.find("u", {11}, false).of == Source::missing);
  profiles.put("u", profile(1), {10});
  CHECK(profiles.find("u", {12}, false).of == Source::missing);
  profiles.put("u", profile(2), {11});
  CHECK(profiles.find("u", {12}, false).row->version == 2);
  profiles.put("u", profile(1), {5});  // its reading began before the write
  CHECK(profiles.find("u", {12}, false).row->version == 2);
  profiles.put("nobody wrote", profile(2), {11});
  profiles.put("nobody wrote", profile(1), {10});
  CHECK(profiles.find("nobody wrote", {12}, false).row->version == 2);
}

TEST_CASE("expiring profiles: jitter spreads expiries and never lengthens one") {
  ExpiryOptions some = options();
  some.jitter = 0.5;
  ExpiringProfiles profiles(some);
  for (int i = 0; i < 200; ++i) profiles.put(std::to_string(i), profile(1), {0});
  const auto fresh_at = [&](std::int64_t us) {
    int fresh = 0;
    for (int i = 0; i < 200; ++i) fresh += profiles.find(std::to_string(i), {us}, false).of == Source::cache;
    return fresh;
  };
  CHECK(fresh_at(499) == 200);
  CHECK(fresh_at(750) > 60);
  CHECK(fresh_at(750) < 140);
  CHECK(fresh_at(1'000) == 0);
}

TEST_CASE("expiring profiles: memory is bounded, and the least recently used are evicted first") {
  ExpiryOptions small = options();
  small.bytes_max = 64 << 10;
  small.buckets = 4;
  ExpiringProfiles profiles(small);
  const std::uint32_t seed = 5;
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 5'000; ++i) {
    const std::string key = std::to_string(random() % 1'000);
    const Instant now{i};
    switch (random() % 4) {
      case 0:
        profiles.put(key, profile(1, random() % 3'000), now);
        break;  // some are too large
      case 1:
        profiles.written(key, now);
        break;
      default:
        profiles.find(key, now, random() % 2 == 0);
    }
    REQUIRE(profiles.bytes() <= small.bytes_max);
  }
  small.buckets = 1;
  ExpiringProfiles one(small);
  one.put("first", profile(1, 3'000), {0});
  one.put("second", profile(2, 3'000), {0});
  one.find("first", {1}, false);
  one.put("third", profile(3, 3'000), {1});
  CHECK(one.find("first", {2}, false).of == Source::cache);
  CHECK(one.find("second", {2}, false).of == Source::missing);
  CHECK(one.find("third", {2}, false).of == Source::cache);
}

}  // namespace expiring_profiles_test
}  // namespace troupe
