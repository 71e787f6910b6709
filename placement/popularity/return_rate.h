#pragma once
// Estimates how often a user's block is wanted again while it would still be cached. It keeps only
// which blocks were wanted last, up to a number of tokens. The counted returns are the hits of an
// LRU cache of that size that receives every user's block. A changed profile, a user who does not
// come back, and a memory too small for the users between two visits all count as no return.
//
// Blocks that were wanted again once are counted separately, since they are more likely to be
// wanted once more.
//
// A block that was wanted a moment ago and is cached nowhere is being computed by that request. A
// second request that computed it as well would only fill another node's memory with it.
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>

namespace troupe::placement {

class ReturnRate {
 public:
  explicit ReturnRate(std::size_t keys_max) : keys_max_(keys_max) {}

  // Records that the block is wanted now. Returns how many further uses to expect within `capacity`
  // tokens. Returns 0 for a block larger than `capacity`; such a block is not tracked and displaces
  // nothing.
  double want(const std::string& key, std::uint32_t tokens, std::uint64_t capacity, std::int64_t now_us);
  // Returns how long a block stays that is not wanted again: the age of the oldest tracked block.
  // (In a memory that never fills, this age grows with the process.)
  std::int64_t oldest_us(std::int64_t now_us) const {
    return tracked_.empty() ? 0 : now_us - tracked_.back().at_us;
  }
  // Must be called after every want(). Returns true if the block is cached nowhere but is expected
  // soon: it was missed less than twice as long ago as such blocks take on average.
  bool is_expected(const std::string& key, bool is_there, std::int64_t now_us);
  void mark_cached(const std::string& key, std::int64_t now_us);  // the block is cached from now on
  void mark_abandoned(const std::string& key);                    // no request computes the block any more
  std::size_t keys() const { return tracked_.size(); }

 private:
  struct TrackedBlock {
    std::string key;
    std::uint32_t tokens = 0;
    bool again = false;  // wanted more than once
    std::int64_t at_us = 0;
    std::optional<std::int64_t> missed_us;  // time of the last miss while the block is not cached
  };
  void drop_beyond(std::uint64_t capacity);
  void age();

  std::size_t keys_max_;
  std::list<TrackedBlock> tracked_;                                            // most recently wanted first
  std::unordered_map<std::string, std::list<TrackedBlock>::iterator> by_key_;  // only for lookups
  std::uint64_t tokens_ = 0;
  // Counts of first, second and later wants of a block, halved from time to time.
  double first_ = 0, second_ = 0, later_ = 0;
  double creation_us_ = 0;  // mean time from the first want until the block is cached
};

}  // namespace troupe::placement
