#pragma once
// Keeps requests that arrive while the served versions are unknown, or while no worker is usable for a
// moment, up to a bound. They are handled once that is over. After half of the usual budget or of their
// own, or when the router drains, they are handled anyway, which refuses them.
#include <cstddef>
#include <deque>
#include <optional>

#include "router/fleet/availability.h"
#include "router/flights/flight.h"

namespace troupe::router {

class EarlyRequests {
 public:
  EarlyRequests(std::size_t most, const Budgets& budgets, const Availability& availability)
      : most_(most), budgets_(budgets), availability_(availability) {}

  // Returns true if it has kept the request, and moved from it.
  bool keep(Instant now, Received& received);
  // Returns the oldest request if it is to be handled now. Its budget is what is left of it.
  std::optional<Received> take(Instant now);
  // Drops the request of a client that has gone. Returns false if it is not kept here.
  bool cancel(Address from, RequestId id);
  std::size_t size() const { return kept_.size(); }
  Instant last_due() const { return kept_.back().until; }  // of the request kept last

 private:
  struct EarlyRequest {
    Instant at, until;
    Received received;
  };
  bool must_wait(Instant now) const {
    return availability_.is_starting(now) || availability_.awaits_worker(now);
  }
  Duration budget_of(const Received& received) const;
  std::size_t most_;
  Budgets budgets_;
  const Availability& availability_;
  std::deque<EarlyRequest> kept_;  // in the order in which they came
};

}  // namespace troupe::router
