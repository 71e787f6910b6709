#pragma once
// The host work of this machine, fitted to runs of `bench rank --trace --profile --json`: each is simulated,
// which says how many parts and blocks its requests had (the same as were served, since the actors are the
// same), and what was measured by room is shared out among them.
#include <cstdint>
#include <functional>
#include <vector>

#include "deploy/lab/bench/bench_result.h"
#include "deploy/lab/what_if/served_world.h"

namespace troupe::deploy {

// A benchmark's runs, with the configuration that its boxes began from.
struct BenchedBoxes {
  BenchResult result;
  Config config;
};
// Of one of its runs: memory, policy and requests as they were there.
ServedWorld world_of(const BenchedBoxes& boxes, const BenchRankRun& run,
                     const placement::DeviceProfile& device, std::uint32_t cores);

struct FittedRun {
  BenchRankRun measured, predicted;  // predicted: with the fitted host
};
struct FittedHost {
  placement::DeviceProfile device;  // with host work
  std::vector<FittedRun> runs;
};
// Throws std::invalid_argument where no run has a profile, else as served_options does. `progress` hears how
// many simulations of how many are done.
FittedHost fit_host_work(const std::vector<BenchedBoxes>& boxes, const placement::DeviceProfile& device,
                         std::uint32_t cores,
                         const std::function<void(std::uint64_t done, std::uint64_t all)>& progress);

}  // namespace troupe::deploy
