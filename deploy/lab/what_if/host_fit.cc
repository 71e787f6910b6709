#include "deploy/lab/what_if/host_fit.h"

#include <algorithm>
#include <stdexcept>

#include "deploy/lab/bench/bench_rank.h"
#include "deploy/lab/what_if/comparison.h"

namespace troupe::deploy {

namespace {

constexpr int fit_rounds = 3;
constexpr double almost_nothing = 1e-9;  // so that steps are charged, and for how much is counted

struct Profiled {
  const BenchedBoxes* boxes = nullptr;
  const BenchRankRun* run = nullptr;
};

std::vector<Profiled> profiled(const std::vector<BenchedBoxes>& all) {
  std::vector<Profiled> runs;
  for (const BenchedBoxes& boxes : all)
    for (const BenchRankRun& run : boxes.result.runs)
      if (!run.profile.empty()) runs.push_back({&boxes, &run});
  if (runs.empty())
    throw std::invalid_argument("no run has a profile; expected results of bench rank --profile");
  return runs;
}

// What no room of the host's work is for counts as the rest; of the passes, what they took beyond the cost
// model.
placement::HostRun host_run(const BenchRankRun& measured, const sim::ServedResult& simulated) {
  placement::HostRun run{simulated.units, {}, measured.seconds, simulated.kernels_s * 1e6};
  for (const CpuShare& share : measured.profile) {
    std::size_t room = 0;
    while (room + 1 < placement::host_rooms && name_of(static_cast<placement::HostRoom>(room)) != share.room)
      ++room;
    run.us[room] += std::max(0.0, share.seconds * 1e6);
  }
  double& passes = run.us[static_cast<std::size_t>(placement::HostRoom::passes)];
  passes = std::max(0.0, passes - run.passes_us);
  return run;
}

double mean_ms(const BenchRankRun& run) { return 1e3 * run.seconds / static_cast<double>(run.requests); }

// Where one request was under way at a time, the mean of what the fitted host does not explain.
double wait_us(const std::vector<Profiled>& runs, const std::vector<FittedRun>& fitted) {
  double sum = 0, count = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const BenchResult& asked = runs[i].boxes->result;
    if (asked.speed > 0 || asked.in_flight != 1) continue;
    sum += 1e3 * (mean_ms(fitted[i].measured) - mean_ms(fitted[i].predicted));
    count += 1;
  }
  return count > 0 ? std::max(0.0, sum / count) : 0;
}

}  // namespace

ServedWorld world_of(const BenchedBoxes& boxes, const BenchRankRun& run,
                     const placement::DeviceProfile& device, std::uint32_t cores) {
  const BenchResult& asked = boxes.result;
  if (asked.trace.empty())
    throw std::invalid_argument("the result is of no trace; expected one of bench rank --trace");
  const BenchMemory memory{asked.pool_bytes, asked.item_bytes, asked.user_bytes};
  return {.config = bench_config(boxes.config, memory, run.policy),
          .data = asked.data,
          .trace = asked.trace,
          .requests_max = asked.requests_max,
          .speed = asked.speed,
          .in_flight = asked.in_flight,
          .device = device,
          .cores = cores};
}

FittedHost fit_host_work(const std::vector<BenchedBoxes>& boxes, const placement::DeviceProfile& device,
                         std::uint32_t cores,
                         const std::function<void(std::uint64_t done, std::uint64_t all)>& progress) {
  const std::vector<Profiled> runs = profiled(boxes);
  FittedHost fitted{device, {}};
  fitted.device.host = {};
  fitted.device.host.costs[0].requests = almost_nothing;
  std::uint64_t done = 0;
  const auto simulate = [&](const Profiled& profiled) {
    const sim::ServedResult result =
        sim::run_served(served_options(world_of(*profiled.boxes, *profiled.run, fitted.device, cores)));
    progress(++done, (fit_rounds + 1) * runs.size());
    return result;
  };
  // How long executors stand still between passes is known once the host's work is, and is charged for.
  for (int round = 0; round < fit_rounds; ++round) {
    std::vector<placement::HostRun> host_runs;
    for (const Profiled& one : runs) host_runs.push_back(host_run(*one.run, simulate(one)));
    fitted.device.host = placement::fit_host(host_runs);
  }
  for (const Profiled& one : runs)
    fitted.runs.push_back({*one.run, as_bench_run(simulate(one), one.run->policy, fitted.device.host)});
  fitted.device.host.wait_us = wait_us(runs, fitted.runs);
  return fitted;
}

}  // namespace troupe::deploy
