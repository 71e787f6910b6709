#include "router/request/ranking.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>

namespace troupe::router {
namespace ranking_test {

std::vector<Item> items(std::initializer_list<const char*> ids) {
  std::vector<Item> list;
  for (const char* id : ids) list.push_back({.id = id, .title = std::string("the ") + id});
  return list;
}

TEST_CASE("ranking: items come best first, ties in candidate order") {
  const auto list = items({"a", "b", "c", "d"});
  const auto ranked = rank_items(views(list), std::vector<double>{1, 3, 1, 2}, 0);
  REQUIRE(ranked.size() == 4);
  CHECK(ranked[0].id == "b");
  CHECK(ranked[0].title == "the b");
  CHECK(ranked[1].id == "d");
  CHECK(ranked[2].id == "a");
  CHECK(ranked[3].id == "c");
}

TEST_CASE("ranking: with several tasks the requested one orders, and all scores are returned") {
  const auto list = items({"a", "b"});
  const std::vector<double> scores{1, -3, 2, -4};
  const auto by = [&](std::size_t task) {
    return rank_items(views(list), scores, 0, {.count = 2, .ordering = task, .reported = true});
  };
  CHECK(by(0)[0].id == "b");
  CHECK(by(0)[0].score == 2);
  CHECK(by(0)[0].task_scores == std::vector<double>{2, -4});
  CHECK(by(1)[0].id == "a");
  CHECK(by(1)[0].score == -3);
  CHECK(by(1)[0].task_scores == std::vector<double>{1, -3});
  CHECK(rank_items(views(list), std::vector<double>{1, 2}, 0)[0].task_scores.empty());
}

TEST_CASE("ranking: with a temperature the values are scores divided by it, and give the probabilities") {
  const auto list = items({"a", "b"});
  const auto ranked =
      rank_items(views(list), std::vector<double>{0, std::log(3.0)}, 0, {.temperature = 0.05});
  CHECK(ranked[0].id == "b");
  CHECK(ranked[0].score == doctest::Approx(0.05 * std::log(3.0)));
  CHECK(ranked[0].probability == doctest::Approx(0.75));
}

TEST_CASE("ranking: top_k cuts the list but not the probabilities") {
  const auto list = items({"a", "b", "c"});
  const auto ranked = rank_items(views(list), std::vector<double>{0, 0, std::log(2.0)}, 1);
  REQUIRE(ranked.size() == 1);
  CHECK(ranked[0].id == "c");
  CHECK(ranked[0].probability == doctest::Approx(0.5));
  CHECK(rank_items(views(list), std::vector<double>{1, 2, 3}, 9).size() == 3);
}

TEST_CASE("ranking: a long list has the order of a stable sort, whatever part of it is returned") {
  std::mt19937 random(3);
  std::vector<Item> list;
  std::vector<double> scores;
  for (int i = 0; i < 500; ++i) {
    list.push_back({.id = std::to_string(i), .title = "a title of item " + std::to_string(i)});
    scores.push_back(static_cast<double>(random() % 40) - 20);  // most scores occur several times
  }
  scores[7] = -0.0, scores[3] = 0.0;  // equal
  std::vector<std::size_t> order(list.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  for (const std::uint32_t top_k : {0u, 1u, 10u, 499u, 500u, 501u}) {
    const auto ranked = rank_items(views(list), scores, top_k);
    REQUIRE(ranked.size() == (top_k == 0 ? 500 : std::min(top_k, 500u)));
    for (std::size_t at = 0; at < ranked.size(); ++at) {
      CAPTURE(at);
      CHECK(ranked[at].id == list[order[at]].id);
      CHECK(ranked[at].title == list[order[at]].title);
      CHECK(ranked[at].score == scores[order[at]]);
    }
  }
}

TEST_CASE("softmax: huge scores neither overflow nor vanish") {
  const auto shares = softmax(std::vector<double>{1e4, 1e4, -1e4});
  CHECK(shares[0] == doctest::Approx(0.5));
  CHECK(shares[2] == 0);
  CHECK(softmax({}).empty());
}

TEST_CASE("all_finite: a NaN or infinity is detected") {
  CHECK(all_finite(std::vector<double>{0, -1e300}));
  CHECK_FALSE(all_finite(std::vector<double>{0, std::nan("")}));
  CHECK_FALSE(all_finite(std::vector<double>{std::numeric_limits<double>::infinity()}));
}

}  // namespace ranking_test
}  // namespace troupe::router
