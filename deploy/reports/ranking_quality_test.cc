#include "deploy/reports/ranking_quality.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace troupe::deploy;

TEST_SUITE("ranking quality") {
  TEST_CASE("rank_correlation: equal orders give 1, opposite orders -1, and ties share their ranks") {
    CHECK(rank_correlation({1, 2, 3, 4}, {10, 20, 30, 400}) == doctest::Approx(1));
    CHECK(rank_correlation({1, 2, 3, 4}, {4, 3, 2, 1}) == doctest::Approx(-1));
    CHECK(rank_correlation({1, 2, 3, 4}, {2, 1, 4, 3}) == doctest::Approx(0.6));
    CHECK(rank_correlation({1, 1, 2}, {1, 2, 3}) == doctest::Approx(std::sqrt(0.75)));
    CHECK(rank_correlation({5, 5}, {7, 7}) == 1);
    CHECK(rank_correlation({5, 5}, {7, 8}) == 0);
    CHECK(rank_correlation({}, {}) == 1);
  }

  TEST_CASE("overlap_at_10: fewer than 20 items are compared by their better half, and NaN is the worst") {
    std::vector<float> ascending(40), moved;
    for (std::size_t i = 0; i < ascending.size(); ++i) ascending[i] = static_cast<float>(i);
    moved = ascending;
    std::swap(moved[39], moved[0]);
    CHECK(overlap_at_10(ascending, ascending) == 1);
    CHECK(overlap_at_10(ascending, moved) == doctest::Approx(0.9));
    CHECK(overlap_at_10({1, 2, 3, 4}, {1, 3, 2, 4}) == 0.5);  // 4 and 3, of two
    CHECK(overlap_at_10({5}, {7}) == 1);
    for (std::size_t i = 0; i < 30; i += 2) ascending[i] = moved[i] = NAN;
    CHECK(overlap_at_10(ascending, moved) == doctest::Approx(0.9));
    CHECK(rank_correlation({1, NAN, 3}, {1, 0, 3}) == doctest::Approx(1));
  }

  TEST_CASE("ndcg: a rank behind k counts nothing, and the first rank counts 1") {
    CHECK(ndcg({0, 1}, 10) == 1);
    CHECK(ndcg({0, 3}, 10) == 0.5);
    CHECK(ndcg({0, 11}, 10) == 0);
    CHECK(ndcg({0, 0}, 10) == 0);
  }
}
