// Implements the router's part in the cluster: liveness, served versions, reloads, draining and
// status.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "router/router_core.h"
#include "router/served_kinds.h"
#include "runtime/actor/mutants.h"

namespace troupe::router {
namespace {

constexpr std::size_t tenants_shown = 8, workers_shown = 64;
// member periods within which the other nodes have read the members
constexpr std::int64_t awaited_members = 5;

std::optional<Refusal> find_fault_of_share(const Reload& reload, const std::string& present) {
  if (reload.share == 1) return std::nullopt;
  const auto fault = [](std::string what, std::string expected) {
    return Refusal{400, "bad_share", std::move(what), "share", std::move(expected)};
  };
  if (!(reload.share >= 0 && reload.share < 1))
    return fault("the share is out of range", "a share of the users, 0 to 1");
  if (reload.model_version.empty() || reload.model_version == present)
    return fault("a share needs a model other than the current one",
                 "model: the one that the share of users gets");
  if (!reload.catalog_version.empty())
    return fault("two models that share the users have one catalog", "no catalog beside a share");
  return std::nullopt;
}

// Rounds to thousandths, but never rounds a share below 1 up to 1.
std::uint32_t thousandths(double share) {
  const auto rounded = static_cast<std::uint32_t>(std::lround(share * Versions::all_users));
  return share < 1 ? std::min(rounded, Versions::all_users - 1) : rounded;
}

std::string weight_text(double weight) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", weight);
  return text;
}

}  // namespace

// Runs once per heartbeat: detects silent workers, asks the Coordination, advances a reload.
void RouterCore::on_beat(Step step) {
  const std::vector<NodeId> silent = workers_.tick(step.now);
  slots_ = workers_.live_slots(step.now);
  lose_attempts(step, silent, "is silent");
  precompute_.lose(step, silent);
  may_unpark_ = !parked_.empty();
  versions_.tick(step, workers_);
  announce_to_workers(step);
  step.next_id += members_.tick(step.now, step.next_id, step.effects);
  advance_share(step.now);
  advance_reload(step);
  features_.tick(step);
  pull_cost_.beat();
  step.effects.set_timer(beat_timer, step.now + config_.heartbeat);
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
    lose_attempts(step, {&node, 1}, "has restarted");
    precompute_.lose(step, {&node, 1});
  }
  if (heartbeat.draining) requeue_waiting(step, node);
  // A process that lives did not die of what it ran.
  if (suspects_.clear_disproved(step.now, node, heartbeat.incarnation, heartbeat.sequence))
    may_unpark_ = true;
  const std::uint64_t epoch = versions().epoch;
  if (heartbeat.versions_epoch < epoch) step.effects.send({node, Role::inference_worker}, versions());
  versions_.rumour(step, heartbeat.versions_epoch, workers_);
}

void RouterCore::on_peer_lost(Step step, NodeId node) {
  leader_.lose(node);
  if (!workers_.has(node)) return;
  if (workers_.lose(node)) step.effects.log(LogLevel::warning, "worker_lost", {{"node", node}});
  lose_attempts(step, {&node, 1}, "is gone");
  precompute_.lose(step, {&node, 1});
}

// Requests of removed nodes go elsewhere. A leaving node gets no new plans once it drains, but
// other nodes can still pull its blocks.
void RouterCore::follow_members(Step step) {
  std::vector<NodeId> gone = workers_.nodes();
  std::erase_if(gone, [this](NodeId node) { return std::ranges::binary_search(members_.workers(), node); });
  std::set<NodeId> leaving;
  for (const NodeId node : members_.workers())
    if (members_.is_leaving(node)) leaving.insert(node);
  workers_.follow(members_.workers());
  elsewhere_.follow(members_.workers());
  leader_.follow(members_.cache_metas());
  for (const NodeId node : gone) requeue_waiting(step, node);
  lose_attempts(step, gone, "has left");
  precompute_.lose(step, gone);
  precompute_.follow_members(step, std::move(leaving));
  step.effects.log(LogLevel::info, "members",
                   {{"epoch", members_.epoch()},
                    {"workers", members_.workers().size()},
                    {"leaving", members_.workers().size() - members_.staying().size()}});
}

void RouterCore::send_to_routers(Step step, const Message& message) const {
  for (const NodeId node : members_.routers())
    if (node != config_.node) step.effects.send({node, Role::router}, message);
}

