// Fits this machine's host work (CPU time of requests outside the model's passes) to measured runs.
// Divides the measured time among counts from simulated runs.
#include "deploy/lab/what_if/host_fit.h"

#include <algorithm>
#include <stdexcept>

#include "deploy/lab/bench/bench_rank.h"
#include "deploy/lab/what_if/comparison.h"

namespace troupe::deploy {

namespace {

constexpr int fit_rounds = 3;
constexpr double cost_min = 1e-9;  // above 0, so that the simulation charges and counts host work

struct ProfiledRun {
  const BenchmarkRuns* benchmarks = nullptr;
  const BenchRankRun* run = nullptr;
};

std::vector<ProfiledRun> profiled(const std::vector<BenchmarkRuns>& all) {
  std::vector<ProfiledRun> runs;
  for (const BenchmarkRuns& benchmarks : all)
    for (const BenchRankRun& run : benchmarks.result.runs)
      if (!run.profile.empty()) runs.push_back({&benchmarks, &run});
  if (runs.empty())
    throw std::invalid_argument("no run has a profile; expected results of bench rank --profile");
  return runs;
}

// Maps a measured profile to host work. Time of components without host work counts as "rest". For passes,
// only the time beyond the cost model counts.
placement::HostRun host_run(const BenchRankRun& measured, const sim::DeploymentResult& simulated) {
  placement::HostRun run{simulated.units, {}, measured.seconds, simulated.kernels_s * 1e6};
  for (const CpuShare& share : measured.profile) {
    std::size_t component = 0;
    while (component + 1 < placement::host_components &&
           name_of(static_cast<placement::HostComponent>(component)) != share.component)
      ++component;
    run.us[component] += std::max(0.0, share.seconds * 1e6);
  }
  double& passes = run.us[static_cast<std::size_t>(placement::HostComponent::passes)];
  passes = std::max(0.0, passes - run.passes_us);
  return run;
}

double mean_ms(const BenchRankRun& run) { return 1e3 * run.seconds / static_cast<double>(run.requests); }

// Returns the mean latency that the fitted host work does not explain, over runs with one request in flight.
double wait_us(const std::vector<ProfiledRun>& runs, const std::vector<FittedRun>& fitted) {
  double sum = 0, count = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const BenchResult& benchmark = runs[i].benchmarks->result;
    if (benchmark.speed > 0 || benchmark.in_flight != 1) continue;
    sum += 1e3 * (mean_ms(fitted[i].measured) - mean_ms(fitted[i].predicted));
    count += 1;
  }
  return count > 0 ? std::max(0.0, sum / count) : 0;
}

}  // namespace

DeploymentInput world_of(const BenchmarkRuns& benchmarks, const BenchRankRun& run,
                         const placement::DeviceProfile& device, std::uint32_t cores) {
  const BenchResult& benchmark = benchmarks.result;
  if (benchmark.trace.empty())
    throw std::invalid_argument("the result has no trace; expected a result of bench rank --trace");
  const BenchMemory memory{benchmark.pool_bytes, benchmark.item_bytes, benchmark.user_bytes};
  return {.config = bench_config(benchmarks.config, memory, run.policy),
          .data = benchmark.data,
          .trace = benchmark.trace,
          .requests_max = benchmark.requests_max,
          .speed = benchmark.speed,
          .in_flight = benchmark.in_flight,
          .device = device,
          .cores = cores};
}

FittedHost fit_host_work(const std::vector<BenchmarkRuns>& benchmarks, const placement::DeviceProfile& device,
                         std::uint32_t cores,
                         const std::function<void(std::uint64_t done, std::uint64_t all)>& progress) {
  const std::vector<ProfiledRun> runs = profiled(benchmarks);
  FittedHost fitted{device, {}};
  fitted.device.host = {};
  fitted.device.host.costs[0].requests = cost_min;
  std::uint64_t done = 0;
  const auto simulate = [&](const ProfiledRun& profiled) {
    const sim::DeploymentResult result = sim::run_deployment(
        deployment_options(world_of(*profiled.benchmarks, *profiled.run, fitted.device, cores)));
    progress(++done, (fit_rounds + 1) * runs.size());
    return result;
  };
  // The idle time of executors between passes depends on the host work and adds to it, so the fit repeats.
  for (int round = 0; round < fit_rounds; ++round) {
    std::vector<placement::HostRun> host_runs;
    for (const ProfiledRun& one : runs) host_runs.push_back(host_run(*one.run, simulate(one)));
    fitted.device.host = placement::fit_host(host_runs);
  }
  for (const ProfiledRun& one : runs)
    fitted.runs.push_back({*one.run, as_bench_run(simulate(one), one.run->policy, fitted.device.host)});
  fitted.device.host.wait_us = wait_us(runs, fitted.runs);
  return fitted;
}

}  // namespace troupe::deploy
