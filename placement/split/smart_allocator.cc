// Chooses alpha (the share of the pool for embedding rows) as HLEM's SmartAllocator does: a
// pretrained step, a correction learned while serving, and an override when latency bursts.
#include "placement/split/smart_allocator.h"

#include <algorithm>
#include <cmath>

#include "kernels/base/hash.h"

namespace troupe::placement {
namespace {

constexpr double step_max = 0.06, residual_max = 0.02;
constexpr std::size_t examples_per_window = 16;

}  // namespace

double LatencyTrend::deviation() const { return std::sqrt(std::max(0.0, square_ - mean_ * mean_)); }

void LatencyTrend::add(double latency) {
  const double share = windows_ < 10 ? 1.0 / static_cast<double>(windows_ + 1) : 0.1;
  ++windows_;
  mean_ += share * (latency - mean_);
  square_ += share * (latency * latency - square_);
}

SmartAllocator::SmartAllocator(Mlp base, const SmartOptions& options)
    : base_(std::move(base)), options_(options), adapter_({adapter_inputs, 16, 1}) {
  adapter_.draw(1, 0);
  replay_.reserve(options.replay_max);
}

// Adds a training example: the latency change that followed the last move says in which direction
// alpha should have moved.
void SmartAllocator::add_example(double latency) {
  const double better = last_latency_ - latency;
  const double direction = moved_ > 0 ? 1 : -1;
  const TrainingExample example{last_inputs_,
                                static_cast<float>(std::clamp(better, -1.0, 1.0) * direction * residual_max)};
  if (replay_.size() < options_.replay_max) {
    replay_.push_back(example);
  } else {
    replay_[next_example_] = example;
    next_example_ = (next_example_ + 1) % options_.replay_max;
  }
}

// Trains the adapter; the learning rate grows with the latency's deviation from its mean (eq. 7).
void SmartAllocator::learn() {
  if (replay_.empty() || !options_.adapts) return;
  for (std::size_t i = 0; i < examples_per_window; ++i) {
    const TrainingExample& example = replay_[spread(++drawn_) % replay_.size()];
    adapter_.learn(example.inputs, [&](std::span<const float> outputs, std::span<float> slopes) {
      slopes[0] = outputs[0] - example.target;
    });
  }
  adapter_.step(static_cast<float>(options_.rate * std::abs(last_latency_ - trend_.mean())));
}

double SmartAllocator::next_alpha(const SplitView& view) {
  const SplitState& state = view.state;
  const double latency = 2 * state.p99;  // in units of the objective
  if (last_alpha_ >= 0 && moved_ != 0) add_example(latency);
  const bool burst = options_.recovers && trend_.bursts(latency);
  trend_.add(latency);
  last_inputs_ = {static_cast<float>(state.hot_share), static_cast<float>(state.kv_hits),
                  static_cast<float>(state.row_hits), static_cast<float>(state.alpha),
                  static_cast<float>(state.p99)};
  double step = base_.step_of(state);
  if (burst) {
    step = state.hot_share > options_.hot_share ? -step_max : 0;
  } else if (options_.adapts) {
    float residual = 0;
    adapter_.run(last_inputs_, std::span(&residual, 1));
    step += std::clamp<double>(residual, -residual_max, residual_max);
  }
  const double alpha = clip_alpha(state.alpha + step);
  moved_ = alpha - state.alpha;
  last_alpha_ = state.alpha;
  last_latency_ = latency;
  return alpha;
}

}  // namespace troupe::placement