// ---- versions ----

void RouterCore::follow_versions(Step step, std::uint64_t epoch_before, bool own_doing) {
  if (versions().epoch == epoch_before) return;
  step.effects.log(LogLevel::info, "versions",
                   {{"epoch", versions().epoch},
                    {"model", versions().model_version},
                    {"catalog", versions().catalog_version},
                    {"next_model", versions().next_model},
                    {"next_share", versions().next_model.empty() ? 0 : versions().next_share},
                    {"next_catalog", versions().next_catalog}});
  if (own_doing) send_to_routers(step, versions());
  advance_share(step.now);
  // Precomputes item blocks for the model that most users have.
  const bool most_have_next = versions().is_shared() && 2 * versions().next_share >= Versions::all_users;
  precompute_.follow(step, most_have_next ? versions().next_model : versions().model_version,
                     versions().catalog_version);
}

// Pins no user to the next model before every live worker has it: the first such worker would get
// the whole share.
void RouterCore::advance_share(Instant now) {
  const Versions& served = versions();
  if (!served.is_shared())
    shared_.clear();
  else if (shared_ != served.next_model && workers_.all_have(now, served.next_model))
    shared_ = served.next_model;
}

void RouterCore::on_reload(Step step, Address from, const Reload& reload) {
  if (is_copy(from, reload.id)) return;
  const RequestOrigin asked{from, reload.id, step.now, step.now + config_.reload_budget};
  if (reload.model_version.empty() && reload.catalog_version.empty())
    return refuse(
        step, asked,
        {400, "empty_reload", "neither a model nor a catalog is named", "body", "model or catalog"});
  if (reload.model_version.size() + reload.catalog_version.size() > config_.limits.id_bytes_max ||
      (reload.model_version + reload.catalog_version).find('\n') != std::string::npos)
    return refuse(step, asked,
                  {400, "bad_version", "a version is too long or has a line break", "body",
                   "at most " + std::to_string(config_.limits.id_bytes_max) + " bytes in one line"});
  if (const auto fault = find_fault_of_share(reload, versions().model_version))
    return refuse(step, asked, *fault);
  if (!config_.coordinate)
    return refuse(step, asked,
                  {422, "versions_fixed", "this process serves only the model " + versions().model_version,
                   "router", "a restart with another model, or a cluster with a Coordination"});
  if (!versions_.known())
    return refuse(
        step, asked,
        {503, "starting", "the served versions are not known yet", "router", "a retry after a pause"});
  if (reloading_ || mutated(Mutant::refuse_reload))
    return refuse(step, asked,
                  {503, "busy", "another reload is in progress", "router", "a retry after it is done"});
  open_.insert({from, reload.id});
  versions_.wish(reload.model_version, reload.catalog_version, thousandths(reload.share));
  reloading_ = PendingReload{asked, std::nullopt};
  versions_.tick(step, workers_);
}

// Returns why the wish cannot be served, if so.
std::optional<Refusal> RouterCore::reload_failure(Instant now) const {
  switch (versions_.wish_state()) {
    case VersionKeeper::Wish::replaced:
      return Refusal{503, "replaced", "another reload has replaced this one", "router",
                     "one reload at a time"};
    case VersionKeeper::Wish::wrong_catalog:
      return Refusal{422, "wrong_catalog", "the catalog does not exist", "catalog",
                     "a catalog that was imported"};
    case VersionKeeper::Wish::refused:
      return Refusal{422, "model_refused", "a worker cannot load the model: " + versions_.why_refused(),
                     "model", "a model that every worker can load"};
    default:
      break;
  }
  if (now < reloading_->asked.deadline) return std::nullopt;
  return Refusal{504, "deadline_exceeded", "not every worker had the new versions in time", "router",
                 "models that every worker can load"};
}

// Returns true if the wish is served, every live worker follows, and nothing of the old versions
// runs here.
bool RouterCore::is_followed(Instant now) const {
  const bool old_runs = std::any_of(flights_.begin(), flights_.end(),
                                    [&](const auto& flight) { return !is_present(flight.second.pinned); });
  const bool shared = !versions().is_shared() || shared_ == versions().next_model;
  const bool served = versions_.wish_state() == VersionKeeper::Wish::served && shared;
  return served && !old_runs && workers_.all_follow(now, versions().epoch);
}

