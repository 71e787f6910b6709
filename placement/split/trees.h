#pragma once
// Gradient-boosted regression trees as data: the file of trained policies has them beside the base
// policy of SmartAllocator. placement/baselines/trees.h fits them and predicts alpha* with them.
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::placement {

struct Tree {
  static constexpr std::size_t depth = 3, inner = (1 << depth) - 1, leaves = 1 << depth;
  std::array<std::uint8_t, inner> value{};  // index of the state's value to compare
  std::array<float, inner> threshold{};     // values up to it go left
  std::array<float, leaves> leaf{};
};

struct BoostedTrees {
  static constexpr std::size_t trees_max = 400;
  float base = 0.5F;
  std::vector<Tree> trees;
};

}  // namespace troupe::placement
