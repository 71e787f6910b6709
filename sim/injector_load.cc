// Faults that clients and the feature store are: too much, too strange, too popular, poisonous, slow.
#include "router/plan.h"
#include "sim/injector.h"

namespace troupe::sim {

void Injector::set_load(const Fault& fault, bool on) {
  const Scenario& s = cluster_.scenario();
  switch (fault.kind) {
    case FaultKind::features_slow:
      cluster_.node(fault.node).features.slowness = 1 + 300 * strongest(fault.kind, fault.node);
      return;
    case FaultKind::features_failing:
      cluster_.node(fault.node).features.failing = active(fault.kind, fault.node) > 0;
      return;
    case FaultKind::overload:
      return clients_.set_rate(active(fault.kind) > 0
                                   ? (2 + 8 * strongest(fault.kind, 0)) * s.capacity_per_s / s.requests_per_s
                                   : 1);
    case FaultKind::flash_crowd: {
      const bool crowd = active(fault.kind) > 0;
      const auto first = static_cast<std::uint32_t>(fault.intensity * (s.users - 1));
      cluster_.world().user_flash = {crowd ? 0.8 : 0, first, 1};
      cluster_.world().item_flash = {crowd ? 0.8 : 0, first % s.items, s.candidates + 2};
      return;
    }
    case FaultKind::malformed:
      return clients_.set_malformed(active(fault.kind) > 0 ? 0.5 : 0);
    case FaultKind::profile_storm:
      return clients_.set_writes(active(fault.kind) > 0 ? 0.5 : s.writes_share);
    default:  // poison
      if (on) return start_poison(fault);
      if (active(fault.kind) == 0) cluster_.poisons().clear();
  }
}

// The same content is asked for again and again, once the outcome before it must be there.
void Injector::start_poison(const Fault& fault) {
  const Scenario& s = cluster_.scenario();
  const auto& tenants = cluster_.world().options().tenants;
  const std::string tenant = tenants[random_.below(tenants.size())];
  const std::string user = WorldData::user_id(random_.below(s.users));
  const auto profile = cluster_.world().profile(tenant, user);
  if (!profile) return;
  const router::FittedHistory history = router::fit_history(cluster_.form(), *profile, 64);
  cluster_.poisons().insert(poison_of(history.tokens));
  const RankRequest request = clients_.draw_for(tenant, user);
  const Duration gap{s.deadline.us + 4 * s.heartbeat.us};
  for (std::int64_t us = 0; us == 0 || us < fault.lasts.us; us += gap.us)
    cluster_.host().at(cluster_.now() + Duration{us}, [this, request] {
      if (!healed_) clients_.ask_strange(request);
    });
}

// A content may kill twice; then every router knows it. In a storm routers may lose what they knew, or be cut
// off from those who know.
void Injector::on_poison(NodeId node, std::uint64_t content) {
  if (!cluster_.host().alive(node)) return;
  if (trace) trace("poison kills node " + std::to_string(node));
  const Scenario& s = cluster_.scenario();
  const std::uint32_t most =
      s.drill && !s.together ? 2 : 2 * (s.routers + static_cast<std::uint32_t>(s.faults.size()));
  if (++kills_by_poison_[content] > most)
    violations_.report(12, "one request has killed " + std::to_string(kills_by_poison_[content]) + " workers",
                       cluster_.now());
  kill(node);
  cluster_.host().at(cluster_.now() + Duration{300'000}, [this, node] { restart(node); });
}

}  // namespace troupe::sim
