#pragma once
// Answers a flight from its worker's valid result, and measures the flight: its tokens, the times
// of its stages, and what its pulled blocks cost.
#include <cstdint>

#include "router/flights/flights.h"
#include "router/flights/recent_times.h"
#include "router/request/pull_cost.h"

namespace troupe::router {

class Answers {
 public:
  struct Config {
    const placement::UnitCosts& costs;  // must outlive this object
    bool measures_pulls = true;
    placement::Pace block_pace;  // as RouterConfig::block_pace
  };
  // These belong to the router and must outlive this object.
  Answers(const Config& config, const WorkerTable& workers, PullCost& pull_cost, Flights& flights)
      : config_(config), workers_(workers), pull_cost_(pull_cost), flights_(flights) {}

  // Sends the answer that the node's result gives, and ends the flight.
  void answer(Step step, Flight& flight, NodeId node, Executed executed);

  const RecentTimes& times() const { return times_; }
  const PlanTotals& plans() const { return plans_; }

 private:
  void note_times(Step step, const Timings& timings, const TraceContext& trace);
  void note_pull(const Candidate& sent, NodeId node, const Executed& executed);

  Config config_;
  const WorkerTable& workers_;
  PullCost& pull_cost_;
  Flights& flights_;
  RecentTimes times_;
  PlanTotals plans_;
};

}  // namespace troupe::router
