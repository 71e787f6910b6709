#pragma once
// HLEM's base policy (§IV-A): a network 7, 64, 128, 7 that takes the state to one of seven steps of alpha,
// trained by PPO (Schulman et al., "Proximal Policy Optimization Algorithms", 2017) against a game, with a
// critic of the same shape that is not kept. Frozen when it serves. Training is deterministic by its seed.
#include <array>
#include <cstdint>
#include <functional>
#include <span>

#include "placement/split/mlp.h"
#include "placement/split/split_policy.h"

namespace troupe::placement {

inline constexpr std::array<double, 7> alpha_steps{-0.06, -0.04, -0.02, 0, 0.02, 0.04, 0.06};  // eq. 3
Mlp base_network();                                                  // of the right widths, all zero
std::array<float, state_values> inputs_of(const SplitState& state);  // -1..1

class PpoSplit final : public AlphaPolicy {
 public:
  explicit PpoSplit(Mlp network) : network_(std::move(network)) {}
  double next_alpha(const SplitView& view) override;
  double step_of(const SplitState& state) const;  // the likeliest one

 private:
  Mlp network_;
};

// What a policy plays against: windows of serving, each with one alpha.
class SplitGame {
 public:
  virtual ~SplitGame() = default;
  virtual SplitState begin(std::uint64_t episode) = 0;
  virtual SplitState play(double alpha) = 0;  // the next window
  virtual double reward() const = 0;          // of that window
};

struct PpoOptions {
  std::uint32_t episodes = 6'000, windows = 30;
  std::uint32_t batch_episodes = 6, epochs = 4, batch = 64;
  double discount = 0.9, trace = 0.95, clip = 0.2, entropy = 0.01;  // trace: of the advantages (GAE)
  float rate = 5e-4F;
  std::uint64_t seed = 1;
  std::function<void(std::uint32_t episode, double reward)> told;  // mean rewards of a batch of episodes
};
Mlp train_ppo(SplitGame& game, const PpoOptions& options);

}  // namespace troupe::placement
