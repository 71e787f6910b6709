#include "kernels/search/selection.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace troupe::kernels {
namespace {

// Beams of a level with random logits, whole paths between them, and totals that leave
// probabilities below one.
struct Level {
  Level(std::uint32_t beams, std::size_t children, std::uint32_t whole, bool ties, std::mt19937& random) {
    std::normal_distribution<float> normal;
    const auto value = [&] { return ties ? -static_cast<double>(random() % 3) : -std::abs(normal(random)); };
    logits.resize(beams);
    barred.resize(beams);
    for (std::uint32_t slot = 0; slot < beams + whole; ++slot) {
      if (slot >= beams) {
        finished.push_back({value(), candidate_key(slot, 0)});
        continue;
      }
      logits[slot].resize(children > 0 ? random() % (2 * children) : 0);
      for (float& logit : logits[slot]) logit = ties ? static_cast<float>(random() % 3) : normal(random);
      for (std::uint32_t child = 0; child < logits[slot].size(); ++child)
        if (random() % 8 == 0) barred[slot].push_back(child);
      // Totals may be as low as the greatest logit, or even below it, which makes children as good
      // as their beam.
      const double log_total = 2 + static_cast<double>(random() % 4);
      this->beams.push_back({value(), log_total, slot, logits[slot], barred[slot]});
    }
    std::sort(this->beams.begin(), this->beams.end(), [](const Extensions& a, const Extensions& b) {
      return better({a.value, candidate_key(a.slot, 0)}, {b.value, candidate_key(b.slot, 0)});
    });
  }

  std::vector<Candidate> best(SelectBest* select, std::uint32_t width) const {
    std::vector<Candidate> kept = finished;
    REQUIRE(select(beams, width, kept));
    std::sort(kept.begin(), kept.end(), better);
    return kept;
  }

  std::vector<std::vector<float>> logits;
  std::vector<std::vector<std::uint32_t>> barred;
  std::vector<Extensions> beams;
  std::vector<Candidate> finished;
};

TEST_CASE(
    "selection: the heap keeps exactly what a full sort keeps, for any width, ties, barred children and "
    "whole paths") {
  for (std::uint32_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const std::uint32_t width = 1 + random() % (seed % 3 == 0 ? 512 : 20);
    const std::uint32_t whole = random() % std::min(width + 1, 30u);
    const Level level(1 + random() % 40, random() % 200, whole, seed % 2 == 0, random);
    CHECK(level.best(select_best, width) == level.best(select_by_full_sort, width));
  }
}

TEST_CASE("selection: values that differ in their last bits are distinguished, however large the logits") {
  for (std::uint32_t seed = 1; seed <= 100; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const float large = std::ldexp(1.0f, static_cast<int>(random() % 60));
    std::vector<float> logits(300);
    for (float& logit : logits) {
      logit = large;
      for (std::uint32_t steps = random() % 4; steps > 0; --steps) logit = std::nextafter(logit, 0.0f);
    }
    std::vector<Extensions> beams;
    for (std::uint32_t slot = 0; slot < 5; ++slot) beams.push_back({-0.1, large + 1.0, slot, logits, {}});
    std::vector<Candidate> found, expected;
    REQUIRE(select_best(beams, 40, found));
    REQUIRE(select_by_full_sort(beams, 40, expected));
    std::sort(found.begin(), found.end(), better);
    CHECK(found == expected);
  }
}

TEST_CASE("selection: logits that vanish beside their beam's value are ties, whichever is greater") {
  for (std::uint32_t seed = 1; seed <= 100; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    std::vector<float> logits(100);
    for (float& logit : logits) logit = std::ldexp(static_cast<float>(random() % 5) - 2, -60);
    std::vector<Extensions> beams;
    for (const std::uint32_t slot : {4u, 1u, 3u, 0u, 2u}) {
      const double tenths = beams.empty() ? -0.1 : beams.back().value - 0.1;
      beams.push_back({tenths, 7 + tenths + 0x1p-51 * static_cast<double>(random() % 3), slot, logits, {}});
    }
    std::vector<Candidate> found, expected;
    REQUIRE(select_best(beams, 40, found));
    REQUIRE(select_by_full_sort(beams, 40, expected));
    std::sort(found.begin(), found.end(), better);
    CHECK(found == expected);
  }
}

TEST_CASE("selection: a logit that is not finite fails the selection") {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    for (const std::size_t at : {0u, 63u, 64u, 150u, 199u}) {
      std::vector<float> logits(200, -1.0f);
      logits[at] = bad;
      const Extensions beam{-1, 2, 0, logits, {}};
      for (SelectBest* select : {select_best, select_by_full_sort}) {
        std::vector<Candidate> kept;
        CHECK_FALSE(select({&beam, 1}, 3, kept));
      }
    }
}

TEST_CASE("selection: beams that cannot matter are not read") {
  const std::vector<float> good{5, 5, 5}, poison(3, std::numeric_limits<float>::quiet_NaN());
  const std::vector<Extensions> beams{{-1, 5, 0, good, {}}, {-1, 5, 1, poison, {}}, {-2, 5, 2, poison, {}}};
  std::vector<Candidate> kept;
  CHECK(select_best(beams, 3, kept));  // equal values, but later in the order of paths
  kept.clear();
  CHECK_FALSE(select_best(beams, 4, kept));
}

}  // namespace
}  // namespace troupe::kernels
