#pragma once
// Sends a flight's plan to a worker: names where missing blocks can be pulled from, says which
// blocks may be evicted for the plan's, and keeps account of it at the worker and the tenant. It
// also counts at the user's home what the user's blocks would have saved, wherever the plan runs. A
// worker that never hears of the user would not keep pages for them.
#include <cstdint>
#include <span>

#include "router/fleet/uses_elsewhere.h"
#include "router/flights/flight.h"
#include "router/request/pull_cost.h"

namespace troupe::router {

class PlanSender {
 public:
  struct Config {
    bool shared_areas = false;           // as RouterConfig::shared_areas
    bool reports_uses_elsewhere = true;  // as RouterConfig::reports_uses_elsewhere
  };
  // These belong to the router and must outlive this object.
  PlanSender(const Config& config, WorkerTable& workers, const Tenants& tenants, const PullCost& pull_cost)
      : config_(config), workers_(workers), tenants_(tenants), pull_cost_(pull_cost) {}

  // Adds an attempt to the flight, whose plan is settled. `suspect`: workers died of its content.
  void send(Step step, Flight& flight, const WorkerTable::Option& option, bool suspect);
  void follow(std::span<const NodeId> workers) { elsewhere_.follow(workers); }

  std::uint64_t sent() const { return sent_; }
  std::size_t homes() const { return elsewhere_.homes(); }  // with uses to report

 private:
  void name_holders(Instant now, Flight& flight, NodeId node) const;
  Retention retention_of(const Flight& flight) const;
  void note_home(Instant now, Flight& flight, NodeId node, Retention& retention);

  Config config_;
  WorkerTable& workers_;
  const Tenants& tenants_;
  const PullCost& pull_cost_;
  UsesElsewhere elsewhere_;
  std::uint64_t sent_ = 0;
};

}  // namespace troupe::router
