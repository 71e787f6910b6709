// Runs many seeds on several threads, and reports the failing ones with shortened fault lists.
#include "sim/runs/swarm.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "sim/base/quantile.h"
#include "sim/base/random.h"
#include "sim/runs/shrink.h"

namespace troupe::sim {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

bool runs_twice(std::uint64_t seed, double share) {
  return static_cast<double>(mix(seed, 0x2face) % 1'000'000) < share * 1e6;
}

RunResult run_seed(std::uint64_t seed, const SwarmOptions& options, bool& twice) {
  const Scenario scenario = draw_scenario(seed, options.limits);
  RunResult result = run(scenario);
  twice = runs_twice(seed, options.twice_share);
  if (!twice) return result;
  const RunResult again = run(scenario);
  if (again.digest != result.digest)
    result.violations.push_back({17,
                                 "two runs of the same seed differ: " + std::to_string(result.events) +
                                     " and " + std::to_string(again.events) + " events",
                                 {}});
  return result;
}

Failure shorten(const Scenario& scenario, const Violation& violation, int runs_max) {
  Failure failure{scenario.seed, violation, scenario.faults, scenario.faults};
  if (violation.promise == 17) return failure;
  const auto fails = [&](const std::vector<Fault>& faults) {
    Scenario shorter = scenario;
    shorter.faults = faults;
    for (const Violation& found : run(shorter).violations)
      if (found.promise == violation.promise) return true;
    return false;
  };
  failure.shrunk = shrink(scenario.faults, fails, runs_max);
  return failure;
}

class Swarm {
 public:
  explicit Swarm(const SwarmOptions& options) : options_(options), next_(options.first) {}

  SwarmResult run() {
    std::vector<std::thread> threads;
    for (unsigned i = 1; i < options_.threads; ++i) threads.emplace_back([this] { work(); });
    work();
    for (std::thread& thread : threads) thread.join();
    std::ranges::sort(sum_.failures, {}, &Failure::seed);
    return std::move(sum_);
  }

 private:
  void work() {
    for (;;) {
      const std::uint64_t seed = next_++;
      if (seed > options_.last || failures_ >= options_.failures_max) return;
      const auto start = std::chrono::steady_clock::now();
      bool twice = false;
      const RunResult result = run_seed(seed, options_, twice);
      const double seconds = seconds_since(start);
      const auto violation =
          std::ranges::find_if(result.violations, [this](const Violation& v) { return counts(v.promise); });
      if (violation != result.violations.end()) {
        ++failures_;
        Failure failure = shorten(draw_scenario(seed, options_.limits), *violation, options_.shrink_runs);
        const std::lock_guard lock(mutex_);
        sum_.failures.push_back(std::move(failure));
      }
      add(result, twice, seconds);
    }
  }

  bool counts(int promise) const {
    return options_.promises.empty() || std::ranges::count(options_.promises, promise) > 0;
  }

  void add(const RunResult& result, bool twice, double seconds) {
    const std::lock_guard lock(mutex_);
    ++sum_.seeds;
    sum_.twice += twice;
    sum_.events += result.events;
    sum_.seconds += seconds;
    sum_.tally += result.tally;
    std::size_t faults = 0;
    for (std::size_t kind = 0; kind < fault_kinds; ++kind) {
      sum_.injected[kind] += result.injected[kind];
      sum_.missed[kind] += result.missed[kind];
      faults += result.injected[kind];
      for (std::size_t phase = 0; phase < phases; ++phase)
        sum_.coverage[kind][phase] += result.coverage[kind][phase];
    }
    sum_.faults_per_seed.push_back(faults);
    if (options_.progress) options_.progress(sum_.seeds);
  }

  const SwarmOptions& options_;
  std::atomic<std::uint64_t> next_, failures_{0};
  std::mutex mutex_;
  SwarmResult sum_;
};

}  // namespace

std::size_t SwarmResult::median_faults() const {
  if (faults_per_seed.empty()) return 0;
  std::vector<std::size_t> counts = faults_per_seed;
  return static_cast<std::size_t>(quantile_in_place(counts, 0.5));
}

std::vector<std::string> SwarmResult::never_met() const {
  std::vector<std::string> pairs;
  for (std::size_t kind = 0; kind < fault_kinds; ++kind)
    for (std::size_t phase = 0; phase < phases; ++phase)
      if (injected[kind] > 0 && coverage[kind][phase] == 0)
        pairs.push_back(std::string(name_of(static_cast<FaultKind>(kind))) + " × " +
                        std::string(name_of(static_cast<Phase>(phase))));
  return pairs;
}

std::vector<ShareCheck> SwarmResult::share_checks() const {
  return {{6, "requests sent 5 heartbeats or more after a kill", tally.after_kill, tally.after_kill_ok, 1'000,
           0.99},
          {6, "requests sent 10 heartbeats or more after a kill", tally.long_after_kill,
           tally.long_after_kill_ok, 3'000, 0.999}};
}

bool SwarmResult::kept_all() const {
  return failures.empty() && std::ranges::none_of(share_checks(), &ShareCheck::broken);
}

SwarmResult run_swarm(const SwarmOptions& options) { return Swarm(options).run(); }

}  // namespace troupe::sim
