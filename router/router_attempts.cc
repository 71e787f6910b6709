// Sends a request's plan to workers, and sends it again if needed. An attempt ends by an answer, a
// refusal or the loss of its worker. An attempt that has used half of the remaining time is late:
// the plan is also tried elsewhere, and the first answer wins. A request has `attempts_max`
// attempts, as far as the retry budget allows. A refusal by a worker that drains, lacks the model
// or cannot hold so large a pass costs no attempt. Even so, a plan is sent at most four times.
#include <algorithm>

#include "kernels/base/hash.h"
#include "router/answer_check.h"
#include "router/fleet/row_profile.h"
#include "router/router_core.h"
#include "runtime/actor/mutants.h"

namespace troupe::router {
namespace {

constexpr std::size_t sends_max = 4;

bool costs_nothing(const Refusal& refusal) {
  return (refusal.status == 503 &&
          (refusal.code == "draining" || refusal.code == "wrong_model" || refusal.code == "wrong_catalog")) ||
         refusal.code == "too_large";
}

// Returns true if another worker may succeed.
bool is_retriable(const Refusal& refusal) {
  if (refusal.status == 503 || refusal.code == "too_large") return true;
  return refusal.status == 500 && (refusal.code == "bad_model_output" || refusal.code.starts_with("device_"));
}

Refusal poison() {
  return {422, "poison", "workers were lost while they ran this request", "request", "another request"};
}

Refusal worker_too_late() {
  return {504, "deadline_exceeded", "the worker took too long", "inference worker", "a larger budget"};
}

bool contains(std::span<const NodeId> nodes, NodeId node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

}  // namespace

// Chooses the user's home if the policy keeps users' blocks at home. Otherwise chooses among the
// candidates from admission and the holder of most blocks. If none of those is left, chooses among
// fresh candidates.
std::optional<WorkerTable::Option> RouterCore::choose_worker(Step step, const Flight& flight) {
  if (suspects_.on_trial(step.now, flight.fingerprint)) return std::nullopt;
  std::vector<NodeId> tried = flight.tried();
  if (mutated(Mutant::retry_poison)) tried.clear();
  if (is_suspect(step.now, flight))
    for (const NodeId node : nodes_with_suspects()) tried.push_back(node);
  if (const auto option = choose_home(step, flight, tried)) return option;
  std::vector<NodeId> nodes = flight.workers;
  const auto add_holders = [&] {
    for (const PlanOption& considered : flight.plans) {
      if (!flight.held) break;
      const NodeId holder = flight.held->best_holder(considered.cost.first(), considered.cost.asked());
      if (holder != 0 && !contains(nodes, holder)) nodes.push_back(holder);
    }
  };
  add_holders();
  if (const NodeId last = last_worker(flight); last != 0 && !contains(nodes, last)) nodes.push_back(last);
  if (const auto option = choose_among(step, flight, nodes, tried)) return option;
  nodes = workers_.candidates(step.now, {flight.fingerprint, spread(flight.serial + flight.attempts.size()),
                                         flight.pinned.model_version, tried});
  add_holders();
  return choose_among(step, flight, nodes, tried);
}

WorkerTable::Option RouterCore::option_at(NodeId node, const Flight& flight) const {
  const std::size_t plan = plan_at(node, flight);
  const PlanCost& cost = flight.plans[plan].cost;
  WorkerTable::Option option{node,
                             work_at(node, flight, plan),
                             plan,
                             passes_us(node, flight.tenant),
                             flight.held ? cost.hit(node, *flight.held) : 0,
                             cost.nothing_held()};
  const Heartbeat* heard = uses_joint_rule() ? workers_.last_heard(node) : nullptr;
  if (!heard) return option;
  const Plan& wanted = flight.plans[plan].candidate.plan;
  option.kept = cost.all_held();
  option.rows_us = static_cast<double>(rows_of(wanted)) * heard->us_per_row;
  option.rows_found = rows_found(wanted, *heard);
  option.last = last_worker(flight) == node;
  return option;
}

NodeId RouterCore::last_worker(const Flight& flight) const {
  return uses_joint_rule() ? last_.of(flight.request->home()) : 0;
}

std::optional<WorkerTable::Option> RouterCore::choose_among(Step step, const Flight& flight,
                                                            std::span<const NodeId> nodes,
                                                            std::span<const NodeId> tried) {
  std::vector<WorkerTable::Option> options;
  for (const NodeId node : nodes) {
    if (contains(tried, node)) continue;
    const WorkerTable::Option option = option_at(node, flight);
    if (option.work.operations < flight.too_many_operations) options.push_back(option);
  }
  return workers_.choose(step.now, options, flight.pinned.model_version, flight.attempts.empty());
}

// Returns the home, unless it is slow or would finish too late. Another worker also wins if it is
// faster by more than the time to compute the user's block, which is what the home saves.
std::optional<WorkerTable::Option> RouterCore::choose_home(Step step, const Flight& flight,
                                                           std::span<const NodeId> tried) const {
  const Policy* policy = flight.request->policy();
  if (!policy || !(*policy)->at_home || !flight.planned || flight.workers.empty()) return std::nullopt;
  if (!keeps_user(flight.plans.front().candidate)) return std::nullopt;
  const auto may_go = [&](NodeId node) {
    return !contains(tried, node) && workers_.usable(step.now, node, flight.pinned.model_version) &&
           !workers_.avoided(step.now, node);
  };
  const auto done_us = [&](const WorkerTable::Option& option) {
    return workers_.predicted_us(step.now, option.node, option.work, option.passes_us);
  };
  const WorkerTable::Option home = option_at(flight.workers.front(), flight);
  if (!may_go(home.node) || home.work.operations >= flight.too_many_operations) return std::nullopt;
  const PlanCost& cost = flight.plans.front().cost;
  const placement::Pace pace = workers_.pace(home.node);
  double latest_us = static_cast<double>((flight.asked.deadline - step.now).us);
  for (const NodeId node : flight.workers)
    if (node != home.node && may_go(node))
      latest_us = std::min(latest_us, done_us(option_at(node, flight)) + pace.us(cost.nothing_held()) -
                                          pace.us(cost.all_held()));
  if (done_us(home) > latest_us) return std::nullopt;
  return home;
}

bool RouterCore::is_suspect(Instant now, const Flight& flight) const {
  return suspects_.strikes(now, flight.fingerprint) > 0;
}

std::vector<NodeId> RouterCore::nodes_with_suspects() const {
  std::vector<NodeId> nodes;
  for (const auto& [serial, flight] : flights_)
    for (const Attempt& attempt : flight.attempts)
      if (attempt.suspect && attempt.open()) nodes.push_back(attempt.ticket.node);
  return nodes;
}

// Parks a suspect and returns true if it must wait: for the router that tries it, or for a worker
// that runs another suspect. If that worker were lost, the guilty request would be unknown.
bool RouterCore::park(Step step, const Flight& flight, bool free, const Refusal& refusal) {
  if (!is_suspect(step.now, flight)) return false;
  const std::vector<NodeId> busy = nodes_with_suspects(), tried = flight.tried();
  const bool some =
      suspects_.on_trial(step.now, flight.fingerprint) ||
      std::any_of(busy.begin(), busy.end(), [&](NodeId node) {
        return !contains(tried, node) && workers_.usable(step.now, node, flight.pinned.model_version);
      });
  if (!some) return false;
  const auto at = std::find_if(parked_.begin(), parked_.end(),
                               [&](const ParkedRequest& parked) { return parked.serial == flight.serial; });
  if (at != parked_.end()) {
    *at = {flight.serial, free, refusal};
  } else {
    parked_.push_back({flight.serial, free, refusal});
  }
  return true;
}

// Retries each parked suspect, oldest first; one that still finds no worker is parked again.
void RouterCore::unpark(Step step) {
  may_unpark_ = false;
  std::deque<ParkedRequest> waiting;
  waiting.swap(parked_);
  for (const ParkedRequest& parked : waiting) {
    Flight* flight = find(parked.serial);
    if (!flight || refuse_poison(step, *flight)) continue;
    if (flight->attempts.empty()) {
      execute(step, *flight);
    } else if (!retry(step, *flight, parked.free, parked.refusal) && !flight->has_open_attempt()) {
      refuse_flight(step, *flight, parked.refusal);
    }
  }
  may_unpark_ =
      false;  // later suspects have already seen what ended meanwhile; the others wait for the next event
}

// Refuses a request if workers died of it.
bool RouterCore::refuse_poison(Step step, Flight& flight) {
  const std::uint32_t enough = mutated(Mutant::convict_at_once) ? 1 : poison_strikes;
  if (suspects_.strikes(step.now, flight.fingerprint) < enough || mutated(Mutant::retry_poison)) return false;
  refuse_flight(step, flight, poison());
  return true;
}

void RouterCore::execute(Step step, Flight& flight) {
  flight.stage = Stage::executing;
  const auto option = choose_worker(step, flight);
  const Refusal nobody{503, "no_worker", "no worker is available to serve the request", "router",
                       "a retry after a pause"};
  if (!option && park(step, flight, false, nobody)) return;
  if (!option) return refuse_flight(step, flight, nobody);
  if (workers_.predicted_us(step.now, option->node, option->work, option->passes_us) >
      static_cast<double>((flight.asked.deadline - step.now).us))
    return refuse_flight(step, flight, too_busy(step.now, flight, {{option->node}}, option->work));
  // A suspect is sent only while no other suspect runs there. It skips the queue, since suspects
  // are few.
  if (!may_send_at_once(option->node) && !is_suspect(step.now, flight)) return enqueue(step, flight, *option);
  send_plan(step, flight, *option);
}

void RouterCore::send_plan(Step step, Flight& flight, const WorkerTable::Option& option) {
  if (flight.attempts.empty()) flight.paid = 1;
  // for good: all attempts of a request use one plan
  if (!flight.planned) settle_plan(flight, option.plan);
  Execute plan = make_plan(step.now, flight, option.node);
  const Duration left = flight.asked.deadline - step.now;
  note_home(step.now, flight, option.node, plan);
  plan.id = flight.serial;
  plan.trace = flight.request->trace();
  plan.budget_us = left.us;
  plan.model_version = flight.pinned.model_version;
  plan.catalog_version = flight.request->catalog_version();
  const bool suspect = is_suspect(step.now, flight) && !mutated(Mutant::forget_suspects);
  plan.alone = suspect || flight.failed_on_device;
  const Instant late_at = step.now + Duration{left.us / 2};
  flight.attempts.push_back({workers_.send(step.now, option), late_at, plan.alone, suspect});
  attempts_ += flight.attempts.size() == 1 || !mutated(Mutant::miscount_attempts);
  step.effects.count(Metric::tenant_work, workers_.pace(option.node).us(option.work) * 1e-6,
                     tenants_[flight.tenant].name);
  step.effects.set_timer(timer_of(flight.serial, TimerKind::late), late_at);
  log_hop(step, flight, "plan_sent", {{"node", option.node}, {"attempt", flight.attempts.size()}});
  step.effects.send({option.node, Role::inference_worker}, std::move(plan));
}

// Counts at the user's home what the user's blocks would have saved, wherever the request runs. A
// worker that never hears of the user would not keep pages for them. Plans to the home carry the
// recorded uses.
void RouterCore::note_home(Instant now, Flight& flight, NodeId node, Execute& plan) {
  using CountedAt = Flight::CountedAt;
  if (uses_joint_rule()) last_.note(flight.request->home(), node);
  const NodeId home = flight.home_or(node);
  const PlanOption& sent = flight.plans.front();
  if (keeps_user(sent.candidate)) {
    plan.retention.remote_home = home != node || flight.counted == CountedAt::elsewhere;
    if (home == node && flight.counted == CountedAt::no) flight.counted = CountedAt::at_home;
    if (home != node && flight.counted == CountedAt::no && config_.reports_uses_elsewhere &&
        workers_.alive(now, home)) {
      elsewhere_.note(home, sent.cost.users_blocks(sent.candidate, workers_.pace(home)));
      flight.counted = CountedAt::elsewhere;
    }
  }
  // Uses are reported only with a plan whose worker asks for blocks, because it reports them
  // together.
  if (std::ranges::any_of(plan.blocks, [](const SegmentBlock& block) { return block.name.has_value(); }))
    plan.retention.elsewhere = elsewhere_.take(node);
}

// Logs a failed attempt, also when the request is not traced.
void RouterCore::log_trouble(Step step, const Flight& flight, const char* event, const Attempt& attempt,
                             const Refusal& why) {
  std::vector<LogField> fields{{"request", flight.serial},
                               {"asked", flight.asked.id},
                               {"node", attempt.ticket.node},
                               {"code", why.code},
                               {"why", why.what}};
  if (flight.request->trace().is_there()) fields.push_back({"trace_id", trace_id(flight.request->trace())});
  step.effects.log(LogLevel::debug, event, std::move(fields));
}

// Returns false if no worker is left or the request may not be tried again. Returns true also if
// the retry has to wait.
bool RouterCore::retry(Step step, Flight& flight, bool free, const Refusal& refusal) {
  if (!mutated(Mutant::retry_poison)) {
    if (flight.attempts.size() >= sends_max) return false;
    if (!free && flight.paid >= config_.attempts_max) return false;
  }
  const auto option = choose_worker(step, flight);
  if (!option) return park(step, flight, free, refusal);
  if (!free && !mutated(Mutant::retry_poison) && !retry_budget_.spend()) return false;
  if (!free) ++flight.paid, ++retries_;
  send_plan(step, flight, *option);
  return true;
}

// ---- how an attempt ends ----

void RouterCore::on_executed(Step step, Address from, Flight& flight, const Executed& executed) {
  Attempt* attempt = flight.attempt_at(from.node);
  if (!attempt || from.role != Role::inference_worker) return;
  const bool open = attempt->open(), alone = attempt->alone;
  if (open)
    if (const auto ratio = workers_.finish(step.now, attempt->ticket))
      step.effects.count(Metric::prediction_ratio, *ratio);
  if (const auto fault = validate_answer(*flight.request, flight.plans.front().candidate.plan,
                                         flight.pinned.model_version, executed)) {
    if (!open) return;
    mark_fault(step, *attempt, *fault);
    return fail_attempt(step, flight, *attempt, *fault, false);
  }
  if (alone && is_suspect(step.now, flight)) {  // the request did not cause the loss
    suspects_.clear(flight.fingerprint);
    send_to_routers(step, Suspect{flight.fingerprint, 0, {}});
  }
  attempt->state = Attempt::State::over;
  answer(step, flight, from.node, executed);
}

void RouterCore::on_attempt_refused(Step step, Address from, const Refused& refused) {
  Flight* flight = find(refused.id);
  Attempt* attempt = flight ? flight->attempt_at(from.node) : nullptr;
  if (!attempt || !attempt->open() || from.role != Role::inference_worker) return;
  if (mutated(Mutant::forget_refused_request)) {
    open_.erase({flight->asked.from, flight->asked.id});
    return drop(step, *flight);
  }
  mark_fault(step, *attempt, refused.refusal);
  const bool on_device = refused.refusal.code.starts_with("device_");
  if (on_device) flight->failed_on_device = true;
  // The home refused the plan before it asked for a block.
  if (flight->counted == Flight::CountedAt::at_home && refused.refusal.status == 503 && !on_device &&
      from.node == flight->home_or(0))
    flight->counted = Flight::CountedAt::no;
  if (refused.refusal.code == "too_large")
    flight->too_many_operations =
        std::min(flight->too_many_operations, work_at(from.node, *flight, 0).operations);
  if (!is_retriable(refused.refusal)) return refuse_flight(step, *flight, refused.refusal);
  fail_attempt(step, *flight, *attempt, refused.refusal, costs_nothing(refused.refusal));
}

// Marks a failing worker slow: failures are fast, so it would look idle.
void RouterCore::mark_fault(Step step, const Attempt& attempt, const Refusal& refusal) {
  if (refusal.status == 500 || refusal.code.starts_with("device_")) workers_.fail(step.now, attempt.ticket);
}

// Retries if possible. Otherwise waits for another open attempt, or refuses the request if there is
// none.
void RouterCore::fail_attempt(Step step, Flight& flight, Attempt& attempt, const Refusal& refusal,
                              bool free) {
  const bool was_late = attempt.state == Attempt::State::late;  // in that case it was already tried again
  log_trouble(step, flight, "plan_failed", attempt, refusal);
  if (attempt.open()) workers_.forget(attempt.ticket);
  attempt.state = Attempt::State::over;
  may_unpark_ = !parked_.empty();
  if (was_late && flight.has_open_attempt()) return;
  if (retry(step, flight, free, refusal) || flight.has_open_attempt()) return;
  refuse_flight(step, flight, refusal);
}

void RouterCore::on_late(Step step, Flight& flight) {
  for (Attempt& attempt : flight.attempts) {
    if (attempt.state != Attempt::State::waiting || step.now < attempt.late_at) continue;
    attempt.state = Attempt::State::late;
    workers_.time_out(step.now, attempt.ticket);
    log_trouble(step, flight, "plan_late", attempt, worker_too_late());
    retry(step, flight, false, worker_too_late());
    return;  // the list of attempts may have moved
  }
}

// The processes on these nodes are lost, as far as known now. Each content that ran there gets at
// most one strike, however often it ran.
void RouterCore::lose_attempts(Step step, std::span<const NodeId> nodes, const std::string& why) {
  const auto is_lost = [&](const Attempt& attempt) {
    return attempt.open() && std::find(nodes.begin(), nodes.end(), attempt.ticket.node) != nodes.end();
  };
  std::vector<std::pair<Serial, NodeId>> lost;
  struct ContentLosses {
    bool alone = false;  // a suspect ran alone
    std::vector<Loss> losses;
  };
  std::map<std::uint64_t, ContentLosses> contents;  // by fingerprint
  for (const auto& [serial, flight] : flights_) {
    // its deadline timer is due; its later effects are unknown
    if (step.now >= flight.asked.deadline) continue;
    NodeId at = 0;
    for (const Attempt& attempt : flight.attempts) {
      if (!is_lost(attempt)) continue;
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
    if (!mutated(Mutant::keep_suspects_private)) send_to_routers(step, suspects_.tell(step.now, fingerprint));
  }
  for (const NodeId node : nodes) requeue_waiting(step, node);
  for (const auto& [serial, node] : lost) {
    Flight* flight = find(serial);
    const Refusal refusal{503, "worker_lost", "node " + std::to_string(node) + " " + why, "inference worker",
                          "a retry after a pause"};
    if (flight) lose_attempt(step, *flight, nodes, refusal);
  }
}

void RouterCore::lose_attempt(Step step, Flight& flight, std::span<const NodeId> nodes,
                              const Refusal& refusal) {
  if (refuse_poison(step, flight)) return;
  if (mutated(Mutant::no_retry_after_loss)) return refuse_flight(step, flight, refusal);
  Attempt* last = nullptr;
  for (Attempt& attempt : flight.attempts) {
    if (!attempt.open() || std::find(nodes.begin(), nodes.end(), attempt.ticket.node) == nodes.end())
      continue;
    if (last) workers_.forget(last->ticket), last->state = Attempt::State::over;
    last = &attempt;
  }
  if (last) fail_attempt(step, flight, *last, refusal, false);
}

}  // namespace troupe::router
