#pragma once
// A request between its admission and its one outcome: what it is pinned to, what has become known of it, by
// which plans it could be answered, and where the chosen one was sent.
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "router/fleet/worker_table.h"
#include "router/request/held_blocks.h"
#include "router/request/plan_cost.h"
#include "router/request/request.h"
#include "router/tenants/fair_queue.h"
#include "router/tenants/tenants.h"
#include "runtime/actor/core.h"

namespace troupe::router {

struct Asked {
  Address from;
  RequestId id = 0;
  Instant received, deadline;
};

// The snapshot that a request sees from its admission to its answer (promise 4).
struct Pinned {
  std::string model_version, catalog_version;
  bool operator==(const Pinned&) const = default;
};

// One sending of the plan. A late one may still be answered, and the first answer wins.
struct Attempt {
  enum class State : std::uint8_t { waiting, late, over };
  Ticket ticket;
  Instant late_at;
  bool alone = false;
  bool suspect = false;  // its content had a strike then
  State state = State::waiting;
  bool open() const { return state != State::over; }
};

// A plan by which the request could be answered.
struct Considered {
  Candidate candidate;
  PlanCost cost;
};

// A request's place in the line for the worker that it has chosen.
struct InLine {
  WorkerTable::Option option;
  FairQueue::Place place;
  double work_us = 0;
  Instant since;
};

enum class Stage : std::uint8_t { features, lookup, executing };

struct Flight {
  std::uint64_t serial = 0;  // its id between router, index and workers
  Asked asked;
  TenantId tenant = Tenants::others;
  Pinned pinned;
  Stage stage = Stage::features;
  Instant stage_began;
  std::unique_ptr<Request> request;
  bool pinned_again = false;
  bool failed_on_device = false;  // from then on it runs alone
  std::uint64_t fingerprint = 0;  // known once the features are
  std::vector<NodeId> workers;    // that were considered at admission
  std::optional<HeldBlocks> held;
  std::vector<Considered> plans;  // in the order of the policy; only the chosen one once it is
  bool planned = false;           // the first of those is chosen, for good: all attempts have one plan
  Timings timings;                // filled step by step
  std::optional<InLine> in_line;  // while it waits for its turn
  std::vector<Attempt> attempts;  // each at another node
  // By whom it is counted that its user's blocks are wanted: by their home, or by what that is told of
  // requests elsewhere.
  enum class Counted : std::uint8_t { no, at_home, elsewhere } counted = Counted::no;
  // Of the least work that was too large for a worker: one that lacks less of the plan's blocks may do it.
  double too_many_operations = std::numeric_limits<double>::infinity();
  std::uint32_t paid = 0;  // attempts but for those after a worker that is draining or has not these versions

  Attempt* attempt_at(NodeId node) {  // the latest there
    for (std::size_t i = attempts.size(); i-- > 0;)
      if (attempts[i].ticket.node == node) return &attempts[i];
    return nullptr;
  }
  NodeId home_or(NodeId node) const { return workers.empty() ? node : workers.front(); }
  bool has_open_attempt() const {
    for (const Attempt& attempt : attempts)
      if (attempt.open()) return true;
    return false;
  }
  std::vector<NodeId> tried() const {
    std::vector<NodeId> nodes;
    for (const Attempt& attempt : attempts) nodes.push_back(attempt.ticket.node);
    return nodes;
  }
};

}  // namespace troupe::router
