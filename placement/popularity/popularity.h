#pragma once
// How often each key was used lately: BAT §5.3's sliding-window frequency f_u. The window is cut into
// buckets; the newest buckets count in full and the one that is sliding out counts by the share that is still
// inside, so that an estimate decays smoothly. At most `keys_max` keys are kept: the one used longest ago,
// to the length of a bucket, makes room for a new one; so a key is moved in the order of use once a bucket.
//
// A request uses a hundred keys of a hundred thousand, none of which is in a fast cache: a key is one entry
// of a flat table and one line of counts, and those of many keys are fetched beside each other.
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

// The uses of numbered keys, and their order: what does not depend on what a key is.
class UseCounts {
 public:
  using Number = std::uint32_t;
  static constexpr Number none = ~Number{0};

  explicit UseCounts(const PopularityConfig& config);

  Number add(std::int64_t now_us);              // a key with no uses, the next number, as if last used now
  void reuse(Number key, std::int64_t now_us);  // the same, of a number whose key is forgotten
  void count(Number key, std::int64_t now_us);
  void prefetch(Number key) const;
  double sum(Number key, std::int64_t now_us) const;  // in the window
  std::size_t size() const { return uses_.size(); }
  Number newest() const { return newest_; }  // used last, to the length of a bucket; `none` if there are none
  Number oldest() const { return oldest_; }
  Number before(Number key) const { return uses_[key].older; }

 private:
  struct Uses {
    std::int64_t bucket = 0;  // number of that of the last use
    Number older = none, newer = none;
  };
  std::uint32_t& at(Number key, std::int64_t bucket);
  std::uint32_t at(Number key, std::int64_t bucket) const;
  void unlink(Number key);
  void put_first(Number key);

  std::size_t ring_;  // counts of a key: bucket number b lies at b mod ring
  std::int64_t bucket_us_;
  std::vector<Uses> uses_;
  std::vector<std::uint32_t> counts_;  // ring after ring
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
  // Each of a range of keys once: those that are known first.
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
  // Of the `among` keys used last the `count` most used ones with their frequencies, most used first, ties by
  // key. A hot key is among the last ones soon again; a walk over a million keys takes half a second.
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
  boost::unordered_flat_map<Key, UseCounts::Number, Hash> numbers_;  // looked up only
  std::vector<Key> keys_;                                            // by number
  std::vector<UseCounts::Number> found_;                             // in `touch_all`
};

}  // namespace troupe::placement
