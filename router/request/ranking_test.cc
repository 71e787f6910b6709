#include "router/request/ranking.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

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
