#pragma once
// Estimates how often a user's block is wanted again while it would still be cached. It keeps only
// which blocks were wanted last, up to a number of tokens. The counted returns are the hits of an
// LRU cache of that size that receives every user's block. A changed profile, a user who does not
// come back, and a memory too small for the users between two visits all count as no return.
//
// Blocks that were wanted again once are counted separately, since they are more likely to be
// wanted once more.
//
// The estimate is a life table of the gaps between two wants of a block. A gap passes through spans of
// time, each twice as long as the one before. A span has a probability that a gap which enters it ends in
// it with a return. A block that was wanted a moment ago is no block that did not return: it has entered
// the first spans only. Without this, blocks would seem to return too seldom until the memory has been
// full for a while.
//
// A block that was wanted a moment ago and is cached nowhere is being computed by that request. A
// second request that computed it as well would only fill another node's memory with it.
#include <array>
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
  std::int64_t oldest_us(std::int64_t now_us) const;
  // Must be called after every want(). Returns true if the block is cached nowhere but is expected
  // soon: it was missed less than twice as long ago as such blocks take on average.
  bool is_expected(const std::string& key, bool is_there, std::int64_t now_us);
  void mark_cached(const std::string& key, std::int64_t now_us);  // the block is cached from now on
  void mark_abandoned(const std::string& key);                    // no request computes the block any more
  std::size_t keys() const { return by_key_.size(); }

 private:
  // The first span has 1,024 us, and so has the second; the last one, which begins after 12 days, has no end.
  static constexpr std::size_t spans = 32;
  struct TrackedBlock {
    std::string key;
    std::uint32_t tokens = 0;
    bool again = false;  // wanted more than once
    std::int64_t at_us = 0;
    std::size_t span = 0;                   // of the time since at_us
    std::optional<std::int64_t> missed_us;  // time of the last miss while the block is not cached
  };
  using Blocks = std::list<TrackedBlock>;
  // Counts of one span's gaps, halved from time to time.
  struct SpanCounts {
    double entered = 0, left = 0, returned = 0;  // `left`: with a return, into the next span, or dropped
  };
  using LifeTable = std::array<SpanCounts, spans>;

  static double return_probability(const LifeTable& gaps);
  static std::size_t span_of(std::int64_t gap_us);
  LifeTable& table_of(const TrackedBlock& block) { return block.again ? after_later_ : after_first_; }
  void enter(TrackedBlock& block, std::size_t span);
  void advance(std::int64_t now_us);
  void drop_beyond(std::uint64_t capacity);
  void age();

  std::size_t keys_max_;
  std::array<Blocks, spans> tracked_;  // by span; most recently wanted first in each, and over all spans
  std::unordered_map<std::string, Blocks::iterator> by_key_;  // only for lookups
  std::uint64_t tokens_ = 0;
  LifeTable after_first_, after_later_;  // gaps after a block's first want, and after its later ones
  double wants_ = 0;                     // halved with the tables
  double creation_us_ = 0;               // mean time from the first want until the block is cached
};

}  // namespace troupe::placement
