#pragma once
// Training data for split policies: windows of runs under all data sets, depths and regimes, each with a
// node's results at every alpha (split_oracle.h). A game walks through the windows of one node; alpha
// selects which of the 101 precomputed results is seen. Tens of thousands of windows are therefore played
// per simulated one, but the cost of a change of alpha until caches are filled again is not seen. The
// examples for alpha* come from the same windows.
#include <cstdint>
#include <vector>

#include "placement/baselines/ppo_training.h"
#include "placement/baselines/trees.h"
#include "sim/split/split_run.h"

namespace troupe::sim {

// Recorded windows of one node.
struct RecordedNode {
  struct Window {
    SplitOracle::NodeWindow had;
    std::array<float, alphas> reward{};  // by the mean P99 and lateness of all draws and nodes
    double best = 0;
  };
  double length_max = 0, slo_us = 0;
  std::vector<Window> windows;

  placement::SplitState state_at(std::size_t window, double alpha) const;
};

// Runs `runs` simulations of two nodes with settings drawn from the seed.
std::vector<RecordedNode> record_runs(std::uint32_t runs, std::uint64_t seed);

class RecordedGame final : public placement::SplitEnvironment {
 public:
  explicit RecordedGame(std::vector<RecordedNode> nodes) : nodes_(std::move(nodes)) {}
  placement::SplitState begin(std::uint64_t episode) override;
  placement::SplitState play(double alpha) override;
  double reward() const override;

 private:
  std::vector<RecordedNode> nodes_;
  std::size_t node_ = 0, window_ = 0;
  double alpha_ = 0;
};

// Returns examples of each window at several alphas.
std::vector<placement::TreeExample> oracle_examples(const std::vector<RecordedNode>& nodes);

}  // namespace troupe::sim
