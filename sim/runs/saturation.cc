// Measures throughput and latency of a simulated cluster without faults, as the papers' tables do:
// precompute, warm up, then measure.
#include "sim/runs/saturation.h"

#include <algorithm>

#include "sim/base/quantile.h"
#include "sim/runs/calm_run.h"

namespace troupe::sim {
namespace {

// settled: time until there is a leader and every node has sent a heartbeat.
constexpr Duration saturation_slice{20'000}, settled{2'000'000};
constexpr Duration given_up{600'000'000};  // time without an answer after which the cluster counts as stuck

double seconds(Duration time) { return static_cast<double>(time.us) * 1e-6; }

class Saturation : CalmRun {
 public:
  explicit Saturation(const SaturationOptions& options) : CalmRun(options.scenario), options_(options) {}

  SaturationResult go() {
    cluster_.start();
    go_offline();
    if (options_.in_flight > 0) {
      clients_.run_closed_loop(options_.requests, options_.in_flight);
    } else {
      clients_.run_open_loop(options_.requests);
    }
    go_until(options_.warm_up);
    const State warm = look();
    go_until(options_.warm_up + options_.measured);
    sum_up(warm, look());
    result_.violations = end();
    return std::move(result_);
  }

 private:
  struct State {
    Instant at;
    Tally tally;
    double user_plans = 0, item_plans = 0, hit_user = 0, made_user = 0, hit_item = 0, made_item = 0;
    double busy_us = 0, pulled_bytes = 0, begun_early = 0, spared_s = 0;
  };

  void go_offline() {
    cluster_.host().run_until(cluster_.now() + settled);
    if (options_.scenario.precompute)
      await_precomputed(cluster_.now() + options_.offline_max, saturation_slice);
    result_.offline_s = seconds(cluster_.now() - Instant{});
    result_.items_ahead = static_cast<std::uint64_t>(metric(Metric::item_blocks_precomputed));
  }

  void go_until(std::uint64_t ended) {
    Instant moved = cluster_.now();
    for (std::uint64_t before = outcomes(); outcomes() < ended && cluster_.now() < moved + given_up;) {
      cluster_.host().run_until(cluster_.now() + saturation_slice);
      clients_.check_overdue();
      if (outcomes() > before) moved = cluster_.now();
      before = outcomes();
      if (options_.progress)
        options_.progress(static_cast<double>(before) /
                          static_cast<double>(options_.warm_up + options_.measured));
    }
  }

  State look() {
    State state{cluster_.now(), clients_.tally()};
    state.user_plans = metric(Metric::plans_user);
    state.item_plans = metric(Metric::plans_item);
    state.hit_user = metric(Metric::blocks_hit_user);
    state.made_user = metric(Metric::blocks_computed_user);
    state.hit_item = metric(Metric::blocks_hit_item);
    state.made_item = metric(Metric::blocks_computed_item);
    state.begun_early = metric(Metric::overlap_begun);
    state.spared_s = metric(Metric::overlap_spared);
    for (const auto& [id, node] : cluster_.nodes()) {
      if (node.compute) state.busy_us += static_cast<double>(node.compute->busy().us);
      if (node.store) state.pulled_bytes += static_cast<double>(node.store->bytes_asked());
    }
    return state;
  }

  void sum_up(const State& from, const State& to) {
    SaturationResult& r = result_;
    r.measured_s = seconds(to.at - from.at);
    r.answered = to.tally.answered - from.tally.answered;
    r.refused = to.tally.refused - from.tally.refused;
    r.expired = to.tally.expired - from.tally.expired;
    const auto answered = static_cast<double>(std::max<std::uint64_t>(r.answered, 1));
    r.requests_per_s = static_cast<double>(r.answered) / r.measured_s;
    const auto reused = static_cast<double>(to.tally.tokens_reused - from.tally.tokens_reused);
    r.token_hit_rate = reused / static_cast<double>(to.tally.tokens_total - from.tally.tokens_total);
    r.user_plans = share(to.user_plans - from.user_plans, to.item_plans - from.item_plans);
    r.user_hit_rate = share(to.hit_user - from.hit_user, to.made_user - from.made_user);
    r.item_hit_rate = share(to.hit_item - from.hit_item, to.made_item - from.made_item);
    r.device_busy = (to.busy_us - from.busy_us) * 1e-6 / r.measured_s / options_.scenario.workers;
    r.pulled_mb = (to.pulled_bytes - from.pulled_bytes) * 1e-6 / answered;
    const double early = to.begun_early - from.begun_early;
    r.begun_early = early / answered;
    r.spared_ms = early > 0 ? (to.spared_s - from.spared_s) * 1e3 / early : 0;
    r.events = cluster_.host().events();
    std::vector<float> latencies =
        latencies_ms(static_cast<std::size_t>(from.at.us / 1'000'000), clients_.seconds().size());
    for (const float latency : latencies) r.mean_ms += latency / static_cast<double>(latencies.size());
    r.p50_ms = quantile(latencies, 0.5);
    r.p90_ms = quantile(latencies, 0.9);
    r.p99_ms = quantile(std::move(latencies), 0.99);
  }

  const SaturationOptions& options_;
  SaturationResult result_;
};

}  // namespace

SaturationResult run_saturated(const SaturationOptions& options) { return Saturation(options).go(); }

}  // namespace troupe::sim
