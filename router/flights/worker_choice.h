#pragma once
// Chooses the worker for a flight, and with it the plan where the policy weighs plans. It takes the
// user's home if the policy keeps users' blocks at home. Otherwise it chooses among the candidates
// from admission and the holder of most blocks. If none of those is left, it chooses among fresh
// candidates. The table of workers compares them by the configured rule (routing.h).
//
// A plan with prototypes needs a worker with this router's file of them. A worker that refused them is
// offered none for a while, or until it restarts; if the plan is fixed, such a worker comes last.
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "router/fleet/last_workers.h"
#include "router/flights/flight.h"
#include "router/flights/worker_queues.h"

namespace troupe::router {

class WorkerChoice {
 public:
  // The two belong to the router and must outlive this object.
  WorkerChoice(Routing::By by, WorkerTable& workers, const WorkerQueues& queues);

  // Returns nullopt if no worker is left. `excluded`: nodes that are not considered.
  std::optional<WorkerTable::Option> choose(Instant now, const Flight& flight,
                                            std::span<const NodeId> excluded);
  // The flight's plan is sent to this node.
  void note_sent(const Flight& flight, NodeId node);
  // The worker refused the plan of this attempt, because it has other prototypes or none.
  void note_wrong_prototypes(Instant now, const Ticket& refused);

 private:
  struct WrongPrototypes {
    Incarnation process = 0;
    Instant until;
  };
  bool has_wrong_prototypes(Instant now, NodeId node) const;
  std::optional<WorkerTable::Option> choose_any(Instant now, const Flight& flight,
                                                std::span<const NodeId> excluded);
  std::optional<WorkerTable::Option> choose_home(Instant now, const Flight& flight,
                                                 std::span<const NodeId> excluded) const;
  std::optional<WorkerTable::Option> choose_among(Instant now, const Flight& flight,
                                                  std::span<const NodeId> nodes,
                                                  std::span<const NodeId> excluded);
  std::size_t plan_at(Instant now, NodeId node, const Flight& flight) const;
  WorkerTable::Option option_at(Instant now, NodeId node, const Flight& flight) const;
  NodeId last_worker(const Flight& flight) const;
  bool is_joint() const { return by_ == Routing::By::joint; }

  Routing::By by_;
  WorkerTable& workers_;
  const WorkerQueues& queues_;
  LastWorkers last_;  // used only by Algorithm 1
  std::map<NodeId, WrongPrototypes> wrong_prototypes_;
};

}  // namespace troupe::router
