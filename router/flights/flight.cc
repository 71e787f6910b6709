// Answers questions about a flight's attempts, settles its plan and logs its steps.
#include "router/flights/flight.h"

#include <utility>

namespace troupe::router {

Attempt* Flight::attempt_at(NodeId node) {
  for (std::size_t i = attempts.size(); i-- > 0;)
    if (attempts[i].ticket.node == node) return &attempts[i];
  return nullptr;
}

bool Flight::has_open_attempt() const {
  for (const Attempt& attempt : attempts)
    if (attempt.open()) return true;
  return false;
}

std::vector<NodeId> Flight::tried() const {
  std::vector<NodeId> nodes;
  for (const Attempt& attempt : attempts) nodes.push_back(attempt.ticket.node);
  return nodes;
}

void Flight::settle_plan(std::size_t chosen) {
  if (chosen > 0) std::swap(plans.front(), plans[chosen]);
  plans.erase(plans.begin() + 1, plans.end());
  planned = true;
}

void log_step(Step step, const Flight& flight, const char* event, std::vector<LogField> fields) {
  fields.insert(fields.begin(), {{"request", flight.serial},
                                 {"asked", flight.origin.id},
                                 {"trace_id", trace_id(flight.request->trace())}});
  step.effects.log(LogLevel::debug, event, std::move(fields));
}

}  // namespace troupe::router
