#pragma once
// Computes the bucket of the time between a row and each key, as steps (silu_attend.h): once for a
// group of rows, for all layers and heads. Buckets are exact: a bucket's first second is an
// integer, found without a logarithm.
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/operations/silu_attend.h"

namespace troupe::kernels {

class TimeBuckets {
 public:
  // Bucket k begins at the smallest whole number of seconds that is at least e^(k * divisor).
  TimeBuckets(double divisor, std::uint32_t last);

  // Returns the number of boundaries at or below max(seconds, 1).
  std::uint32_t bucket(std::uint64_t seconds) const;
  // Returns the smallest number of seconds of a bucket that is not empty.
  std::uint64_t first_of(std::uint32_t bucket) const { return bucket == 0 ? 0 : boundaries_[bucket - 1]; }
  const std::vector<std::uint64_t>& boundaries() const { return boundaries_; }

 private:
  std::vector<std::uint64_t> boundaries_;  // ascending; the first of bucket k at k - 1
};

// Returns the distance of two times, without overflow.
inline std::uint64_t seconds_between(std::int64_t a, std::int64_t b) {
  return a >= b ? static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b)
                : static_cast<std::uint64_t>(b) - static_cast<std::uint64_t>(a);
}

// Appends the steps of a row with this time over `keys`, at least one if there are keys. Fast where
// key times do not decrease, correct for any.
void append_steps(const TimeBuckets& buckets, std::int64_t row, std::span<const std::int64_t> keys,
                  bool ascending, std::vector<BucketStep>& steps);

}  // namespace troupe::kernels
