// Decides whether a request becomes a flight.
#include "router/flights/admission.h"

#include <algorithm>
#include <utility>

#include "kernels/base/hash.h"

namespace troupe::router {

Flight* Admission::admit(Step step, Arrival arrival) {
  const TenantId tenant = arrival.fault ? Tenants::others : tenants_.id_of(arrival.tenant);
  Flight flight{.serial = step.next_id,
                .origin = arrival.origin,
                .tenant = tenant,
                .pinned = std::move(arrival.pinned),
                .home = arrival.home};
  std::optional<Refusal> refusal = std::move(arrival.fault);
  if (!refusal) refusal = availability_.refusal(step.now);
  if (!refusal) refusal = limits_.reject_if_over_limit(tenant);
  if (!refusal) refusal = reject_if_no_worker(step.now, flight, arrival.work);
  if (!refusal) refusal = reject_if_full(step, tenant, arrival.feature_jobs);
  if (refusal) {
    step.effects.count(Metric::tenant_refused, 1, tenants_[tenant].name);
    outcomes_.refuse(step, arrival.origin, std::move(*refusal));
    return nullptr;
  }
  ++step.next_id;
  return &flights_.add(step, std::move(flight));
}

// Also fills `flight.workers` with the candidates.
std::optional<Refusal> Admission::reject_if_no_worker(Instant now, Flight& flight,
                                                      const placement::Work& work) const {
  flight.workers = workers_.candidates(
      now, {.home = flight.home, .draw = spread(flight.serial), .model = flight.pinned.model_version});
  if (flight.workers.empty())
    return Refusal{RefusalKind::unavailable, "no_worker",
                   "no worker is available to serve " + flight.pinned.model_version, "router",
                   "a retry after a pause"};
  const auto left_us = static_cast<double>((flight.origin.deadline - flight.origin.received).us);
  const bool in_time = std::ranges::any_of(flight.workers, [&](NodeId node) {
    return workers_.predicted_us(now, node, work, queues_.passes_us(node, flight.tenant)) <= left_us;
  });
  if (!in_time) return limits_.too_busy(now, flight, flight.workers, work);
  return std::nullopt;
}

std::optional<Refusal> Admission::reject_if_full(Step step, TenantId tenant, std::size_t feature_jobs) {
  const bool full = flights_.size() >= in_flight_max_ && !refuse_newest_of_heaviest(step, tenant);
  if (full && tenants_[tenant].waiting > 0)  // it has its share, or more
    return limits_.tenant_overloaded(tenant, "fewer requests while there are " +
                                                 std::to_string(in_flight_max_) +
                                                 " at the router (router.requests_in_flight_max)");
  if (full || feature_jobs >= in_flight_max_) return too_many_requests(in_flight_max_);
  return std::nullopt;
}

bool Admission::refuse_newest_of_heaviest(Step step, TenantId tenant) {
  const std::optional<TenantId> heaviest = tenants_.heaviest();
  if (!heaviest || *heaviest == tenant) return false;
  const auto load = [&](TenantId of, std::size_t more) {
    return static_cast<double>(tenants_[of].requests + more) / tenants_[of].weight;
  };
  if (load(*heaviest, 0) <= load(tenant, 1)) return false;
  const auto serial = queues_.newest_of(*heaviest);
  Flight* flight = serial ? flights_.find(*serial) : nullptr;
  if (!flight) return false;
  flights_.refuse(step, *flight,
                  limits_.tenant_overloaded(*heaviest,
                                            "fewer requests while other tenants are below "
                                            "their share"));
  return true;
}

}  // namespace troupe::router
