#pragma once
// Trains HLEM's base policy (placement/split/ppo.h) by PPO (Schulman et al., "Proximal Policy
// Optimization Algorithms", 2017) against a game, with a critic of the same shape that is discarded.
// Equal seeds give equal results.
#include <cstdint>
#include <functional>

#include "placement/split/ppo.h"

namespace troupe::placement {

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