// Returns true if the other routers have had time to hear of the new versions, or if nothing had to
// change.
bool RouterCore::is_heard_of(Instant now) const {
  return !versions_.wish_changes() || now.us - reloading_->served_since->us >= config_.heartbeat.us * 2;
}

// Ends the reload if it has its outcome by now. An announcement that failed is taken back.
void RouterCore::advance_reload(Step step) {
  if (!reloading_) return;
  const std::optional<Refusal> failure = reload_failure(step.now);
  const bool followed = is_followed(step.now);
  if (followed && !reloading_->served_since) reloading_->served_since = step.now;
  const bool done = (followed && is_heard_of(step.now)) || mutated(Mutant::end_reload_early);
  if (!failure && !done) return;
  const RequestOrigin asked = std::exchange(reloading_, std::nullopt)->asked;
  versions_.end_wish(step.now, !failure);
  if (failure) return refuse(step, asked, *failure);
  settle(asked);
  step.effects.send(asked.from, Stored{asked.id, versions().epoch});
}

// ---- drain and status ----

void RouterCore::on_drain(Step step, Address from, const Drain& drain) {
  if (draining_ != drain.on) step.effects.log(LogLevel::info, drain.on ? "drain" : "drain_ended");
  draining_ = drain.on;
  step.effects.send(from, status(step.now, drain.id));
}

// Returns why the router is not ready. A node that joined is not known to the leader at once;
// without the index, its requests would recompute blocks that exist.
std::string RouterCore::not_ready_reason(Instant now) const {
  if (draining_) return "it is draining";
  if (!versions_.known()) return "the served versions are not known yet";
  if (!workers_.any_has(versions().model_version))
    return "no worker serves model " + versions().model_version;
  const Duration wait_deadline{awaited_members * config_.members_every.us};
  if (config_.joined && leader_.leader(now) == 0 && now < began_ + wait_deadline)
    return "the leading cache-meta is not known yet";
  return features_.obstacle();
}

// Lists at most `workers_shown` workers; those with a problem come first.
void RouterCore::report_workers(Instant now, StatusReply& reply) const {
  struct WorkerLine {
    bool well = true;
    std::string text;
  };
  std::vector<WorkerLine> reported;
  for (const NodeId node : workers_.nodes()) {
    const bool alive = workers_.alive(now, node), slow = workers_.slow(node);
    char slowness[32];
    std::snprintf(slowness, sizeof slowness, "%.2f", workers_.slowness(node));
    reported.push_back(
        {alive && !slow, std::to_string(node) + ": " +
                             (!alive ? "lost"
                              : slow ? "slow"
                                     : "alive") +
                             ", heard " + std::to_string(workers_.silent_for(now, node).us / 1000) +
                             " ms ago, takes " + slowness + " of what was predicted, " +
                             std::to_string(std::lround(workers_.slots(node))) + " lanes, " +
                             std::to_string(std::llround(std::max(0.0, workers_.wait_us(now, node)))) +
                             " us of work ahead"});
  }
  std::ranges::stable_partition(reported, [](const WorkerLine& worker) { return !worker.well; });
  reported.resize(std::min(reported.size(), workers_shown));
  for (WorkerLine& worker : reported) reply.fields.push_back({"worker", std::move(worker.text)});
}

void RouterCore::report_recent(Instant now, StatusReply& reply) const {
  for (const auto& [name, plan] : tally_.plans())
    reply.fields.push_back({"plan", name + ": " + std::to_string(plan.requests) + " requests, " +
                                        std::to_string(plan.tokens) + " tokens, " +
                                        std::to_string(plan.reused) + " reused"});
  for (const RecentTimes::Row& row : times_.rows(now))
    reply.fields.push_back({"stage", std::string(row.stage) + ": p50 " + std::to_string(row.p50_us) +
                                         " us, p99 " + std::to_string(row.p99_us) + " us, " +
                                         std::to_string(row.requests) + " in the last minute"});
}

