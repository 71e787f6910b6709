// Takes a request of any kind from its features over the index and the plan to its answer.
// router_attempts.cc decides where plans are sent.
#include <algorithm>

#include "kernels/base/check.h"
#include "router/answer_check.h"
#include "router/fleet/fingerprint.h"
#include "router/request/planner.h"
#include "router/request/plans.h"
#include "router/router_core.h"
#include "runtime/actor/mutants.h"

namespace troupe::router {

namespace {

// current model, next model, and the model of requests pinned earlier
constexpr std::size_t names_kept = 3;

// Refuses a request that names a model other than its pinned one. The refusal is temporary if that
// model is the next one of two.
std::optional<Refusal> reject_if_other_model(const Request& request, const Versions& versions,
                                             const PinnedVersions& pinned) {
  const std::string_view model = request.model();
  if (model.empty() || model == pinned.model_version) return std::nullopt;
  if (versions.is_shared() && model == versions.next_model)
    return Refusal{503, "no_worker",
                   "model " + versions.next_model + " is not on every worker yet, or no longer on any",
                   "router", "a retry after a pause"};
  return Refusal{
      404, "unknown_model", "the requested model is not served", "model",
      versions.model_version + (versions.is_shared() ? ", " + versions.next_model : "") + ", or none"};
}

std::optional<Metric> metric_of(Features::Source of) {
  switch (of) {
    case Features::Source::cache:
      return Metric::features_cached;
    case Features::Source::stale:
      return Metric::features_stale;
    case Features::Source::missing:
      return Metric::features_missing;
    case Features::Source::store:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

void RouterCore::on_request(Step step, Address from, const RequestKind& kind, const Message& message) {
  step.effects.count(kind.metric);
  std::unique_ptr<Request> request = kind.take(message, config_.policy);
  const RequestOrigin asked{from, request->id(), step.now, step.now + budget_of(request->budget_us())};
  if (is_copy(from, asked.id)) return;
  std::optional<Refusal> fault = request->validate(config_.form, config_.limits);
  const PinnedVersions pinned = pin(step.now, *request);
  if (!fault) fault = reject_if_other_model(*request, versions(), pinned);
  const bool at_once = !request->features();
  std::vector<PlanOption> plans;
  if (!fault && at_once) plans = consider(*request, pinned);
  const placement::Work work = plans.empty() ? placement::Work{} : plans.front().cost.nothing_held();
  const TenantId tenant = fault ? Tenants::others : tenants_.id_of(request->tenant());
  Flight* flight = admit(step, asked, tenant, pinned, request->home(), work, fault);
  if (!flight) return;
  flight->request = std::move(request);
  flight->stage_began = step.now;
  if (!at_once) return find_features(step, *flight);
  flight->plans = std::move(plans);
  plan(step, *flight);
}

// Returns the versions for a new request. If two models share the users, the next model gets the
// users whose position is below its share. While no worker has it, the current model answers them.
// A request that names a model gets that one or is refused.
PinnedVersions RouterCore::pin(Instant now, const Request& request) const {
  const Versions& served = versions();
  PinnedVersions pinned{served.model_version, served.catalog_version};
  if (!served.is_shared() || shared_ != served.next_model || !workers_.any_usable(now, served.next_model))
    return pinned;
  const bool is_named = request.model() == served.next_model;
  const bool is_other_named = !request.model().empty() && !is_named;
  if (is_named || (!is_other_named && share_position(request.home(), served.next_model) < served.next_share))
    pinned.model_version = served.next_model;
  return pinned;
}

// Returns true if requests pinned to these versions may continue.
bool RouterCore::is_present(const PinnedVersions& pinned) const {
  const Versions& served = versions();
  return pinned.catalog_version == served.catalog_version &&
         (pinned.model_version == served.model_version ||
          (served.is_shared() && pinned.model_version == served.next_model));
}

// ---- features ----

void RouterCore::find_features(Step step, const Flight& flight) {
  FindFeatures features = *flight.request->features();
  features.model_version = flight.pinned.model_version;
  features.catalog_version = flight.pinned.catalog_version;
  const std::uint64_t job = next_id_++;
  feature_jobs_[job] = flight.serial;
  step.effects.start(job, std::move(features));
}

void RouterCore::on_features(Step step, Flight& flight, const JobResult& result) {
  if (const auto* refusal = std::get_if<Refusal>(&result)) {
    // The versions were flipped while the request waited; nothing was done for it yet, so it is
    // pinned again.
    if (refusal->code != "wrong_catalog" || is_present(flight.pinned) ||
        std::exchange(flight.pinned_again, true))
      return refuse_flight(step, flight, *refusal);
    flight.pinned = pin(step.now, *flight.request);
    if (const auto other = reject_if_other_model(*flight.request, versions(), flight.pinned))
      return refuse_flight(step, flight, *other);
    return find_features(step, flight);
  }
  if (mutated(Mutant::refuse_known) && flight.serial % 32 == 0)
    return refuse_flight(step, flight, {404, "unknown_user", "planted", "user", "a user"});
  if (mutated(Mutant::refuse_sound) && flight.serial % 32 == 0)
    return refuse_flight(step, flight, {422, "too_long", "planted", "user", "a user"});
  const auto& features = std::get<Features>(result);
  catalog_version_ = features.catalog->version();
  if (const auto metric = metric_of(features.of)) step.effects.count(*metric);
  if (const auto refusal = flight.request->take(config_.form, config_.limits, features))
    return refuse_flight(step, flight, *refusal);
  flight.timings.features = (step.now - flight.stage_began).us;
  if (is_present(flight.pinned)) precompute_.note_accesses(step, flight.request->items());
  flight.plans = consider(*flight.request, flight.pinned);
  plan(step, flight);
}

// ---- plans, and the index ----

// Called when the content is known: computes the fingerprint and the plans.
void RouterCore::plan(Step step, Flight& flight) {
  flight.fingerprint = flight.request->fingerprint();
  if (refuse_poison(step, flight)) return;
  const Policy* policy = flight.request->policy();
  const NodeId leader = policy && (*policy)->reuses ? leader_.leader(step.now) : 0;
  if (leader == 0) return choose_plan(step, flight);
  look_up(step, flight, leader);
}

std::vector<PlanOption> RouterCore::consider(const Request& request, const PinnedVersions& pinned) {
  std::vector<PlanOption> plans;
  std::size_t asked = 0;
  for (Candidate& candidate : request.candidates(config_.form, names_of(pinned.model_version))) {
    PlanCost cost(config_.costs, candidate, asked);
    asked += cost.asked();
    plans.push_back({std::move(candidate), std::move(cost)});
  }
  TROUPE_CHECK(!plans.empty(), "a valid request has a plan");
  return plans;
}

const BlockNames& RouterCore::names_of(const std::string& model_version) {
  const auto at = std::ranges::find(
      names_, model_version, [](const auto& names) -> const std::string& { return names->model_version(); });
  if (at != names_.end()) return **at;
  if (names_.size() == names_kept) names_.erase(names_.begin());
  names_.push_back(std::make_unique<const BlockNames>(
      config_.form, NameContext{model_version, config_.names.layout_version},
      model_version == config_.names.model_version));
  return *names_.back();
}

// Sends one question to the index for all plans.
void RouterCore::look_up(Step step, Flight& flight, NodeId leader) {
  LookupBlocks lookup{.id = flight.serial, .user = flight.request->user()};
  lookup.trace = flight.request->trace();
  for (const PlanOption& considered : flight.plans) {
    const Candidate& candidate = considered.candidate;
    for (std::size_t i = 0; i < candidate.blocks.size(); ++i) {
      const Segment& segment = candidate.plan.segments[i];
      if (is_asked_for(candidate.blocks[i]))
        lookup.blocks.push_back(
            {*candidate.blocks[i].name, segment.kind, static_cast<std::uint32_t>(segment.tokens.size())});
    }
  }
  lookup.prefer = flight.workers;
  flight.stage = Stage::lookup;
  flight.stage_began = step.now;
  step.effects.send({leader, Role::cache_meta}, std::move(lookup));
  const Duration budget = flight.asked.deadline - flight.asked.received;
  const Duration wait{std::max(budget.us / 10, config_.lookup_wait_min.us)};
  if (!mutated(Mutant::wait_for_index))
    step.effects.set_timer(timer_of(flight.serial, TimerKind::lookup), step.now + wait);
}

void RouterCore::on_found(Step step, const BlocksFound& found) {
  Flight* flight = find(found.id);
  if (!flight || flight->stage != Stage::lookup) return;
  const PlanCost& last = flight->plans.back().cost;
  flight->held = HeldBlocks::of(found, last.first() + last.asked(), pull_cost_.share());
  if (mutated(Mutant::ignore_held_blocks)) flight->held.reset();
  if (!flight->held) step.effects.count(Metric::protocol_errors);
  choose_plan(step, *flight);
}

// Chooses a plan with the index's answer, or without it.
void RouterCore::choose_plan(Step step, Flight& flight) {
  if (flight.stage == Stage::lookup) flight.timings.lookup = (step.now - flight.stage_began).us;
  const Policy* policy = flight.request->policy();
  // the planner chooses together with the node
  const bool later = policy && (*policy)->weighs && flight.held;
  if (!later) {
    Situation situation = flight.request->situation();
    if (flight.held)
      situation.hotness = {flight.held->found().user_frequency, flight.held->found().coldest_frequency};
    const auto rule = policy ? (*policy)->rule : nullptr;
    const std::string_view name = rule ? rule(situation) : flight.plans.front().candidate.name;
    const auto chosen =
        std::ranges::find(flight.plans, name, [](const PlanOption& c) { return c.candidate.name; });
    // A plan that cannot fit the request is not in the list.
    settle_plan(flight,
                chosen != flight.plans.end() ? static_cast<std::size_t>(chosen - flight.plans.begin()) : 0);
  }
  execute(step, flight);
}

void RouterCore::settle_plan(Flight& flight, std::size_t chosen) {
  if (chosen > 0) std::swap(flight.plans.front(), flight.plans[chosen]);
  flight.plans.erase(flight.plans.begin() + 1, flight.plans.end());
  flight.planned = true;
}

// Returns the plan that the planner would use at that node.
std::size_t RouterCore::plan_at(NodeId node, const Flight& flight) const {
  if (flight.planned || flight.plans.size() == 1) return 0;
  const placement::Pace pace = workers_.pace(node);
  std::vector<PlanWeight> weights;
  for (const PlanOption& considered : flight.plans)
    weights.push_back({pace.us(considered.cost.at(node, *flight.held)), pace.us(considered.cost.all_held()),
                       considered.cost.uses(*flight.held)});
  return weigh_plans(weights);
}

placement::Work RouterCore::work_at(NodeId node, const Flight& flight, std::size_t plan) const {
  const PlanCost& cost = flight.plans[plan].cost;
  return flight.held ? cost.at(node, *flight.held) : cost.nothing_held();
}

// Names, for each block that the node lacks, another node that holds it.
void RouterCore::name_holders(Instant now, Flight& flight, NodeId node) const {
  const bool pulls = flight.held && pull_cost_.share() < 1;  // otherwise computing is faster
  const auto other_holder = [&](std::span<const NodeId> holders) -> NodeId {
    if (std::find(holders.begin(), holders.end(), node) != holders.end()) return 0;
    const auto at = std::find_if(holders.begin(), holders.end(), [&](NodeId holder) {
      return workers_.alive(now, holder) || !workers_.has(holder);
    });
    return at != holders.end() ? *at : 0;
  };
  std::size_t asked = flight.plans.front().cost.first();
  for (SegmentBlock& block : flight.plans.front().candidate.blocks)
    if (is_asked_for(block)) block.at = pulls ? other_holder(flight.held->holders(asked++)) : 0;
}

Execute RouterCore::make_plan(Instant now, Flight& flight, NodeId node) const {
  name_holders(now, flight, node);
  const Candidate& candidate = flight.plans.front().candidate;
  Execute execute{.plan = candidate.plan, .blocks = candidate.blocks};
  const Policy* policy = flight.request->policy();
  if (!policy) return execute;
  if (flight.held && keeps_user(candidate) && (*policy)->displacement == Displacement::coldest_users)
    execute.retention.evict_first = flight.held->found().coldest;
  execute.retention.keep_hotter = config_.shared_areas || (*policy)->displacement == Displacement::hotter;
  if (execute.retention.keep_hotter) execute.retention.copy_worth = pull_cost_.share();
  return execute;
}

// ---- answer ----

// Measures pull costs only from answers whose pulled blocks were used.
void RouterCore::note_pull(const Candidate& sent, NodeId node, const Executed& executed) {
  if (!config_.measures_pulls || executed.pull_us <= 0) return;
  placement::Work work;
  for (std::size_t i = 0; i < sent.blocks.size() && i < executed.reused.size(); ++i)
    if (sent.blocks[i].at != 0 && executed.reused[i] != 0)
      work += config_.costs.computed(static_cast<double>(sent.plan.segments[i].tokens.size()), 0);
  const placement::Pace pace = config_.block_pace.known() ? config_.block_pace : workers_.pace(node);
  pull_cost_.note(pace.us(work), static_cast<double>(executed.pull_us));
}

void RouterCore::note_times(Step step, const Timings& timings, const TraceContext& trace) {
  times_.add(step.now, timings);
  const std::pair<Metric, std::int64_t> stages[] = {
      {Metric::stage_features, timings.features}, {Metric::stage_lookup, timings.lookup},
      {Metric::stage_turn, timings.turn},         {Metric::stage_blocks, timings.blocks},
      {Metric::stage_pull, timings.pull},         {Metric::stage_queue, timings.queue},
      {Metric::stage_compute, timings.compute}};
  for (const auto& [metric, us] : stages)
    if (us > 0) step.effects.count(metric, static_cast<double>(us) * 1e-6, trace);
}

// Logs a step of a request whose trace is sampled.
void RouterCore::log_hop(Step step, const Flight& flight, const char* event, std::vector<LogField> fields) {
  const TraceContext& trace = flight.request->trace();
  if (!trace.sampled) return;
  fields.insert(fields.begin(),
                {{"request", flight.serial}, {"asked", flight.asked.id}, {"trace_id", trace_id(trace)}});
  step.effects.log(LogLevel::debug, event, std::move(fields));
}

void RouterCore::send_answer(Step step, const RequestOrigin& asked, Message reply) const {
  Address to = asked.from;
  if (mutated(Mutant::answer_at_other_server) && !config_.routers.empty()) to.node = config_.routers.front();
  if (mutated(Mutant::answer_other_kind)) reply = Stored{asked.id, 1};
  if (mutated(Mutant::answer_twice)) step.effects.send(to, reply);
  if (mutated(Mutant::answer_stranger)) step.effects.send(to, Stored{asked.id + 1'000'000'000, 1});
  step.effects.send(to, std::move(reply));
}

void RouterCore::answer(Step step, Flight& flight, NodeId node, const Executed& executed) {
  const Candidate& sent = flight.plans.front().candidate;
  const TokenCount tokens = count_tokens(step, sent, executed);
  RunResult outcome{.plan = sent.name,
                    .tokens_total = tokens.total,
                    .tokens_computed = tokens.computed,
                    .tokens_reused = tokens.reused,
                    .blocks_reused = tokens.blocks_reused,
                    .blocks_written = executed.blocks_written,
                    .timings = flight.timings,
                    .model_version = flight.pinned.model_version,
                    .node = node,
                    .approximate = approximate_share(sent.plan)};
  for (std::size_t i = 0; i < sent.plan.readouts.size(); ++i)
    outcome.rows.push_back({scores_of(executed, i, numbers_of(sent.plan.readouts[i]))});
  outcome.beams = executed.beams;
  outcome.timings.blocks = executed.blocks_us;
  outcome.timings.queue = executed.queue_us;
  outcome.timings.compute = executed.compute_us;
  outcome.timings.pull = executed.pull_us;
  outcome.timings.total = (step.now - flight.asked.received).us;
  if (const Attempt* attempt = flight.attempt_at(node))
    outcome.timings.predicted = static_cast<std::int64_t>(attempt->ticket.predicted_us);
  note_pull(sent, node, executed);
  note_times(step, outcome.timings, flight.request->trace());
  tally_.add(sent.name, tokens.total, tokens.reused);
  log_hop(step, flight, "request_answered",
          {{"node", node},
           {"plan", std::string(sent.name)},
           {"tokens", tokens.total},
           {"reused", tokens.reused},
           {"us", outcome.timings.total}});
  if (const Policy* policy = flight.request->policy())
    step.effects.count((*policy)->reuses ? find_plan(sent.name)->metric : Metric::plans_recompute);
  if (mutated(Mutant::misstate_tokens)) outcome.tokens_computed = tokens.total, outcome.tokens_reused = 0;
  send_answer(step, flight.asked, flight.request->reply(outcome));
  close(step, flight);
}

}  // namespace troupe::router
