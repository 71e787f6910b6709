#pragma once
// Runs HLEM's base policy (§IV-A): a 7, 64, 128, 7 network that maps the state to one of seven steps
// of alpha. PPO trains it (placement/baselines/ppo_training.h); its weights are frozen while it
// serves.
#include <array>
#include <utility>

#include "placement/split/mlp.h"
#include "placement/split/split_policy.h"

namespace troupe::placement {

inline constexpr std::array<double, 7> alpha_steps{-0.06, -0.04, -0.02, 0, 0.02, 0.04, 0.06};  // eq. 3
Mlp base_network();                                                  // zero weights, HLEM's widths
std::array<float, state_values> inputs_of(const SplitState& state);  // scaled to -1..1

class PpoSplit final : public AlphaPolicy {
 public:
  explicit PpoSplit(Mlp network) : network_(std::move(network)) {}
  double next_alpha(const SplitView& view) override;
  double step_of(const SplitState& state) const;  // the most likely step

 private:
  Mlp network_;
};

}  // namespace troupe::placement
