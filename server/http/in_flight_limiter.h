#pragma once
// Counts the requests over HTTP/2 that the actors have: in total, and of each client's address. Over
// HTTP/1.1 the connections are their bound, since each has one; the bounds are therefore the same. A
// request whose client has gone still counts until the actors have answered it. Pure.
#include <cstdint>
#include <map>

#include "server/http/connection_limiter.h"

namespace troupe::server {

class InFlightLimiter {
 public:
  InFlightLimiter(std::uint32_t max, std::uint32_t per_address_max)
      : max_(max), per_address_max_(per_address_max) {}

  // Returns false if there is no capacity; otherwise leave() must follow.
  bool enter(Origin from) {
    if (count_ >= max_) return false;
    std::uint32_t& of_address = addresses_[from];
    if (of_address >= per_address_max_) return false;
    ++of_address, ++count_;
    return true;
  }
  void leave(Origin from) {
    const auto found = addresses_.find(from);
    if (found == addresses_.end()) return;
    --count_;
    if (--found->second == 0) addresses_.erase(found);
  }
  std::uint32_t count() const { return count_; }

 private:
  const std::uint32_t max_, per_address_max_;
  std::uint32_t count_ = 0;
  std::map<Origin, std::uint32_t> addresses_;  // those that have some
};

}  // namespace troupe::server
