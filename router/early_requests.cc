// Keeps requests until the served versions are known, and shortens their budgets by the wait.
#include "router/early_requests.h"

#include <algorithm>
#include <utility>

#include "runtime/actor/message_id.h"

namespace troupe::router {

bool EarlyRequests::keep(Instant now, Received& received) {
  if (!availability_.is_starting(now) || kept_.size() >= most_) return false;
  kept_.push_back({now, std::move(received)});
  return true;
}

std::optional<Received> EarlyRequests::take(Instant now) {
  if (kept_.empty()) return std::nullopt;
  const std::int64_t waited_us = (now - kept_.front().at).us;
  if (availability_.is_starting(now) && waited_us < budgets_.usual.us / 2) return std::nullopt;
  Received received = std::move(kept_.front().received);
  kept_.pop_front();
  std::visit(
      [&](auto& request) {
        if constexpr (requires { request.budget_us; })
          request.budget_us = std::max<std::int64_t>(1, budgets_.of(request.budget_us).us - waited_us);
      },
      static_cast<AnyMessage&>(received.message));
  return received;
}

bool EarlyRequests::cancel(Address from, RequestId id) {
  return std::erase_if(kept_, [&](const EarlyRequest& early) {
           return early.received.from == from && id_of(early.received.message) == id;
         }) > 0;
}

}  // namespace troupe::router
