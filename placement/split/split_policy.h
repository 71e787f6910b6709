#pragma once
// How a node's one pool is split between its areas, decided anew every few seconds. A policy sees what one
// window of serving came to and changes the areas' shares of the pool; it is pure, seeded where it draws, and
// takes no memory when it decides. HLEM (§IV-A) knows two sides, embedding rows and keys and values, and one
// number: alpha, the rows' share. Its policies and its baselines are AlphaPolicies; where there are more
// areas, those beside the rows keep their proportions. `marginal` (marginal.h) splits between any number of
// areas by what each would save.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::placement {

// Shares are decided in hundredths of the pool, as HLEM's alpha* is searched.
inline constexpr std::size_t split_cells = 100;
// Of one area: microseconds that a window's requests would have been spared if it had so many hundredths of
// the pool. Never falls.
using Savings = std::array<double, split_cells + 1>;

// HLEM, Table I. Each 0..1.
struct SplitState {
  double hot_share = 0;              // of the requests, those of hot users
  double kv_hits = 0, row_hits = 0;  // rates of the window
  double length = 0;                 // mean events of a history, of the most there may be
  double violations = 0;             // share of requests beyond the latency objective
  double alpha = 0;                  // the rows' share in the window
  double p99 = 0;                    // of the latency, over twice the objective; 1: that or more
};
inline constexpr std::size_t state_values = 7;
std::array<double, state_values> values_of(const SplitState& state);

struct SplitView {
  SplitState state;
  std::span<const Savings> savings;  // of each area; empty: nobody keeps shadow caches
};

// What a window is worth to a policy that learns: the share within the objective, less the P99 in units of
// it. HLEM's (eq. 5) counts the P99 only where it is above the objective, and so says nothing of alpha where
// all is well.
double split_reward(double violations, double p99_over_objective);

class SplitPolicy {
 public:
  virtual ~SplitPolicy() = default;
  // `shares` of the areas, together 1, the rows' first: as they are, and then as they are to be.
  virtual void decide(const SplitView& view, std::span<double> shares) = 0;
  virtual void learn() {}  // from the windows so far, once a decision has gone out
};

// Bounds of alpha in which neither side starves (§IV-A, eq. 6).
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
