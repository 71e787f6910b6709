#pragma once
// Splits by gradient-boosted regression trees, the predictive baseline of HLEM. They map the state
// to alpha* and are fitted to windows whose alpha* the simulator searched. Trees are complete and
// of a fixed depth; a split takes the best of 32 thresholds of each value.
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "placement/split/split_policy.h"

namespace troupe::placement {

struct Tree {
  static constexpr std::size_t depth = 3, inner = (1 << depth) - 1, leaves = 1 << depth;
  std::array<std::uint8_t, inner> value{};  // index of the state's value to compare
  std::array<float, inner> threshold{};     // values up to it go left
  std::array<float, leaves> leaf{};
};

class BoostedTrees {
 public:
  static constexpr std::size_t trees_max = 400;
  using Values = std::array<double, state_values>;

  struct Example {
    Values values;
    double alpha = 0;
  };
  struct Options {
    std::size_t trees = 120;
    double rate = 0.1;
  };
  static BoostedTrees fit(std::span<const Example> examples, const Options& options);

  double predict(const Values& values) const;
  float base = 0.5F;
  std::vector<Tree> trees;
};

class TreesSplit final : public AlphaPolicy {
 public:
  explicit TreesSplit(BoostedTrees trees) : trees_(std::move(trees)) {}
  double next_alpha(const SplitView& view) override {
    return clip_alpha(trees_.predict(values_of(view.state)));
  }

 private:
  BoostedTrees trees_;
};

}  // namespace troupe::placement
