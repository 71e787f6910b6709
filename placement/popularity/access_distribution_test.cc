#include "placement/popularity/access_distribution.h"

#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>

#include "kernels/base/hash.h"

namespace troupe::placement {
namespace {

const std::vector<std::uint64_t> counts{1, 6, 0, 2, 1};

TEST_CASE("access distribution: counted items come hottest first, ties by item") {
  const auto all = AccessDistribution::from_counts(counts);
  REQUIRE(all.items() == 5);
  for (const auto& [rank, item] : {std::pair{0, 1}, {1, 3}, {2, 0}, {3, 4}, {4, 2}})
    CHECK(all.item_at(static_cast<std::uint64_t>(rank)) == static_cast<ItemNumber>(item));
  CHECK(all.share_at(0) == doctest::Approx(0.6));
  CHECK(all.share_at(4) == 0);
  CHECK(all.cdf(0) == 0);
  CHECK(all.cdf(2) == doctest::Approx(0.8));
  CHECK(all.cdf(5) == 1);
}

TEST_CASE("access distribution: reaching returns the least number of hottest items with that share") {
  const auto all = AccessDistribution::from_counts(counts);
  CHECK(all.reaching(-1) == 0);
  CHECK(all.reaching(0.6) == 1);
  CHECK(all.reaching(0.61) == 2);
  CHECK(all.reaching(1) == 4);  // the item without accesses is not needed
  CHECK(all.reaching(2) == 5);
}

TEST_CASE("access distribution: classes of equally accessed items describe what single counts describe") {
  const std::vector<AccessClass> classes{{6, 1}, {2, 1}, {1, 2}, {0, 1}};
  const auto counted = AccessDistribution::from_counts(counts),
             all = AccessDistribution::from_classes(classes);
  REQUIRE(all.items() == counted.items());
  for (std::uint64_t rank = 0; rank < 5; ++rank) {
    CAPTURE(rank);
    CHECK(all.item_at(rank) == rank);
    CHECK(all.share_at(rank) == counted.share_at(rank));
    CHECK(all.cdf(rank) == counted.cdf(rank));
  }
  for (const double share : {-1.0, 0.6, 0.61, 0.85, 1.0, 2.0})
    CHECK(all.reaching(share) == counted.reaching(share));
  CHECK(all.draw(0) == 0);
  CHECK(all.draw(~std::uint64_t{0}) == 3);
}

TEST_CASE("access distribution: classes in another order, or without accesses, are refused") {
  const auto made = [](std::vector<AccessClass> classes) { AccessDistribution::from_classes(classes); };
  CHECK_THROWS_AS(made({}), std::invalid_argument);
  CHECK_THROWS_AS(made({{0, 7}}), std::invalid_argument);
  CHECK_THROWS_AS(made({{2, 1}, {2, 1}}), std::invalid_argument);
  CHECK_THROWS_AS(made({{1, 1}, {2, 1}}), std::invalid_argument);
  CHECK_THROWS_AS(made({{2, 1ULL << 32}}), std::invalid_argument);
  CHECK_THROWS_AS(made({{1ULL << 62, 4}}), std::invalid_argument);
}

TEST_CASE("access distribution: Zipf sums beyond the exact ranks agree with adding every term") {
  for (const double exponent : {0.0, 0.5, 0.7, 1.0, 1.0 + 1e-12, 1.3}) {
    CAPTURE(exponent);
    const std::uint64_t items = 200'000;
    const auto zipf = AccessDistribution::zipf(items, exponent);
    double total = 0, part = 0;
    for (std::uint64_t i = items; i > 0; --i) total += std::pow(double(i), -exponent);
    for (std::uint64_t i = 50'000; i > 0; --i) part += std::pow(double(i), -exponent);
    CHECK(zipf.cdf(50'000) * total / part == doctest::Approx(1).epsilon(1e-11));
    CHECK(zipf.share_at(77'777) == doctest::Approx(std::pow(77'778.0, -exponent) / total).epsilon(1e-9));
  }
}

TEST_CASE(
    "access distribution: a hundred million generated items take no memory, and reaching inverts the CDF") {
  for (const double exponent : {0.0, 0.6, 1.0, 1.4, 9.0})
    for (const std::uint64_t count : {1, 3, 4'096, 4'100, 100'000'000}) {
      CAPTURE(exponent);
      CAPTURE(count);
      const auto zipf = AccessDistribution::zipf(count, exponent);
      CHECK(zipf.reaching(0) == 0);
      CHECK(zipf.reaching(1.1) == count);
      for (double share = 1e-4; share <= 1; share += 0.0101) {
        const std::uint64_t items = zipf.reaching(share);
        CHECK(zipf.cdf(items) >= share);
        CHECK(zipf.cdf(items - 1) < share);
      }
    }
}

TEST_CASE("access distribution: items are drawn in proportion to their share") {
  for (const auto& all : {AccessDistribution::from_counts(counts), AccessDistribution::zipf(5, 0.8)}) {
    std::vector<double> drawn(5);
    for (std::uint64_t i = 0; i < 100'000; ++i) drawn[all.draw(spread(i))] += 1e-5;
    for (std::uint64_t rank = 0; rank < 5; ++rank)
      CHECK(std::abs(drawn[all.item_at(rank)] - all.share_at(rank)) < 0.01);
  }
}

TEST_CASE("access distribution: invalid counts, item numbers and exponents are refused") {
  CHECK_THROWS_AS(AccessDistribution::from_counts({}), std::invalid_argument);
  CHECK_THROWS_AS(AccessDistribution::from_counts(std::vector<std::uint64_t>{0, 0}), std::invalid_argument);
  CHECK_THROWS_AS(AccessDistribution::from_counts(std::vector<std::uint64_t>{1ULL << 63, 1ULL << 63}),
                  std::invalid_argument);
  CHECK_THROWS_AS(AccessDistribution::zipf(0, 1), std::invalid_argument);
  CHECK_THROWS_AS(AccessDistribution::zipf(1ULL << 32, 1), std::invalid_argument);
  for (const double exponent : {-0.1, 11.0, std::nan("")})
    CHECK_THROWS_AS(AccessDistribution::zipf(10, exponent), std::invalid_argument);
}

}  // namespace
}  // namespace troupe::placement
