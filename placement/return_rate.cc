#include "placement/return_rate.h"

namespace troupe::placement {
namespace {

constexpr double wants_until_halved = 1'000;

}  // namespace

// A first want is followed by (second + later) / first others in the mean, a second or later one by later /
// second: each block's wants are a first one, maybe a second one, and later ones.
double ReturnRate::want(const std::string& key, std::uint32_t tokens, std::uint64_t capacity,
                        std::int64_t now_us) {
  drop_beyond(capacity);
  const auto known = by_key_.find(key);
  const bool again = known != by_key_.end();
  if (again) {
    ++(known->second->again ? later_ : second_);
    known->second->again = true;
    known->second->at_us = now_us;
    wanted_.splice(wanted_.begin(), wanted_, known->second);
  } else {
    ++first_;
    wanted_.push_front({key, tokens, false, now_us});
    by_key_[key] = wanted_.begin();
    tokens_ += tokens;
    drop_beyond(capacity);
  }
  age();
  return again ? later_ / (second_ + 1) : (second_ + later_) / (first_ + 1);
}

void ReturnRate::drop_beyond(std::uint64_t capacity) {
  while (!wanted_.empty() && (tokens_ > capacity || wanted_.size() > keys_max_)) {
    tokens_ -= wanted_.back().tokens;
    by_key_.erase(wanted_.back().key);
    wanted_.pop_back();
  }
}

void ReturnRate::age() {
  if (first_ + second_ + later_ < wants_until_halved) return;
  for (double* count : {&first_, &second_, &later_}) *count /= 2;
}

}  // namespace troupe::placement
