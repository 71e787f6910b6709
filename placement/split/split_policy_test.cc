#include "placement/split/split_policy.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "placement/split/split_choice.h"

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

TEST_CASE("split choice: policies are found by name; smart needs trained weights, and no baseline serves") {
  CHECK(make_split("marginal", {}) != nullptr);
  CHECK(make_split("static:0.3", {}) != nullptr);
  CHECK(make_split("smart", {}) == nullptr);
  for (const char* name : {"static:0", "static:1", "marginal", "smart"}) {
    CAPTURE(name);
    CHECK(knows_split(name));
    CHECK(learned_split(name) == (make_split(name, {}) == nullptr));
    if (std::string_view(name).find(':') == std::string_view::npos)
      CHECK(split_names().find(name) != std::string::npos);
  }
  for (const char* name :
       {"static:1.1", "static:", "static:nan", "best", "", "pid", "bayes", "trees", "ppo", "ppo+adapter"}) {
    CAPTURE(name);
    CHECK_FALSE(knows_split(name));
    CHECK(make_split(name, {}) == nullptr);
  }
}

}  // namespace split_policy_test
}  // namespace troupe::placement
