#pragma once
// Turns logits into an answer: probabilities over the candidates (BAT §2.2) and their order.
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/actor/messages.h"
#include "runtime/actor/ports.h"

namespace troupe::router {

bool all_finite(std::span<const double> values);

// Returns values that sum to 1; accepts finite scores of any size. An empty input gives an empty
// output.
std::vector<double> softmax(std::span<const double> scores);

// Layout of the scores: `count` consecutive scores per item, one of which orders the items. `reported`:
// return all of them. The model's values are scores divided by `temperature`; probabilities are those of the
// values.
struct Tasks {
  std::size_t count = 1, ordering = 0;
  bool reported = false;
  double temperature = 1;
};
// Returns items best first, ties by candidate order: the first `top_k`, or all if it is 0. Scores
// must be finite. The probabilities are over all items, returned or not.
std::vector<RankedItem> rank_items(std::span<const ItemView> items, std::span<const double> all_scores,
                                   std::uint32_t top_k, Tasks tasks = {});

}  // namespace troupe::router
