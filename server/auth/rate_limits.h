#pragma once
// How often and how many at once somebody may ask: a bucket of tokens that fills at a rate, and a count of
// what has no answer yet. Names may come from outside, so how many are told apart is bounded: who has asked
// nothing for a while, or nothing yet, shares a bucket while there is no room. Pure: the time is an argument.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <variant>

#include "runtime/actor/messages.h"

namespace troupe::server {

struct RateLimit {
  double rate = 0;            // requests a second; 0: any
  std::uint32_t at_once = 0;  // 0: any
  double burst() const;       // so many at once after a pause: those of a second, one at least
};

class RateLimits {
 public:
  explicit RateLimits(std::size_t rows_max = 4096) : rows_max_(rows_max) {}

  // What `end` is told when it is answered, "" of what is not counted; or 429 rate_limited or
  // too_many_at_once, with how long to wait.
  std::variant<std::string, Refusal> begin(const std::string& name, const RateLimit& limit,
                                           std::int64_t now_us);
  void end(const std::string& begun);
  std::size_t size() const { return rows_.size(); }

 private:
  struct Row {
    double tokens = 0;
    std::int64_t filled_us = 0;  // at that time
    double rate = 0, burst = 0;
    std::uint32_t at_once = 0;
    bool is_full(std::int64_t now_us) const;
  };
  const std::string& row_name(const std::string& name, std::int64_t now_us);

  const std::size_t rows_max_;
  std::map<std::string, Row> rows_;
};

}  // namespace troupe::server
