// Answers questions about a flight's attempts, settles its plan and logs its steps.
#include "router/flights/flight.h"

#include <algorithm>
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

std::vector<NodeId> Flight::tried_and_kept() const {
  std::vector<NodeId> nodes;
  for (const Attempt& attempt : attempts)
    if (!attempt.lost) nodes.push_back(attempt.ticket.node);
  return nodes;
}

bool Flight::may_run() const { return std::ranges::any_of(attempts, &Attempt::may_run); }

void Flight::settle_plan(std::size_t chosen) {
  const auto first = plans.begin(), at = first + static_cast<std::ptrdiff_t>(chosen);
  std::rotate(first, at, at + 1);  // the others keep their order
  if (needs_prototypes(plans.front()))
    for (std::size_t i = 1; i < plans.size(); ++i)
      if (!needs_prototypes(plans[i])) spare_plans.push_back(std::move(plans[i]));
  plans.erase(plans.begin() + 1, plans.end());
  planned = true;
}

bool Flight::drop_prototypes() {
  const bool refused = std::ranges::any_of(attempts, &Attempt::wrong_prototypes);
  if (!refused || spare_plans.empty() || has_open_attempt()) return false;
  plans = std::exchange(spare_plans, {});
  planned = false;
  std::erase_if(attempts, [](const Attempt& attempt) { return attempt.wrong_prototypes; });
  return true;
}

void log_step(Step step, const Flight& flight, const char* event, std::vector<LogField> fields) {
  fields.insert(fields.begin(), {{"request", flight.serial},
                                 {"asked", flight.origin.id},
                                 {"trace_id", trace_id(flight.request->trace())}});
  step.effects.log(LogLevel::debug, event, std::move(fields));
}

}  // namespace troupe::router
