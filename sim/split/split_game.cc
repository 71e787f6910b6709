// Records the windows of simulated nodes and replays them under any alpha (the pool's share for
// embedding rows). Split policies are trained on such records.
#include "sim/split/split_game.h"

#include <algorithm>
#include <cmath>

#include "kernels/base/check.h"
#include "kernels/base/hash.h"
#include "sim/split/split_settings.h"

namespace troupe::sim {
namespace {

constexpr std::uint32_t draws = 8;

SplitRunOptions draw_setting(std::uint32_t run, std::uint64_t seed) {
  const auto data = split_data();
  SplitRunOptions options =
      split_setting(data[run % data.size()], run / 3 % 2 == 0 ? 6 : 3, static_cast<Regime>(run / 6 % 3));
  options.workload.seed = options.workload.schedule = spread(seed * 1'000'003 + run);
  options.nodes = 2;
  options.oracle_draws = draws;
  return options;
}

std::size_t cell_of(double alpha) {
  return static_cast<std::size_t>(std::lround(std::clamp(alpha, 0.0, 1.0) * placement::split_cells));
}

void keep(const SplitRunOptions& options, const SplitOracle::Window& window,
          std::vector<RecordedNode>& nodes) {
  for (std::size_t n = 0; n < window.nodes.size(); ++n) {
    RecordedNode::Window& played = nodes[nodes.size() - window.nodes.size() + n].windows.emplace_back();
    played.had = window.nodes[n];
    played.best = window.best;
    for (std::size_t a = 0; a < alphas; ++a)
      played.reward[a] =
          static_cast<float>(placement::split_reward(window.late[a], window.p99_us[a] / options.slo_us));
  }
}

}  // namespace

placement::SplitState RecordedNode::state_at(std::size_t window, double alpha) const {
  const SplitOracle::NodeWindow& had = windows[window].had;
  const std::size_t cell = cell_of(alpha);
  return {.hot_share = had.hot / had.requests,
          .kv_hits = static_cast<double>(had.kv_hits[cell]) / had.requests,
          .row_hits = static_cast<double>(had.row_hits[cell]) / had.rows,
          .length = had.events / had.requests / length_max,
          .violations = static_cast<double>(had.late[cell]) / had.requests,
          .alpha = alpha,
          .p99 = std::min(1.0, static_cast<double>(had.p99_us[cell]) / (2 * slo_us))};
}

std::vector<RecordedNode> record_runs(std::uint32_t runs, std::uint64_t seed) {
  std::vector<RecordedNode> nodes;
  for (std::uint32_t run = 0; run < runs; ++run) {
    SplitRunOptions options = draw_setting(run, seed);
    nodes.resize(nodes.size() + options.nodes,
                 {static_cast<double>(options.workload.length_max), options.slo_us, {}});
    options.on_window = [&](const SplitOracle::Window& window) { keep(options, window, nodes); };
    run_split(options);
  }
  return nodes;
}

placement::SplitState RecordedGame::begin(std::uint64_t episode) {
  TROUPE_CHECK(!nodes_.empty(), "a game needs recorded nodes");
  const std::uint64_t number = spread(episode);
  node_ = number % nodes_.size();
  window_ = (number >> 20) % nodes_[node_].windows.size();
  alpha_ = placement::alpha_min +
           (placement::alpha_max - placement::alpha_min) * static_cast<double>((number >> 40) % 1'000) / 999;
  return nodes_[node_].state_at(window_, alpha_);
}

placement::SplitState RecordedGame::play(double alpha) {
  alpha_ = alpha;
  window_ = (window_ + 1) % nodes_[node_].windows.size();
  return nodes_[node_].state_at(window_, alpha_);
}

double RecordedGame::reward() const {
  return static_cast<double>(nodes_[node_].windows[window_].reward[cell_of(alpha_)]);
}

std::vector<placement::TreeExample> oracle_examples(const std::vector<RecordedNode>& nodes) {
  std::vector<placement::TreeExample> examples;
  for (const RecordedNode& node : nodes)
    for (std::size_t window = 0; window < node.windows.size(); ++window)
      for (const double alpha : {0.2, 0.4, 0.6, 0.8})
        examples.push_back({values_of(node.state_at(window, alpha)), node.windows[window].best});
  return examples;
}

}  // namespace troupe::sim