StatusReply RouterCore::status(Instant now, RequestId id) const {
  const std::string reason = not_ready_reason(now);
  StatusReply reply{id, config_.node, Role::router, reason.empty(), {}};
  const auto field = [&](const char* name, std::string value) {
    reply.fields.push_back({name, std::move(value)});
  };
  if (!reason.empty()) field("not_ready", reason);
  field("model_version", versions().model_version);
  field("model_serves", std::string(served_kinds(config_.form)));
  field("catalog_version", catalog_version_.empty() ? versions().catalog_version : catalog_version_);
  field("next_model", versions().next_model);
  if (versions().is_shared())
    field("next_share", weight_text(versions().next_share / double{Versions::all_users}));
  field("next_catalog", versions().next_catalog);
  field("versions_epoch", std::to_string(versions().epoch));
  field("policy", config_.policy.name());
  field("requests_in_flight", std::to_string(flights_.size()));
  field("requests_waiting", std::to_string(waiting_));
  for (const Tenants::Tenant* tenant : tenants_.busiest(tenants_shown))
    field("tenant", "\"" + tenant->name + "\": " + std::to_string(tenant->requests) + " requests, " +
                        std::to_string(tenant->waiting) + " waiting with " +
                        std::to_string(static_cast<std::int64_t>(tenant->work_us / 1000)) +
                        " ms of work, weight " + weight_text(tenant->weight));
  field("writes_in_flight", std::to_string(writings_.size()));
  field("reads_in_flight", std::to_string(readings_.size()));
  field("requests_answered", std::to_string(answered_));
  field("requests_refused", std::to_string(refused_));
  field("plans_sent", std::to_string(attempts_));
  field("retries", std::to_string(retries_));
  field("pull_share", std::to_string(pull_cost_.share()));
  field("suspects", std::to_string(suspects_.size()));
  if (draining_)
    field("drained",
          flights_.empty() && writings_.empty() && readings_.empty() && !reloading_ ? "yes" : "no");
  if (config_.members_every.us > 0) {
    field("members_epoch", std::to_string(members_.epoch()));
    field("handed_on", precompute_.is_migration_done() ? "yes" : "no");
  }
  field("precompute", std::string(precompute_.state()));
  field("precompute_at_rest", precompute_.is_idle() ? "yes" : "no");
  field("items_precomputed", std::to_string(precompute_.items_precomputed()));
  field("items_given_up", std::to_string(precompute_.items_given_up()));
  field("items_hot", std::to_string(precompute_.items_hot()));
  report_workers(now, reply);
  report_recent(now, reply);
  return reply;
}

std::string RouterCore::check_bounds() const {
  const auto over = [](const char* what, std::size_t count, std::size_t most) {
    return std::string(what) + ": " + std::to_string(count) + " of at most " + std::to_string(most);
  };
  if (flights_.size() > config_.in_flight_max)
    return over("requests", flights_.size(), config_.in_flight_max);
  if (early_.size() > config_.in_flight_max)
    return over("early requests", early_.size(), config_.in_flight_max);
  if (feature_jobs_.size() > 2 * std::size_t{config_.in_flight_max})
    return over("feature jobs", feature_jobs_.size(), 2 * std::size_t{config_.in_flight_max});
  const std::size_t jobs = writings_.size() + readings_.size();
  if (jobs > config_.writes_in_flight_max) return over("writes", jobs, config_.writes_in_flight_max);
  const std::size_t open_max = flights_.size() + jobs + reloading_.has_value();
  if (open_.size() > open_max) return over("open ids", open_.size(), open_max);
  if (recent_.size() > config_.recent_max) return over("remembered ids", recent_.size(), config_.recent_max);
  if (waiting_ > flights_.size()) return over("waiting requests", waiting_, flights_.size());
  const std::size_t tenants_max = 1 + config_.tenants.weights.size() + config_.tenants.tenants_max;
  if (tenants_.size() > tenants_max) return over("tenants", tenants_.size(), tenants_max);
  if (parked_.size() > flights_.size()) return over("parked requests", parked_.size(), flights_.size());
  if (suspects_.size() > config_.suspects_max)
    return over("suspects", suspects_.size(), config_.suspects_max);
  if (elsewhere_.homes() > workers_.nodes().size())
    return over("homes with uses to report", elsewhere_.homes(), workers_.nodes().size());
  for (const auto& [serial, flight] : flights_)
    if (flight.attempts.size() > 4) return over("attempts", flight.attempts.size(), 4);
  return precompute_.check_bounds();
}

}  // namespace troupe::router
