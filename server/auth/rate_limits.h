#pragma once
// Limits the request rate and the number of unanswered requests per name: a token bucket, and a
// count. Names come from outside, so the number of separate names is bounded. While the table is
// full, new names share one bucket; a name that has been idle long enough makes way. Pure: the time
// is an argument.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <variant>

#include "runtime/actor/messages.h"

namespace troupe::server {

struct RateLimit {
  double rate = 0;            // requests per second; 0 = unlimited
  std::uint32_t at_once = 0;  // unanswered requests; 0 = unlimited
  double burst() const;       // maximum burst: the requests of one second, at least one
};

class RateLimits {
 public:
  explicit RateLimits(std::size_t rows_max = 4096) : rows_max_(rows_max) {}

  // Returns the name to pass to `end` after the answer ("" = not counted), or the refusal 429
  // rate_limited or too_many_at_once with the time to wait.
  std::variant<std::string, Refusal> begin(const std::string& name, const RateLimit& limit,
                                           std::int64_t now_us);
  void end(const std::string& begun);
  std::size_t size() const { return rows_.size(); }

 private:
  struct Row {
    double tokens = 0;
    std::int64_t filled_us = 0;  // time at which `tokens` was current
    double rate = 0, burst = 0;
    std::uint32_t at_once = 0;
    bool is_full(std::int64_t now_us) const;
  };
  const std::string& row_name(const std::string& name, std::int64_t now_us);

  const std::size_t rows_max_;
  std::map<std::string, Row> rows_;
};

}  // namespace troupe::server
