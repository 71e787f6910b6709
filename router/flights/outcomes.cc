// Sends the outcomes of requests, counts refusals and remembers which requests had an outcome.
#include "router/flights/outcomes.h"

#include <string>
#include <utility>

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
  if (refusal.kind == RefusalKind::unavailable && refusal.code != "draining") log_refusal(step, refusal);
  ++refused_;
  settle(origin);
  step.effects.send(origin.from, Refused{origin.id, std::move(refusal)});
}

void Outcomes::log_refusal(Step step, const Refusal& refusal) {
  if (logged_.size() >= logged_codes_max && !logged_.contains(refusal.code)) return;
  const auto [logged, is_first] = logged_.try_emplace(refusal.code);
  auto& [at, suppressed] = logged->second;
  if (!is_first && step.now < at + log_every) {
    ++suppressed;
    return;
  }
  at = step.now;
  step.effects.log(LogLevel::warning, "requests_refused",
                   {{"code", refusal.code},
                    {"why", refusal.what},
                    {"expected", refusal.expected},
                    {"suppressed", std::exchange(suppressed, 0)}});
}

}  // namespace troupe::router
