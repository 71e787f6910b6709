// Estimates how much time a cache of each possible size would have saved, from a sample of the keys
// that were used. Policies compare these curves to split the pool.
#include "placement/split/shadow_cache.h"

#include <algorithm>

#include "kernels/base/check.h"
#include "kernels/base/hash.h"

namespace troupe::placement {

ShadowCache::ShadowCache(const ShadowOptions& options) : options_(options), stack_(options.samples_max) {
  TROUPE_CHECK(options.pool > 0 && options.one_of > 0, "the pool and the sampling rate are not 0");
}

void ShadowCache::use(std::uint64_t key, std::uint32_t size, double spared_us) {
  if (spread(key) % options_.one_of != 0) return;
  const auto distance = stack_.use(key, size);
  stack_.trim(options_.pool / options_.one_of + size);
  if (!distance) return;
  const std::uint64_t needed = *distance * options_.one_of;  // scales the sample's distance to all keys
  const std::uint64_t cell = (needed * split_cells + options_.pool - 1) / options_.pool;
  if (cell <= split_cells) found_[cell] += spared_us * options_.one_of;
}

Savings ShadowCache::savings() const {
  Savings savings;
  double sum = 0;
  for (std::size_t cell = 0; cell <= split_cells; ++cell) savings[cell] = (sum += found_[cell]) / windows_;
  return savings;
}

void ShadowCache::next_window() {
  for (double& us : found_) us *= options_.kept;
  windows_ = 1 + options_.kept * windows_;
}

}  // namespace troupe::placement
