#include "placement/split/smart_allocator.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "placement/split/trained_policies.h"

namespace troupe::placement {
namespace smart_allocator_test {

// Returns a policy that always takes the same step.
Mlp always(std::size_t action) {
  Mlp network = base_network();
  const std::size_t biases = network.weights().size() - alpha_steps.size() * 129;
  network.weights()[biases + action] = 1;
  return network;
}

SplitState calm(double alpha, double p99 = 0.3) { return {.hot_share = 0.3, .alpha = alpha, .p99 = p99}; }

TEST_CASE("mlp: a network learns a function of its inputs, with equal results for equal seeds") {
  const auto trained = [] {
    Mlp network({2, 16, 1});
    network.draw(7, 1);
    for (int i = 0; i < 3'000; ++i) {
      const float x = static_cast<float>(i % 21) / 10 - 1, y = static_cast<float>(i % 13) / 6 - 1;
      network.learn(std::array{x, y},
                    [&](std::span<const float> out, std::span<float> slope) { slope[0] = out[0] - x * y; });
      if (i % 8 == 7) network.step(0.01F);
    }
    return network;
  };
  const Mlp network = trained();
  float out = 0;
  network.run(std::array{0.5F, -0.5F}, std::span(&out, 1));
  CHECK(out == doctest::Approx(-0.25).epsilon(0.3));
  CHECK(std::ranges::equal(network.weights(), trained().weights()));
}

TEST_CASE("PPO policy: it takes the most likely of seven steps, within the bounds of alpha") {
  PpoSplit policy(always(6));
  CHECK(policy.next_alpha({calm(0.5), {}}) == doctest::Approx(0.56));
  CHECK(policy.next_alpha({calm(0.89), {}}) == alpha_max);
}

TEST_CASE("smart allocator: the adapter adds nothing before it has learned") {
  SmartAllocator smart(always(3));
  CHECK(smart.next_alpha({calm(0.5), {}}) == doctest::Approx(0.5));
}

TEST_CASE(
    "smart allocator: a latency beyond three deviations gives memory to keys and values if users are hot") {
  for (const bool hot : {true, false}) {
    SmartAllocator smart(always(3));
    for (int window = 0; window < 12; ++window) smart.next_alpha({calm(0.5, 0.3 + 0.01 * (window % 2)), {}});
    SplitState burst = calm(0.5, 0.9);
    if (!hot) burst.hot_share = 0.1;
    CHECK(smart.next_alpha({burst, {}}) == doctest::Approx(hot ? 0.44 : 0.5));
  }
}

TEST_CASE("smart allocator: without recovery a burst does not change its step") {
  SmartAllocator smart(always(3), {.adapts = false, .recovers = false});
  for (int window = 0; window < 12; ++window) smart.next_alpha({calm(0.5), {}});
  CHECK(smart.next_alpha({calm(0.5, 1), {}}) == doctest::Approx(0.5));
}

TEST_CASE("trained policies: parsing gives back what was written") {
  TrainedPolicies trained{"troupe-lab train --seed 3", base_network(), {}};
  trained.base.draw(3, 1);
  trained.trees.base = 0.4F;
  trained.trees.trees.resize(2);
  trained.trees.trees[1].leaf[7] = -0.25F;
  trained.trees.trees[1].value[2] = 6;
  const std::string text = policies_text(trained);
  const TrainedPolicies read = parse_policies(text, "p.txt");
  CHECK(read.made_by == trained.made_by);
  CHECK(std::ranges::equal(read.base.weights(), trained.base.weights()));
  CHECK(policies_text(read) == text);
}

std::string fault_of(std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  try {
    parse_policies(text, "p.txt");
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("trained policies: an invalid text is refused with its line") {
  TrainedPolicies trained{"x", base_network(), {}};
  const std::string text = policies_text(trained);
  CHECK(fault_of(text, "policies 1", "policies 2").starts_with("p.txt:2: there is"));
  CHECK(fault_of(text, "base 7 64", "base 7 640").find("expected 64") != std::string::npos);
  CHECK(fault_of(text, "trees 0", "trees 401").find("expected a number") != std::string::npos);
  CHECK(fault_of(text, "trees 0", "trees 9").find("p.txt:") != std::string::npos);
  CHECK(fault_of(text, " 0 ", " nan ").find("\"nan\"") != std::string::npos);
  CHECK(fault_of(text, " 0 ", " 1e9 ").find("\"1e9\"") != std::string::npos);
  CHECK(fault_of(text, "trees 0 0.5\n", "trees 0 0.5\nmore").find("expected the end") != std::string::npos);
}

}  // namespace smart_allocator_test
}  // namespace troupe::placement
