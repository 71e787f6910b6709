// The way of a ranking request through the router.
#include <algorithm>

#include "kernels/check.h"
#include "router/ranking.h"
#include "router/router_core.h"

namespace troupe::router {
namespace {

std::uint32_t sum(const std::vector<Item>& items) {
  std::size_t tokens = 0;
  for (const Item& item : items) tokens += item.tokens.size();
  return static_cast<std::uint32_t>(tokens);
}

Refusal bad_output(std::string what) {
  return {500, "bad_model_output", std::move(what), "inference worker", "one finite logit per candidate"};
}

}  // namespace

NodeId choose_node(Prefix prefix, const std::optional<BlocksFound>& found,
                   const std::vector<NodeId>& workers) {
  NodeId best = workers.at(0);
  if (!found) return best;
  const auto blocks_at = [&](NodeId node) -> std::ptrdiff_t {
    if (prefix == Prefix::user) return found->user_node == node;
    if (prefix == Prefix::item) return std::count(found->item_nodes.begin(), found->item_nodes.end(), node);
    return 0;
  };
  for (const NodeId node : workers)
    if (blocks_at(node) > blocks_at(best)) best = node;
  return best;
}

void RouterCore::on_rank(Turn turn, Address from, const RankRequest& request) {
  turn.effects.count(Metric::requests_rank);
  if (!admit(turn, from, request.id, find_fault(request, config_.limits))) return;
  const Serial serial = next_id_++;
  Ranking& ranking = rankings_[serial];
  ranking.asked = ask(turn, from, request.id, serial, request.budget_us);
  ranking.request = request;
  ranking.policy = request.policy.empty() ? config_.policy : *find_policy(request.policy);
  ranking.stage_began = turn.now;
  feature_jobs_.insert(serial);
  turn.effects.start(serial, FindFeatures{request.tenant, request.user, request.candidates});
  count_in_flight(turn);
}

// ---- features ----

void RouterCore::on_features(Turn turn, Serial serial, const JobResult& result) {
  const auto at = rankings_.find(serial);
  if (at == rankings_.end()) return;
  Ranking& ranking = at->second;
  if (const auto* refusal = std::get_if<Refusal>(&result)) return refuse_request(turn, serial, *refusal);
  const auto& features = std::get<Features>(result);
  catalog_version_ = features.catalog_version;
  if (const auto refusal = take_features(ranking, features)) return refuse_request(turn, serial, *refusal);
  ranking.reply.timings.features = (turn.now - ranking.stage_began).us;
  if (ranking.policy == Policy::recompute) return execute(turn, serial, ranking, std::nullopt);
  look_up(turn, serial, ranking);
}

std::optional<Refusal> RouterCore::take_features(Ranking& ranking, const Features& features) const {
  const std::vector<std::string>& candidates = ranking.request.candidates;
  TROUPE_CHECK(features.items.size() == candidates.size(), "the feature port answers for each item");
  if (!features.user)
    return Refusal{404, "unknown_user", "user \"" + ranking.request.user + "\" has no profile", "user",
                   "a user that was put or imported"};
  std::size_t unknown = 0, first = 0;
  for (std::size_t i = candidates.size(); i-- > 0;)
    if (!features.items[i]) ++unknown, first = i;
  if (unknown > 0)
    return Refusal{404, "unknown_item",
                   "item \"" + candidates[first] + "\" is not in the catalog (unknown items: " +
                       std::to_string(unknown) + " of " + std::to_string(candidates.size()) + ")",
                   "candidates[" + std::to_string(first) + "]", "items of the catalog"};
  for (const auto& item : features.items) ranking.items.push_back(*item);

  const std::size_t longest = item_tokens_max(ranking.items);
  const std::size_t least = positions_without_history(config_.form, longest);
  if (least > config_.form.positions_max)
    return Refusal{422, "too_long",
                   "the longest candidate alone makes a prompt of " + std::to_string(least) + " positions",
                   "candidates", "at most " + std::to_string(config_.form.positions_max)};
  ranking.history = fit_history(config_.form, *features.user, longest);
  const std::uint64_t total = std::uint64_t{sum(ranking.items)} + ranking.history.tokens.size();
  if (total > config_.limits.request_tokens_max)
    return Refusal{413, "too_many_tokens", "user and candidates have " + std::to_string(total) + " tokens",
                   "candidates", "at most " + std::to_string(config_.limits.request_tokens_max)};
  ranking.reply.profile_version = features.user->version;
  ranking.reply.catalog_version = features.catalog_version;
  return std::nullopt;
}

// ---- index ----

void RouterCore::look_up(Turn turn, Serial serial, Ranking& ranking) {
  const RankRequest& request = ranking.request;
  const std::vector<Token>& user = ranking.history.tokens;
  LookupBlocks lookup{.id = serial, .user = user_key(request.tenant, request.user)};
  if (!user.empty()) lookup.user_block = user_block(config_.form, config_.names, request.tenant, user);
  lookup.user_tokens = static_cast<std::uint32_t>(user.size());
  for (const Item& item : ranking.items) lookup.item_blocks.push_back(item.block);
  ranking.stage = Stage::lookup;
  ranking.stage_began = turn.now;
  turn.effects.send(cache_meta(), std::move(lookup));
  const Duration budget = ranking.asked.deadline - ranking.asked.received;
  const Duration wait{std::max(budget.us / 10, config_.lookup_wait_min.us)};
  turn.effects.set_timer(serial * 2 + 1, turn.now + wait);
}

void RouterCore::on_found(Turn turn, const BlocksFound& found) {
  const auto at = rankings_.find(found.id);
  if (at == rankings_.end() || at->second.stage != Stage::lookup) return;
  execute(turn, found.id, at->second, found);
}

// ---- plan and answer ----

void RouterCore::execute(Turn turn, Serial serial, Ranking& ranking,
                         const std::optional<BlocksFound>& found) {
  if (ranking.stage == Stage::lookup) ranking.reply.timings.lookup = (turn.now - ranking.stage_began).us;
  std::optional<Hotness> hotness;
  if (found) hotness = {found->user_frequency, found->coldest_frequency};
  const auto user_tokens = static_cast<std::uint32_t>(ranking.history.tokens.size());
  ranking.prefix = choose_prefix(ranking.policy, user_tokens, sum(ranking.items), hotness);
  ranking.worker = choose_node(ranking.prefix, found, config_.workers);

  RankPlan plan = rank_plan(config_.form, config_.names, ranking.prefix, ranking.request.tenant,
                            ranking.request.user, ranking.history, ranking.items);
  ranking.sent = remember(plan.segments);
  ranking.reply.history_cut = plan.history_cut;
  ranking.stage = Stage::executing;
  Execute execute{serial,
                  Priority::serving,
                  (ranking.asked.deadline - turn.now).us,
                  std::move(plan.segments),
                  std::move(plan.readouts),
                  {}};
  const bool evicts_by_hotness = ranking.policy == Policy::bat && ranking.prefix == Prefix::user;
  if (found && evicts_by_hotness) execute.evict_first = found->coldest;
  turn.effects.send({ranking.worker, Role::inference_worker}, std::move(execute));
}

void RouterCore::on_ranked(Turn turn, Serial serial, const Executed& executed) {
  Ranking& ranking = rankings_.at(serial);
  if (executed.readouts.size() != 1 || executed.readouts[0].scores.size() != ranking.items.size() ||
      executed.reused.size() != ranking.sent.size())
    return refuse_request(turn, serial, bad_output("the answer has another shape than the plan"));
  const std::vector<double>& scores = executed.readouts[0].scores;
  if (!all_finite(scores)) return refuse_request(turn, serial, bad_output("a logit is not a finite number"));

  RankReply reply = std::move(ranking.reply);
  const TokenCount tokens = count_tokens(turn, ranking.sent, executed);
  const Asked asked = ranking.asked;
  reply.id = asked.id;
  reply.user = ranking.request.user;
  reply.items = rank_items(ranking.items, scores, ranking.request.top_k);
  reply.policy = name_of(ranking.policy);
  reply.plan = ranking.prefix == Prefix::item ? "item" : "user";
  reply.tokens_total = tokens.total;
  reply.tokens_computed = tokens.computed;
  reply.tokens_reused = tokens.reused;
  reply.blocks_reused = tokens.blocks_reused;
  reply.blocks_written = executed.blocks_written;
  reply.model_version = config_.names.model_version;
  reply.node = ranking.worker;
  reply.timings.blocks = executed.blocks_us;
  reply.timings.queue = executed.queue_us;
  reply.timings.compute = executed.compute_us;
  reply.timings.total = (turn.now - asked.received).us;
  const Metric plans[] = {Metric::plans_recompute, Metric::plans_user, Metric::plans_item};
  turn.effects.count(plans[static_cast<std::size_t>(ranking.prefix)]);
  turn.effects.send(asked.from, std::move(reply));
  close(turn, asked, serial);
}

}  // namespace troupe::router
