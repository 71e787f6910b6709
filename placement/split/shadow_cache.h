#pragma once
// What an area would have saved with any share of the pool, learned while it has the share that it has: keys
// of a sample of all uses are kept as a cache with the whole pool would keep them, and each use that such a
// cache of some size finds again is counted with what finding it spares. Which keys are in the sample is by
// their hash alone, so that the sample is a small cache of its own kind (SHARDS: Waldspurger et al.,
// "Efficient MRC Construction with SHARDS", FAST 2015). A decision reads a curve of a hundred and one
// numbers.
#include <cstddef>
#include <cstdint>

#include "placement/split/recency_stack.h"
#include "placement/split/split_policy.h"

namespace troupe::placement {

struct ShadowOptions {
  std::uint64_t pool = 1;    // the whole pool, in units of sizes (pages, say)
  std::uint32_t one_of = 1;  // of so many keys one is in the sample
  std::size_t samples_max = 4'096;
  double kept = 0.5;  // of what was counted, at each new window
};

class ShadowCache {
 public:
  explicit ShadowCache(const ShadowOptions& options);

  // Used now; finding it would spare so many microseconds. Keys need not be well mixed.
  void use(std::uint64_t key, std::uint32_t size, double spared_us);
  // Microseconds by hundredths of the pool, over the windows so far, the earlier the less.
  Savings savings() const;
  void next_window();

 private:
  ShadowOptions options_;
  RecencyStack stack_;
  Savings found_{};     // microseconds that need at least so many hundredths
  double windows_ = 1;  // how many the sums stand for
};

}  // namespace troupe::placement
