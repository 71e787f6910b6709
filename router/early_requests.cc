// Keeps requests until the served versions are known and a worker is usable, and shortens their
// budgets by the wait.
#include "router/early_requests.h"

#include <algorithm>
#include <utility>

#include "runtime/actor/message_id.h"

namespace troupe::router {

Duration EarlyRequests::budget_of(const Received& received) const {
  return std::visit(
      [&](const auto& request) {
        if constexpr (requires { request.budget_us; }) return budgets_.of(request.budget_us);
        return budgets_.usual;
      },
      static_cast<const AnyMessage&>(received.message));
}

bool EarlyRequests::keep(Instant now, Received& received) {
  if (kept_.size() >= most_ || !must_wait(now)) return false;
  const Duration wait{std::min(budgets_.usual.us, budget_of(received).us) / 2};
  kept_.push_back({now, now + wait, std::move(received)});
  return true;
}

std::optional<Received> EarlyRequests::take(Instant now) {
  if (kept_.empty()) return std::nullopt;
  const auto due =
      must_wait(now)
          ? std::ranges::find_if(kept_, [now](const EarlyRequest& early) { return now >= early.until; })
          : kept_.begin();
  if (due == kept_.end()) return std::nullopt;
  const std::int64_t waited_us = (now - due->at).us;
  Received received = std::move(due->received);
  kept_.erase(due);
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
