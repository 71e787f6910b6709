// Judges rankings by the item that was taken, and compares two rankings of the same items.
#include "deploy/reports/ranking_quality.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "kernels/base/check.h"

namespace troupe::deploy {
namespace {

// Returns the indices of the scores, the highest first and NaN last; equal ones in their order.
std::vector<std::size_t> best_first(const std::vector<float>& scores) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return std::isnan(scores[a]) || std::isnan(scores[b]) ? !std::isnan(scores[a]) && std::isnan(scores[b])
                                                          : scores[a] > scores[b];
  });
  return order;
}

// Returns the rank of each score, from 0, less the mean of all ranks.
std::vector<double> centred_ranks(const std::vector<float>& scores) {
  const std::vector<std::size_t> order = best_first(scores);
  std::vector<double> ranks(scores.size());
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && scores[order[end]] == scores[order[begin]]) ++end;
    end = std::max(end, begin + 1);  // NaN equals nothing
    const double rank = static_cast<double>(begin + end - 1) / 2;
    for (std::size_t i = begin; i < end; ++i)
      ranks[order[i]] = rank - static_cast<double>(order.size() - 1) / 2;
  }
  return ranks;
}

}  // namespace

double ndcg(const EventScore& score, std::size_t k) {
  return recall(score, k) / std::log2(1.0 + static_cast<double>(std::max<std::size_t>(1, score.rank)));
}

Mean mean_of(const std::vector<double>& samples) {
  if (samples.empty()) return {};
  const auto count = static_cast<double>(samples.size());
  Mean mean{std::accumulate(samples.begin(), samples.end(), 0.0) / count, 0};
  if (samples.size() == 1) return mean;
  double squares = 0;
  for (const double sample : samples) squares += (sample - mean.value) * (sample - mean.value);
  mean.standard_error = std::sqrt(squares / (count - 1) / count);
  return mean;
}

nlohmann::json to_json(const Mean& mean) {
  return {{"mean", mean.value}, {"standard_error", mean.standard_error}};
}

EventScore judge_ranking(const std::vector<float>& logits, std::size_t truth) {
  TROUPE_CHECK(truth < logits.size(), "the true item is one of the candidates");
  const float own = logits[truth];
  double sum = 0;
  std::size_t rank = 0;
  for (const float logit : logits) {
    sum += std::exp(static_cast<double>(logit) - own);
    rank += !(logit < own);
  }
  return {std::log(sum), rank};
}

double overlap_at_10(const std::vector<float>& one, const std::vector<float>& other) {
  const std::size_t count = std::min<std::size_t>(10, one.size() / 2);
  const std::vector<std::size_t> a = best_first(one), b = best_first(other);
  double common = 0;
  for (std::size_t i = 0; i < count; ++i)
    common += std::find(b.begin(), b.begin() + static_cast<std::ptrdiff_t>(count), a[i]) !=
              b.begin() + static_cast<std::ptrdiff_t>(count);
  return count == 0 ? 1 : common / static_cast<double>(count);
}

double rank_correlation(const std::vector<float>& one, const std::vector<float>& other) {
  TROUPE_CHECK(one.size() == other.size(), "two rankings of the same items");
  const std::vector<double> a = centred_ranks(one), b = centred_ranks(other);
  const double squares_a = std::inner_product(a.begin(), a.end(), a.begin(), 0.0);
  const double squares_b = std::inner_product(b.begin(), b.end(), b.begin(), 0.0);
  if (squares_a == 0 || squares_b == 0) return squares_a == squares_b;
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0) / std::sqrt(squares_a * squares_b);
}

}  // namespace troupe::deploy
