// Limits per name how many requests come per second and how many are unanswered at a time. The
// memory for names is bounded.
#include "server/auth/rate_limits.h"

#include <algorithm>
#include <cmath>

namespace troupe::server {
namespace {

const std::string other_names = "(others)";
constexpr double us_of_second = 1e6;

std::string plain(double number) {
  std::string text = std::to_string(number);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

}  // namespace

double RateLimit::burst() const { return std::max(1.0, rate); }

bool RateLimits::Row::is_full(std::int64_t now_us) const {
  return at_once == 0 && tokens + static_cast<double>(now_us - filled_us) / us_of_second * rate >= burst;
}

// A row in its initial state can make way for a new name without any effect.
const std::string& RateLimits::row_name(const std::string& name, std::int64_t now_us) {
  if (rows_.contains(name) || rows_.size() < rows_max_) return name;
  std::erase_if(rows_, [&](const auto& row) { return row.second.is_full(now_us); });
  return rows_.size() < rows_max_ ? name : other_names;
}

std::variant<std::string, Refusal> RateLimits::begin(const std::string& name, const RateLimit& limit,
                                                     std::int64_t now_us) {
  if (limit.rate <= 0 && limit.at_once == 0) return "";
  const auto [at, is_new] = rows_.try_emplace(row_name(name, now_us));
  Row& row = at->second;
  if (is_new) row = {limit.burst(), now_us, limit.rate, limit.burst(), 0};
  row.tokens = std::min(limit.burst(),
                        row.tokens + static_cast<double>(now_us - row.filled_us) / us_of_second * limit.rate);
  row.filled_us = now_us, row.rate = limit.rate, row.burst = limit.burst();
  if (limit.at_once > 0 && row.at_once >= limit.at_once)
    return Refusal{RefusalKind::over_quota,
                   "too_many_at_once",
                   "there are " + std::to_string(row.at_once) + " requests without an answer",
                   "tenant",
                   "at most " + std::to_string(limit.at_once) + " at once",
                   1};
  if (limit.rate > 0 && row.tokens < 1) {
    const double wait_s = std::ceil((1 - row.tokens) / limit.rate);
    return Refusal{RefusalKind::over_quota,
                   "rate_limited",
                   "the request rate is exceeded",
                   "tenant",
                   "at most " + plain(limit.rate) + " a second",
                   static_cast<std::uint16_t>(std::clamp(wait_s, 1.0, 3600.0))};
  }
  if (limit.rate > 0) row.tokens -= 1;
  ++row.at_once;
  return at->first;
}

void RateLimits::end(const std::string& begun) {
  const auto at = rows_.find(begun);
  if (at != rows_.end() && at->second.at_once > 0) --at->second.at_once;
}

}  // namespace troupe::server
