#pragma once
// Ours: pages go where they save most. Shadow caches (shadow_cache.h) say what each area would have saved
// with each share of the pool, in microseconds by the cost model; the split with the largest sum is searched
// exhaustively. There is nothing to train, and no side to choose for. It holds for any number of areas, and
// for curves of any shape: one that rises late (a working set that fits or does not) is not passed over for
// one that rises a little at once.
#include <span>

#include "placement/split/split_policy.h"

namespace troupe::placement {

struct MarginalOptions {
  double least = 0.0;  // of the pool, that each area keeps
  // Another split is taken only if it saves so much more, as a share: what moves has to be filled again.
  double better = 0.0;
};

// Hundredths of the pool for each area, together all of them: those that save most, and on a tie the most for
// the first. One area at least, at most as many as there are hundredths to keep.
void best_cells(std::span<const Savings> savings, std::size_t least, std::span<std::size_t> cells);

class MarginalSplit final : public SplitPolicy {
 public:
  explicit MarginalSplit(const MarginalOptions& options = {}) : options_(options) {}
  void decide(const SplitView& view, std::span<double> shares) override;

 private:
  MarginalOptions options_;
};

}  // namespace troupe::placement
