#pragma once
// Fits this machine's host work to runs of `bench rank --trace --profile --json`. Each run is simulated,
// which counts its requests' parts and blocks; the counts equal the measured run's, because the actors are
// the same. The CPU time measured by component is then divided among these counts.
#include <cstdint>
#include <functional>
#include <vector>

#include "deploy/lab/bench/bench_result.h"
#include "deploy/lab/what_if/deployment_input.h"

namespace troupe::deploy {

// Runs of a benchmark, with the configuration from which it derived its nodes' configurations.
struct BenchmarkRuns {
  BenchResult result;
  Config config;
};
// Returns the world of one run, with its memory, policy and requests.
DeploymentInput world_of(const BenchmarkRuns& benchmarks, const BenchRankRun& run,
                         const placement::DeviceProfile& device, std::uint32_t cores);

struct FittedRun {
  BenchRankRun measured, predicted;  // predicted: simulated with the fitted host work
};
struct FittedHost {
  placement::DeviceProfile device;  // includes the fitted host work
  std::vector<FittedRun> runs;
};
// Throws std::invalid_argument if no run has a profile, and what deployment_options throws. `progress`
// receives the number of finished simulations and of all simulations.
FittedHost fit_host_work(const std::vector<BenchmarkRuns>& benchmarks, const placement::DeviceProfile& device,
                         std::uint32_t cores,
                         const std::function<void(std::uint64_t done, std::uint64_t all)>& progress);

}  // namespace troupe::deploy
