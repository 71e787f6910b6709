// Runs a pool-split experiment: nodes under one workload, each with its split policy, compared with
// the best possible split.
#include "sim/split/split_run.h"

#include <algorithm>
#include <cmath>

#include "kernels/base/check.h"
#include "sim/base/quantile.h"

namespace troupe::sim {
namespace {

class SplitCluster {
 public:
  explicit SplitCluster(const SplitRunOptions& options)
      : options_(options),
        times_(options.sizes),
        workload_(cluster_workload(options, times_)),
        router_(options.routing),
        views_(options.nodes) {
    const SplitNodeOptions node{.alpha = options.alpha,
                                .slo_us = options.slo_us,
                                .length_max = options.workload.length_max,
                                .shards = options.workload.shards,
                                .rows_per_shard = workload_.rows_per_shard(),
                                .shadows = options.shadows,
                                .shadow_kept = options.shadow_kept,
                                .refill_per_s = options.refill_per_s};
    for (std::uint32_t n = 0; n < options.nodes; ++n) {
      nodes_.push_back(std::make_unique<SplitNode>(times_, node));
      policies_.push_back(options.policy ? options.policy(n) : nullptr);
    }
    if (options.oracle_draws > 0)
      oracle_ = std::make_unique<SplitOracle>(times_, options.nodes, options.workload.window_s,
                                              options.oracle_draws, options.workload.seed, options.slo_us);
  }

  SplitRunResult run() {
    for (std::uint32_t w = 0; w < options_.workload.windows; ++w) {
      if (w == options_.warm_up && oracle_)
        for (std::size_t a = 0; a < alphas; ++a) static_from_[a] = oracle_->latencies(a).size();
      serve_window();
      end_window(w >= options_.warm_up);
    }
    return sum_up();
  }

 private:
  void serve_window() {
    latencies_.clear();
    for (const SplitRequest& request : workload_.next_window()) {
      const auto rows = workload_.rows_of(request.user, request.length);
      const std::uint32_t n = choose(request);
      if (oracle_) oracle_->serve(n, request, rows);
      const double latency = nodes_[n]->serve(request, rows);
      nodes_[user_home(request.user, options_.nodes)]->note_user(request);
      latencies_.push_back(static_cast<float>(latency));
    }
  }

  std::uint32_t choose(const SplitRequest& request) {
    if (options_.routing != SplitRouting::home) {
      const auto shards = workload_.shards_of(request.user);
      for (std::uint32_t n = 0; n < options_.nodes; ++n) {
        const StationTimes waits = nodes_[n]->waits(request.at_us);
        views_[n] = {nodes_[n]->has_kv(request.user), nodes_[n]->coverage(shards), waits.compute_us,
                     waits.copy_us};
      }
    }
    return router_.choose(request.user, routing_costs(times_, request.length), views_);
  }

  void end_window(bool counts) {
    SplitWindow window;
    window.requests = latencies_.size();
    window.hot_share = workload_.hot_share();
    window.p99_us = quantile(latencies_, 0.99);
    const double late =
        static_cast<double>(std::ranges::count_if(latencies_, [&](float l) { return l > options_.slo_us; }));
    window.late = late / std::max(1.0, static_cast<double>(latencies_.size()));
    SplitOracle::Window best;
    if (oracle_) best = oracle_->end_window();
    if (!options_.best.empty()) best.best = options_.best.at(result_.windows.size());
    window.best = best.best;
    const std::vector<SplitNode::SavingsOfAreas> savings = savings_by_node();
    for (std::uint32_t n = 0; n < options_.nodes; ++n) {
      const StationTimes served = nodes_[n]->served();
      const placement::SplitState state = nodes_[n]->end_window(
          policies_[n].get(), savings.empty() ? std::span<const placement::Savings>() : savings[n]);
      window.alpha += state.alpha / options_.nodes;
      window.kv_hits += state.kv_hits / options_.nodes;
      window.row_hits += state.row_hits / options_.nodes;
      if (n == 0) result_.state = state;
      if (!counts) continue;
      result_.gap += std::abs(state.alpha - best.best) / options_.nodes;
      result_.served.copy_us += served.copy_us;
      result_.served.compute_us += served.compute_us;
    }
    result_.windows.push_back(window);
    if (!counts) return;
    count(window, best);
    if (options_.on_window) options_.on_window(best);
  }

