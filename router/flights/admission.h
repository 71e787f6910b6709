#pragma once
// Admits a request as a flight, or refuses it: for a fault of its own, while the router accepts
// none, for the load of its tenant, because no worker can finish in time, or because the router has
// the maximum number of flights. When the router is full, a tenant below its share still gets in:
// the newest waiting flight of the tenant with most flights for its weight is refused for it.
#include <optional>
#include <string_view>

#include "router/fleet/availability.h"
#include "router/flights/flights.h"
#include "router/flights/load_limits.h"

namespace troupe::router {

// A request before its admission.
struct Arrival {
  RequestOrigin origin;
  std::string_view tenant;
  PinnedVersions pinned;
  std::uint64_t home = 0;        // as Flight::home
  std::optional<Refusal> fault;  // what is wrong with the request itself
  placement::Work work = {};     // of its plan, as far as known
  std::size_t feature_jobs = 0;  // that run, including those whose flight has ended
};

class Admission {
 public:
  // `in_flight_max`: flights, and also feature jobs. These belong to the router and must outlive
  // this object.
  Admission(std::uint32_t in_flight_max, const LoadLimits& limits, const Availability& availability,
            Tenants& tenants, const WorkerTable& workers, const WorkerQueues& queues, Outcomes& outcomes,
            Flights& flights)
      : in_flight_max_(in_flight_max),
        limits_(limits),
        availability_(availability),
        tenants_(tenants),
        workers_(workers),
        queues_(queues),
        outcomes_(outcomes),
        flights_(flights) {}

  bool is_copy(const RequestOrigin& origin) const { return outcomes_.is_copy(origin.from, origin.id); }
  // Returns the new flight, or null if the request was refused. Requires that it is no copy.
  Flight* admit(Step step, Arrival arrival);

 private:
  std::optional<Refusal> reject_if_no_worker(Instant now, Flight& flight, const placement::Work& work) const;
  std::optional<Refusal> reject_if_full(Step step, TenantId tenant, std::size_t feature_jobs);
  bool refuse_newest_of_heaviest(Step step, TenantId tenant);

  std::uint32_t in_flight_max_;
  LoadLimits limits_;
  const Availability& availability_;
  Tenants& tenants_;
  const WorkerTable& workers_;
  const WorkerQueues& queues_;
  Outcomes& outcomes_;
  Flights& flights_;
};

}  // namespace troupe::router
