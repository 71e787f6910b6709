#pragma once
// How often a user's block is wanted again while it would still be there. Kept is only which blocks were
// wanted last, as far as their tokens fit into a memory of some size: the hits that a cache of that size,
// kept by last use, would have if every user's block went there. So a profile that changes, a user who does
// not come back and a memory that is too small for the users between two visits all count for what they are:
// no return.
//
// Blocks that were wanted again once are counted apart: who came back is likelier to come back.
//
// A block that was wanted a moment ago and is nowhere yet is being made by that request: a second one that
// made it, too, would only fill another node's memory with it.
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

  // The block is wanted now. Answers how many further uses to expect of it within `capacity` tokens: none of
  // one that is larger; it is not followed, and nothing has to go for it.
  double want(const std::string& key, std::uint32_t tokens, std::uint64_t capacity, std::int64_t now_us);
  // For how long a block that is not wanted again stays: the age of the oldest one that is there. (In a
  // memory that never fills that one grows old with the process.)
  std::int64_t oldest_us(std::int64_t now_us) const {
    return wanted_.empty() ? 0 : now_us - wanted_.back().at_us;
  }
  // To be called for every want, after it. True if the block is nowhere but is to be expected soon, for it
  // was missed less than twice as long ago as such blocks take to come.
  bool comes(const std::string& key, bool is_there, std::int64_t now_us);
  void came(const std::string& key, std::int64_t now_us);  // it is there from now on
  void given_up(const std::string& key);                   // nobody is making it any more
  std::size_t keys() const { return wanted_.size(); }

 private:
  struct Wanted {
    std::string key;
    std::uint32_t tokens = 0;
    bool again = false;  // not for the first time
    std::int64_t at_us = 0;
    std::optional<std::int64_t> missed_us;  // wanted then, nowhere, and not there yet
  };
  void drop_beyond(std::uint64_t capacity);
  void age();

  std::size_t keys_max_;
  std::list<Wanted> wanted_;                                             // last first
  std::unordered_map<std::string, std::list<Wanted>::iterator> by_key_;  // looked up only
  std::uint64_t tokens_ = 0;
  double first_ = 0, second_ = 0, later_ = 0;  // wants of a block by how often it was wanted, halved at times
  double coming_us_ = 0;                       // from the first want until it is there, in the mean
};

}  // namespace troupe::placement
