#include "sim/split/split_game.h"

#include <algorithm>

#include "placement/heat/spread.h"
#include "sim/split/split_settings.h"

namespace troupe::sim {
namespace {

constexpr std::uint32_t first_windows = 6;  // before a policy plays: caches fill

SplitRunOptions draw_setting(std::uint64_t number) {
  const auto data = split_data();
  SplitRunOptions options = split_setting(data[number % data.size()], number / 3 % 2 == 0 ? 6 : 3,
                                          static_cast<Regime>(number / 6 % 3));
  options.workload.seed = options.workload.schedule = spread(number);
  options.nodes = 1;
  return options;
}

double draw_alpha(std::uint64_t number) {
  return placement::alpha_min + (placement::alpha_max - placement::alpha_min) * static_cast<double>(number % 1'000) / 999;
}

// A random walk, so that examples have every alpha and what came of it.
class Walk final : public placement::AlphaPolicy {
 public:
  explicit Walk(std::uint64_t seed) : state_(seed) {}
  double next_alpha(const placement::SplitView& view) override {
    state_ = spread(state_);
    return placement::clip_alpha(view.state.alpha + placement::alpha_steps[state_ % placement::alpha_steps.size()]);
  }

 private:
  std::uint64_t state_;
};

}  // namespace

struct NodeGame::World {
  World(const SplitRunOptions& setting, double alpha)
      : options(setting),
        times(setting.sizes),
        workload(cluster_workload(setting, times)),
        node(times, {.alpha = alpha,
                     .slo_us = setting.slo_us,
                     .length_max = setting.workload.length_max,
                     .shards = setting.workload.shards,
                     .rows_per_shard = workload.rows_per_shard(),
                     .shadows = false}) {}

  SplitRunOptions options;
  SplitTimes times;
  SplitWorkload workload;
  SplitNode node;
};

void NodeGame::serve_window() {
  for (const SplitRequest& request : world_->workload.next_window())
    world_->node.serve(request, world_->workload.rows_of(request.user, request.length));
}

placement::SplitState NodeGame::begin(std::uint64_t episode) {
  SplitRunOptions setting = draw_setting(spread(episode));
  setting.workload.windows = windows_ + first_windows;
  world_ = std::make_shared<World>(setting, draw_alpha(spread(episode + 1) >> 20));
  for (std::uint32_t w = 0; w + 1 < first_windows; ++w) {
    serve_window();
    world_->node.end_window(world_->node.alpha());
  }
  return play(world_->node.alpha());
}

placement::SplitState NodeGame::play(double alpha) {
  // A window ends with the alpha that it had, and the next begins with the new one.
  world_->node.move_to(alpha);
  serve_window();
  return world_->node.end_window(alpha);
}

std::vector<placement::BoostedTrees::Example> oracle_examples(std::uint32_t runs, std::uint64_t seed) {
  std::vector<placement::BoostedTrees::Example> examples;
  for (std::uint32_t run = 0; run < runs; ++run) {
    SplitRunOptions options = draw_setting(seed * 1'000'003 + run);
    options.nodes = 2;
    options.oracle_draws = 8;
    options.policy = [run](std::uint32_t n) { return std::make_unique<Walk>(run * 64 + n); };
    options.told = [&](const SplitRunOptions::Told& told) {
      for (const placement::SplitState& state : told.states) examples.push_back({values_of(state), told.best});
    };
    run_split(options);
  }
  return examples;
}

}  // namespace troupe::sim
