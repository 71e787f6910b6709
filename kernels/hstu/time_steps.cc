// Puts the time between a row and each key into exact buckets, listed as steps: where along the
// keys the bucket changes. HSTU's attention bias reads them.
#include "kernels/hstu/time_steps.h"

#include <algorithm>
#include <cmath>

namespace troupe::kernels {

// e^(k * divisor) for a divisor that is a decimal fraction; the last factor corrects the rounding
// of the exponent.
TimeBuckets::TimeBuckets(double divisor, std::uint32_t last) {
  constexpr long double places = 1e9L;
  const long double scaled = std::round(static_cast<long double>(divisor) * places);
  for (std::uint32_t k = 1; k <= last; ++k) {
    const long double exact = scaled * k, high = exact / places,
                      low = std::fma(-high, places, exact) / places;
    const long double power = std::exp(high);
    boundaries_.push_back(static_cast<std::uint64_t>(std::ceil(power + power * low)));
  }
}

std::uint32_t TimeBuckets::bucket(std::uint64_t seconds) const {
  const auto above =
      std::upper_bound(boundaries_.begin(), boundaries_.end(), std::max<std::uint64_t>(seconds, 1));
  return static_cast<std::uint32_t>(above - boundaries_.begin());
}

void append_steps(const TimeBuckets& buckets, std::int64_t row, std::span<const std::int64_t> keys,
                  bool ascending, std::vector<BucketStep>& steps) {
  const auto bucket_at = [&](std::size_t key) { return buckets.bucket(seconds_between(row, keys[key])); };
  const std::size_t first_step = steps.size();
  const auto step_to = [&](std::size_t key, std::uint32_t bucket) {
    if (steps.size() == first_step || steps.back().bucket != bucket)
      steps.push_back({static_cast<std::uint32_t>(key), bucket});
  };
  std::size_t key = 0;
  // Keys before the row's time come nearer one after another, so a bucket ends where the next lower
  // one begins.
  while (ascending && key < keys.size() && keys[key] <= row) {
    const std::uint32_t bucket = bucket_at(key);
    step_to(key, bucket);
    const std::uint64_t least = buckets.first_of(bucket);
    const auto beyond = [&](std::int64_t time) { return time <= row && seconds_between(row, time) >= least; };
    std::size_t stride = 1, from = key;
    while (from + stride < keys.size() && beyond(keys[from + stride])) from += stride, stride *= 2;
    const std::size_t to = std::min(keys.size(), from + stride);
    key = static_cast<std::size_t>(std::partition_point(keys.begin() + from, keys.begin() + to, beyond) -
                                   keys.begin());
  }
  for (; key < keys.size(); ++key) step_to(key, bucket_at(key));
}

}  // namespace troupe::kernels
