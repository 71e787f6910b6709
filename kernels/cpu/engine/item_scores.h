#pragma once
// The item embedding of a model that scores the next item, and how its rows are compared with states: the
// logit of an item is the product of its row with a normed state, times the item's factor.
#include <cstddef>
#include <memory>
#include <vector>

#include "kernels/checkpoint/embedding_table.h"
#include "kernels/checkpoint/model.h"
#include "kernels/cpu/engine/narrow_items.h"
#include "kernels/operations/gate.h"

namespace troupe::kernels {

struct ItemScores {
  std::size_t columns = 0;  // of an item; a state may have more, which are not compared
  bool unit_states = true;  // states are normed to unit length; otherwise by a layer norm
  double state_epsilon = 0;
  bool unit_items = true;  // items are compared at unit length
  double item_epsilon = 0, temperature = 1;

  float factor_of(const float* item) const;
  void norm_state(const Gates& gates, const float* from, float* to) const;  // in place, too
};

// Immutable, shared by every executor of the process.
struct PackedItems {
  Matrix embedding;
  // null: `embedding` has the rows; otherwise each pass gathers its own rows
  std::shared_ptr<EmbeddingTable> table;
  std::vector<float> factors;  // [item]; empty for a table that is apart
  std::unique_ptr<NarrowItems> narrow = std::make_unique<NarrowItems>();

  ItemRows where() const { return table ? ItemRows::apart : ItemRows::in_memory; }
};
PackedItems pack_items(Matrix embedding, std::shared_ptr<EmbeddingTable> table, const ItemScores& scores);

float length_of(const float* values, std::size_t count);

}  // namespace troupe::kernels
