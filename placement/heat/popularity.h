#pragma once
// How often each key was used lately: BAT §5.3's sliding-window frequency f_u. The window is cut into
// buckets; the newest buckets count in full and the one that is sliding out counts by the share that is still
// inside, so that an estimate decays smoothly. At most `keys_max` keys are kept: the one used longest ago,
// to the length of a bucket, makes room for a new one; so a key is moved in the order of use once a bucket.
#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace troupe::placement {

struct PopularityConfig {
  std::int64_t window_us = 300'000'000;
  std::uint32_t buckets = 10;
  std::size_t keys_max = 1'000'000;
};

class Popularity {
 public:
  explicit Popularity(PopularityConfig config);

  void touch(const std::string& key, std::int64_t now_us);
  double frequency(const std::string& key, std::int64_t now_us) const;  // uses in the window; 0 if unknown
  // Of the `among` keys used last the `count` most used ones with their frequencies, most used first, ties by
  // key. A hot key is among the last ones soon again; a walk over a million keys takes half a second.
  std::vector<std::pair<std::string, double>> hottest(std::size_t count, std::size_t among,
                                                      std::int64_t now_us) const;
  std::size_t keys() const { return uses_.size(); }

 private:
  struct Uses {
    std::vector<std::uint32_t> counts;  // ring of buckets + 1: bucket number b lies at b mod (buckets + 1)
    std::int64_t newest = 0;            // bucket number of the last use
    std::list<std::string>::iterator recency;
  };
  double sum(const Uses& uses, std::int64_t now_us) const;
  std::size_t slot(std::int64_t bucket) const;

  PopularityConfig config_;
  std::int64_t bucket_us_;
  std::unordered_map<std::string, Uses> uses_;  // looked up only; walks go over recency_
  std::list<std::string> recency_;              // last used first
};

}  // namespace troupe::placement
