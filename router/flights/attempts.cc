// Decides where and when a flight's plan is sent, and what follows from each way in which an
// attempt can end.
#include "router/flights/attempts.h"

#include <algorithm>
#include <map>
#include <utility>

#include "router/flights/answer_check.h"

namespace troupe::router {
namespace {

constexpr std::size_t sends_max = 4;
constexpr Duration suspect_memory{600'000'000};

bool costs_nothing(const Refusal& refusal) {
  return (refusal.kind == RefusalKind::unavailable &&
          (refusal.code == "draining" || refusal.code == "wrong_model" || refusal.code == "wrong_catalog" ||
           refusal.code == "wrong_prototypes")) ||
         refusal.code == "too_large";
}

// Returns true if another worker may succeed.
bool is_retriable(const Refusal& refusal) {
  if (refusal.kind == RefusalKind::unavailable || refusal.code == "too_large") return true;
  return refusal.kind == RefusalKind::internal &&
         (refusal.code == "bad_model_output" || refusal.code.starts_with("device_"));
}

Refusal poison() {
  return {RefusalKind::unprocessable, "poison", "workers were lost while they ran this request", "request",
          "another request"};
}

Refusal worker_too_late() {
  return {RefusalKind::deadline_exceeded, "deadline_exceeded", "the worker took too long", "inference worker",
          "a larger budget"};
}

// The plan fits the model and this router's prototypes, so a worker that calls it bad has other ones or none.
Refusal wrong_prototypes(std::string what) {
  return {RefusalKind::unavailable, "wrong_prototypes", std::move(what), "inference worker",
          "the same file of prototypes on every node (model.prototypes)"};
}

bool is_lost(const Attempt& attempt, std::span<const NodeId> nodes) {
  return attempt.open() && std::find(nodes.begin(), nodes.end(), attempt.ticket.node) != nodes.end();
}

// Logs a failed attempt, also when the request is not traced.
void log_trouble(Step step, const Flight& flight, const char* event, const Attempt& attempt,
                 const Refusal& why) {
  std::vector<LogField> fields{{"request", flight.serial},
                               {"asked", flight.origin.id},
                               {"node", attempt.ticket.node},
                               {"code", why.code},
                               {"why", why.what}};
  if (flight.request->trace().is_there()) fields.push_back({"trace_id", trace_id(flight.request->trace())});
  step.effects.log(LogLevel::debug, event, std::move(fields));
}

}  // namespace

Attempts::Attempts(const Config& config, WorkerChoice choice, PlanSender sender, const LoadLimits& limits,
                   const OtherRouters& other_routers, const Availability& availability, WorkerTable& workers,
                   WorkerQueues& queues, Flights& flights)
    : attempts_max_(config.attempts_max),
      choice_(std::move(choice)),
      sender_(std::move(sender)),
      limits_(limits),
      other_routers_(other_routers),
      availability_(availability),
      workers_(workers),
      queues_(queues),
      flights_(flights),
      suspects_(config.suspects_max, suspect_memory, {5 * config.heartbeat.us}),
      retry_budget_(config.retry_share, config.retry_burst) {}

// ---- which worker, and when ----

std::optional<WorkerTable::Option> Attempts::choose_worker(Step step, const Flight& flight) {
  if (suspects_.on_trial(step.now, flight.fingerprint)) return std::nullopt;
  const std::vector<NodeId> tried = flight.tried(), kept = flight.tried_and_kept();
  auto option = choose_without(step, flight, tried);
  if (!option && kept.size() < tried.size()) option = choose_without(step, flight, kept);
  return option;
}

std::optional<WorkerTable::Option> Attempts::choose_without(Step step, const Flight& flight,
                                                            std::vector<NodeId> excluded) {
  if (is_suspect(step.now, flight))
    for (const NodeId node : flights_.nodes_with_suspects()) excluded.push_back(node);
  return choice_.choose(step.now, flight, excluded);
}

void Attempts::execute(Step step, Flight& flight) {
  flight.stage = Stage::executing;
  const auto option = choose_worker(step, flight);
  if (!option) {
    Refusal nobody{RefusalKind::unavailable, "no_worker", "no worker is available to serve the request",
                   "router", "a retry after a pause"};
    if (park(step, flight, false, nobody)) return;
    return flights_.refuse(step, flight, std::move(nobody));
  }
  if (workers_.predicted_us(step.now, option->node, option->work, option->passes_us) >
      static_cast<double>((flight.origin.deadline - step.now).us))
    return flights_.refuse(step, flight, limits_.too_busy(step.now, flight, {{option->node}}, option->work));
  // A suspect is sent only while no other suspect runs there. It skips the queue, since suspects
  // are few.
  if (!queues_.may_send_at_once(option->node) && !is_suspect(step.now, flight))
    return queues_.enqueue(step, flight, *option);
  send(step, flight, *option);
}

void Attempts::send(Step step, Flight& flight, const WorkerTable::Option& option) {
  if (flight.attempts.empty()) flight.paid = 1;
  // All attempts use one plan, unless its prototypes are refused (Flight::drop_prototypes).
  if (!flight.planned) flight.settle_plan(option.plan);
  choice_.note_sent(flight, option.node);
  const bool suspect = is_suspect(step.now, flight);
  sender_.send(step, flight, option, suspect);
}

void Attempts::send_queued(Step step) {
  for (std::vector<NodeId> freed = workers_.take_freed(); !freed.empty() && queues_.waiting() > 0;
       freed = workers_.take_freed())
    for (const NodeId node : freed)
      while (const auto serial = queues_.take_next(node)) send_in_turn(step, *flights_.find(*serial));
}

// The state may have changed while it waited; if so, it chooses a worker again.
void Attempts::send_in_turn(Step step, Flight& flight) {
  const WorkerTable::Option option = flight.queued->option;
  queues_.end_waiting(step, flight);
  const bool as_before =
      workers_.usable(step.now, option.node, flight.pinned.model_version) && !is_suspect(step.now, flight);
  if (!as_before) return execute(step, flight);
  const double left_us = static_cast<double>((flight.origin.deadline - step.now).us);
  if (workers_.pace(option.node).us(option.work) > left_us)
    return flights_.refuse(step, flight, limits_.too_busy(step.now, flight, {{option.node}}, option.work));
  send(step, flight, option);
}

void Attempts::requeue(Step step, NodeId node) {
  const std::vector<Flight::Serial> waiting = queues_.take_all(node);
  for (const Flight::Serial serial : waiting) queues_.end_waiting(step, *flights_.find(serial));
  for (const Flight::Serial serial : waiting) execute(step, *flights_.find(serial));
}

void Attempts::on_late(Step step, Flight& flight) {
  if (flight.queued)
    reconsider(step, flight);
  else
    time_out(step, flight);
}

// Half of its time has passed in the queue: moves to another worker if that one finishes earlier.
void Attempts::reconsider(Step step, Flight& flight) {
  const auto option = choose_worker(step, flight);
  if (!option || option->node == flight.queued->option.node) return;
  queues_.leave(step, flight);
  execute(step, flight);
}

void Attempts::cancel(Step step, Flight& flight) {
  if (!flight.has_open_attempt()) return flights_.refuse(step, flight, client_gone());
  if (std::exchange(flight.abandoned, true)) return;
  for (const Attempt& attempt : flight.attempts)
    if (attempt.open())
      step.effects.send({attempt.ticket.node, Role::inference_worker}, Cancel{flight.serial});
}

void Attempts::time_out(Step step, Flight& flight) {
  for (Attempt& attempt : flight.attempts) {
    if (attempt.state != Attempt::State::waiting || step.now < attempt.late_at) continue;
    attempt.state = Attempt::State::late;
    workers_.time_out(step.now, attempt.ticket);
    log_trouble(step, flight, "plan_late", attempt, worker_too_late());
    retry(step, flight, false, worker_too_late());
    return;  // the list of attempts may have moved
  }
}

// Returns false if no worker is left or the request may not be tried again. Returns true also if
// the retry has to wait.
bool Attempts::retry(Step step, Flight& flight, bool free, const Refusal& refusal) {
  if (flight.abandoned) return false;
  if (flight.attempts.size() >= sends_max) return false;
  if (!free && flight.paid >= attempts_max_) return false;
  const auto option = choose_worker(step, flight);
  if (!option) return park(step, flight, free, refusal);
  if (!free && !retry_budget_.spend()) return false;
  if (!free) ++flight.paid, ++retries_;
  const Attempt* before = flight.attempt_at(option->node);
  if (before && !before->may_run && !flight.has_open_attempt()) flights_.renumber(step, flight);
  send(step, flight, *option);
  return true;
}

// ---- suspects ----

bool Attempts::has_poison_strikes(Instant now, const Flight& flight) const {
  return suspects_.strikes(now, flight.fingerprint) >= poison_strikes;
}

bool Attempts::refuse_poison(Step step, Flight& flight) {
  if (!has_poison_strikes(step.now, flight)) return false;
  if (flight.may_run() && suspects_.certain(step.now, flight.fingerprint) < poison_strikes) return false;
  flights_.refuse(step, flight, poison());
  return true;
}

// Returns true if the flight must wait: for any worker, or as a suspect for the router that tries it
// or for a worker that runs another suspect.
bool Attempts::park(Step step, const Flight& flight, bool free, const Refusal& refusal) {
  if (availability_.awaits_worker(step.now)) {
    flights_.parked().park({flight.serial, free, refusal});
    return true;
  }
  if (!is_suspect(step.now, flight)) return false;
  const std::vector<NodeId> busy = flights_.nodes_with_suspects(), tried = flight.tried();
  const bool some =
      suspects_.on_trial(step.now, flight.fingerprint) || std::ranges::any_of(busy, [&](NodeId node) {
        return std::ranges::find(tried, node) == tried.end() &&
               workers_.usable(step.now, node, flight.pinned.model_version);
      });
  if (some) flights_.parked().park({flight.serial, free, refusal});
  return some;
}

// Retries each parked flight, oldest first; one that still finds no worker is parked again.
void Attempts::retry_parked(Step step) {
  ParkedFlights& parked = flights_.parked();
  if (!parked.due()) return;
  for (const ParkedFlights::Entry& entry : parked.take_all()) {
    Flight* flight = flights_.find(entry.serial);
    if (!flight || refuse_poison(step, *flight)) continue;
    if (has_poison_strikes(step.now, *flight)) {  // not certain yet: it runs nowhere else
      parked.park(entry);
    } else if (flight->attempts.empty()) {
      execute(step, *flight);
    } else if (!retry(step, *flight, entry.free, entry.refusal) && !flight->has_open_attempt() &&
               !flight->may_run()) {  // a worker that may still run it may answer before the deadline
      flights_.refuse(step, *flight, entry.refusal);
    }
  }
  // Later suspects have already seen what ended meanwhile; the others wait for the next event.
  parked.sleep();
}

void Attempts::strike(Step step, std::uint64_t fingerprint, const Loss& loss) {
  suspects_.strike(step.now, fingerprint, false, {loss});
  other_routers_.send(step, suspects_.tell(step.now, fingerprint));
}

void Attempts::hear(Instant now, const Suspect& suspect) {
  suspects_.hear(now, suspect);
  flights_.parked().wake();
}

// A process that lives did not die of what it ran.
void Attempts::hear_alive(Instant now, NodeId node, Incarnation process, std::uint64_t sequence) {
  if (suspects_.clear_disproved(now, node, process, sequence)) flights_.parked().wake();
}

// ---- how an attempt ends ----

bool Attempts::on_executed(Step step, Address from, Flight& flight, const Executed& executed) {
  Attempt* attempt = flight.attempt_at(from.node);
  if (!attempt || from.role != Role::inference_worker) return false;
  const bool open = attempt->open(), alone = attempt->alone;
  if (open)
    if (const auto ratio = workers_.finish(step.now, attempt->ticket))
      step.effects.count(Metric::prediction_ratio, *ratio);
  if (const auto fault = validate_answer(*flight.request, flight.plans.front().candidate.plan,
                                         flight.pinned.model_version, executed)) {
    if (!open) return false;
    mark_fault(step, *attempt, *fault);
    fail(step, flight, *attempt, *fault, false);
    return false;
  }
  if (alone && is_suspect(step.now, flight)) {  // the request did not cause the loss
    suspects_.clear(flight.fingerprint);
    other_routers_.send(step, Suspect{flight.fingerprint, 0, {}});
  }
  attempt->state = Attempt::State::over;
  return true;
}

void Attempts::on_refused(Step step, Address from, Refused refused) {
  Flight* flight = flights_.find(refused.id);
  Attempt* attempt = flight ? flight->attempt_at(from.node) : nullptr;
  if (!attempt || !attempt->open() || from.role != Role::inference_worker) return;
  Refusal& refusal = refused.refusal;
  mark_fault(step, *attempt, refusal);
  const bool on_device = refusal.code.starts_with("device_");
  if (on_device) flight->failed_on_device = true;
  // The home refused the plan before it asked for a block.
  if (flight->counted == Flight::CountedAt::at_home && refusal.kind == RefusalKind::unavailable &&
      !on_device && from.node == flight->home_or(0))
    flight->counted = Flight::CountedAt::no;
  if (refusal.code == "too_large")
    flight->too_many_operations =
        std::min(flight->too_many_operations, flight->work_at(from.node, 0).operations);
  if (refusal.code == "bad_plan" && needs_prototypes(flight->plans.front())) {
    choice_.note_wrong_prototypes(step.now, attempt->ticket);
    attempt->wrong_prototypes = true;
    refusal = wrong_prototypes(std::move(refusal.what));
  }
  if (!is_retriable(refusal)) return flights_.refuse(step, *flight, std::move(refusal));
  fail(step, *flight, *attempt, refusal, costs_nothing(refusal));
}

// Marks a failing worker slow: failures are fast, so it would look idle.
void Attempts::mark_fault(Step step, const Attempt& attempt, const Refusal& refusal) {
  if (refusal.kind == RefusalKind::internal || refusal.code.starts_with("device_"))
    workers_.fail(step.now, attempt.ticket);
}

// Retries if possible, without prototypes if a worker refused them and the planner had other plans. Otherwise
// waits for another open attempt, or refuses the request if there is none.
void Attempts::fail(Step step, Flight& flight, Attempt& attempt, const Refusal& refusal, bool free) {
  const bool was_late = attempt.state == Attempt::State::late;  // in that case it was already tried again
  log_trouble(step, flight, "plan_failed", attempt, refusal);
  if (attempt.open()) workers_.forget(attempt.ticket);
  attempt.state = Attempt::State::over;
  flights_.parked().wake();
  if (was_late && flight.has_open_attempt()) return;
  if (flight.abandoned && !flight.has_open_attempt()) return flights_.refuse(step, flight, client_gone());
  if (flight.drop_prototypes()) flights_.renumber(step, flight);
  if (flight.attempts.empty()) return execute(step, flight);
  if (retry(step, flight, free, refusal) || flight.has_open_attempt()) return;
  flights_.refuse(step, flight, refusal);
}

// The processes on these nodes are lost, as far as known now.
void Attempts::lose(Step step, std::span<const NodeId> nodes, const std::string& why, bool silent) {
  if (!silent) flights_.note_dropped(nodes);
  const auto lost = strike_lost(step, nodes);
  for (const NodeId node : nodes) requeue(step, node);
  for (const auto& [serial, node] : lost) {
    Flight* flight = flights_.find(serial);
    const Refusal refusal{RefusalKind::unavailable, "worker_lost", "node " + std::to_string(node) + " " + why,
                          "inference worker", "a retry after a pause"};
    if (flight) lose(step, *flight, nodes, refusal, silent);
  }
}

// Returns the flights with attempts on lost nodes, each with one such node. Each content that ran
// there gets at most one strike, however often it ran.
std::vector<std::pair<Flight::Serial, NodeId>> Attempts::strike_lost(Step step,
                                                                     std::span<const NodeId> nodes) {
  std::vector<std::pair<Flight::Serial, NodeId>> lost;
  struct ContentLosses {
    bool alone = false;  // a suspect ran alone
    std::vector<Loss> losses;
  };
  std::map<std::uint64_t, ContentLosses> contents;  // by fingerprint
  for (const auto& [serial, flight] : flights_.all()) {
    // its deadline timer is due; its later effects are unknown
    if (step.now >= flight.origin.deadline) continue;
    NodeId at = 0;
    for (const Attempt& attempt : flight.attempts) {
      if (!is_lost(attempt, nodes)) continue;
      at = attempt.ticket.node;
      if (attempt.ticket.process == 0) continue;  // no process was ever heard there
      ContentLosses& struck = contents[flight.fingerprint];
      struck.alone = struck.alone || attempt.suspect;
      struck.losses.push_back({at, attempt.ticket.process, workers_.proof_of_life(step.now, at)});
    }
    if (at != 0) lost.push_back({serial, at});
  }
  for (const auto& [fingerprint, struck] : contents) {
    suspects_.strike(step.now, fingerprint, struck.alone, struck.losses);
    other_routers_.send(step, suspects_.tell(step.now, fingerprint));
  }
  return lost;
}

void Attempts::lose(Step step, Flight& flight, std::span<const NodeId> nodes, const Refusal& refusal,
                    bool silent) {
  Attempt* last = nullptr;
  for (Attempt& attempt : flight.attempts) {
    if (!is_lost(attempt, nodes)) continue;
    if (last) workers_.forget(last->ticket), last->state = Attempt::State::over;
    attempt.lost = true;
    attempt.may_run = silent;
    last = &attempt;
  }
  if (!last || refuse_poison(step, flight)) return;
  if (!has_poison_strikes(step.now, flight) || flight.abandoned)
    return fail(step, flight, *last, refusal, false);
  // Two workers are silent, which may live: the flight waits for an answer or for proof.
  workers_.forget(last->ticket);
  last->state = Attempt::State::over;
  flights_.parked().park({flight.serial, false, refusal});
}

}  // namespace troupe::router
