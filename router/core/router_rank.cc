// The way of a ranking request through the router.
#include <algorithm>

#include "kernels/base/check.h"
#include "router/core/answer_check.h"
#include "router/core/router_core.h"
#include "router/request/fingerprint.h"
#include "router/request/ranking.h"
#include "runtime/actor/planted.h"

namespace troupe::router {
namespace {

std::uint32_t sum(const std::vector<Item>& items) {
  std::size_t tokens = 0;
  for (const Item& item : items) tokens += item.tokens.size();
  return static_cast<std::uint32_t>(tokens);
}

RankWork& rank_of(Flight& flight) { return std::get<RankWork>(flight.work); }

}  // namespace

void RouterCore::on_rank(Turn turn, Address from, const RankRequest& request) {
  turn.effects.count(Metric::requests_rank);
  const Asked asked{from, request.id, turn.now, turn.now + budget_of(request.budget_us)};
  Flight* flight =
      admit(turn, asked, user_hash(request.tenant, request.user), 0, find_fault(request, config_.limits));
  if (!flight) return;
  const Policy policy = request.policy.empty() ? config_.policy : *find_policy(request.policy);
  flight->work = RankWork{.request = request, .policy = policy};
  flight->stage_began = turn.now;
  find_features(turn, *flight);
}

// ---- features ----

void RouterCore::find_features(Turn turn, const Flight& flight) {
  const RankRequest& request = std::get<RankWork>(flight.work).request;
  const std::uint64_t job = next_id_++;
  feature_jobs_[job] = flight.serial;
  turn.effects.start(job, FindFeatures{request.tenant, request.user, request.candidates,
                                       flight.pinned.model_version, flight.pinned.catalog_version});
}

void RouterCore::on_features(Turn turn, Flight& flight, const JobResult& result) {
  RankWork& work = rank_of(flight);
  if (const auto* refusal = std::get_if<Refusal>(&result)) {
    const Pinned present{versions().model_version, versions().catalog_version};
    // The versions were flipped while the request was here, and nothing was done for it yet.
    if (refusal->code != "wrong_catalog" || present == flight.pinned ||
        std::exchange(work.pinned_again, true))
      return refuse_flight(turn, flight, *refusal);
    flight.pinned = present;
    return find_features(turn, flight);
  }
  const auto& features = std::get<Features>(result);
  catalog_version_ = features.catalog_version;
  if (const auto refusal = take_features(work, features)) return refuse_flight(turn, flight, *refusal);
  work.reply.timings.features = (turn.now - flight.stage_began).us;
  flight.fingerprint = fingerprint(work.request, features.user->version);
  if (refuse_poison(turn, flight)) return;
  if (flight.pinned == Pinned{versions().model_version, versions().catalog_version})
    precompute_.note_accesses(turn, work.items);
  const NodeId leader = work.policy == Policy::recompute ? 0 : leader_.leader(turn.now);
  if (leader == 0) return choose_plan(turn, flight);
  look_up(turn, flight, leader);
}

std::optional<Refusal> RouterCore::take_features(RankWork& work, const Features& features) const {
  const std::vector<std::string>& candidates = work.request.candidates;
  TROUPE_CHECK(features.items.size() == candidates.size(), "the feature port answers for each item");
  if (!features.user)
    return Refusal{404, "unknown_user", "user \"" + work.request.user + "\" has no profile", "user",
                   "a user that was put or imported"};
  std::size_t unknown = 0, first = 0;
  for (std::size_t i = candidates.size(); i-- > 0;)
    if (!features.items[i]) ++unknown, first = i;
  if (unknown > 0)
    return Refusal{404, "unknown_item",
                   "item \"" + candidates[first] + "\" is not in the catalog (unknown items: " +
                       std::to_string(unknown) + " of " + std::to_string(candidates.size()) + ")",
                   "candidates[" + std::to_string(first) + "]", "items of the catalog"};
  for (const auto& item : features.items) work.items.push_back(*item);

  const std::size_t longest = item_tokens_max(work.items);
  const std::size_t least = positions_without_history(config_.form, longest);
  if (least > config_.form.positions_max)
    return Refusal{422, "too_long",
                   "the longest candidate alone makes a prompt of " + std::to_string(least) + " positions",
                   "candidates", "at most " + std::to_string(config_.form.positions_max)};
  work.history = fit_history(config_.form, *features.user, longest);
  const std::uint64_t total = std::uint64_t{sum(work.items)} + work.history.tokens.size();
  if (total > config_.limits.request_tokens_max)
    return Refusal{413, "too_many_tokens", "user and candidates have " + std::to_string(total) + " tokens",
                   "candidates", "at most " + std::to_string(config_.limits.request_tokens_max)};
  work.reply.profile_version = features.user->version;
  work.reply.catalog_version = features.catalog_version;
  return std::nullopt;
}

// ---- index ----

void RouterCore::look_up(Turn turn, Flight& flight, NodeId leader) {
  const RankWork& work = rank_of(flight);
  const RankRequest& request = work.request;
  const std::vector<Token>& user = work.history.tokens;
  LookupBlocks lookup{.id = flight.serial, .user = user_key(request.tenant, request.user)};
  if (!user.empty()) lookup.user_block = user_block(config_.form, names_of(flight), request.tenant, user);
  lookup.user_tokens = static_cast<std::uint32_t>(user.size());
  for (const Item& item : work.items) lookup.item_blocks.push_back(item.block);
  lookup.prefer = flight.candidates;
  flight.stage = Stage::lookup;
  flight.stage_began = turn.now;
  turn.effects.send({leader, Role::cache_meta}, std::move(lookup));
  const Duration budget = flight.asked.deadline - flight.asked.received;
  const Duration wait{std::max(budget.us / 10, config_.lookup_wait_min.us)};
  if (!planted(Bug::wait_for_index))
    turn.effects.set_timer(timer_of(flight.serial, TimerKind::lookup), turn.now + wait);
}

void RouterCore::on_found(Turn turn, const BlocksFound& found) {
  Flight* flight = find(found.id);
  if (!flight || flight->stage != Stage::lookup) return;
  RankWork& work = rank_of(*flight);
  work.held = HeldBlocks::of(found, work.items.size(), pull_cost_.share());
  if (!work.held) turn.effects.count(Metric::protocol_errors);
  choose_plan(turn, *flight);
}

// ---- plan and answer ----

// With what the index said, or without it.
void RouterCore::choose_plan(Turn turn, Flight& flight) {
  RankWork& work = rank_of(flight);
  if (flight.stage == Stage::lookup) work.reply.timings.lookup = (turn.now - flight.stage_began).us;
  std::optional<Hotness> hotness;
  if (work.held) hotness = {work.held->found().user_frequency, work.held->found().coldest_frequency};
  const auto user_tokens = static_cast<std::uint32_t>(work.history.tokens.size());
  work.prefix = choose_prefix(work.policy, user_tokens, sum(work.items), hotness);
  work.planned = work.policy != Policy::planner || !work.held;
  execute(turn, flight);
}

NameContext RouterCore::names_of(const Flight& flight) const {
  return {flight.pinned.model_version, config_.names.layout_version};
}

// Says of each block that the node lacks where else it is.
void RouterCore::name_holders(Instant now, const HeldBlocks& held, NodeId node, std::span<const Item> items,
                              std::vector<PlannedSegment>& segments) const {
  if (pull_cost_.share() >= 1) return;  // computing is quicker
  const auto other_holder = [&](std::span<const NodeId> holders) -> NodeId {
    if (std::find(holders.begin(), holders.end(), node) != holders.end()) return 0;
    const auto at = std::find_if(holders.begin(), holders.end(), [&](NodeId holder) {
      return workers_.alive(now, holder) || !workers_.has(holder);
    });
    return at != holders.end() ? *at : 0;
  };
  std::size_t item = 0;
  for (PlannedSegment& segment : segments) {
    if (segment.kind == SegmentKind::user && segment.block) segment.at = other_holder(held.user_holders());
    if (segment.kind != SegmentKind::item) continue;
    while (item < items.size() && items[item].tokens.empty()) ++item;  // has no segment
    if (segment.block) segment.at = other_holder(held.item_holders(item));
    ++item;
  }
}

// What the planner would do there.
PlanChoice RouterCore::plan_at(NodeId node, const RankWork& work) const {
  const HeldBlocks& held = *work.held;
  const PromptSizes sizes =
      PromptSizes::of(config_.form.system.size(), work.history.tokens.size(), work.items);
  MissingShares missing{held.missing_user(node), {}};
  for (std::size_t i = 0; i < work.items.size(); ++i) missing.items.push_back(held.missing_item(node, i));
  ExpectedUses uses;
  const BlocksFound& found = held.found();
  if (held.user_holders().empty()) uses.user = found.user_uses;
  uses.items = found.missing_item_uses;
  return weigh_plans(sizes, missing, uses, config_.attention_share);
}

Prefix RouterCore::prefix_at(NodeId node, const RankWork& work) const {
  return work.planned ? work.prefix : plan_at(node, work).prefix;
}

Execute RouterCore::plan_rank(Instant now, const Flight& flight, const RankWork& work, NodeId node) const {
  RankPlan plan = rank_plan(config_.form, names_of(flight), work.prefix, work.request.tenant,
                            work.request.user, work.history, work.items);
  if (work.held) name_holders(now, *work.held, node, work.items, plan.segments);
  Execute execute{.segments = std::move(plan.segments), .readouts = std::move(plan.readouts)};
  if (work.held && work.policy == Policy::bat && work.prefix == Prefix::user)
    execute.retention.evict_first = work.held->found().coldest;
  execute.retention.keep_hotter = work.policy == Policy::planner;
  if (execute.retention.keep_hotter) execute.retention.copy_worth = pull_cost_.share();
  return execute;
}

// Only an answer whose pulled blocks were used says what they cost.
void RouterCore::note_pull(const std::vector<SentSegment>& sent, NodeId node, const Executed& executed) {
  if (!config_.measures_pulls || executed.pull_us <= 0) return;
  double tokens = 0;
  for (std::size_t i = 0; i < sent.size() && i < executed.reused.size(); ++i)
    if (sent[i].elsewhere && executed.reused[i] != 0) tokens += sent[i].tokens;
  const double own = config_.block_us_per_token;
  pull_cost_.note(tokens, static_cast<double>(executed.pull_us), own > 0 ? own : workers_.us_per_token(node));
}

void RouterCore::on_ranked(Turn turn, Flight& flight, NodeId node, const Executed& executed) {
  RankWork& work = rank_of(flight);
  RankReply reply = std::move(work.reply);
  const TokenCount tokens = count_tokens(turn, flight.sent, executed);
  reply.id = flight.asked.id;
  reply.user = work.request.user;
  reply.items = rank_items(work.items, scores_of(executed, 0, work.items.size()), work.request.top_k);
  reply.policy = name_of(work.policy);
  reply.plan = work.prefix == Prefix::item ? "item" : "user";
  reply.tokens_total = tokens.total;
  reply.tokens_computed = tokens.computed;
  reply.tokens_reused = tokens.reused;
  reply.blocks_reused = tokens.blocks_reused;
  reply.blocks_written = executed.blocks_written;
  reply.history_cut = work.history.cut;
  reply.model_version = flight.pinned.model_version;
  reply.node = node;
  reply.timings.blocks = executed.blocks_us;
  reply.timings.queue = executed.queue_us;
  reply.timings.compute = executed.compute_us;
  reply.timings.pull = executed.pull_us;
  if (const Attempt* attempt = flight.attempt_at(node))
    reply.timings.predicted = static_cast<std::int64_t>(attempt->ticket.predicted_us);
  note_pull(flight.sent, node, executed);
  reply.timings.total = (turn.now - flight.asked.received).us;
  const Metric plans[] = {Metric::plans_recompute, Metric::plans_user, Metric::plans_item};
  turn.effects.count(plans[static_cast<std::size_t>(work.prefix)]);
  turn.effects.send(flight.asked.from, std::move(reply));
  close(turn, flight);
}

}  // namespace troupe::router
