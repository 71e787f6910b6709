#pragma once
// Refuses requests because of load: a tenant has reached one of its limits, or no worker can finish
// in time. The refusals say how much of the tenant waits here and when to try again.
#include <optional>
#include <span>
#include <string>

#include "router/flights/worker_queues.h"

namespace troupe::router {

class LoadLimits {
 public:
  // `usual`: budget of requests that name none. The three belong to the router and must outlive
  // this object.
  LoadLimits(Duration usual, const Tenants& tenants, const WorkerQueues& queues, const WorkerTable& workers)
      : usual_(usual), tenants_(tenants), queues_(queues), workers_(workers) {}

  // Refuses a tenant that has reached one of its limits.
  std::optional<Refusal> reject_if_over_limit(TenantId tenant) const;
  // Refuses because of the load that the tenant has here. The tenant's other requests would be
  // refused as well; the HTTP server relies on this.
  Refusal tenant_overloaded(TenantId tenant, std::string expected) const;
  // Refuses because none of these workers can finish in time.
  Refusal too_busy(Instant now, const Flight& flight, std::span<const NodeId> nodes,
                   const placement::Work& work) const;

 private:
  Duration usual_;
  const Tenants& tenants_;
  const WorkerQueues& queues_;
  const WorkerTable& workers_;
};

}  // namespace troupe::router
