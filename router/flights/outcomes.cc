// Sends the outcomes of requests, counts refusals and remembers which requests had an outcome.
#include "router/flights/outcomes.h"

#include <string>

namespace troupe::router {

Refusal too_many_requests(std::uint32_t most) {
  return {RefusalKind::unavailable, "overloaded", std::to_string(most) + " requests are in flight", "router",
          "a retry after a pause"};
}

Refusal deadline_passed() {
  return {RefusalKind::deadline_exceeded, "deadline_exceeded", "the request's deadline has passed", "router",
          "a larger budget or less load"};
}

Refusal client_gone() {
  return {RefusalKind::unavailable, "client_gone", "the client has closed its connection", "client",
          "a client that waits for the answer"};
}

void Outcomes::settle(const RequestOrigin& origin) {
  open_.erase({origin.from, origin.id});
  recent_.add(origin.from, origin.id);
}

void Outcomes::answer(Step step, const RequestOrigin& origin, Message reply) {
  settle(origin);
  step.effects.send(origin.from, std::move(reply));
}

// Faults of workers and ports become unavailable: for the client they may be over soon.
void Outcomes::refuse(Step step, const RequestOrigin& origin, Refusal refusal) {
  if (is_fault_of_server(refusal.kind)) refusal.kind = RefusalKind::unavailable;
  if (refusal.kind == RefusalKind::deadline_exceeded)
    step.effects.count(Metric::requests_expired);
  else
    step.effects.count(Metric::requests_refused, 1, refusal.code);
  ++refused_;
  settle(origin);
  step.effects.send(origin.from, Refused{origin.id, std::move(refusal)});
}

}  // namespace troupe::router
