#pragma once
// Decides every few seconds how a node's one pool is split between its areas. A policy reads the
// summary of one window of serving and changes the areas' shares of the pool. It is pure, seeded if
// it draws random numbers, and allocates no memory when it decides.
//
// HLEM (§IV-A) has two sides, embedding rows and keys and values, and one number: alpha, the rows'
// share. Its policies and baselines are AlphaPolicies; with more areas, those other than the rows
// keep their proportions. `marginal` (marginal.h) splits between any number of areas by what each
// would save.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::placement {

// Shares are decided in hundredths of the pool, as HLEM searches its alpha*.
inline constexpr std::size_t split_cells = 100;
// Microseconds that the requests of a window would have saved, by hundredths of the pool that the
// area has. Never decreases.
using Savings = std::array<double, split_cells + 1>;

// HLEM, Table I; each value is in 0..1.
struct SplitState {
  double hot_share = 0;              // share of requests by hot users
  double kv_hits = 0, row_hits = 0;  // hit rates of the window
  double length = 0;                 // mean events of a history over the maximum
  double violations = 0;             // share of requests slower than the latency objective
  double alpha = 0;                  // the rows' share in the window
  double p99 = 0;                    // latency P99 over twice the objective; 1 = that or more
};
inline constexpr std::size_t state_values = 7;
std::array<double, state_values> values_of(const SplitState& state);

struct SplitView {
  SplitState state;
  std::span<const Savings> savings;  // by area; empty: no shadow caches
};

// Returns the reward of a window for a policy that learns: the share of requests within the
// objective, minus the P99 in units of the objective. HLEM's reward (eq. 5) counts the P99 only
// above the objective, so it gives no signal for alpha when all requests are fast.
double split_reward(double violations, double p99_over_objective);

class SplitPolicy {
 public:
  virtual ~SplitPolicy() = default;
  // Updates `shares` in place: the areas' shares of the pool, rows first, with sum 1.
  virtual void decide(const SplitView& view, std::span<double> shares) = 0;
  virtual void learn() {}  // learns from the windows so far; called after a decision was sent
};

// Bounds of alpha within which neither side starves (§IV-A, eq. 6).
inline constexpr double alpha_min = 0.1, alpha_max = 0.9;
double clip_alpha(double alpha);

class AlphaPolicy : public SplitPolicy {
 public:
  void decide(const SplitView& view, std::span<double> shares) final;
  virtual double next_alpha(const SplitView& view) = 0;
};

class StaticSplit final : public AlphaPolicy {
 public:
  explicit StaticSplit(double alpha) : alpha_(alpha) {}
  double next_alpha(const SplitView&) override { return alpha_; }

 private:
  double alpha_;
};

}  // namespace troupe::placement
