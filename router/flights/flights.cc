// Adds flights, finds them, counts them and ends them.
#include "router/flights/flights.h"

#include <algorithm>
#include <utility>

#include "kernels/base/check.h"
#include "router/flights/timers.h"

namespace troupe::router {

Flight& Flights::add(Step step, Flight flight) {
  ++admitted_;
  tenants_.enter(flight.tenant);
  step.effects.count(Metric::tenant_requests, 1, tenants_[flight.tenant].name);
  outcomes_.open(flight.origin);
  step.effects.set_timer(timer_of(flight.serial, TimerKind::deadline), flight.origin.deadline);
  const Flight::Serial serial = flight.serial;
  Flight& added = flights_.try_emplace(flights_.end(), serial, std::move(flight))->second;
  count_in_flight(step);
  return added;
}

Flight* Flights::find(Flight::Serial serial) {
  const auto at = flights_.find(serial);
  return at != flights_.end() ? &at->second : nullptr;
}

Flight* Flights::find(Address from, RequestId id) {
  const auto at = std::ranges::find_if(flights_, [&](const auto& entry) {
    return entry.second.origin.from == from && entry.second.origin.id == id;
  });
  return at != flights_.end() ? &at->second : nullptr;
}

void Flights::renumber(Step step, Flight& flight) {
  TROUPE_CHECK(!flight.queued && !flight.has_open_attempt(), "nobody else knows the flight by its serial");
  parked_.remove(flight.serial);
  auto entry = flights_.extract(flight.serial);
  entry.key() = flight.serial = step.next_id++;
  flights_.insert(std::move(entry));
  step.effects.set_timer(timer_of(flight.serial, TimerKind::deadline), flight.origin.deadline);
}

void Flights::note_dropped(std::span<const NodeId> nodes) {
  for (auto& [serial, flight] : flights_)
    for (Attempt& attempt : flight.attempts)
      if (std::ranges::find(nodes, attempt.ticket.node) != nodes.end()) attempt.may_run = false;
}

void Flights::refuse(Step step, Flight& flight, Refusal refusal) {
  step.effects.count(Metric::tenant_refused, 1, tenants_[flight.tenant].name);
  outcomes_.refuse(step, flight.origin, std::move(refusal));
  drop(step, flight);
}

void Flights::close(Step step, Flight& flight) {
  ++answered_;
  const double seconds = static_cast<double>((step.now - flight.origin.received).us) * 1e-6;
  step.effects.count(Metric::request_seconds, seconds, flight.request->trace());
  step.effects.count(Metric::version_answered, 1, flight.pinned.model_version);
  step.effects.count(Metric::tenant_answered, 1, tenants_[flight.tenant].name);
  step.effects.count(Metric::tenant_seconds, seconds, tenants_[flight.tenant].name);
  outcomes_.settle(flight.origin);
  drop(step, flight);
}

void Flights::drop(Step step, Flight& flight) {
  for (Attempt& attempt : flight.attempts)
    if (attempt.open()) workers_.forget(attempt.ticket);
  if (flight.queued) queues_.leave(step, flight);
  tenants_.leave(flight.tenant);
  const Flight::Serial serial = flight.serial;
  parked_.remove(serial);
  parked_.wake();
  flights_.erase(serial);
  count_in_flight(step);
}

std::vector<NodeId> Flights::nodes_with_suspects() const {
  std::vector<NodeId> nodes;
  for (const auto& [serial, flight] : flights_)
    for (const Attempt& attempt : flight.attempts)
      if (attempt.suspect && attempt.open()) nodes.push_back(attempt.ticket.node);
  return nodes;
}

void Flights::count_in_flight(Step step) const {
  step.effects.count(Metric::requests_in_flight, static_cast<double>(flights_.size()));
}

std::size_t Flights::count(Stage stage) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(flights_, [stage](const auto& entry) { return entry.second.stage == stage; }));
}

std::size_t Flights::retried() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(flights_, [](const auto& entry) { return entry.second.attempts.size() > 1; }));
}

std::size_t Flights::most_attempts() const {
  std::size_t most = 0;
  for (const auto& [serial, flight] : flights_) most = std::max(most, flight.attempts.size());
  return most;
}

bool Flights::any_outdated(const ModelShare& share) const {
  return std::ranges::any_of(flights_,
                             [&](const auto& entry) { return !share.is_present(entry.second.pinned); });
}

}  // namespace troupe::router
