// Simulates a real deployment with the requests of a trace and reports the figures of `bench rank`,
// to compare simulation and reality.
#include "sim/runs/deployment_run.h"

#include <algorithm>
#include <utility>

#include "sim/base/quantile.h"
#include "sim/runs/calm_run.h"

namespace troupe::sim {
namespace {

constexpr Duration served_slice{100}, first_heartbeats{2'000'000};
constexpr Duration stuck_after{600'000'000};  // time without an outcome

class DeploymentLoad : CalmRun {
 public:
  explicit DeploymentLoad(const DeploymentOptions& options) : CalmRun(options.scenario), options_(options) {}

  DeploymentResult go() {
    cluster_.start();
    compute_ahead();
    const State before = look();
    const Instant begin = cluster_.now();
    if (options_.in_flight > 0)
      clients_.run_closed_loop(options_.requests, options_.in_flight);
    else
      clients_.run_open_loop(options_.requests);
    go_until_all_outcomes();
    sum_up(before, look(), cluster_.now() - begin, begin);
    return std::move(result_);
  }

 private:
  // A plan without reuse is of the form's first arrangement.
  static constexpr Metric counted[] = {Metric::plans_user,      Metric::plans_recompute,
                                       Metric::blocks_hit_user, Metric::blocks_computed_user,
                                       Metric::blocks_hit_item, Metric::blocks_computed_item};
  struct State {
    std::array<double, std::size(counted)> metrics{};
    double computed_us = 0;
    std::array<double, placement::host_components> host_us{};
    placement::HostUnits units;
  };

  void compute_ahead() {
    cluster_.host().run_until(cluster_.now() + first_heartbeats);
    await_precomputed(cluster_.now() + options_.ahead_max, served_slice);
    result_.ahead_s = static_cast<double>(cluster_.now().us) * 1e-6;
    result_.items_ahead = static_cast<std::uint64_t>(metric(Metric::item_blocks_precomputed));
  }

  void go_until_all_outcomes() {
    Instant moved = cluster_.now();
    for (std::uint64_t before = outcomes();
         outcomes() < options_.total && cluster_.now() < moved + stuck_after;) {
      cluster_.host().run_until(cluster_.now() + served_slice);
      if (outcomes() > before || clients_.sent() < options_.total) moved = cluster_.now();
      before = outcomes();
      if (options_.progress)
        options_.progress(static_cast<double>(before) / static_cast<double>(options_.total));
    }
    clients_.check_overdue();
  }

  State look() {
    State state;
    for (std::size_t i = 0; i < std::size(counted); ++i) state.metrics[i] = metric(counted[i]);
    for (const auto& [id, node] : cluster_.nodes())
      if (node.compute) state.computed_us += static_cast<double>(node.compute->computed().us);
    if (const HostCharge* charge = cluster_.host_charge()) {
      state.host_us = charge->used_us();
      state.units = charge->units();
    }
    return state;
  }

  void sum_up(const State& from, const State& to, Duration took, Instant begin) {
    DeploymentResult& r = result_;
    const Tally& tally = clients_.tally();
    r.requests = tally.requests;
    r.answered = tally.answered;
    r.errors = tally.refused + tally.expired;
    r.seconds = static_cast<double>(took.us) * 1e-6;
    r.tokens_total = tally.tokens_total;
    r.tokens_reused = tally.tokens_reused;
    r.tokens_computed = r.tokens_total - r.tokens_reused;
    std::uint64_t without_reuse = 0;
    std::uint64_t* const counts[] = {&r.plans_user,           &without_reuse,     &r.user_blocks_hit,
                                     &r.user_blocks_computed, &r.item_blocks_hit, &r.item_blocks_computed};
    for (std::size_t i = 0; i < std::size(counted); ++i)
      *counts[i] += static_cast<std::uint64_t>(to.metrics[i] - from.metrics[i]);
    if (cluster_.form().arrangements.front() == Arrangement::user_first) r.plans_user += without_reuse;
    r.kernels_s = (to.computed_us - from.computed_us) * 1e-6;
    for (std::size_t component = 0; component < r.host_us.size(); ++component)
      r.host_us[component] = to.host_us[component] - from.host_us[component];
    r.units = {to.units.requests - from.units.requests, to.units.parts - from.units.parts,
               to.units.blocks - from.units.blocks,     to.units.mebibytes - from.units.mebibytes,
               to.units.kept - from.units.kept,         to.units.cold - from.units.cold};
    std::vector<float> latencies =
        latencies_ms(static_cast<std::size_t>(begin.us / 1'000'000), clients_.seconds().size());
    r.p50_ms = quantile(latencies, 0.5);
    r.p99_ms = quantile(std::move(latencies), 0.99);
    r.events = cluster_.host().events();
    for (const auto& [id, node] : cluster_.nodes())
      if (node.inference) r.plans_per_worker.push_back(node.inference->executed());
    r.violations = violations_.kept();
  }

  const DeploymentOptions& options_;
  DeploymentResult result_;
};

}  // namespace

DeploymentResult run_deployment(const DeploymentOptions& options) { return DeploymentLoad(options).go(); }

}  // namespace troupe::sim
