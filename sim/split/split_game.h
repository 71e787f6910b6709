#pragma once
// What split policies are trained against: one node under a workload that is drawn for each episode, from all data sets,
// depths and regimes; and the examples of alpha* that the predictive model is fitted to.
#include <cstdint>
#include <memory>
#include <vector>

#include "placement/split/ppo.h"
#include "placement/split/trees.h"
#include "sim/split/split_run.h"

namespace troupe::sim {

class NodeGame final : public placement::SplitGame {
 public:
  explicit NodeGame(std::uint32_t windows) : windows_(windows) {}
  placement::SplitState begin(std::uint64_t episode) override;
  placement::SplitState play(double alpha) override;

 private:
  struct World;
  void serve_window();

  std::uint32_t windows_;
  std::shared_ptr<World> world_;
};

// Windows of runs in which alpha walks at random, with their alpha*.
std::vector<placement::BoostedTrees::Example> oracle_examples(std::uint32_t runs, std::uint64_t seed);

}  // namespace troupe::sim
