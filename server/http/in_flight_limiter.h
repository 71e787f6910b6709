#pragma once
// Counts the requests over HTTP/2 that the actors have: in total, and of each client's address. Over
// HTTP/1.1 the connections are their bound, since each has one; the bounds are therefore the same. A
// request whose client has gone still counts until the actors have answered it. While an eighth
// of an address's requests are such, it gets no further ones: to open and reset requests is cheap. Pure.
#include <algorithm>
#include <cstdint>
#include <map>

#include "server/http/connection_limiter.h"

namespace troupe::server {

class InFlightLimiter {
 public:
  InFlightLimiter(std::uint32_t max, std::uint32_t per_address_max)
      : max_(max), per_address_max_(per_address_max), abandoned_max_(std::max(per_address_max / 8, 1U)) {}

  // Returns false if there is no capacity; otherwise leave() must follow.
  bool enter(Origin from) {
    if (count_ >= max_) return false;
    OfAddress& of_address = addresses_[from];
    if (of_address.count >= per_address_max_ || of_address.abandoned >= abandoned_max_) return false;
    ++of_address.count, ++count_;
    return true;
  }
  // The client of one of them has gone.
  void abandon(Origin from) {
    const auto found = addresses_.find(from);
    if (found != addresses_.end()) ++found->second.abandoned;
  }
  void leave(Origin from, bool abandoned = false) {
    const auto found = addresses_.find(from);
    if (found == addresses_.end()) return;
    --count_;
    if (abandoned) --found->second.abandoned;
    if (--found->second.count == 0) addresses_.erase(found);
  }
  std::uint32_t count() const { return count_; }

 private:
  struct OfAddress {
    std::uint32_t count = 0, abandoned = 0;
  };

  const std::uint32_t max_, per_address_max_, abandoned_max_;
  std::uint32_t count_ = 0;
  std::map<Origin, OfAddress> addresses_;  // those that have some
};

}  // namespace troupe::server
