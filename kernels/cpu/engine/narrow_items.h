#pragma once
// The item table packed in bf16: a second copy, half as large, which searches multiply with under bf16
// weights. A score by it is off by at most `error_of` a state, which tells ItemSearch when the rows that it
// found are the best ones.
#include <mutex>
#include <optional>
#include <span>

#include "kernels/checkpoint/model.h"
#include "kernels/cpu/products/product.h"

namespace troupe::kernels {

struct NarrowTable {
  PackedMatrix rows;
  double largest = 0;  // length of a row times its factor, the largest of all; NaN: a row has a NaN

  // Maximum difference between a score in bf16 and one in float32 for this state.
  double error_of(std::span<const float> state) const;
};
NarrowTable narrow_table(const Matrix& items, std::span<const float> factors, std::size_t panel_width);

// Makes the table at the first search, so that models without searches never have it.
class NarrowItems {
 public:
  // Returns the table. Thread-safe. The arguments must be the same at each call.
  const NarrowTable& get(const Matrix& items, std::span<const float> factors, std::size_t panel_width) {
    std::call_once(once_, [&] { table_.emplace(narrow_table(items, factors, panel_width)); });
    return *table_;
  }

 private:
  std::once_flag once_;
  std::optional<NarrowTable> table_;
};

// The table that searches of a model with such weights multiply with; null: the one in float32.
inline const NarrowTable* narrow_items(NarrowItems& narrow, const Matrix& items,
                                       std::span<const float> factors, WeightFormat weights,
                                       std::size_t panel_width) {
  return weights == WeightFormat::bf16 ? &narrow.get(items, factors, panel_width) : nullptr;
}

}  // namespace troupe::kernels
