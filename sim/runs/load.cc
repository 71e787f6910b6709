// Runs a simulated cluster without faults under a load that changes over time, and reports each
// second, for capacity planning.
#include "sim/runs/load.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>

#include "sim/base/quantile.h"
#include "sim/runs/calm_run.h"

namespace troupe::sim {
namespace {

constexpr Duration slice{100'000};
// Above this many nodes, bounds are not checked, since the check visits every block.
constexpr std::size_t checked_nodes_max = 32;

double resident_mb() {
  std::ifstream statm("/proc/self/statm");
  double pages = 0;
  statm >> pages >> pages;
  return pages * 4096 / 1e6;
}

class Load : CalmRun {
 public:
  explicit Load(const LoadOptions& options) : CalmRun(options.scenario), options_(options) {}

  LoadResult go() {
    const auto start = std::chrono::steady_clock::now();
    cluster_.start();
    Duration total{0};
    for (const LoadPhase& phase : options_.phases) total.us += phase.lasts.us;
    if (options_.requests) {
      clients_.follow(options_.requests);
    } else {
      clients_.start({}, Instant{} + total);
    }
    Duration done{0};
    for (const LoadPhase& phase : options_.phases) {
      run_phase(phase, total);
      done.us += phase.lasts.us;
      if (ended()) break;
    }
    clients_.stop();
    advance(cluster_.now() + Duration{cluster_.scenario().deadline.us * 2});
    clients_.check_overdue();
    result_.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    finish();
    return std::move(result_);
  }

 private:
  bool ended() const { return options_.requests_max > 0 && clients_.sent() >= options_.requests_max; }

  void run_phase(const LoadPhase& phase, Duration total) {
    const double rate = phase.of_capacity > 0 ? phase.of_capacity * result_.capacity : phase.requests_per_s;
    clients_.set_rate(rate / cluster_.scenario().requests_per_s);
    const Instant from = cluster_.now(), end = from + phase.lasts;
    const std::uint64_t answered_before = clients_.tally().answered;
    std::uint64_t answered_half = answered_before;
    const Instant half = from + Duration{phase.lasts.us / 2};
    while (cluster_.now() < end && !ended()) {
      advance(std::min(end, cluster_.now() + slice));
      if (cluster_.now() <= half) answered_half = clients_.tally().answered;
      if (options_.progress) options_.progress(done_share(total));
    }
    if (phase.measures)
      result_.capacity =
          std::max(result_.capacity, static_cast<double>(clients_.tally().answered - answered_half) * 1e6 /
                                         static_cast<double>((cluster_.now() - half).us));
    result_.phases.push_back({phase.name, seconds(from), seconds(cluster_.now())});
  }

  double done_share(Duration total) const {
    const double of_time =
        static_cast<double>(cluster_.now().us) / static_cast<double>(std::max<std::int64_t>(total.us, 1));
    if (options_.requests_max == 0) return of_time;
    return std::max(of_time,
                    static_cast<double>(clients_.sent()) / static_cast<double>(options_.requests_max));
  }
  static double seconds(Instant at) { return static_cast<double>(at.us) * 1e-6; }

  void advance(Instant end) {
    cluster_.host().run_until(end);
    const auto second = static_cast<std::size_t>(end.us / 1'000'000);
    if (end.us % 1'000'000 != 0 || second == 0) return;
    clients_.check_overdue();
    if (cluster_.nodes().size() <= checked_nodes_max)
      if (const std::string fault = cluster_.check_bounds(); !fault.empty())
        violations_.report(10, fault, cluster_.now());
    result_.seconds.resize(second);
    LoadSecond& row = result_.seconds.back();
    for (const auto& [id, node] : cluster_.nodes()) {
      if (node.router)
        row.in_flight += static_cast<double>(node.router->in_features() + node.router->in_lookup() +
                                             node.router->executing());
      if (node.inference) row.waiting += static_cast<double>(node.inference->waiting());
    }
    row.resident_mb = resident_mb();
  }

  void finish() {
    const auto& rows = clients_.seconds();
    if (result_.seconds.size() < rows.size()) result_.seconds.resize(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      LoadSecond& row = result_.seconds[i];
      row.offered = rows[i].sent;
      row.answered = rows[i].answered;
      row.refused = rows[i].refused;
      row.expired = rows[i].expired;
      row.p50_ms = quantile(rows[i].latency_ms, 0.5);
      row.p99_ms = quantile(rows[i].latency_ms, 0.99);
    }
    for (LoadPhaseResult& phase : result_.phases) sum_up(phase);
    result_.violations = violations_.kept();
    result_.tally = clients_.tally();
    result_.events = cluster_.host().events();
    result_.virtual_s = seconds(cluster_.now());
    result_.resident_mb = resident_mb();
    result_.item_hit_rate = share(metric(Metric::blocks_hit_item), metric(Metric::blocks_computed_item));
    result_.user_hit_rate = share(metric(Metric::blocks_hit_user), metric(Metric::blocks_computed_user));
    result_.token_hit_rate = share(metric(Metric::tokens_reused), metric(Metric::tokens_computed));
    for (const auto& [id, node] : cluster_.nodes())
      if (node.inference) result_.plans_per_worker.push_back(node.inference->executed());
  }

  void sum_up(LoadPhaseResult& phase) const {
    const auto from = static_cast<std::size_t>(phase.from_s), to = static_cast<std::size_t>(phase.to_s);
    std::vector<float> latencies = latencies_ms(from, to);
    double sent = 0, answered = 0;
    const auto& rows = clients_.seconds();
    for (std::size_t i = from; i < std::min(rows.size(), to); ++i) {
      sent += rows[i].sent;
      answered += rows[i].answered;
    }
    const double lasts = std::max(phase.to_s - phase.from_s, 1e-6);
    phase.offered = sent / lasts;
    phase.answered = answered / lasts;
    phase.p50_ms = quantile(latencies, 0.5);
    phase.p99_ms = quantile(std::move(latencies), 0.99);
  }

  const LoadOptions& options_;
  LoadResult result_;
};

}  // namespace

LoadResult run_load(const LoadOptions& options) { return Load(options).go(); }

}  // namespace troupe::sim
