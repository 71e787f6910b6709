#pragma once
// Runs a flight's plan: sends it to a worker at once or in its turn, and sends it again if needed.
// An attempt ends by an answer, a refusal or the loss of its worker. An attempt that has used half
// of the remaining time is late: the plan is also tried elsewhere, and the first answer wins. A
// flight has `attempts_max` attempts, as far as the retry budget allows. A refusal by a worker that
// drains, lacks the model or cannot hold so large a pass costs no attempt. Even so, a plan is sent
// at most four times.
//
// A worker with another file of prototypes, or none, refuses a plan that needs them. This costs no attempt
// either. If the planner had other plans, the request takes one without prototypes, on any worker; the
// attempts that were refused do not count. Otherwise another worker may have the file.
//
// A request during which a worker was lost is a suspect (suspects.h). It runs alone, on a worker
// where no other suspect of this router runs. If that worker were lost too, the guilty request
// would be unknown. Until there is such a worker, the flight is parked.
//
// A flight is also parked while no worker is usable for a moment (Availability::awaits_worker). If a
// worker that was taken for lost is the only one then, the plan is sent there again. A process that was
// merely silent ignores the copy, and its answer counts. One whose connection broke has dropped the plan,
// and gets it under a new number.
//
// After a second strike a flight runs nowhere else. It is refused as poison, unless a worker that is merely
// silent may run it still: then it waits for that answer, or until the losses are certain or disproved.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "router/fleet/availability.h"
#include "router/fleet/other_routers.h"
#include "router/fleet/retry_budget.h"
#include "router/fleet/suspects.h"
#include "router/flights/flights.h"
#include "router/flights/load_limits.h"
#include "router/flights/plan_sender.h"
#include "router/flights/worker_choice.h"

namespace troupe::router {

class Attempts {
 public:
  struct Config {
    std::uint32_t attempts_max = 2;  // per flight
    double retry_share = 0.1;        // retries earned per admitted flight
    double retry_burst = 50;
    std::size_t suspects_max = 1'024;
    Duration heartbeat{200'000};
  };
  // These belong to the router and must outlive this object.
  Attempts(const Config& config, WorkerChoice choice, PlanSender sender, const LoadLimits& limits,
           const OtherRouters& other_routers, const Availability& availability, WorkerTable& workers,
           WorkerQueues& queues, Flights& flights);

  // ---- a flight's way to its answer ----
  void earn_retry() { retry_budget_.earn(); }  // called for each admitted flight
  // Refuses the flight and returns true if workers died of its content.
  bool refuse_poison(Step step, Flight& flight);
  // Sends the plan, queues or parks the flight, or refuses it.
  void execute(Step step, Flight& flight);
  // Returns true if the answer is valid and ends the flight. An invalid answer ends its attempt.
  bool on_executed(Step step, Address from, Flight& flight, const Executed& executed);
  void on_refused(Step step, Address from, Refused refused);  // by a worker
  // Half of the time of its queue or of an attempt has passed.
  void on_late(Step step, Flight& flight);

  // ---- news of workers and other routers ----
  // `silent`: the loss is known by their silence alone.
  void lose(Step step, std::span<const NodeId> nodes, const std::string& why, bool silent = false);
  void requeue(Step step, NodeId node);  // what waits for that worker (draining, lost or removed)
  void hear_alive(Instant now, NodeId node, Incarnation process, std::uint64_t sequence);
  void hear(Instant now, const Suspect& suspect);
  void follow(std::span<const NodeId> workers) { sender_.follow(workers); }
  // Ends the flight of a client that has gone. One that is at workers ends with its attempts there, so that
  // a loss is still counted against it; they are told not to begin it.
  void cancel(Step step, Flight& flight);
  // Records that a worker was lost while it computed a request of this content in the background.
  void strike(Step step, std::uint64_t fingerprint, const Loss& loss);
  bool is_suspect(Instant now, std::uint64_t fingerprint) const {
    return suspects_.strikes(now, fingerprint) > 0;
  }

  // ---- what may go on after any event ----
  void retry_parked(Step step);
  void send_queued(Step step);  // to workers that have capacity now

  std::uint64_t sent() const { return sender_.sent(); }
  std::uint64_t retries() const { return retries_; }  // attempts that the retry budget paid for
  std::size_t suspects() const { return suspects_.size(); }
  std::size_t homes() const { return sender_.homes(); }  // with uses of users' blocks to report

 private:
  std::optional<WorkerTable::Option> choose_worker(Step step, const Flight& flight);
  std::optional<WorkerTable::Option> choose_without(Step step, const Flight& flight,
                                                    std::vector<NodeId> excluded);
  void send(Step step, Flight& flight, const WorkerTable::Option& option);
  void send_in_turn(Step step, Flight& flight);
  void reconsider(Step step, Flight& flight);
  bool retry(Step step, Flight& flight, bool free, const Refusal& refusal);
  bool is_suspect(Instant now, const Flight& flight) const { return is_suspect(now, flight.fingerprint); }
  bool has_poison_strikes(Instant now, const Flight& flight) const;
  bool park(Step step, const Flight& flight, bool free, const Refusal& refusal);
  void time_out(Step step, Flight& flight);
  void mark_fault(Step step, const Attempt& attempt, const Refusal& refusal);
  void fail(Step step, Flight& flight, Attempt& attempt, const Refusal& refusal, bool free);
  std::vector<std::pair<Flight::Serial, NodeId>> strike_lost(Step step, std::span<const NodeId> nodes);
  void lose(Step step, Flight& flight, std::span<const NodeId> nodes, const Refusal& refusal, bool silent);

  const std::uint32_t attempts_max_;
  WorkerChoice choice_;
  PlanSender sender_;
  LoadLimits limits_;
  OtherRouters other_routers_;
  const Availability& availability_;
  WorkerTable& workers_;
  WorkerQueues& queues_;
  Flights& flights_;
  Suspects suspects_;
  RetryBudget retry_budget_;
  std::uint64_t retries_ = 0;
};

}  // namespace troupe::router
