#include "placement/heat/popularity.h"

#include <algorithm>

namespace troupe::placement {

Popularity::Popularity(PopularityConfig config) : config_(config) {
  config_.buckets = std::max<std::uint32_t>(config_.buckets, 1);
  config_.keys_max = std::max<std::size_t>(config_.keys_max, 1);
  bucket_us_ = std::max<std::int64_t>(config_.window_us / config_.buckets, 1);
}

std::size_t Popularity::slot(std::int64_t bucket) const {
  return static_cast<std::size_t>(bucket % (config_.buckets + 1));
}

void Popularity::touch(const std::string& key, std::int64_t now_us) {
  auto found = uses_.find(key);
  if (found == uses_.end()) {
    if (uses_.size() == config_.keys_max) {
      uses_.erase(recency_.back());
      recency_.pop_back();
    }
    recency_.push_front(key);
    Uses fresh{std::vector<std::uint32_t>(config_.buckets + 1), now_us / bucket_us_, recency_.begin()};
    found = uses_.emplace(key, std::move(fresh)).first;
  }
  Uses& uses = found->second;
  const std::int64_t bucket = std::max(now_us / bucket_us_, uses.newest);
  const std::int64_t passed = std::min<std::int64_t>(bucket - uses.newest, config_.buckets + 1);
  for (std::int64_t i = 0; i < passed; ++i) uses.counts[slot(bucket - i)] = 0;
  uses.newest = bucket;
  uses.counts[slot(bucket)] += 1;
  if (passed > 0) recency_.splice(recency_.begin(), recency_, uses.recency);
}

double Popularity::sum(const Uses& uses, std::int64_t now_us) const {
  const std::int64_t bucket = std::max(now_us / bucket_us_, uses.newest);
  const std::int64_t leaving = bucket - config_.buckets;  // the bucket that is partly out of the window
  const std::int64_t oldest_kept = std::max<std::int64_t>(uses.newest - config_.buckets, 0);
  double total = 0;
  for (std::int64_t b = std::max(leaving + 1, oldest_kept); b <= uses.newest; ++b)
    total += uses.counts[slot(b)];
  if (leaving >= oldest_kept && leaving <= uses.newest) {
    const double gone = static_cast<double>(now_us % bucket_us_) / static_cast<double>(bucket_us_);
    total += uses.counts[slot(leaving)] * (1 - gone);
  }
  return total;
}

double Popularity::frequency(const std::string& key, std::int64_t now_us) const {
  const auto found = uses_.find(key);
  return found == uses_.end() ? 0 : sum(found->second, now_us);
}

std::vector<std::pair<std::string, double>> Popularity::hottest(std::size_t count, std::size_t among,
                                                                std::int64_t now_us) const {
  std::vector<std::pair<std::string, double>> all;
  for (const std::string& key : recency_) {
    if (all.size() == among) break;
    all.emplace_back(key, sum(uses_.at(key), now_us));
  }
  const auto hotter = [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  };
  const auto kept = all.begin() + static_cast<std::ptrdiff_t>(std::min(count, all.size()));
  std::partial_sort(all.begin(), kept, all.end(), hotter);
  all.erase(kept, all.end());
  return all;
}

}  // namespace troupe::placement
