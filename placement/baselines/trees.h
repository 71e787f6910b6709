#pragma once
// Splits by gradient-boosted regression trees, the predictive baseline of HLEM. They map the state
// to alpha* and are fitted to windows whose alpha* the simulator searched. Trees are complete and
// of a fixed depth; a split takes the best of 32 thresholds of each value.
#include <array>
#include <span>
#include <utility>

#include "placement/split/split_policy.h"
#include "placement/split/trees.h"

namespace troupe::placement {

using TreeValues = std::array<double, state_values>;

struct TreeExample {
  TreeValues values;
  double alpha = 0;
};
struct TreeOptions {
  std::size_t trees = 120;
  double rate = 0.1;
};
BoostedTrees fit_trees(std::span<const TreeExample> examples, const TreeOptions& options = {});

double predict_alpha(const BoostedTrees& fitted, const TreeValues& values);

class TreesSplit final : public AlphaPolicy {
 public:
  explicit TreesSplit(BoostedTrees trees) : trees_(std::move(trees)) {}
  double next_alpha(const SplitView& view) override {
    return clip_alpha(predict_alpha(trees_, values_of(view.state)));
  }

 private:
  BoostedTrees trees_;
};

}  // namespace troupe::placement