  // Returns the curves by which each node decides; none without shadow caches.
  std::vector<SplitNode::SavingsOfAreas> savings_by_node() const {
    std::vector<SplitNode::SavingsOfAreas> all;
    if (!options_.shadows) return all;
    for (const auto& node : nodes_) all.push_back(node->savings());
    if (!options_.pooled) return all;
    SplitNode::SavingsOfAreas sum{};
    for (const SplitNode::SavingsOfAreas& one : all)
      for (std::size_t area = 0; area < sum.size(); ++area)
        for (std::size_t cell = 0; cell < sum[area].size(); ++cell) sum[area][cell] += one[area][cell];
    all.assign(all.size(), sum);
    return all;
  }

  void count(const SplitWindow& window, const SplitOracle::Window& best) {
    all_.insert(all_.end(), latencies_.begin(), latencies_.end());
    ++counted_;
    result_.oracle_apart += best.half_apart;
    result_.best += best.best;
    result_.in_time += (1 - window.late) * static_cast<double>(window.requests);
    result_.kv_hits += window.kv_hits;
    result_.row_hits += window.row_hits;
    result_.alpha += window.alpha;
    for (std::size_t a = 0; a < alphas; ++a)
      result_.static_gap[a] += std::abs(static_cast<double>(a) / placement::split_cells - best.best);
  }

  SplitRunResult sum_up() {
    TROUPE_CHECK(counted_ > 0, "at least one window must count");
    result_.requests = all_.size();
    result_.in_time /= static_cast<double>(all_.size());
    result_.served.copy_us /= static_cast<double>(all_.size());
    result_.served.compute_us /= static_cast<double>(all_.size());
    for (double* sum : {&result_.gap, &result_.oracle_apart, &result_.best, &result_.kv_hits,
                        &result_.row_hits, &result_.alpha})
      *sum /= counted_;
    for (double& gap : result_.static_gap) gap /= counted_;
    double sum = 0;
    for (const float latency : all_) sum += latency;
    result_.mean_us = sum / static_cast<double>(all_.size());
    result_.p99_us = quantile(all_, 0.99);
    if (oracle_)
      for (std::size_t a = 0; a < alphas; ++a) {
        const auto part = oracle_->latencies(a).subspan(static_from_[a]);
        result_.static_p99_us[a] = quantile({part.begin(), part.end()}, 0.99);
      }
    return std::move(result_);
  }

  const SplitRunOptions& options_;
  SplitTimes times_;
  SplitWorkload workload_;
  SplitRouter router_;
  std::vector<std::unique_ptr<SplitNode>> nodes_;
  std::vector<std::unique_ptr<placement::SplitPolicy>> policies_;
  std::unique_ptr<SplitOracle> oracle_;
  std::vector<NodeView> views_;
  std::vector<float> latencies_, all_;
  std::array<std::size_t, alphas> static_from_{};
  double counted_ = 0;
  SplitRunResult result_;
};

}  // namespace

SplitWorkloadOptions cluster_workload(const SplitRunOptions& options, const SplitTimes& times) {
  SplitWorkloadOptions all = options.workload;
  all.users *= options.nodes;
  all.per_second *= options.nodes;
  all.rows_per_event = times.rows_per_event();
  all.rows =
      static_cast<std::uint32_t>(options.table_tb * 1e12 / options.sizes.row_bytes / times.row_scale());
  return all;
}

RoutingCosts routing_costs(const SplitTimes& times, std::uint32_t length) {
  const double computed = times.computed_us(length);
  return {.kv_us = computed - times.reused_us(length),
          .rows_us = length * times.rows_per_event() * times.row_us(),
          .load_us = computed};
}

SplitRunResult run_split(const SplitRunOptions& options) { return SplitCluster(options).run(); }

}  // namespace troupe::sim
