// Sends the outcomes of requests, counts refusals and remembers which requests had an outcome.
#include "router/flights/outcomes.h"

#include <string>

#include "runtime/actor/mutants.h"

namespace troupe::router {

Refusal too_many_requests(std::uint32_t most) {
  return {503, "overloaded", std::to_string(most) + " requests are in flight", "router",
          "a retry after a pause"};
}

Refusal deadline_passed() {
  return {504, "deadline_exceeded", "the request's deadline has passed", "router",
          "a larger budget or less load"};
}

void Outcomes::settle(const RequestOrigin& origin) {
  open_.erase({origin.from, origin.id});
  recent_.add(origin.from, origin.id);
}

void Outcomes::answer(Step step, const RequestOrigin& origin, Message reply) {
  settle(origin);
  step.effects.send(origin.from, std::move(reply));
}

// Faults of workers and ports become 503: for the client they may be over soon.
void Outcomes::refuse(Step step, const RequestOrigin& origin, Refusal refusal) {
  const bool is_own = refusal.status < 400 || (refusal.status >= 500 && refusal.status != 504);
  if (is_own && !mutated(Mutant::refuse_without_status)) refusal.status = 503;
  if (refusal.status == 504)
    step.effects.count(Metric::requests_expired);
  else
    step.effects.count(Metric::requests_refused, 1, refusal.code);
  ++refused_;
  settle(origin);
  step.effects.send(origin.from, Refused{origin.id, std::move(refusal)});
}

}  // namespace troupe::router
