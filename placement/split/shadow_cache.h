#pragma once
// Estimates what an area would have saved with any share of the pool, whatever share it has now. A
// sample of the used keys goes through a stack-distance model of a cache as large as the whole
// pool. Each use that a cache of some size would have hit counts with the time that the hit saves.
// A key's hash decides whether it is sampled, so the sample behaves like a smaller cache of the
// same kind (SHARDS: Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST 2015). A
// decision reads a curve of 101 numbers.
#include <cstddef>
#include <cstdint>

#include "placement/split/recency_stack.h"
#include "placement/split/split_policy.h"

namespace troupe::placement {

struct ShadowOptions {
  std::uint64_t pool = 1;    // size of the whole pool, in the unit of sizes (pages, for example)
  std::uint32_t one_of = 1;  // one key in `one_of` is sampled
  std::size_t samples_max = 4'096;
  double kept = 0.5;  // decay of the sums at each new window
};

class ShadowCache {
 public:
  explicit ShadowCache(const ShadowOptions& options);

  // Records a use; a hit would save `spared_us` microseconds. Keys need not be well mixed.
  void use(std::uint64_t key, std::uint32_t size, double spared_us);
  // Returns saved microseconds by hundredths of the pool, as a decaying mean over the windows.
  Savings savings() const;
  void next_window();

 private:
  ShadowOptions options_;
  RecencyStack stack_;
  Savings found_{};     // by cell: microseconds saved by hits that need exactly that many hundredths
  double windows_ = 1;  // total weight of the windows in the sums
};

}  // namespace troupe::placement
