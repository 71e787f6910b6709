// Compares tenants with their limits, and words the refusals of an overloaded router.
#include "router/flights/load_limits.h"

#include <algorithm>
#include <cmath>

namespace troupe::router {
namespace {

std::string seconds(double us) {
  const auto tenths = static_cast<std::int64_t>(std::ceil(us * 1e-5));
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

std::uint16_t retry_after(double us) {
  return static_cast<std::uint16_t>(std::clamp(std::ceil(us * 1e-6), 1.0, 600.0));
}

// "tenant "a" has 12 requests here, 8 of them wait with 0.4 s of work"
std::string load_of(const Tenants::Tenant& tenant) {
  return "tenant \"" + tenant.name + "\" has " + std::to_string(tenant.requests) + " requests here, " +
         std::to_string(tenant.waiting) + " of them wait, with " + seconds(tenant.work_us) + " of work";
}

}  // namespace

Refusal LoadLimits::tenant_overloaded(TenantId tenant, std::string expected) const {
  const Tenants::Tenant& here = tenants_[tenant];
  return {RefusalKind::over_quota, "tenant_overloaded",
          load_of(here),           "tenant",
          std::move(expected),     retry_after(here.work_us / tenants_.slots())};
}

std::optional<Refusal> LoadLimits::reject_if_over_limit(TenantId tenant) const {
  const TenantsConfig& most = tenants_.config();
  const Tenants::Tenant& here = tenants_[tenant];
  if (most.requests_max > 0 && here.requests >= most.requests_max)
    return tenant_overloaded(
        tenant, "at most " + std::to_string(most.requests_max) + " at a time (router.tenant_requests_max)");
  if (here.work_us >= static_cast<double>(most.work_us_max) * tenants_.slots())
    return tenant_overloaded(tenant, "at most " + seconds(static_cast<double>(most.work_us_max)) +
                                         " of work per executor slot (router.tenant_work_max)");
  return std::nullopt;
}

// The tenant's own queue is the cause if a worker could finish without it. A request with less than
// the usual budget does not blame the tenant.
Refusal LoadLimits::too_busy(Instant now, const Flight& flight, std::span<const NodeId> nodes,
                             const placement::Work& work) const {
  const Tenants::Tenant& here = tenants_[flight.tenant];
  const auto left_us = static_cast<double>((flight.origin.deadline - now).us);
  const bool in_time_alone = std::ranges::any_of(nodes, [&](NodeId node) {
    return workers_.predicted_us(now, node, work, queues_.work_us(node)) <= left_us;
  });
  const bool is_usual = (flight.origin.deadline - flight.origin.received).us >= usual_.us;
  if (here.waiting > 0 && in_time_alone && is_usual)
    return tenant_overloaded(flight.tenant, "less waiting work of this tenant, or a larger budget");
  return {RefusalKind::unavailable,
          "overloaded",
          "no worker can finish before the request's deadline; " + load_of(here),
          "router",
          "a retry after a pause, or a larger budget",
          retry_after(here.work_us / tenants_.slots())};
}

}  // namespace troupe::router
