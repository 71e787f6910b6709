#pragma once
// Implements HLEM's SmartAllocator (§IV-A): the frozen policy's step, a residual that is learned
// while serving, and an override in bursts. The paper does not say what the residual is fitted to.
// Here it is fitted to the direction in which moving alpha reduced the latency, taken from the
// replay buffer.
#include <array>
#include <cstddef>
#include <vector>

#include "placement/split/ppo.h"

namespace troupe::placement {

struct SmartOptions {
  bool adapts = true, recovers = true;  // false in HLEM's ablations
  double rate = 1e-3;                   // eta_0, eq. 7
  std::size_t replay_max = 1'000;
  double hot_share = 0.2;  // share of hot users above which a burst gives memory to keys and values
};

// Running mean and deviation of the windows' P99 over ten windows, in units of the objective.
class LatencyTrend {
 public:
  void add(double latency);
  bool bursts(double latency) const { return windows_ >= 10 && latency > mean_ + 3 * deviation(); }  // eq. 8
  double mean() const { return mean_; }
  double deviation() const;

 private:
  double mean_ = 0, square_ = 0;
  std::size_t windows_ = 0;
};

class SmartAllocator final : public AlphaPolicy {
 public:
  explicit SmartAllocator(Mlp base, const SmartOptions& options = {});
  double next_alpha(const SplitView& view) override;
  void learn() override;

 private:
  static constexpr std::size_t adapter_inputs = 5;
  struct TrainingExample {
    std::array<float, adapter_inputs> inputs;
    float target = 0;
  };
  void add_example(double latency);

  PpoSplit base_;
  SmartOptions options_;
  Mlp adapter_;  // 5, 16, 1; its last layer starts at zero
  LatencyTrend trend_;
  std::vector<TrainingExample> replay_;
  std::size_t next_example_ = 0, drawn_ = 0;
  std::array<float, adapter_inputs> last_inputs_{};
  double last_alpha_ = -1, last_latency_ = 0, moved_ = 0;
};

}  // namespace troupe::placement
