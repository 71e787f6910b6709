#include "kernels/cuda/kernels/level_best.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include "kernels/cuda/testing/device_test.h"

using namespace troupe::kernels;
using cuda::BestRow;
using cuda::SearchSelection;
using cuda::SelectedLogit;

namespace {

constexpr float level_poison = std::numeric_limits<float>::quiet_NaN();

// Rows of several searches, and the results.
struct BestLevel {
  std::vector<float> logits;
  std::vector<std::uint32_t> tokens;
  std::vector<ExponentialSum> sums;
  std::vector<BestRow> rows;
  std::vector<SearchSelection> searches;
  std::uint32_t out = 0;
  std::vector<double> totals;
  std::vector<SelectedLogit> taken;

  void begin(std::uint32_t most) {
    const auto row = static_cast<std::uint32_t>(rows.size());
    searches.push_back({row, row, out, most});
  }
  void add(double value, const std::vector<float>& some, bool over_all, bool numbered) {
    BestRow row{value, static_cast<std::uint32_t>(logits.size()), static_cast<std::uint32_t>(some.size())};
    row.numbered = numbered;
    if (over_all) {
      row.sum = static_cast<std::uint32_t>(sums.size());
      ExponentialSum sum = sum_exponentials_reference(some.data(), some.size());
      sum.add({sum.largest, 3});
      sums.push_back(some.empty() ? ExponentialSum{1, 3} : sum);
    }
    for (std::size_t i = 0; i < some.size(); ++i) tokens.push_back(static_cast<std::uint32_t>(7 + 3 * i));
    logits.insert(logits.end(), some.begin(), some.end());
    rows.push_back(row);
    searches.back().row_end = static_cast<std::uint32_t>(rows.size());
  }
  void end() {
    SearchSelection& search = searches.back();
    std::uint32_t all = 0;
    for (std::uint32_t r = search.row_begin; r < search.row_end; ++r) all += rows[r].count;
    search.count = std::min(search.count, all);
    out += search.count;
  }

  void run() {
    cuda::Stream stream;
    logits.push_back(level_poison), tokens.push_back(0), sums.push_back({});  // no array is empty
    const cuda::DeviceCopy<float> logits_on(logits);
    const cuda::DeviceCopy<std::uint32_t> tokens_on(tokens);
    const cuda::DeviceCopy<ExponentialSum> sums_on(sums);
    const cuda::DeviceCopy<BestRow> rows_on(rows);
    const cuda::DeviceCopy<SearchSelection> searches_on(searches);
    const cuda::DeviceCopy<double> totals_out(std::vector<double>(rows.size(), level_poison));
    const cuda::DeviceCopy<SelectedLogit> taken_out(
        std::vector<SelectedLogit>(out + 1, {77, 77, level_poison}));
    cuda::select_candidates(
        {logits_on.get(), tokens_on.get(), sums_on.get(), rows_on.get(), searches_on.get(),
         static_cast<std::uint32_t>(searches.size()), totals_out.get(), taken_out.get()},
        stream);
    totals = totals_out.host(stream), taken = taken_out.host(stream);
  }

  // Returns the expected results by sorting all candidates, normalised by the totals that came
  // back.
  std::vector<SelectedLogit> best_of(const SearchSelection& search) const {
    struct One {
      double value;
      SelectedLogit what;
      std::uint32_t place;
    };
    std::vector<One> all;
    for (std::uint32_t r = search.row_begin; r < search.row_end; ++r)
      for (std::uint32_t i = 0; i < rows[r].count; ++i) {
        const float logit = logits[rows[r].first + i];
        all.push_back({rows[r].value + std::min(0.0, double{logit} - totals[r]),
                       {r, rows[r].numbered ? tokens[rows[r].first + i] : i, logit},
                       i});
      }
    std::ranges::sort(all, [](const One& a, const One& b) {
      return std::tie(b.value, a.what.row, a.place) < std::tie(a.value, b.what.row, b.place);
    });
    all.resize(search.count);
    std::ranges::sort(all, {}, [](const One& one) { return std::pair(one.what.row, one.place); });
    std::vector<SelectedLogit> best;
    for (const One& one : all) best.push_back(one.what);
    return best;
  }
};

bool same(const SelectedLogit& a, const SelectedLogit& b) {
  return a.row == b.row && a.child == b.child && a.logit == b.logit;
}

}  // namespace

TEST_SUITE("cuda level best") {
  TEST_CASE(
      "level best: the best of all candidates of a search come back, ordered by row, with ties, at any "
      "size") {
    if (!cuda::have_device()) return;
    const unsigned seed = std::random_device{}();
    CAPTURE(seed);
    std::mt19937 random(seed);
    BestLevel level;
    for (const std::uint32_t rows : {1u, 2u, 7u, 8u, 9u, 40u, 130u})
      for (const std::uint32_t most : {0u, 1u, 5u, 64u, 100000u}) {
        const bool ties = random() % 2 == 0;
        std::normal_distribution<float> normal(-3, 4);
        level.begin(most);
        for (std::uint32_t r = 0; r < rows; ++r) {
          std::vector<float> some(random() % 4 == 0 ? random() % 3 : random() % 70);
          for (float& logit : some) logit = ties ? static_cast<float>(random() % 3) : normal(random);
          const double value = ties ? -static_cast<double>(random() % 2) : -std::abs(normal(random));
          level.add(value, some, random() % 2 == 0, random() % 2 == 0);
        }
        level.end();
      }
    level.run();
    for (std::size_t s = 0; s < level.searches.size(); ++s) {
      CAPTURE(s);
      const SearchSelection& search = level.searches[s];
      const std::vector<SelectedLogit> want = level.best_of(search);
      for (std::uint32_t i = 0; i < search.count; ++i) REQUIRE(same(level.taken[search.out + i], want[i]));
      for (std::uint32_t r = search.row_begin; r < search.row_end; ++r) {
        const BestRow& row = level.rows[r];
        if (row.count == 0 && row.sum == BestRow::own) continue;  // no search uses it
        const double total = row.sum == BestRow::own
                                 ? sum_exponentials_reference(&level.logits[row.first], row.count).log()
                                 : level.sums[row.sum].log();
        REQUIRE(std::abs(level.totals[r] - total) <= 1e-5);
      }
    }
    CHECK(level.taken[level.out].row == 77);  // nothing is written behind the results
  }

  TEST_CASE(
      "level best: a candidate that is not finite spoils its row's total and leaves other searches "
      "unchanged") {
    if (!cuda::have_device()) return;
    for (const float bad : {INFINITY, -INFINITY, level_poison}) {
      BestLevel level;
      for (const bool spoiled : {true, false}) {
        level.begin(3);
        level.add(-1, {1, 2, spoiled ? bad : 3, 4}, false, false);
        level.add(-1, {1, 2}, false, false);
        level.end();
      }
      level.run();
      CHECK_FALSE(std::isfinite(level.totals[0]));
      CHECK(std::isfinite(level.totals[1]));
      const std::vector<SelectedLogit> want = level.best_of(level.searches[1]);
      for (std::uint32_t i = 0; i < 3; ++i) CHECK(same(level.taken[level.searches[1].out + i], want[i]));
    }
  }
}
