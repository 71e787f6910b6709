#include "placement/split/split_policy.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "placement/split/bayes.h"
#include "placement/split/pid.h"
#include "placement/split/split_choice.h"
#include "placement/split/trees.h"

namespace troupe::placement {
namespace split_policy_test {

SplitView view_of(const SplitState& state) { return {state, {}}; }

TEST_CASE("split: alpha is the first area's share, and the others keep their proportions") {
  StaticSplit policy(0.4);
  std::vector<double> shares{0.1, 0.6, 0.3};
  policy.decide(view_of({}), shares);
  CHECK(shares[0] == doctest::Approx(0.4));
  CHECK(shares[1] == doctest::Approx(0.4));
  CHECK(shares[2] == doctest::Approx(0.2));
}

TEST_CASE("split: areas that all had nothing share equally what the rows leave") {
  StaticSplit policy(0.5);
  std::vector<double> shares{1, 0, 0};
  policy.decide(view_of({}), shares);
  CHECK(shares == std::vector<double>{0.5, 0.25, 0.25});
}

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
  std::vector<BoostedTrees::Example> examples;
  for (int i = 0; i < 400; ++i) {
    const double hot = (i % 40) / 40.0, hits = (i % 7) / 7.0;
    examples.push_back({{hot, hits, 0, 0, 0, 0, 0}, hot > 0.5 ? 0.3 : 0.6});
  }
  const BoostedTrees trees = BoostedTrees::fit(examples, {});
  CHECK(trees.predict({0.2, 0.5, 0, 0, 0, 0, 0}) == doctest::Approx(0.6).epsilon(0.02));
  CHECK(trees.predict({0.8, 0.5, 0, 0, 0, 0, 0}) == doctest::Approx(0.3).epsilon(0.02));
}

TEST_CASE("split choice: policies are found by name; trained ones need trained weights") {
  CHECK(make_split("marginal", {}) != nullptr);
  CHECK(make_split("static:0.3", {}) != nullptr);
  CHECK(make_split("smart", {}) == nullptr);
  for (const char* name :
       {"static:0", "static:1", "pid", "bayes", "marginal", "trees", "ppo", "ppo+adapter", "smart"}) {
    CAPTURE(name);
    CHECK(knows_split(name));
    CHECK(learned_split(name) == (make_split(name, {}) == nullptr));
    if (std::string_view(name).find(':') == std::string_view::npos)
      CHECK(split_names().find(name) != std::string::npos);
  }
  for (const char* name : {"static:1.1", "static:", "static:nan", "best", ""}) {
    CHECK_FALSE(knows_split(name));
    CHECK(make_split(name, {}) == nullptr);
  }
}

}  // namespace split_policy_test
}  // namespace troupe::placement
