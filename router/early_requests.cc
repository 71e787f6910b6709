// Keeps requests until the served versions are known, and shortens their budgets by the wait.
#include "router/early_requests.h"

#include <algorithm>
#include <utility>

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

}  // namespace troupe::router
