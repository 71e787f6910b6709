// Computes what turns products of items with states into logits: norms of states, and a factor for each item.
#include "kernels/cpu/engine/item_scores.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe::kernels {

float length_of(const float* values, std::size_t count) {
  double squares = 0;
  for (std::size_t i = 0; i < count; ++i) squares += double{values[i]} * values[i];
  return static_cast<float>(std::sqrt(squares));
}

float ItemScores::factor_of(const float* item) const {
  const float length = unit_items ? std::max(length_of(item, columns), static_cast<float>(item_epsilon)) : 1;
  return 1 / (length * static_cast<float>(temperature));
}

void ItemScores::norm_state(const Gates& gates, const float* from, float* to) const {
  if (!unit_states) {
    NormTask norm{.in = from, .out = to};
    norm.rows = 1;
    norm.width = columns;
    norm.epsilon = static_cast<float>(state_epsilon);
    gates.norm(norm);
    return;
  }
  const float length = std::max(length_of(from, columns), static_cast<float>(state_epsilon));
  for (std::size_t i = 0; i < columns; ++i) to[i] = from[i] / length;
}

PackedItems pack_items(Matrix embedding, std::shared_ptr<EmbeddingTable> table, const ItemScores& scores) {
  PackedItems packed{std::move(embedding), std::move(table), {}};
  if (packed.table) return packed;
  packed.factors.reserve(packed.embedding.rows);
  for (std::size_t item = 0; item < packed.embedding.rows; ++item)
    packed.factors.push_back(scores.factor_of(&packed.embedding.values[item * scores.columns]));
  return packed;
}

}  // namespace troupe::kernels
