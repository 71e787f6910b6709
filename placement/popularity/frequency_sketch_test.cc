#include "placement/popularity/frequency_sketch.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

using troupe::placement::FrequencySketch;

TEST_CASE("frequency sketch: counts are exact while few keys are seen") {
  FrequencySketch sketch(1000);
  for (std::uint64_t key = 1; key <= 20; ++key)
    for (std::uint64_t i = 0; i < key; ++i) sketch.touch(key * 0x9e3779b97f4a7c15U);
  for (std::uint64_t key = 1; key <= 20; ++key) CHECK(sketch.count(key * 0x9e3779b97f4a7c15U) == key);
  CHECK(sketch.count(77) == 0);
}

TEST_CASE("frequency sketch: an estimate is never too small and seldom too large") {
  std::mt19937_64 random(7);
  FrequencySketch sketch(2000);
  std::map<std::uint64_t, std::uint32_t> truth;
  std::vector<std::uint64_t> keys(3000);
  for (std::uint64_t& key : keys) key = random();
  for (int i = 0; i < 30'000; ++i) {
    const std::uint64_t key = keys[std::min(random() % keys.size(), random() % keys.size())];
    sketch.touch(key);
    ++truth[key];
  }
  int wrong = 0;
  for (const auto& [key, count] : truth) {
    CHECK(sketch.count(key) >= count);
    wrong += sketch.count(key) > count + 1;
  }
  CHECK(wrong * 20 < static_cast<int>(truth.size()));
}

TEST_CASE("frequency sketch: a touch raises only the smallest counts of a key") {
  std::mt19937_64 random(7);
  FrequencySketch sketch(64);  // 128 counters per row, for three times as many keys
  std::vector<std::uint64_t> keys(400);
  for (std::uint64_t& key : keys) key = random();
  for (int round = 0; round < 2; ++round)
    for (const std::uint64_t key : keys) sketch.touch(key);
  double counted = 0;
  for (const std::uint64_t key : keys) counted += sketch.count(key);
  CHECK(counted / static_cast<double>(keys.size()) < 4);  // exact: 2; with all four counts raised: nearly 5
}

TEST_CASE("frequency sketch: old counts are halved, and counts saturate at 255") {
  FrequencySketch sketch(64);  // halved after 1,024 sightings
  for (int i = 0; i < 1000; ++i) sketch.touch(1);
  CHECK(sketch.count(1) == 255);
  for (std::uint64_t i = 0; i < 24; ++i) sketch.touch(2);
  CHECK(sketch.count(1) == 127);
  CHECK(sketch.count(2) == 12);
  for (std::uint64_t i = 0; i < 200; ++i) sketch.touch(2);  // far from the next halving
  CHECK(sketch.count(1) == 127);
  CHECK(sketch.count(2) == 212);
}
