// Estimates how often a user's block will be wanted again before it would be evicted, which decides
// whether caching it pays. It also tells whether a missing block is probably being computed by
// another request already.
#include "placement/popularity/return_rate.h"

#include <utility>

namespace troupe::placement {
namespace {

constexpr double returns_per_halving = 1'000;  // wants of all kinds until their counts are halved
// A block missing for longer than this many times the mean time from miss to cached is taken to be
// computed by nobody.
constexpr double overdue_factor = 2;
constexpr double share_of_new = 0.1;  // weight of a new observation in that mean

}  // namespace

// A block is wanted for the first time, maybe a second time, and maybe more often. So a first want
// is followed by (second + later) / first others on average, and a second or later one by later /
// second. The added 1 avoids a division by 0.
double ReturnRate::want(const std::string& key, std::uint32_t tokens, std::uint64_t capacity,
                        std::int64_t now_us) {
  if (tokens > capacity) return 0;
  drop_beyond(capacity);
  const auto known = by_key_.find(key);
  const bool again = known != by_key_.end();
  if (again) {
    ++(known->second->again ? later_ : second_);
    known->second->again = true;
    known->second->at_us = now_us;
    tracked_.splice(tracked_.begin(), tracked_, known->second);
  } else {
    ++first_;
    tracked_.push_front({.key = key, .tokens = tokens, .at_us = now_us});
    by_key_[key] = tracked_.begin();
    tokens_ += tokens;
    drop_beyond(capacity);
  }
  age();
  return again ? later_ / (second_ + 1) : (second_ + later_) / (first_ + 1);
}

bool ReturnRate::is_expected(const std::string& key, bool is_there, std::int64_t now_us) {
  const auto known = by_key_.find(key);
  if (known == by_key_.end()) return false;
  std::optional<std::int64_t>& missed = known->second->missed_us;
  if (is_there) {
    missed.reset();
  } else if (missed && static_cast<double>(now_us - *missed) < overdue_factor * creation_us_) {
    return true;
  } else {
    missed = now_us;
  }
  return false;
}

void ReturnRate::mark_cached(const std::string& key, std::int64_t now_us) {
  const auto known = by_key_.find(key);
  if (known == by_key_.end() || !known->second->missed_us) return;
  const auto took_us = static_cast<double>(now_us - *std::exchange(known->second->missed_us, {}));
  creation_us_ += creation_us_ > 0 ? (took_us - creation_us_) * share_of_new : took_us;
}

void ReturnRate::mark_abandoned(const std::string& key) {
  const auto known = by_key_.find(key);
  if (known != by_key_.end()) known->second->missed_us.reset();
}

void ReturnRate::drop_beyond(std::uint64_t capacity) {
  while (!tracked_.empty() && (tokens_ > capacity || tracked_.size() > keys_max_)) {
    tokens_ -= tracked_.back().tokens;
    by_key_.erase(tracked_.back().key);
    tracked_.pop_back();
  }
}

void ReturnRate::age() {
  if (first_ + second_ + later_ < returns_per_halving) return;
  for (double* count : {&first_, &second_, &later_}) *count /= 2;
}

}  // namespace troupe::placement
