#pragma once
// A flight is a request between its admission and its one outcome. This file describes its pinned
// versions, its possible plans, its state and the attempts to run the chosen plan.
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "router/fleet/model_share.h"
#include "router/fleet/worker_table.h"
#include "router/flights/outcomes.h"
#include "router/request/held_blocks.h"
#include "router/request/plan_cost.h"
#include "router/request/request.h"
#include "router/tenants/fair_queue.h"
#include "router/tenants/tenants.h"
#include "runtime/actor/core.h"

namespace troupe::router {

// Time from a request's receipt to its outcome.
struct Budgets {
  Duration usual{2'000'000};  // of requests that name none
  Duration most{10'000'000};
  Duration of(std::int64_t named_us) const {  // named_us: 0 = none
    return {std::min(named_us > 0 ? named_us : usual.us, most.us)};
  }
};

// A single send of the plan to a worker. A late attempt may still be answered; the first answer wins.
struct Attempt {
  enum class State : std::uint8_t { waiting, late, over };
  Ticket ticket;
  Instant late_at;
  bool alone = false;
  bool suspect = false;           // its content had a strike when it was sent
  bool wrong_prototypes = false;  // refused, because that worker has other prototypes or none
  bool lost = false;              // its worker was lost, as far as was known then
  bool may_run = false;           // lost by silence alone: the worker may have the plan still
  State state = State::waiting;
  bool open() const { return state != State::over; }
};

// A plan by which the request could be answered.
struct PlanOption {
  Candidate candidate;
  PlanCost cost;
};

// Returns true if only a worker with this router's file of prototypes can run the plan.
inline bool needs_prototypes(const PlanOption& option) {
  return !option.candidate.plan.repair.prototypes.empty();
}

// Position of the flight in the queue for its chosen worker.
struct QueuedRequest {
  WorkerTable::Option option;
  FairQueue::QueueEntry entry;
  double work_us = 0;
  Instant since;
};

enum class Stage : std::uint8_t { features, lookup, executing };

struct Flight {
  using Serial = std::uint64_t;

  // Id of the request between router, index and workers. It changes with the plan (Flights::renumber).
  Serial serial = 0;
  RequestOrigin origin;
  TenantId tenant = Tenants::others;
  PinnedVersions pinned;
  std::uint64_t home = 0;  // hash; flights with equal hashes prefer the same worker
  Stage stage = Stage::features;
  Instant stage_began;
  std::unique_ptr<Request> request;
  bool pinned_again = false;
  bool abandoned = false;         // its client has gone: it ends with its open attempts
  bool failed_on_device = false;  // if true, every later attempt runs alone
  std::uint64_t fingerprint = 0;  // known once the features are read
  std::vector<NodeId> workers;    // candidates at admission; the home comes first
  std::optional<HeldBlocks> held;
  std::vector<PlanOption> plans;        // in the policy's order; only the chosen plan once `planned` is true
  bool planned = false;                 // the plan is chosen: all attempts use the same plan
  std::vector<PlanOption> spare_plans;  // the others without prototypes, if the chosen plan has some
  Timings timings;                      // filled step by step
  std::optional<QueuedRequest> queued;  // set while it waits in the worker's queue
  std::vector<Attempt> attempts;        // each on a different node, except where a lost one came back
  // Records who counts this use of the user's blocks: the home itself, or the reports of uses
  // elsewhere.
  enum class CountedAt : std::uint8_t { no, at_home, elsewhere } counted = CountedAt::no;
  // Smallest work that was too large for a worker. A worker that lacks fewer of the plan's blocks
  // may still accept it.
  double too_many_operations = std::numeric_limits<double>::infinity();
  // attempts, without those that follow a worker which drains or lacks these versions
  std::uint32_t paid = 0;

  Attempt* attempt_at(NodeId node);  // the latest attempt at that node; null = none
  bool has_open_attempt() const;
  std::vector<NodeId> tried() const;
  std::vector<NodeId> tried_and_kept() const;  // without the workers that were lost
  bool may_run() const;  // a worker that was lost by silence alone may have the plan still
  NodeId home_or(NodeId node) const { return workers.empty() ? node : workers.front(); }
  // Returns the work of one of its plans on a node, as far as the index's answer tells.
  placement::Work work_at(NodeId node, std::size_t plan) const {
    const PlanCost& cost = plans[plan].cost;
    return held ? cost.at(node, *held) : cost.nothing_held();
  }
  void settle_plan(std::size_t chosen);  // keeps only this plan, and the spare ones
  // Goes back to the spare plans if a worker refused the prototypes of the chosen one. Forgets the attempts
  // that were refused for them, as those workers may run another plan. Returns false, and changes nothing, if
  // no attempt was, there are no spare plans, or an open attempt may still be answered.
  bool drop_prototypes();
};

// Logs a step of a flight whose trace is sampled. Test is_traced before `fields` are built.
inline bool is_traced(const Flight& flight) { return flight.request->trace().sampled; }
void log_step(Step step, const Flight& flight, const char* event, std::vector<LogField> fields);

}  // namespace troupe::router
