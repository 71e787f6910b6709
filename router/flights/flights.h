#pragma once
// The table of flights. It ends each with its one outcome and then gives back everything that the
// flight held: its open attempts at workers, its position in a queue, its part of the tenant's
// load.
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "router/flights/flight.h"
#include "router/flights/outcomes.h"
#include "router/flights/parked_flights.h"
#include "router/flights/worker_queues.h"

namespace troupe::router {

class Flights {
 public:
  // These belong to the router and must outlive this object.
  Flights(Outcomes& outcomes, Tenants& tenants, WorkerTable& workers, WorkerQueues& queues)
      : outcomes_(outcomes), tenants_(tenants), workers_(workers), queues_(queues) {}

  // Adds an admitted flight and sets the timer of its deadline.
  Flight& add(Step step, Flight flight);
  Flight* find(Flight::Serial serial);  // null = it has ended
  Flight* find(Address from, RequestId id);
  // Gives the flight a new serial, because a worker ignores one that it has refused. It must not be queued,
  // and has no open attempt.
  void renumber(Step step, Flight& flight);
  // The connections to these nodes broke, so that they drop the plans that they have not answered.
  void note_dropped(std::span<const NodeId> nodes);
  // End the flight, which no longer exists afterwards.
  void refuse(Step step, Flight& flight, Refusal refusal);
  void close(Step step, Flight& flight);  // its answer was sent

  ParkedFlights& parked() { return parked_; }
  const ParkedFlights& parked() const { return parked_; }
  std::vector<NodeId> nodes_with_suspects() const;  // where open attempts of suspects are

  const std::map<Flight::Serial, Flight>& all() const { return flights_; }
  std::size_t size() const { return flights_.size(); }
  std::size_t count(Stage stage) const;
  std::size_t most_attempts() const;                    // of one flight
  std::size_t retried() const;                          // flights with more than one attempt
  bool any_outdated(const ModelShare& share) const;     // is pinned to versions that are no longer served
  std::uint64_t admitted() const { return admitted_; }  // since the start, like the next
  std::uint64_t answered() const { return answered_; }

 private:
  void drop(Step step, Flight& flight);
  void count_in_flight(Step step) const;

  Outcomes& outcomes_;
  Tenants& tenants_;
  WorkerTable& workers_;
  WorkerQueues& queues_;
  std::map<Flight::Serial, Flight> flights_;
  ParkedFlights parked_;
  std::uint64_t admitted_ = 0, answered_ = 0;
};

}  // namespace troupe::router
