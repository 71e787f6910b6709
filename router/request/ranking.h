#pragma once
// From logits to an answer: probabilities over the candidates (BAT §2.2) and their order.
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/actor/messages.h"
#include "runtime/actor/ports.h"

namespace troupe::router {

bool all_finite(std::span<const double> values);

// Sums to 1; finite values of any size. Empty in, empty out.
std::vector<double> softmax(std::span<const double> scores);

// Of each item as many scores, one after the other, of which one decides; all are told beside it, if that is
// asked.
struct Tasks {
  std::size_t count = 1, ordering = 0;
  bool told = false;
};
// Best first, ties by candidate order; the first `top_k` of them, or all if it is 0. Finite scores; the
// probabilities are over all items, whether returned or not.
std::vector<RankedItem> rank_items(std::span<const ItemView> items, std::span<const double> all_scores,
                                   std::uint32_t top_k, Tasks tasks = {});

}  // namespace troupe::router
