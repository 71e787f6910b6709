// Moves flights through the stages before their first attempt.
#include "router/flights/planning.h"

#include <algorithm>
#include <utility>

#include "kernels/base/check.h"
#include "router/flights/timers.h"

namespace troupe::router {
namespace {

// Refuses a request that names a model other than its pinned one. The refusal is temporary if that
// model is the next one of two.
std::optional<Refusal> reject_if_other_model(const Request& request, const Versions& versions,
                                             const PinnedVersions& pinned) {
  const std::string_view model = request.model();
  if (model.empty() || model == pinned.model_version) return std::nullopt;
  if (versions.is_shared() && model == versions.next_model)
    return Refusal{RefusalKind::unavailable, "no_worker",
                   "model " + versions.next_model + " is not on every worker yet, or no longer on any",
                   "router", "a retry after a pause"};
  return Refusal{
      RefusalKind::not_found, "unknown_model", "the requested model is not served", "model",
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

Planning::Planning(const Config& config, const Admission& admission, const VersionKeeper& versions,
                   const ModelShare& share, const LeaderView& leader, const PullCost& pull_cost,
                   ModelNames& names, Precompute& precompute, Flights& flights, Attempts& attempts)
    : config_(config),
      admission_(admission),
      versions_(versions),
      share_(share),
      leader_(leader),
      pull_cost_(pull_cost),
      names_(names),
      precompute_(precompute),
      flights_(flights),
      attempts_(attempts) {}

void Planning::on_request(Step step, Address from, const RequestKind& kind, Message&& message) {
  step.effects.count(kind.metric);
  std::unique_ptr<Request> request = kind.take(std::move(message), config_.policy);
  const Duration budget = config_.budgets.of(request->budget_us());
  Arrival arrival{.origin = {from, request->id(), step.now, step.now + budget}, .tenant = request->tenant()};
  if (admission_.is_copy(arrival.origin)) return;
  arrival.fault = request->validate(config_.form, config_.limits);
  arrival.home = request->home();
  arrival.pinned = share_.pin(step.now, request->model(), arrival.home);
  arrival.feature_jobs = feature_jobs_.size();
  if (!arrival.fault) arrival.fault = reject_if_other_model(*request, versions_.versions(), arrival.pinned);
  std::optional<FindFeatures> wanted = request->features();
  std::vector<PlanOption> plans;
  if (!arrival.fault && !wanted) plans = consider(*request, arrival.pinned);
  if (!plans.empty()) arrival.work = plans.front().cost.nothing_held();
  Flight* flight = admission_.admit(step, std::move(arrival));
  if (!flight) return;
  attempts_.earn_retry();
  flight->request = std::move(request);
  flight->stage_began = step.now;
  if (wanted) return find_features(step, *flight, std::move(*wanted));
  flight->plans = std::move(plans);
  plan(step, *flight);
}

std::vector<PlanOption> Planning::consider(Request& request, const PinnedVersions& pinned) {
  std::vector<Candidate> candidates = request.candidates(config_.form, names_.of(pinned.model_version));
  TROUPE_CHECK(!candidates.empty(), "a valid request has a plan");
  std::vector<PlanOption> plans;
  plans.reserve(candidates.size());
  std::size_t asked = 0;
  for (Candidate& candidate : candidates) {
    PlanCost cost(config_.costs, candidate, asked);
    asked += cost.asked();
    plans.push_back({std::move(candidate), std::move(cost)});
  }
  return plans;
}

// ---- features ----

void Planning::find_features(Step step, const Flight& flight, FindFeatures wanted) {
  wanted.model_version = flight.pinned.model_version;
  wanted.catalog_version = flight.pinned.catalog_version;
  const std::uint64_t job = step.next_id++;
  feature_jobs_[job] = flight.serial;
  step.effects.start(job, std::move(wanted));
}

bool Planning::on_done(Step step, std::uint64_t job, JobResult& result) {
  const auto running = feature_jobs_.extract(job);
  if (running.empty()) return false;
  Flight* flight = flights_.find(running.mapped());
  if (!flight) return true;
  if (auto* refusal = std::get_if<Refusal>(&result))
    on_no_features(step, *flight, std::move(*refusal));
  else
    on_features(step, *flight, std::get<Features>(result));
  return true;
}

// If the versions were flipped while the request waited, nothing was done for it yet, so it is
// pinned again.
void Planning::on_no_features(Step step, Flight& flight, Refusal refusal) {
  if (refusal.code != "wrong_catalog" || share_.is_present(flight.pinned) ||
      std::exchange(flight.pinned_again, true))
    return flights_.refuse(step, flight, std::move(refusal));
  flight.pinned = share_.pin(step.now, flight.request->model(), flight.home);
  if (auto other = reject_if_other_model(*flight.request, versions_.versions(), flight.pinned))
    return flights_.refuse(step, flight, std::move(*other));
  find_features(step, flight, *flight.request->features());
}

void Planning::on_features(Step step, Flight& flight, const Features& features) {
  catalog_version_ = features.catalog->version();
  if (const auto metric = metric_of(features.of)) step.effects.count(*metric);
  if (auto refusal = flight.request->take(config_.form, config_.limits, features))
    return flights_.refuse(step, flight, std::move(*refusal));
  const bool names_user = !flight.request->named_user().empty();
  if (names_user && !features.user) step.effects.count(Metric::features_unknown);
  if (!names_user && features.user) step.effects.count(Metric::features_own);
  flight.timings.features = (step.now - flight.stage_began).us;
  if (share_.is_present(flight.pinned))
    precompute_.note_accesses(step, flight.request->items(), flight.request->situation().user_tokens);
  flight.plans = consider(*flight.request, flight.pinned);
  plan(step, flight);
}

// ---- plans, and the index ----

// Called when the content is known and its plans are made.
void Planning::plan(Step step, Flight& flight) {
  flight.fingerprint = flight.request->fingerprint();
  if (attempts_.refuse_poison(step, flight)) return;
  const Policy* policy = flight.request->policy();
  const NodeId leader = policy && (*policy)->reuses ? leader_.leader(step.now) : 0;
  if (leader == 0) return choose_plan(step, flight);
  look_up(step, flight, leader);
}

// Sends one question to the index for all plans.
void Planning::look_up(Step step, Flight& flight, NodeId leader) {
  LookupBlocks lookup{.id = flight.serial, .user = flight.request->user()};
  lookup.trace = flight.request->trace();
  const PlanCost& last = flight.plans.back().cost;
  lookup.blocks.reserve(last.first() + last.asked());
  for (const auto& [candidate, cost] : flight.plans) {
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
  const Duration budget = flight.origin.deadline - flight.origin.received;
  const Duration wait{std::max(budget.us / 10, config_.lookup_wait_min.us)};
  step.effects.set_timer(timer_of(flight.serial, TimerKind::lookup), step.now + wait);
}

void Planning::on_found(Step step, BlocksFound found) {
  Flight* flight = flights_.find(found.id);
  if (!flight || flight->stage != Stage::lookup) return;
  const PlanCost& last = flight->plans.back().cost;
  flight->held = HeldBlocks::of(std::move(found), last.first() + last.asked(), pull_cost_.share());
  if (!flight->held) step.effects.count(Metric::protocol_errors);
  if (flight->held) compute_in_place(step, *flight);
  choose_plan(step, *flight);
}

// Builds anew the plans that miss blocks of items which precomputing makes: with these items in their place.
// The index's answer is reduced to the blocks that are still asked for.
void Planning::compute_in_place(Step step, Flight& flight) {
  const std::string& model = flight.pinned.model_version;
  if (!precompute_.makes(step.now, ItemBlockKind::movable, model)) return;
  const auto is_made = [this](std::string_view item) { return precompute_.makes_item(item); };
  std::vector<bool> kept(flight.held->size(), true);
  std::vector<std::uint8_t> missed(flight.request->items().size());
  bool any = false;
  for (PlanOption& plan : flight.plans) {
    const PlanKind* kind = find_plan(plan.candidate.name);
    if (!kind || kind->item_blocks != ItemBlockKind::movable) continue;
    const std::vector<std::uint8_t> missing =
        drop_missing_items(plan.candidate, plan.cost.first(), *flight.held, is_made, kept);
    if (missing.empty()) continue;
    auto built = flight.request->candidate_in_place(kind->name, config_.form, names_.of(model), missing);
    TROUPE_CHECK(built, "a plan that moves blocks of items can compute them in their place");
    plan.candidate = std::move(*built);
    for (std::size_t i = 0; i < missing.size(); ++i) missed.at(i) |= missing[i];
    any = true;
  }
  if (!any) return;
  flight.held->keep_only(kept);
  std::size_t asked = 0;
  for (PlanOption& plan : flight.plans) {
    plan.cost = PlanCost(config_.costs, plan.candidate, asked);
    asked += plan.cost.asked();
  }
  if (!share_.is_present(flight.pinned)) return;
  std::vector<ItemView> items;
  for (std::size_t i = 0; i < missed.size(); ++i)
    if (missed[i] != 0) items.push_back(flight.request->items()[i]);
  precompute_.note_missing(step, items);
}

void Planning::on_lookup_late(Step step, Flight& flight) {
  if (flight.stage == Stage::lookup) choose_plan(step, flight);
}

// Chooses a plan with the index's answer, or without it.
void Planning::choose_plan(Step step, Flight& flight) {
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
        std::ranges::find(flight.plans, name, [](const PlanOption& plan) { return plan.candidate.name; });
    // A plan that cannot fit the request is not in the list.
    flight.settle_plan(chosen != flight.plans.end() ? static_cast<std::size_t>(chosen - flight.plans.begin())
                                                    : 0);
  }
  attempts_.execute(step, flight);
}

}  // namespace troupe::router
