// Contains the entry points of the router actor: it dispatches messages, job results and timers.
// Also admits requests, refuses them when the router is full or no worker is there, and closes
// them.
#include "router/router_core.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/base/check.h"
#include "kernels/base/hash.h"
#include "runtime/actor/mutants.h"

namespace troupe::router {
namespace {

Refusal overloaded(std::string what) {
  return {503, "overloaded", std::move(what), "router", "a retry after a pause"};
}

Refusal too_late() {
  return {504, "deadline_exceeded", "the request's deadline has passed", "router",
          "a larger budget or less load"};
}

constexpr std::size_t users_remembered = 65'536;  // users for whom Algorithm 1 remembers the last worker
constexpr Duration suspect_memory{600'000'000};

Versions initial_versions(const RouterConfig& config) {
  const std::string& model = config.model_version.empty() ? config.names.model_version : config.model_version;
  return {.model_version = model, .catalog_version = config.catalog_version};
}

}  // namespace

Refusal too_many_requests(std::uint32_t most) {
  return overloaded(std::to_string(most) + " requests are in flight");
}

RouterCore::RouterCore(RouterConfig config)
    : config_(std::move(config)),
      next_id_(config_.incarnation),
      stall_detector_(config_.heartbeat),
      members_({config_.workers, config_.routers, config_.cache_metas}, config_.members_every,
               std::move(config_.members)),
      workers_({.heartbeat = config_.heartbeat,
                .pace = config_.pace,
                .window = config_.window,
                .pass = config_.costs.passes(1),
                .routing = config_.routing},
               members_.workers()),
      last_(config_.routing.by == Routing::By::joint ? users_remembered : 0),
      leader_(members_.cache_metas(), config_.heartbeat),
      features_(config_.features),
      versions_(initial_versions(config_), config_.coordinate, config_.heartbeat, config_.reload_budget),
      pull_cost_(config_.pull_share),
      suspects_(config_.suspects_max, suspect_memory, {5 * config_.heartbeat.us}),
      retry_budget_(config_.retry_share, config_.retry_burst),
      precompute_(config_.precompute, workers_, leader_, config_.form, config_.names, config_.places),
      tenants_(config_.tenants),
      recent_(config_.recent_max) {
  TROUPE_CHECK(next_id_ > 0, "ids of requests leave room for the router's own timers");
  TROUPE_CHECK(!config_.workers.empty(), "the cluster has at least one worker");
}

void RouterCore::step(Instant now, Event&& event, Effects& effects) {
  const Step step{now, next_id_, effects};
  if (const Duration stall = stall_detector_.before(now); stall.us > 0) {
    workers_.forgive_stall(stall);
    leader_.forgive_stall(stall);
    effects.log(LogLevel::warning, "process_stalled", {{"us", stall.us}});
  }
  if (const auto* received = std::get_if<Received>(&event)) {
    if (!hold_early(step, *received)) on_message(step, *received);
  } else if (const auto* fired = std::get_if<TimerFired>(&event)) {
    on_timer(step, fired->timer);
  } else if (const auto* done = std::get_if<JobDone>(&event)) {
    on_done(step, *done);
  } else if (const auto* lost = std::get_if<PeerLost>(&event)) {
    on_peer_lost(step, lost->node);
  }
  if (!early_.empty()) take_early(step);
  if (may_unpark_) unpark(step);
  serve_queues(step);
}

// Keeps requests that arrive before the served versions are known, up to a bound.
bool RouterCore::hold_early(Step step, const Received& received) {
  if (!find_kind(received.message) || versions_.current(step.now) || draining_ ||
      early_.size() >= config_.in_flight_max)
    return false;
  early_.push_back({step.now, received});
  return true;
}

// Handles kept requests once the versions are known. After half of the default budget they are
// handled anyway, which refuses them.
void RouterCore::take_early(Step step) {
  while (!early_.empty() && (versions_.current(step.now) || draining_ ||
                             step.now.us - early_.front().at.us >= config_.budget.us / 2)) {
    EarlyMessage early = std::move(early_.front());
    early_.pop_front();
    const std::int64_t waited = step.now.us - early.at.us;
    std::visit(
        [&](auto& request) {
          if constexpr (requires { request.budget_us; })
            request.budget_us = std::max<std::int64_t>(1, budget_of(request.budget_us).us - waited);
        },
        early.received.message);
    on_message(step, early.received);
  }
}

void RouterCore::on_message(Step step, const Received& received) {
  const Message& message = received.message;
  const Address from = received.from;
  if (const RequestKind* kind = find_kind(message)) {
    on_request(step, from, *kind, message);
  } else if (const auto* put_user = std::get_if<PutUser>(&message)) {
    on_write(step, from, *put_user);
  } else if (const auto* delete_user = std::get_if<DeleteUser>(&message)) {
    on_write(step, from, *delete_user);
  } else if (const auto* put_item = std::get_if<PutItem>(&message)) {
    on_write(step, from, *put_item);
  } else if (const auto* delete_item = std::get_if<DeleteItem>(&message)) {
    on_write(step, from, *delete_item);
  } else if (const auto* events = std::get_if<AppendEvents>(&message)) {
    on_write(step, from, *events);
  } else if (const auto* get_user = std::get_if<GetUser>(&message)) {
    on_read(step, from, *get_user);
  } else if (const auto* get_item = std::get_if<GetItem>(&message)) {
    on_read(step, from, *get_item);
  } else if (const auto* reload = std::get_if<Reload>(&message)) {
    on_reload(step, from, *reload);
  } else if (const auto* drain = std::get_if<Drain>(&message)) {
    on_drain(step, from, *drain);
  } else if (const auto* request = std::get_if<StatusRequest>(&message)) {
    step.effects.send(from, status(step.now, request->id));
  } else {
    on_answer(step, received);
  }
}

// Handles answers to the router's own questions and news of the cluster. Late or repeated answers
// find no flight and are ignored.
void RouterCore::on_answer(Step step, const Received& received) {
  const Message& message = received.message;
  const Address from = received.from;
  if (const auto* found = std::get_if<BlocksFound>(&message)) {
    if (!precompute_.on_found(step, *found)) on_found(step, *found);
  } else if (const auto* executed = std::get_if<Executed>(&message)) {
    Flight* flight = find(executed->id);
    if (flight) return on_executed(step, from, *flight, *executed);
    precompute_.on_executed(step, *executed);
  } else if (const auto* refused = std::get_if<Refused>(&message)) {
    if (!precompute_.on_refused(step, *refused)) on_attempt_refused(step, from, *refused);
  } else if (const auto* reply = std::get_if<StatusReply>(&message)) {
    precompute_.on_status(step, *reply);
  } else if (const auto* heartbeat = std::get_if<Heartbeat>(&message)) {
    on_heartbeat(step, from.node, *heartbeat);
  } else if (const auto* beat = std::get_if<LeaderBeat>(&message)) {
    leader_.hear(step.now, from.node, beat->token);
  } else if (const auto* suspect = std::get_if<Suspect>(&message)) {
    suspects_.hear(step.now, *suspect);
    may_unpark_ = true;
  } else if (const auto* versions = std::get_if<Versions>(&message)) {
    const std::uint64_t epoch = versions_.versions().epoch;
    versions_.hear(step.now, *versions, workers_);
    follow_versions(step, epoch, false);
  } else {
    step.effects.count(Metric::protocol_errors);
  }
}

void RouterCore::on_done(Step step, const JobDone& done) {
  const auto members = members_.on_done(done, step.effects);
  if (members == MemberWatch::Answer::changed) follow_members(step);
  if (members != MemberWatch::Answer::foreign) return;
  const std::uint64_t epoch = versions_.versions().epoch;
  const auto answer = versions_.on_done(step, done.job, done.result, workers_);
  if (answer != VersionKeeper::Answer::foreign) {
    follow_versions(step, epoch, answer == VersionKeeper::Answer::written);
    return advance_reload(step);
  }
  if (features_.on_done(step, done.job, done.result)) return;
  const auto features = feature_jobs_.extract(done.job);
  if (!features.empty()) {
    if (Flight* flight = find(features.mapped())) on_features(step, *flight, done.result);
    return;
  }
  if (writings_.count(done.job) > 0) return on_written(step, done.job, done.result);
  if (readings_.count(done.job) > 0) return on_was_read(step, done.job, done.result);
  TROUPE_CHECK(precompute_.on_listed(step, done.job, done.result),
               "a finished job was started by this router");
}

void RouterCore::on_timer(Step step, std::uint64_t timer) {
  if (timer == start_timer) {
    began_ = step.now;
    if (members_.epoch() > 0) follow_members(step);
    workers_.start(step.now);
    leader_.start(step.now);
    precompute_.start(step);
    // so that their samples exist from the start
    for (const auto& [name, weight] : config_.tenants.weights)
      for (const Metric metric :
           {Metric::tenant_requests, Metric::tenant_refused, Metric::tenant_work, Metric::tenant_waiting})
        step.effects.count(metric, 0, name);
    return on_beat(step);
  }
  if (timer == precompute_timer) return precompute_.on_timer(step);
  if (timer == beat_timer) return on_beat(step);
  const Serial serial = timer / 4;
  const auto kind = static_cast<TimerKind>(timer % 4);
  if (Flight* flight = find(serial)) {
    const Instant latest = flight->asked.deadline + Duration{2 * config_.heartbeat.us + 2'000};
    if (kind == TimerKind::deadline && mutated(Mutant::report_too_late) && step.now < latest)
      return step.effects.set_timer(timer, latest);
    if (kind == TimerKind::deadline) return refuse_flight(step, *flight, too_late());
    if (kind == TimerKind::late) return flight->queued ? reconsider(step, *flight) : on_late(step, *flight);
    if (flight->stage == Stage::lookup) choose_plan(step, *flight);
    return;
  }
  const auto writing = writings_.find(serial);
  if (writing != writings_.end() && !std::exchange(writing->second.answered, true))
    refuse(step, writing->second.asked, too_late());
  const auto reading = readings_.find(serial);
  if (reading != readings_.end() && !std::exchange(reading->second.answered, true))
    refuse(step, reading->second.asked, too_late());
}

// ---- admission and ends ----

bool RouterCore::is_copy(Address from, RequestId id) const {
  return open_.count({from, id}) > 0 || recent_.contains(from, id);
}

// Refuses all new requests while draining or while the versions are unknown.
std::optional<Refusal> RouterCore::reject_if_unavailable(Instant now) const {
  if (draining_)
    return Refusal{503, "draining", "the router accepts no new requests", "router", "another router"};
  if (!versions_.current(now))
    return Refusal{503, "starting", "the served versions are not known yet", "router",
                   "a retry after a pause"};
  return std::nullopt;
}

// Refuses if the router already has the maximum number of requests.
std::optional<Refusal> RouterCore::reject_if_full(Step step, TenantId tenant) {
  const bool full = flights_.size() >= config_.in_flight_max && !refuse_newest_of_heaviest(step, tenant);
  if (full && tenants_[tenant].waiting > 0)  // it has its share, or more
    return tenant_overloaded(tenant, "fewer requests while there are " +
                                         std::to_string(config_.in_flight_max) +
                                         " at the router (router.requests_in_flight_max)");
  if (full || feature_jobs_.size() >= config_.in_flight_max) return too_many_requests(config_.in_flight_max);
  return std::nullopt;
}

// Refuses if no worker can finish in time. Also fills `flight.workers` with the candidates.
std::optional<Refusal> RouterCore::reject_if_no_worker(Instant now, Flight& flight, std::uint64_t home,
                                                       const placement::Work& work) const {
  flight.workers = workers_.candidates(
      now, {.home = home, .draw = spread(flight.serial), .model = flight.pinned.model_version});
  if (flight.workers.empty())
    return Refusal{503, "no_worker", "no worker is available to serve " + flight.pinned.model_version,
                   "router", "a retry after a pause"};
  const auto left_us = static_cast<double>((flight.asked.deadline - flight.asked.received).us);
  const bool in_time = std::ranges::any_of(flight.workers, [&](NodeId node) {
    return workers_.predicted_us(now, node, work, passes_us(node, flight.tenant)) <= left_us;
  });
  if (!in_time) return too_busy(now, flight, flight.workers, work);
  return std::nullopt;
}

// Returns the new flight, or null if the request was refused or is a copy.
Flight* RouterCore::admit(Step step, const RequestOrigin& asked, TenantId tenant, PinnedVersions pinned,
                          std::uint64_t home, const placement::Work& work,
                          const std::optional<Refusal>& fault) {
  if (is_copy(asked.from, asked.id)) return nullptr;
  Flight flight{.serial = next_id_, .asked = asked, .tenant = tenant, .pinned = std::move(pinned)};
  std::optional<Refusal> refusal = fault ? fault : reject_if_unavailable(step.now);
  if (!refusal) refusal = reject_if_over_limit(tenant);
  if (!refusal) refusal = reject_if_no_worker(step.now, flight, home, work);
  if (!refusal) refusal = reject_if_full(step, tenant);
  if (refusal) {
    step.effects.count(Metric::tenant_refused, 1, tenants_[tenant].name);
    refuse(step, asked, *refusal);
    return nullptr;
  }
  ++next_id_;
  ++admitted_;
  tenants_.enter(tenant);
  step.effects.count(Metric::tenant_requests, 1, tenants_[tenant].name);
  retry_budget_.earn();
  open_.insert({asked.from, asked.id});
  step.effects.set_timer(timer_of(flight.serial, TimerKind::deadline), asked.deadline);
  Flight& admitted = flights_[flight.serial] = std::move(flight);
  count_in_flight(step);
  return &admitted;
}

Duration RouterCore::budget_of(std::int64_t budget_us) const {
  return {std::min(budget_us > 0 ? budget_us : config_.budget.us, config_.budget_max.us)};
}

void RouterCore::settle(const RequestOrigin& asked) {
  open_.erase({asked.from, asked.id});
  recent_.add(asked.from, asked.id);
}

// Refuses the request. Faults of workers and ports become 503: for the client they may be over
// soon.
void RouterCore::refuse(Step step, const RequestOrigin& asked, Refusal refusal) {
  const bool is_own = refusal.status < 400 || (refusal.status >= 500 && refusal.status != 504);
  if (is_own && !mutated(Mutant::refuse_without_status)) refusal.status = 503;
  if (refusal.status == 504)
    step.effects.count(Metric::requests_expired);
  else
    step.effects.count(Metric::requests_refused, 1, refusal.code);
  ++refused_;
  settle(asked);
  step.effects.send(asked.from, Refused{asked.id, std::move(refusal)});
}

void RouterCore::refuse_flight(Step step, Flight& flight, const Refusal& refusal) {
  step.effects.count(Metric::tenant_refused, 1, tenants_[flight.tenant].name);
  refuse(step, flight.asked, refusal);
  drop(step, flight);
}

void RouterCore::close(Step step, Flight& flight) {
  ++answered_;
  const double seconds = static_cast<double>((step.now - flight.asked.received).us) * 1e-6;
  step.effects.count(Metric::request_seconds, seconds, flight.request->trace());
  step.effects.count(Metric::version_answered, 1, flight.pinned.model_version);
  step.effects.count(Metric::tenant_answered, 1, tenants_[flight.tenant].name);
  step.effects.count(Metric::tenant_seconds, seconds, tenants_[flight.tenant].name);
  settle(flight.asked);
  drop(step, flight);
}

void RouterCore::drop(Step step, Flight& flight) {
  for (Attempt& attempt : flight.attempts)
    if (attempt.open()) workers_.forget(attempt.ticket);
  if (flight.queued) leave_queue(step, flight);
  tenants_.leave(flight.tenant);
  const Serial serial = flight.serial;
  std::erase_if(parked_, [serial](const ParkedRequest& parked) { return parked.serial == serial; });
  may_unpark_ = !parked_.empty();
  flights_.erase(serial);
  count_in_flight(step);
}

Flight* RouterCore::find(Serial serial) {
  const auto at = flights_.find(serial);
  return at != flights_.end() ? &at->second : nullptr;
}

// ---- counts ----

void RouterCore::count_in_flight(Step step) const {
  step.effects.count(Metric::requests_in_flight, static_cast<double>(flights_.size()));
}

std::size_t RouterCore::count(Stage stage) const {
  return static_cast<std::size_t>(
      std::count_if(flights_.begin(), flights_.end(),
                    [stage](const auto& flight) { return flight.second.stage == stage; }));
}

std::size_t RouterCore::retries_in_flight() const {
  return static_cast<std::size_t>(std::count_if(flights_.begin(), flights_.end(), [](const auto& flight) {
    return flight.second.attempts.size() > 1;
  }));
}

// Counts the tokens of the prompt. A block that fills a reused span is not itself part of the
// prompt: the span counts as reused if the block was there, except for its repaired tokens.
TokenCount RouterCore::count_tokens(Step step, const Candidate& sent, const Executed& executed) {
  TokenCount count;
  std::vector<bool> is_block(sent.blocks.size());
  double places = 0, kept = 0;  // tokens of all spans, and of the spans whose block was there
  for (const kernels::Repair::ReusedSpan& place : sent.plan.repair.reused_spans) {
    is_block[place.block] = true;
    const auto tokens = static_cast<double>(sent.plan.segments[place.segment].tokens.size());
    places += tokens;
    const bool there = place.block < executed.reused.size() && executed.reused[place.block] != 0;
    if (there || place.of_prototypes) kept += tokens;
  }
  double hits[2] = {}, misses[2] = {};  // of items and the system prompt; of users
  for (std::size_t i = 0; i < sent.blocks.size(); ++i) {
    const Segment& segment = sent.plan.segments[i];
    const auto tokens = static_cast<std::uint32_t>(segment.tokens.size());
    const bool reused = i < executed.reused.size() && executed.reused[i] != 0;
    count.blocks_reused += reused;
    if (!is_block[i]) {
      count.total += tokens;
      (reused ? count.reused : count.computed) += tokens;
    }
    if (sent.blocks[i].name) ++(reused ? hits : misses)[segment.kind == SegmentKind::user];
  }
  if (kept > 0) {
    const auto left = static_cast<double>(approximate_tokens(sent.plan));
    const auto reused = static_cast<std::uint32_t>(std::llround(left * kept / places));
    count.reused += reused;
    count.computed -= reused;
  }
  step.effects.count(Metric::tokens_total, count.total);
  step.effects.count(Metric::tokens_computed, count.computed);
  step.effects.count(Metric::tokens_reused, count.reused);
  step.effects.count(Metric::blocks_hit_item, hits[0]);
  step.effects.count(Metric::blocks_hit_user, hits[1]);
  step.effects.count(Metric::blocks_computed_item, misses[0]);
  step.effects.count(Metric::blocks_computed_user, misses[1]);
  return count;
}

}  // namespace troupe::router
