// Turns a model's scores of items into probabilities and a ranking. The router does this last, when
// a worker's answer to a ranking request is valid.
#include "router/request/ranking.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/base/check.h"

namespace troupe::router {

bool all_finite(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
}

std::vector<double> softmax(std::span<const double> scores) {
  std::vector<double> shares(scores.begin(), scores.end());
  if (shares.empty()) return shares;
  const double largest = *std::max_element(shares.begin(), shares.end());
  double sum = 0;
  for (double& share : shares) sum += share = std::exp(share - largest);
  for (double& share : shares) share /= sum;
  return shares;
}

std::vector<RankedItem> rank_items(std::span<const ItemView> items, std::span<const double> all_scores,
                                   std::uint32_t top_k, Tasks tasks) {
  TROUPE_CHECK(tasks.ordering < tasks.count && items.size() * tasks.count == all_scores.size(),
               "one score per candidate and task");
  std::vector<double> scores(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) scores[i] = all_scores[i * tasks.count + tasks.ordering];
  const std::vector<double> probabilities = softmax(scores);
  for (double& score : scores) score *= tasks.temperature;
  std::vector<std::uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  const std::size_t shown = top_k > 0 ? std::min<std::size_t>(top_k, order.size()) : order.size();
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(shown), order.end(),
                    [&](std::uint32_t a, std::uint32_t b) {
                      return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
                    });
  order.resize(shown);
  std::vector<RankedItem> ranked;
  ranked.reserve(shown);
  for (const std::uint32_t i : order) {
    ranked.push_back(
        {std::string(items[i].id), std::string(items[i].title), scores[i], probabilities[i], {}});
    const auto own = all_scores.subspan(i * tasks.count, tasks.count);
    if (tasks.reported) ranked.back().task_scores.assign(own.begin(), own.end());
  }
  return ranked;
}

}  // namespace troupe::router
