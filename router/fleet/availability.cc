// Decides from the served versions, the workers, the index and the feature store whether the router
// accepts requests and reports itself ready.
#include "router/fleet/availability.h"

#include <utility>

namespace troupe::router {

void Availability::drain(Step step, bool on) {
  if (draining_ != on) step.effects.log(LogLevel::info, on ? "drain" : "drain_ended");
  draining_ = on;
}

void Availability::tick(Step step) {
  features_.tick(step);
  if (workers_.any_usable(step.now, versions_.versions().model_version)) served_ = step.now;
}

bool Availability::awaits_worker(Instant now) const {
  return !draining_ && now < served_ + worker_wait_ &&
         !workers_.any_usable(now, versions_.versions().model_version);
}

std::optional<Refusal> Availability::refusal(Instant now) const {
  if (draining_)
    return Refusal{RefusalKind::unavailable, "draining", "it is draining: it accepts no new requests",
                   "router", "another router"};
  if (std::string why = versions_.obstacle(now); !why.empty())
    return Refusal{RefusalKind::unavailable, "starting", std::move(why), "router", "a retry after a pause"};
  return std::nullopt;
}

// A node that joined is not known to the leader at once; without the index, its requests would
// recompute blocks that exist. In a rolling restart, the worker that is restarted next may be the only one
// that a router has heard.
std::string Availability::not_ready_reason(Instant now) const {
  if (const auto refused = refusal(now)) return refused->what;
  const std::string& model = versions_.versions().model_version;
  if (!workers_.any_has(model) || !workers_.any_usable(now, model)) return "no worker serves model " + model;
  if (leader_.leader(now) == 0 && now < began_ + leader_wait_)
    return "the leading cache-meta is not known yet";
  if (!workers_.all_heard() && now < began_ + fleet_wait_) return "some workers are not heard yet";
  return features_.obstacle();
}

}  // namespace troupe::router
