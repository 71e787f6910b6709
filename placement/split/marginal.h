#pragma once
// Splits the pool so that pages go where they save most; this policy is ours. Shadow caches
// (shadow_cache.h) estimate, in microseconds of the cost model, what each area would have saved
// with each share of the pool. The split with the largest sum is found by exhaustive search. There
// is nothing to train. It works for any number of areas and for curves of any shape: a curve that
// rises late (a working set that fits or does not) is not missed in favour of one that rises a
// little at once.
#include <span>

#include "placement/split/split_policy.h"

namespace troupe::placement {

struct MarginalOptions {
  double least = 0.0;  // minimum share of the pool of each area
  // Minimum relative gain for a new split, since moved pages must be filled again.
  double better = 0.0;
};

// Divides all hundredths of the pool among the areas so that savings are largest; on a tie the
// first area gets most. Needs at least one area, and enough hundredths for each area's minimum
// `least`.
void best_cells(std::span<const Savings> savings, std::size_t least, std::span<std::size_t> cells);

class MarginalSplit final : public SplitPolicy {
 public:
  explicit MarginalSplit(const MarginalOptions& options = {}) : options_(options) {}
  void decide(const SplitView& view, std::span<double> shares) override;

 private:
  MarginalOptions options_;
};

}  // namespace troupe::placement
