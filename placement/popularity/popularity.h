#pragma once
// Estimates how often each key was used recently: BAT §5.3's sliding-window frequency f_u. The
// window is cut into buckets. The newest buckets count in full; the one that is leaving counts by
// the share still inside, so that an estimate decays smoothly. At most `keys_max` keys are kept: a
// new key replaces the least recently used one, to the precision of a bucket. A key therefore moves
// in the LRU order once per bucket.
//
// A request uses a hundred of a hundred thousand keys, and none of them is in a fast cache. So a
// key is one entry of a flat table and one line of counts, and the lines of many keys are
// prefetched together.
#include <boost/unordered/unordered_flat_map.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace troupe::placement {

struct PopularityConfig {
  std::int64_t window_us = 300'000'000;
  std::uint32_t buckets = 10;
  std::size_t keys_max = 1'000'000;
};

// Counts uses of numbered keys and keeps their LRU order; independent of the key type.
class UseCounts {
 public:
  using Number = std::uint32_t;
  static constexpr Number none = ~Number{0};

  explicit UseCounts(const PopularityConfig& config);

  Number add(std::int64_t now_us);  // adds a key without uses, as if last used now; returns its number
  void reuse(Number key, std::int64_t now_us);  // reassigns a forgotten key's number, likewise
  void count(Number key, std::int64_t now_us);
  void prefetch(Number key) const;
  double sum(Number key, std::int64_t now_us) const;  // uses in the window
  std::size_t size() const { return uses_.size(); }
  // Most recently used key, to the precision of a bucket; `none` if there are none.
  Number newest() const { return newest_; }
  Number oldest() const { return oldest_; }
  Number before(Number key) const { return uses_[key].older; }

 private:
  struct Uses {
    std::int64_t bucket = 0;  // bucket of the last use
    Number older = none, newer = none;
  };
  std::uint32_t& at(Number key, std::int64_t bucket);
  std::uint32_t at(Number key, std::int64_t bucket) const;
  void unlink(Number key);
  void put_first(Number key);

  std::size_t ring_;  // counts per key: bucket b is stored at b mod ring_
  std::int64_t bucket_us_;
  std::vector<Uses> uses_;
  std::vector<std::uint32_t> counts_;  // [keys, ring_]
  Number newest_ = none, oldest_ = none;
};

template <class Key, class Hash = std::hash<Key>>
class Popularity {
 public:
  explicit Popularity(const PopularityConfig& config)
      : keys_max_(std::clamp<std::size_t>(config.keys_max, 1, UseCounts::none)), uses_(config) {}

  void touch(const Key& key, std::int64_t now_us) {
    const auto found = numbers_.find(key);
    uses_.count(found == numbers_.end() ? add(key, now_us) : found->second, now_us);
  }
  // Touches each key of a range once; known keys first.
  template <class Keys>
  void touch_all(Keys&& keys, std::int64_t now_us) {
    found_.clear();
    for (const Key& key : keys) {
      const auto found = numbers_.find(key);
      found_.push_back(found == numbers_.end() ? UseCounts::none : found->second);
      if (found != numbers_.end()) uses_.prefetch(found->second);
    }
    for (const UseCounts::Number number : found_)
      if (number != UseCounts::none) uses_.count(number, now_us);
    auto number = found_.begin();
    for (const Key& key : keys)
      if (*number++ == UseCounts::none) touch(key, now_us);
  }
  double frequency(const Key& key, std::int64_t now_us) const {  // uses in the window; 0 if unknown
    const auto found = numbers_.find(key);
    return found == numbers_.end() ? 0 : uses_.sum(found->second, now_us);
  }
  // Returns the `count` most used of the `among` most recently used keys with their frequencies,
  // most used first, ties by key. The search is limited because a walk over a million keys takes
  // half a second, and a hot key is soon among the most recent ones again.
  std::vector<std::pair<Key, double>> hottest(std::size_t count, std::size_t among,
                                              std::int64_t now_us) const {
    std::vector<std::pair<Key, double>> all;
    for (auto number = uses_.newest(); number != UseCounts::none && all.size() < among;
         number = uses_.before(number))
      all.emplace_back(keys_[number], uses_.sum(number, now_us));
    const auto hotter = [](const auto& a, const auto& b) {
      return a.second != b.second ? a.second > b.second : a.first < b.first;
    };
    const auto kept = all.begin() + static_cast<std::ptrdiff_t>(std::min(count, all.size()));
    std::partial_sort(all.begin(), kept, all.end(), hotter);
    all.erase(kept, all.end());
    return all;
  }
  std::size_t keys() const { return numbers_.size(); }

 private:
  UseCounts::Number add(const Key& key, std::int64_t now_us) {
    UseCounts::Number number = 0;
    if (numbers_.size() == keys_max_) {
      number = uses_.oldest();
      numbers_.erase(keys_[number]);
      uses_.reuse(number, now_us);
      keys_[number] = key;
    } else {
      number = uses_.add(now_us);
      keys_.push_back(key);
    }
    numbers_.emplace(key, number);
    return number;
  }

  std::size_t keys_max_;
  UseCounts uses_;
  boost::unordered_flat_map<Key, UseCounts::Number, Hash> numbers_;  // only for lookups
  std::vector<Key> keys_;                                            // by number
  std::vector<UseCounts::Number> found_;                             // scratch of touch_all
};

}  // namespace troupe::placement
