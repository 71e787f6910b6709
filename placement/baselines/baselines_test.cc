#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "placement/baselines/bayes.h"
#include "placement/baselines/experiment_split.h"
#include "placement/baselines/pid.h"
#include "placement/baselines/ppo_training.h"
#include "placement/baselines/trees.h"

namespace troupe::placement {
namespace baselines_test {

SplitView view_of(const SplitState& state) { return {state, {}}; }

TEST_CASE("PID split: the side with costlier misses gets memory, within the bounds of alpha") {
  PidSplit policy({.kv_weight = 2, .row_weight = 1});
  CHECK(policy.next_alpha(view_of({.kv_hits = 0.9, .row_hits = 0.1, .alpha = 0.5})) > 0.5);
  PidSplit other({.kv_weight = 2, .row_weight = 1});
  CHECK(other.next_alpha(view_of({.kv_hits = 0.1, .row_hits = 0.9, .alpha = 0.5})) < 0.5);
  CHECK(other.next_alpha(view_of({.kv_hits = 0, .row_hits = 1, .alpha = 0.1})) == alpha_min);
}

TEST_CASE("Bayes split: it finds the minimum of a valley") {
  BayesSplit policy;
  double alpha = 0.9;
  for (int window = 0; window < 40; ++window)
    alpha = policy.next_alpha(view_of({.alpha = alpha, .p99 = (alpha - 0.35) * (alpha - 0.35)}));
  CHECK(alpha == doctest::Approx(0.35).epsilon(0.15));
}

TEST_CASE("boosted trees: they learn a step in one value") {
  std::vector<TreeExample> examples;
  for (int i = 0; i < 400; ++i) {
    const double hot = (i % 40) / 40.0, hits = (i % 7) / 7.0;
    examples.push_back({{hot, hits, 0, 0, 0, 0, 0}, hot > 0.5 ? 0.3 : 0.6});
  }
  const BoostedTrees trees = fit_trees(examples);
  CHECK(predict_alpha(trees, {0.2, 0.5, 0, 0, 0, 0, 0}) == doctest::Approx(0.6).epsilon(0.02));
  CHECK(predict_alpha(trees, {0.8, 0.5, 0, 0, 0, 0, 0}) == doctest::Approx(0.3).epsilon(0.02));
}

struct Valley final : SplitEnvironment {
  SplitState begin(std::uint64_t episode) override {
    return at(0.1 + 0.8 * static_cast<double>(episode % 5) / 4);
  }
  SplitState play(double alpha) override {
    last = alpha;
    return at(alpha);
  }
  double reward() const override { return split_reward(0, 1 + 2 * std::abs(last - 0.4)); }
  double last = 0;
  static SplitState at(double alpha) { return {.alpha = alpha, .p99 = 0.5 + std::abs(alpha - 0.4)}; }
};

TEST_CASE("PPO training: the policy learns to move to the minimum of a valley") {
  Valley valley;
  PpoSplit policy(train_ppo(valley, {.episodes = 120, .windows = 20, .rate = 1e-3F}));
  for (const double from : {0.1, 0.8}) {
    double alpha = from;
    for (int window = 0; window < 30; ++window) alpha = policy.next_alpha({Valley::at(alpha), {}});
    CHECK(std::abs(alpha - 0.4) < 0.08);
  }
}

TEST_CASE("experiment split: has the policies that serve and the baselines; trained ones need weights") {
  for (const char* name :
       {"static:0", "static:1", "pid", "bayes", "marginal", "trees", "ppo", "ppo+adapter", "smart"}) {
    CAPTURE(name);
    CHECK(knows_experiment_split(name));
    CHECK(trained_experiment_split(name) == (make_experiment_split(name, {}) == nullptr));
    if (std::string_view(name).find(':') == std::string_view::npos)
      CHECK(experiment_split_names().find(name) != std::string::npos);
  }
  TrainedPolicies trained{"x", base_network(), {}};
  for (const char* name : {"trees", "ppo", "ppo+adapter", "smart"})
    CHECK(make_experiment_split(name, {.trained = &trained}) != nullptr);
  for (const char* name : {"static:1.1", "best", ""}) {
    CHECK_FALSE(knows_experiment_split(name));
    CHECK(make_experiment_split(name, {.trained = &trained}) == nullptr);
  }
}

}  // namespace baselines_test
}  // namespace troupe::placement
