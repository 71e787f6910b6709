#pragma once
// Trains and runs HLEM's base policy (§IV-A): a 7, 64, 128, 7 network that maps the state to one of
// seven steps of alpha. PPO (Schulman et al., "Proximal Policy Optimization Algorithms", 2017)
// trains it against a game, with a critic of the same shape that is discarded. Its weights are
// frozen while it serves. Equal seeds give equal results.
#include <array>
#include <cstdint>
#include <functional>
#include <span>

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

// A simulated environment: windows of serving, each with one alpha.
class SplitEnvironment {
 public:
  virtual ~SplitEnvironment() = default;
  virtual SplitState begin(std::uint64_t episode) = 0;
  virtual SplitState play(double alpha) = 0;  // runs the next window; returns its state
  virtual double reward() const = 0;          // reward of the window just played
};

struct PpoOptions {
  std::uint32_t episodes = 6'000, windows = 30;
  std::uint32_t batch_episodes = 6, epochs = 4, batch = 64;
  // Trace: lambda of the generalised advantages (GAE).
  double discount = 0.9, trace = 0.95, clip = 0.2, entropy = 0.01;
  float rate = 5e-4F;
  std::uint64_t seed = 1;
  // Called with the mean reward of a batch of episodes.
  std::function<void(std::uint32_t episode, double reward)> on_batch;
};
Mlp train_ppo(SplitEnvironment& game, const PpoOptions& options);

}  // namespace troupe::placement
