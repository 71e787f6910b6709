// Refusals of requests that the router has not answered.
#include "server/http/unanswered.h"

#include <string>

namespace troupe::server {
namespace {

Refusal outcome_unknown() {
  return {RefusalKind::unavailable, "outcome_unknown",
          "the router has not answered; whether the write is stored is not known", "router",
          "to read it, or to repeat the write"};
}

}  // namespace

bool is_write(const Message& message) {
  return std::holds_alternative<PutUser>(message) || std::holds_alternative<DeleteUser>(message) ||
         std::holds_alternative<PutItem>(message) || std::holds_alternative<DeleteItem>(message) ||
         std::holds_alternative<AppendEvents>(message);
}

Refusal no_answer(bool writes, std::int64_t waited_us) {
  if (writes) return outcome_unknown();
  return {RefusalKind::deadline_exceeded, "no_answer", "the router did not answer in time", "router",
          "an answer within " + std::to_string(waited_us / 1000) + " ms"};
}

Refusal stopping(bool writes) {
  if (writes) return outcome_unknown();
  return {RefusalKind::unavailable, "stopping", "the server is stopping", "server", "another server"};
}

}  // namespace troupe::server
