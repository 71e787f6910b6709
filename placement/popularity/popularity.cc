// Counts how often each user or item was used in a sliding window (BAT's hotness). The window
// consists of buckets of time; the least recently used keys are dropped when there are too many.
#include "placement/popularity/popularity.h"

namespace troupe::placement {

UseCounts::UseCounts(const PopularityConfig& config) {
  const std::uint32_t buckets = std::max<std::uint32_t>(config.buckets, 1);
  ring_ = buckets + std::size_t{1};  // one more, for the bucket that is leaving the window
  bucket_us_ = std::max<std::int64_t>(config.window_us / buckets, 1);
}

std::uint32_t& UseCounts::at(Number key, std::int64_t bucket) {
  return counts_[key * ring_ + static_cast<std::size_t>(bucket) % ring_];
}

std::uint32_t UseCounts::at(Number key, std::int64_t bucket) const {
  return counts_[key * ring_ + static_cast<std::size_t>(bucket) % ring_];
}

UseCounts::Number UseCounts::add(std::int64_t now_us) {
  const auto number = static_cast<Number>(uses_.size());
  uses_.push_back({now_us / bucket_us_});
  counts_.resize(counts_.size() + ring_);
  put_first(number);
  return number;
}

void UseCounts::reuse(Number key, std::int64_t now_us) {
  unlink(key);
  uses_[key] = {now_us / bucket_us_};
  std::fill_n(counts_.begin() + static_cast<std::ptrdiff_t>(key * ring_), ring_, 0);
  put_first(key);
}

void UseCounts::prefetch(Number key) const {
  __builtin_prefetch(&uses_[key]);
  __builtin_prefetch(&counts_[key * ring_]);
  __builtin_prefetch(&counts_[key * ring_ + ring_ - 1]);  // the counts often span two cache lines
}

void UseCounts::count(Number key, std::int64_t now_us) {
  Uses& uses = uses_[key];
  const std::int64_t bucket = std::max(now_us / bucket_us_, uses.bucket);
  const std::int64_t passed = std::min(bucket - uses.bucket, static_cast<std::int64_t>(ring_));
  for (std::int64_t i = 0; i < passed; ++i) at(key, bucket - i) = 0;
  uses.bucket = bucket;
  at(key, bucket) += 1;
  if (passed == 0) return;
  unlink(key);
  put_first(key);
}

double UseCounts::sum(Number key, std::int64_t now_us) const {
  const std::int64_t newest = uses_[key].bucket, buckets = static_cast<std::int64_t>(ring_) - 1;
  // Bucket that is partly outside the window.
  const std::int64_t leaving = std::max(now_us / bucket_us_, newest) - buckets;
  const std::int64_t oldest_kept = std::max<std::int64_t>(newest - buckets, 0);
  double total = 0;
  for (std::int64_t b = std::max(leaving + 1, oldest_kept); b <= newest; ++b) total += at(key, b);
  if (leaving >= oldest_kept && leaving <= newest) {
    const double gone = static_cast<double>(now_us % bucket_us_) / static_cast<double>(bucket_us_);
    total += at(key, leaving) * (1 - gone);
  }
  return total;
}

void UseCounts::unlink(Number key) {
  const auto [bucket, older, newer] = uses_[key];
  (older != none ? uses_[older].newer : oldest_) = newer;
  (newer != none ? uses_[newer].older : newest_) = older;
}

void UseCounts::put_first(Number key) {
  uses_[key].older = newest_;
  uses_[key].newer = none;
  (newest_ != none ? uses_[newest_].newer : oldest_) = key;
  newest_ = key;
}

}  // namespace troupe::placement
