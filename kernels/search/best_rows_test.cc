#include "kernels/search/best_rows.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <set>

using namespace troupe::kernels;

namespace {
namespace best_rows_test {

// Sorts all rows that are not barred.
std::vector<ScoredRow> plain_best(std::span<const float> scores, std::span<const Token> barred,
                                  std::size_t most) {
  std::vector<ScoredRow> all;
  for (std::size_t i = 0; i < scores.size(); ++i)
    if (std::ranges::find(barred, static_cast<Token>(i)) == barred.end() && scores[i] == scores[i])
      all.push_back({scores[i], static_cast<Token>(i)});
  std::ranges::sort(all, [](const ScoredRow& a, const ScoredRow& b) {
    return a.score > b.score || (a.score == b.score && a.row < b.row);
  });
  all.resize(std::min(all.size(), most));
  return all;
}

// Scores of few different values, so that most are ties, also at the edge of what is kept.
std::vector<float> tied_scores(std::size_t count, std::mt19937& random) {
  std::vector<float> scores(count);
  const unsigned values = 1 + random() % 7;
  for (float& score : scores) score = static_cast<float>(static_cast<int>(random() % values)) - 3;
  return scores;
}

std::vector<Token> barred_of(std::size_t count, std::mt19937& random) {
  std::set<Token> barred;
  for (std::size_t i = random() % 5; i-- > 0;)
    barred.insert(static_cast<Token>(random() % std::max<std::size_t>(1, count)));
  return {barred.begin(), barred.end()};
}

TEST_CASE("best rows: blocks, lists and merged parts give what sorting gives, ties by the lower row") {
  std::mt19937 random(3);
  for (int trial = 0; trial < 400; ++trial) {
    const std::size_t count = random() % 300, most = 1 + random() % 40;
    const std::vector<float> scores = tied_scores(count, random);
    const std::vector<Token> barred = barred_of(count, random);
    CAPTURE(trial);
    const std::vector<ScoredRow> expected = plain_best(scores, barred, most);

    BestRows whole, part, merged, listed;
    for (BestRows* best : {&whole, &merged, &listed}) best->begin(most, barred);
    whole.offer(scores, 0);
    const std::size_t cut = count == 0 ? 0 : random() % count;
    for (const auto& [from, to] : {std::pair(cut, count), std::pair(std::size_t{0}, cut)}) {
      part.begin(most, barred);
      part.offer(std::span(scores).subspan(from, to - from), static_cast<Token>(from));
      merged.offer(part);
    }
    std::vector<Token> order(count);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, random);
    std::vector<float> shuffled;
    for (const Token row : order) shuffled.push_back(scores[static_cast<std::size_t>(row)]);
    listed.offer(shuffled, order);

    std::vector<ScoredRow> found;
    for (const BestRows* best : {&whole, &merged, &listed}) {
      best->finish(found);
      CHECK(found == expected);
    }
  }
}

TEST_CASE("best rows: never more than asked for, also after a larger use") {
  BestRows best;
  std::vector<ScoredRow> found;
  const std::vector<float> scores(1000, 1.0f);
  for (const std::size_t most : {500u, 3u, 1u}) {
    best.begin(most, {});
    best.offer(scores, 7);
    CHECK(best.size() == most);
    best.finish(found);
    CHECK(found.size() == most);
    CHECK(found.front() == ScoredRow{1.0f, 7});
    CHECK(found.back().row == 7 + static_cast<Token>(most) - 1);
  }
}

TEST_CASE("best rows: NaN is never kept, and an infinity is a score like others") {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float infinity = std::numeric_limits<float>::infinity();
  BestRows best;
  best.begin(3, {});
  best.offer(std::vector<float>{nan, -infinity, nan, 2, infinity}, 0);
  std::vector<ScoredRow> found;
  best.finish(found);
  CHECK(found == std::vector<ScoredRow>{{infinity, 4}, {2, 3}, {-infinity, 1}});
}

}  // namespace best_rows_test
}  // namespace
