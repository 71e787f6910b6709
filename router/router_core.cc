// Wires the parts of the router actor, and passes each event to the parts that it concerns.
#include "router/router_core.h"

#include <algorithm>
#include <set>
#include <utility>

#include "kernels/base/check.h"
#include "router/router_status.h"

namespace troupe::router {
namespace {

// member periods within which the other nodes have read the members
constexpr std::int64_t awaited_members = 5;

Versions initial_versions(const RouterConfig& config) {
  const std::string& model = config.model_version.empty() ? config.names.model_version : config.model_version;
  return {.model_version = model, .catalog_version = config.catalog_version};
}

WorkerTableConfig worker_table(const RouterConfig& config) {
  return {.heartbeat = config.heartbeat,
          .pace = config.pace,
          .window = config.window,
          .pass = config.costs.passes(1),
          .routing = config.routing,
          .own = config.has_worker ? config.node : 0};
}

Duration leader_wait(const RouterConfig& config) {
  return {config.joined ? awaited_members * config.members_every.us : 0};
}

// Returns how long a request waits for a worker: until the loss of its process is certain, and as long again
// until another one is heard.
Duration worker_wait(const RouterConfig& config) { return {6 * config.heartbeat.us}; }

// Workers that run connect and are heard within a few heartbeats.
Duration fleet_wait(const RouterConfig& config) { return {10 * config.heartbeat.us}; }

Attempts::Config attempts_config(const RouterConfig& config) {
  return {.attempts_max = config.attempts_max,
          .retry_share = config.retry_share,
          .retry_burst = config.retry_burst,
          .suspects_max = config.suspects_max,
          .heartbeat = config.heartbeat};
}

Planning::Config planning_config(const RouterConfig& config) {
  return {.form = config.form,
          .limits = config.limits,
          .costs = config.costs,
          .policy = config.policy,
          .budgets = {config.budget, config.budget_max},
          .lookup_wait_min = config.lookup_wait_min};
}

}  // namespace

RouterCore::RouterCore(RouterConfig config)
    : config_(std::move(config)),
      next_id_(config_.incarnation),
      stall_detector_(config_.heartbeat),
      members_({config_.workers, config_.routers, config_.cache_metas}, config_.members_every,
               std::move(config_.members)),
      workers_(worker_table(config_), members_.workers()),
      leader_(members_.cache_metas(), config_.heartbeat, config_.has_cache_meta ? config_.node : 0),
      versions_(initial_versions(config_), config_.coordinate, config_.heartbeat, config_.reload_budget),
      share_(versions_, workers_),
      availability_({config_.features, leader_wait(config_), worker_wait(config_), fleet_wait(config_)},
                    versions_, workers_, leader_),
      pull_cost_(config_.pull_share),
      names_(config_.form, config_.names),
      precompute_(config_.precompute, workers_, leader_, config_.form, config_.names, config_.places),
      tenants_(config_.tenants),
      queues_(config_.quantum, workers_, tenants_),
      outcomes_(config_.recent_max),
      flights_(outcomes_, tenants_, workers_, queues_),
      attempts_(attempts_config(config_), {config_.routing.by, workers_, queues_},
                {{config_.shared_areas, config_.reports_uses_elsewhere}, workers_, tenants_, pull_cost_},
                {config_.budget, tenants_, queues_, workers_}, other_routers(), availability_, workers_,
                queues_, flights_),
      verifier_(config_.verify, workers_, flights_, attempts_),
      replays_({config_.replay, config_.form, config_.budget_max}, availability_, versions_, workers_,
               other_routers(), attempts_, outcomes_),
      answers_({config_.costs, config_.measures_pulls, config_.block_pace}, workers_, pull_cost_, flights_),
      planning_(planning_config(config_),
                {config_.in_flight_max,
                 {config_.budget, tenants_, queues_, workers_},
                 availability_,
                 tenants_,
                 workers_,
                 queues_,
                 outcomes_,
                 flights_},
                versions_, share_, leader_, pull_cost_, names_, precompute_, flights_, attempts_),
      stored_data_({config_.form, config_.limits, config_.budget, config_.writes_in_flight_max,
                    config_.writes_at_once, config_.precompute.blocks},
                   availability_, versions_, leader_, names_, precompute_, replays_, outcomes_),
      reloads_({config_.coordinate, config_.reload_budget, config_.heartbeat, config_.limits.id_bytes_max},
               versions_, share_, workers_, flights_, outcomes_),
      early_(config_.in_flight_max, {config_.budget, config_.budget_max}, availability_) {
  TROUPE_CHECK(next_id_ > 0, "ids of requests leave room for the router's own timers");
  TROUPE_CHECK(!config_.workers.empty(), "the cluster has at least one worker");
}

// Every event goes to the part that it concerns: a message by its kind, a timer by its number, a
// finished job to the part that started it. After any event, requests may go on that waited for
// what it changed: early ones for the versions or a worker, parked ones for a worker, or one without a
// suspect, queued ones for a worker's capacity.
void RouterCore::step(Instant now, Event&& event, Effects& effects) {
  const Step step{now, next_id_, effects};
  forgive_stall(step);
  if (auto* received = std::get_if<Received>(&event)) {
    if (find_kind(received->message) && early_.keep(now, *received))
      effects.set_timer(early_timer, early_.last_due());
    else
      on_message(step, received->from, std::move(received->message));
  } else if (const auto* fired = std::get_if<TimerFired>(&event)) {
    on_timer(step, fired->timer);
  } else if (auto* done = std::get_if<JobDone>(&event)) {
    on_done(step, std::move(*done));
  } else if (const auto* lost = std::get_if<PeerLost>(&event)) {
    on_peer_lost(step, lost->node);
  }
  while (std::optional<Received> early = early_.take(now))
    on_message(step, early->from, std::move(early->message));
  attempts_.retry_parked(step);
  attempts_.send_queued(step);
}

// ---- messages ----

// Requests of clients and operators, and answers to the router's own questions. Late or repeated
// answers find no flight and are ignored.
void RouterCore::on_message(Step step, Address from, Message&& message) {
  if (const RequestKind* kind = find_kind(message)) {
    planning_.on_request(step, from, *kind, std::move(message));
  } else if (auto* found = std::get_if<BlocksFound>(&message)) {
    if (!precompute_.on_found(step, *found)) planning_.on_found(step, std::move(*found));
  } else if (auto* executed = std::get_if<Executed>(&message)) {
    Flight* flight = flights_.find(executed->id);
    if (!flight) {
      if (!verifier_.on_executed(step, from, *executed) && !replays_.on_executed(step, from, *executed))
        precompute_.on_executed(step, *executed);
    } else if (attempts_.on_executed(step, from, *flight, *executed)) {
      verifier_.note(step, *flight, from.node, *executed);
      replays_.note(step, *flight, from.node, *executed);
      answers_.answer(step, *flight, from.node, std::move(*executed));
    }
  } else if (auto* refused = std::get_if<Refused>(&message)) {
    if (!verifier_.on_refused(step, from, *refused) && !replays_.on_refused(step, from, *refused) &&
        !precompute_.on_refused(step, *refused))
      attempts_.on_refused(step, from, std::move(*refused));
  } else if (auto* put_user = std::get_if<PutUser>(&message)) {
    stored_data_.on_write(step, from, std::move(*put_user));
  } else if (auto* delete_user = std::get_if<DeleteUser>(&message)) {
    stored_data_.on_write(step, from, std::move(*delete_user));
  } else if (auto* put_item = std::get_if<PutItem>(&message)) {
    stored_data_.on_write(step, from, std::move(*put_item));
  } else if (auto* delete_item = std::get_if<DeleteItem>(&message)) {
    stored_data_.on_write(step, from, std::move(*delete_item));
  } else if (auto* events = std::get_if<AppendEvents>(&message)) {
    stored_data_.on_write(step, from, std::move(*events));
  } else if (auto* get_user = std::get_if<GetUser>(&message)) {
    stored_data_.on_read(step, from, std::move(*get_user));
  } else if (auto* get_item = std::get_if<GetItem>(&message)) {
    stored_data_.on_read(step, from, std::move(*get_item));
  } else if (const auto* cancel = std::get_if<Cancel>(&message)) {
    on_cancel(step, from, cancel->id);
  } else if (const auto* reload = std::get_if<Reload>(&message)) {
    reloads_.on_reload(step, from, *reload);
  } else if (auto* replay = std::get_if<ReplayRequest>(&message)) {
    replays_.on_request(step, from, std::move(*replay));
  } else if (auto* replayed = std::get_if<ReplayReply>(&message)) {
    replays_.on_reply(step, from, std::move(*replayed));
  } else {
    on_news(step, from, std::move(message));
  }
}

// A client has gone. Nothing is begun for it; a request that had its outcome, or has not come, is ignored.
void RouterCore::on_cancel(Step step, Address from, RequestId id) {
  const bool early = early_.cancel(from, id);  // it may be a copy, whose outcome is the request's
  if (early && !outcomes_.is_copy(from, id))
    return outcomes_.refuse(step, {from, id, step.now, step.now}, client_gone());
  if (stored_data_.cancel(step, from, id)) return;
  if (Flight* flight = flights_.find(from, id)) attempts_.cancel(step, *flight);
}

// News of the cluster, and the operator's drain and status.
void RouterCore::on_news(Step step, Address from, Message&& message) {
  if (const auto* heartbeat = std::get_if<Heartbeat>(&message)) {
    on_heartbeat(step, from.node, *heartbeat);
  } else if (const auto* beat = std::get_if<LeaderBeat>(&message)) {
    leader_.hear(step.now, from.node, beat->token);
  } else if (const auto* suspect = std::get_if<Suspect>(&message)) {
    attempts_.hear(step.now, *suspect);
  } else if (const auto* versions = std::get_if<Versions>(&message)) {
    const std::uint64_t epoch = versions_.versions().epoch;
    versions_.hear(step.now, *versions, workers_);
    on_versions(step, epoch, false);
  } else if (const auto* reply = std::get_if<StatusReply>(&message)) {
    precompute_.on_status(step, *reply);
  } else if (const auto* drain = std::get_if<Drain>(&message)) {
    availability_.drain(step, drain->on);
    step.effects.send(from, status(step.now, drain->id));
  } else if (const auto* request = std::get_if<StatusRequest>(&message)) {
    step.effects.send(from, status(step.now, request->id));
  } else {
    step.effects.count(Metric::protocol_errors);
  }
}

// ---- jobs and timers ----

void RouterCore::on_done(Step step, JobDone&& done) {
  const auto members = members_.on_done(done, step.effects);
  if (members == MemberWatch::Answer::changed) on_members(step);
  if (members != MemberWatch::Answer::foreign) return versions_.note_members_read(step, done.result);
  const std::uint64_t epoch = versions_.versions().epoch;
  const auto answer = versions_.on_done(step, done.job, done.result, workers_);
  if (answer != VersionKeeper::Answer::foreign) {
    on_versions(step, epoch, answer == VersionKeeper::Answer::written);
    return reloads_.advance(step);
  }
  if (availability_.on_done(step, done.job, done.result)) return;
  if (planning_.on_done(step, done.job, done.result)) return;
  if (stored_data_.on_done(step, done.job, done.result)) return;
  if (replays_.on_done(step, done.job, done.result)) return;
  if (precompute_.on_plan_read(step, done.job, done.result)) return;
  TROUPE_CHECK(precompute_.on_listed(step, done.job, done.result),
               "a finished job was started by this router");
}

void RouterCore::on_timer(Step step, std::uint64_t timer) {
  if (timer == start_timer) return on_start(step);
  if (timer == precompute_timer) return precompute_.on_timer(step);
  if (timer == beat_timer) return on_beat(step);
  if (timer == early_timer) return;  // the step takes what is due
  if (Flight* flight = flights_.find(serial_of(timer))) return on_flight_timer(step, *flight, timer);
  stored_data_.on_deadline(step, serial_of(timer));
  replays_.on_deadline(step, serial_of(timer));
}

void RouterCore::on_flight_timer(Step step, Flight& flight, std::uint64_t timer) {
  const TimerKind kind = kind_of(timer);
  if (kind == TimerKind::deadline) return flights_.refuse(step, flight, deadline_passed());
  if (kind == TimerKind::late) return attempts_.on_late(step, flight);
  planning_.on_lookup_late(step, flight);
}

void RouterCore::on_start(Step step) {
  availability_.start(step.now);
  if (members_.epoch() > 0) on_members(step);
  workers_.start(step.now);
  leader_.start(step.now);
  precompute_.start(step);
  // so that their samples exist from the start
  for (const auto& [name, weight] : config_.tenants.weights)
    for (const Metric metric :
         {Metric::tenant_requests, Metric::tenant_refused, Metric::tenant_work, Metric::tenant_waiting})
      step.effects.count(metric, 0, name);
  for (const char* what : {"versions_lost", "versions_unconfirmed"})
    if (config_.coordinate) step.effects.count(Metric::coordination_losses, 0, what);
  on_beat(step);
}

// Runs once per heartbeat: detects silent workers, asks the Coordination, advances a reload.
void RouterCore::on_beat(Step step) {
  const std::vector<NodeId> silent = workers_.tick(step.now);
  lost_workers_.tick(step, workers_, members_);
  tenants_.set_slots(workers_.live_slots(step.now));
  lose_workers(step, silent, "is silent", true);
  flights_.parked().wake();
  versions_.tick(step, workers_);
  announce_to_workers(step);
  step.next_id += members_.tick(step.now, step.next_id, step.effects);
  share_.advance(step.now);
  reloads_.advance(step);
  availability_.tick(step);
  pull_cost_.beat();
  precompute_.review_hot_items(step, config_.costs, pull_cost_);
  verifier_.on_beat(step);
  replays_.on_beat(step);
  step.effects.set_timer(beat_timer, step.now + config_.heartbeat);
}

// ---- the cluster ----

void RouterCore::forgive_stall(Step step) {
  const Duration stall = stall_detector_.before(step.now);
  if (stall.us <= 0) return;
  workers_.forgive_stall(stall);
  availability_.forgive_stall(stall);
  leader_.forgive_stall(stall);
  step.effects.log(LogLevel::warning, "process_stalled", {{"us", stall.us}});
}

// Announces itself to workers that send no heartbeats here: they may not know this router.
void RouterCore::announce_to_workers(Step step) const {
  if (!config_.joined) return;
  for (const NodeId node : workers_.nodes())
    if (!workers_.alive(step.now, node) || workers_.last_heard(node)->incarnation == 0)
      step.effects.send({node, Role::inference_worker}, versions());
}

void RouterCore::on_heartbeat(Step step, NodeId node, const Heartbeat& heartbeat) {
  const auto news = workers_.hear(step.now, node, heartbeat);
  if (news == WorkerTable::News::ignored) return;
  if (news == WorkerTable::News::restarted) {
    step.effects.log(LogLevel::warning, "worker_restarted", {{"node", node}});
    lose_workers(step, {&node, 1}, "has restarted");
  }
  flights_.parked().wake();
  if (heartbeat.draining) attempts_.requeue(step, node);
  attempts_.hear_alive(step.now, node, heartbeat.incarnation, heartbeat.sequence);
  if (heartbeat.versions_epoch < versions().epoch)
    step.effects.send({node, Role::inference_worker}, versions());
  versions_.rumour(step, heartbeat.versions_epoch, workers_);
}

void RouterCore::on_peer_lost(Step step, NodeId node) {
  leader_.lose(node);
  replays_.lose_router(step, node);
  if (!workers_.has(node)) return;
  if (workers_.lose(node)) lost_workers_.lose(step, node, members_);
  lose_workers(step, {&node, 1}, "is gone");
}

// Retries elsewhere what ran on these workers.
void RouterCore::lose_workers(Step step, std::span<const NodeId> nodes, const char* why, bool silent) {
  attempts_.lose(step, nodes, why, silent);
  precompute_.lose(step, nodes);
  verifier_.lose(step, nodes);
  replays_.lose(step, nodes);
}

// Requests of removed nodes go elsewhere. A leaving node gets no new plans once it drains, but
// other nodes can still pull its blocks.
void RouterCore::on_members(Step step) {
  std::vector<NodeId> gone = workers_.nodes();
  std::erase_if(gone, [this](NodeId node) { return std::ranges::binary_search(members_.workers(), node); });
  std::set<NodeId> leaving;
  for (const NodeId node : members_.workers())
    if (members_.is_leaving(node)) leaving.insert(node);
  workers_.follow(members_.workers());
  attempts_.follow(members_.workers());
  leader_.follow(members_.cache_metas());
  for (const NodeId node : gone) attempts_.requeue(step, node);
  lose_workers(step, gone, "has left");
  precompute_.follow_members(step, std::move(leaving));
  step.effects.log(LogLevel::info, "members",
                   {{"epoch", members_.epoch()},
                    {"workers", members_.workers().size()},
                    {"leaving", members_.workers().size() - members_.staying().size()}});
}

// The versions may have changed; `own_doing`: by this router, so that the others have to hear of it.
void RouterCore::on_versions(Step step, std::uint64_t epoch_before, bool own_doing) {
  if (versions().epoch == epoch_before) return;
  step.effects.log(LogLevel::info, "versions",
                   {{"epoch", versions().epoch},
                    {"model", versions().model_version},
                    {"catalog", versions().catalog_version},
                    {"next_model", versions().next_model},
                    {"next_share", versions().next_model.empty() ? 0 : versions().next_share},
                    {"next_catalog", versions().next_catalog}});
  if (own_doing) other_routers().send(step, versions());
  share_.advance(step.now);
  // Precomputes item blocks for the model that most users have.
  const bool most_have_next = versions().is_shared() && 2 * versions().next_share >= Versions::all_users;
  precompute_.follow(step, most_have_next ? versions().next_model : versions().model_version,
                     versions().catalog_version);
}

// ---- for observers ----

StatusReply RouterCore::status(Instant now, RequestId id) const {
  const RouterStatus sources{.node = config_.node,
                             .form = config_.form,
                             .policy = config_.policy,
                             .placement = config_.placement,
                             .token_bytes = config_.costs.token_bytes,
                             .has_members = config_.members_every.us > 0,
                             .is_reloading = reloads_.in_progress(),
                             .availability = availability_,
                             .versions = versions_,
                             .members = members_,
                             .workers = workers_,
                             .pull_cost = pull_cost_,
                             .tenants = tenants_,
                             .queues = queues_,
                             .outcomes = outcomes_,
                             .flights = flights_,
                             .attempts = attempts_,
                             .answers = answers_,
                             .planning = planning_,
                             .stored_data = stored_data_,
                             .precompute = precompute_,
                             .verifier = verifier_,
                             .replays = replays_,
                             .lost_workers = lost_workers_};
  return sources.reply(now, id);
}

std::string RouterCore::find_unfairness() const { return queues_.find_unfairness(); }

std::string RouterCore::check_bounds() const {
  const std::size_t in_flight = config_.in_flight_max;
  const std::size_t jobs = stored_data_.writes() + stored_data_.reads();
  const struct {
    const char* what;
    std::size_t count, most;
  } bounds[] = {
      {"requests", flights_.size(), in_flight},
      {"early requests", early_.size(), in_flight},
      {"feature jobs", planning_.feature_jobs(), 2 * in_flight},
      {"writes", stored_data_.writes(), config_.writes_in_flight_max},
      {"reads", stored_data_.reads(), config_.writes_in_flight_max},
      {"running writes", stored_data_.running_writes(), config_.writes_at_once},
      {"open ids", outcomes_.open_count(),
       flights_.size() + jobs + reloads_.in_progress() + replays_.running()},
      {"remembered ids", outcomes_.recent_count(), config_.recent_max},
      {"waiting requests", queues_.waiting(), flights_.size()},
      {"tenants", tenants_.size(), 1 + config_.tenants.weights.size() + config_.tenants.tenants_max},
      {"parked requests", flights_.parked().size(), flights_.size()},
      {"suspects", attempts_.suspects(), config_.suspects_max},
      {"homes with uses to report", attempts_.homes(), workers_.nodes().size()},
      {"attempts", flights_.most_attempts(), 4},
      {"waiting verifications", verifier_.pending(), config_.verify.pending_max},
      {"replays", replays_.running(), config_.replay.replays_max},
      {"answers to record", replays_.pending(), config_.replay.pending_max},
      {"deleted users", replays_.deleted(), config_.replay.deleted_max},
  };
  for (const auto& [what, count, most] : bounds)
    if (count > most)
      return std::string(what) + ": " + std::to_string(count) + " of at most " + std::to_string(most);
  return precompute_.check_bounds();
}

}  // namespace troupe::router
