// Turns a model's scores of items into probabilities and a ranking. The router does this last, when
// a worker's answer to a ranking request is valid.
#include "router/request/ranking.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

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

namespace {

struct Scored {
  double score;
  std::uint32_t item;

  bool operator<(const Scored& other) const {  // true if it is the better one
    return score != other.score ? score > other.score : item < other.item;
  }
};

// Returns the best `shown` items, best first. Scores lie beside their items, so that sorting reads no other
// memory.
std::vector<Scored> best_of(std::span<const double> scores, std::size_t shown) {
  std::vector<Scored> all(scores.size());
  for (std::uint32_t i = 0; i < all.size(); ++i) all[i] = {scores[i], i};
  constexpr std::size_t few = 8;  // a heap is faster for less than one item in so many
  if (few * shown < all.size())
    std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(shown), all.end());
  else
    std::sort(all.begin(), all.end());
  all.resize(shown);
  return all;
}

// Items are read in the order of their scores, so neither they nor their texts are likely to be in the CPU's
// cache.
void prefetch(std::span<const ItemView> items, std::span<const Scored> order, std::size_t at) {
  constexpr std::size_t texts_ahead = 8, items_ahead = 16;
  if (at + items_ahead < order.size()) __builtin_prefetch(&items[order[at + items_ahead].item]);
  if (at + texts_ahead >= order.size()) return;
  const ItemView& next = items[order[at + texts_ahead].item];
  __builtin_prefetch(next.id.data());
  __builtin_prefetch(next.title.data());
}

}  // namespace

std::vector<RankedItem> rank_items(std::span<const ItemView> items, std::span<const double> all_scores,
                                   std::uint32_t top_k, Tasks tasks) {
  TROUPE_CHECK(tasks.ordering < tasks.count && items.size() * tasks.count == all_scores.size(),
               "one score per candidate and task");
  std::vector<double> scores(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) scores[i] = all_scores[i * tasks.count + tasks.ordering];
  const std::vector<double> probabilities = softmax(scores);
  for (double& score : scores) score *= tasks.temperature;
  const std::size_t shown = top_k > 0 ? std::min<std::size_t>(top_k, items.size()) : items.size();
  const std::vector<Scored> order = best_of(scores, shown);
  std::vector<RankedItem> ranked(shown);
  for (std::size_t at = 0; at < shown; ++at) {
    prefetch(items, order, at);
    const std::uint32_t i = order[at].item;
    RankedItem& item = ranked[at];
    item.id = items[i].id;
    item.title = items[i].title;
    item.score = scores[i];
    item.probability = probabilities[i];
    const auto own = all_scores.subspan(i * tasks.count, tasks.count);
    if (tasks.reported) item.task_scores.assign(own.begin(), own.end());
  }
  return ranked;
}

}  // namespace troupe::router
