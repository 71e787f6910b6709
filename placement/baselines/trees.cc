// Predicts the best alpha (the share of the pool for embedding rows) by gradient-boosted regression
// trees, and fits them; a baseline of the paper HLEM.
#include "placement/baselines/trees.h"

#include <algorithm>

#include "kernels/base/check.h"

namespace troupe::placement {
namespace {

constexpr std::size_t thresholds = 32;

std::size_t leaf_of(const Tree& tree, const TreeValues& values) {
  std::size_t node = 0;
  while (node < Tree::inner)
    node = 2 * node + 1 + (values[tree.value[node]] > static_cast<double>(tree.threshold[node]));
  return node - Tree::inner;
}

class TreeBuilder {
 public:
  TreeBuilder(std::span<const TreeExample> examples, std::vector<double>& residuals)
      : examples_(examples), residuals_(residuals), at_(examples.size()) {}

  Tree grow(double rate) {
    Tree tree;
    std::ranges::fill(at_, 0);
    for (std::size_t node = 0; node < Tree::inner; ++node) split(tree, node);
    std::array<double, Tree::leaves> sum{}, count{};
    for (std::size_t i = 0; i < examples_.size(); ++i) {
      sum[at_[i] - Tree::inner] += residuals_[i];
      ++count[at_[i] - Tree::inner];
    }
    for (std::size_t leaf = 0; leaf < Tree::leaves; ++leaf)
      tree.leaf[leaf] = static_cast<float>(rate * sum[leaf] / (count[leaf] + 1));
    for (std::size_t i = 0; i < examples_.size(); ++i)
      residuals_[i] -= static_cast<double>(tree.leaf[at_[i] - Tree::inner]);
    return tree;
  }

 private:
  // Splits at the threshold that maximizes the sum of (sum of the residuals)² / count over both
  // sides.
  void split(Tree& tree, std::size_t node) {
    double most = -1;
    for (std::size_t value = 0; value < state_values; ++value) {
      std::array<double, thresholds> sum{}, count{};
      double all = 0, members = 0;
      for (std::size_t i = 0; i < examples_.size(); ++i) {
        if (at_[i] != node) continue;
        const auto cell =
            static_cast<std::size_t>(std::clamp(examples_[i].values[value], 0.0, 0.999) * thresholds);
        sum[cell] += residuals_[i];
        ++count[cell];
        all += residuals_[i];
        ++members;
      }
      double left = 0, left_count = 0;
      for (std::size_t cell = 0; cell + 1 < thresholds; ++cell) {
        left += sum[cell];
        left_count += count[cell];
        const double gain =
            left * left / (left_count + 1) + (all - left) * (all - left) / (members - left_count + 1);
        if (gain <= most) continue;
        most = gain;
        tree.value[node] = static_cast<std::uint8_t>(value);
        tree.threshold[node] = static_cast<float>(cell + 1) / thresholds;
      }
    }
    for (std::size_t i = 0; i < examples_.size(); ++i)
      if (at_[i] == node)
        at_[i] = 2 * node + 1 +
                 (examples_[i].values[tree.value[node]] > static_cast<double>(tree.threshold[node]));
  }

  std::span<const TreeExample> examples_;
  std::vector<double>& residuals_;
  std::vector<std::size_t> at_;  // node of each example
};

}  // namespace

BoostedTrees fit_trees(std::span<const TreeExample> examples, const TreeOptions& options) {
  TROUPE_CHECK(!examples.empty() && options.trees <= BoostedTrees::trees_max,
               "there are examples, and at most trees_max trees");
  BoostedTrees fitted;
  double sum = 0;
  for (const TreeExample& example : examples) sum += example.alpha;
  fitted.base = static_cast<float>(sum / static_cast<double>(examples.size()));
  std::vector<double> residuals;
  for (const TreeExample& example : examples)
    residuals.push_back(example.alpha - static_cast<double>(fitted.base));
  TreeBuilder grower(examples, residuals);
  for (std::size_t t = 0; t < options.trees; ++t) fitted.trees.push_back(grower.grow(options.rate));
  return fitted;
}

double predict_alpha(const BoostedTrees& fitted, const TreeValues& values) {
  double sum = static_cast<double>(fitted.base);
  for (const Tree& tree : fitted.trees) sum += static_cast<double>(tree.leaf[leaf_of(tree, values)]);
  return sum;
}

}  // namespace troupe::placement
