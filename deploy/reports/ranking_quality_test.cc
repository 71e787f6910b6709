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

  TEST_CASE("ndcg: a rank behind k counts nothing, and the first rank counts 1") {
    CHECK(ndcg({0, 1}, 10) == 1);
    CHECK(ndcg({0, 3}, 10) == 0.5);
    CHECK(ndcg({0, 11}, 10) == 0);
    CHECK(ndcg({0, 0}, 10) == 0);
  }
}
