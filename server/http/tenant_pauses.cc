// Refuses requests of a tenant that the router has just refused for load, before their bodies are
// parsed. A flood by one tenant then costs the server little.
#include "server/http/tenant_pauses.h"

#include <algorithm>

#include "kernels/base/check.h"
#include "server/formats/http_refusal.h"

namespace troupe::server {

namespace {

// Returns the delay until `next`, which moves on by one interval.
std::int64_t take_turn(std::int64_t& next, std::int64_t now_us, std::int64_t delay_us_max) {
  constexpr std::int64_t interval = TenantPauses::refusal_interval_us;
  const std::int64_t turn =
      std::clamp(next, now_us - TenantPauses::refusals_at_once * interval, now_us + delay_us_max);
  next = turn + interval;
  return std::max<std::int64_t>(0, turn - now_us);
}

}  // namespace

void TenantPauses::answered(const std::string& tenant) {
  const auto at = rows_.find(tenant);
  TROUPE_CHECK(at != rows_.end(), "an answered request was asked before");
  if (--at->second.asked == 0) rows_.erase(at);
}

void TenantPauses::refused(const std::string& tenant, const Refusal& refusal, std::int64_t now_us) {
  if (refusal.code == "tenant_overloaded") {
    Row& row = rows_.at(tenant);
    row.asked_max = row.asked - 1;
    row.more = 1;
    row.until_us = now_us + pause_us_;
    row.reported = {refusal.kind, refusal.retry_after_s, to_json(refusal)};
  }
  answered(tenant);
}

const TenantPauses::StoredRefusal* TenantPauses::find(const std::string& tenant, std::int64_t now_us) {
  const auto at = rows_.find(tenant);
  if (at == rows_.end()) return nullptr;
  Row& row = at->second;
  if (row.asked_max == 0 || row.asked < row.asked_max) return nullptr;
  if (now_us < row.until_us) return &row.reported;
  row.asked_max += row.more;
  row.more *= 2;
  row.until_us = now_us + pause_us_;
  return nullptr;
}

TenantPauses::Row& TenantPauses::row_of(const std::string& tenant) {
  const auto at = rows_.find(tenant);
  TROUPE_CHECK(at != rows_.end(), "a paused tenant has requests in flight");
  return at->second;
}

std::int64_t TenantPauses::refusal_delay_us(const std::string& tenant, std::int64_t now_us) {
  return take_turn(row_of(tenant).next_refusal_us, now_us, refusal_delay_us_max);
}

std::int64_t TenantPauses::line_delay_us(const std::string& tenant, std::int64_t now_us) {
  return take_turn(row_of(tenant).next_line_us, now_us, line_delay_us_max);
}

}  // namespace troupe::server
