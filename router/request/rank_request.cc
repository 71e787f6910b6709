// Implements ranking: a user and candidates of the catalog, scored at a discriminant token or one
// by one.
#include <algorithm>
#include <utility>

#include "kernels/base/check.h"
#include "router/fleet/fingerprint.h"
#include "router/request/allowed_plans.h"
#include "router/request/explanation.h"
#include "router/request/own_history.h"
#include "router/request/ranking.h"
#include "router/request/request.h"
#include "router/request/request_check.h"
#include "runtime/actor/user_home.h"

namespace troupe::router {
namespace {

// Bounds the length of an explanation, which has several numbers and a text per token.
constexpr std::uint64_t explained_tokens_max = 16'384;

std::uint64_t sum_of(std::span<const ItemView> items) {
  std::uint64_t tokens = 0;
  for (const ItemView& item : items) tokens += item.tokens.size();
  return tokens;
}

class Ranking final : public RequestOf<RankRequest> {
 public:
  Ranking(RankRequest&& request, const Policy& usual)
      : RequestOf(std::move(request)),
        user_(history_user(request_)),
        policy_(find_policy(request_.policy).value_or(policy_for(usual, request_.arrangement))) {}

  std::string_view kind() const override { return "rank"; }
  std::string_view named_user() const override { return request_.user; }
  std::uint64_t profile_version() const override { return profile_version_; }
  std::uint64_t home() const override { return user_hash(request_.tenant, user_); }
  std::uint64_t fingerprint() const override { return router::fingerprint(request_, profile_version_); }

  std::optional<FindFeatures> features() const override {
    return FindFeatures{.tenant = request_.tenant,
                        .user = request_.user,
                        .items = request_.candidates,
                        .freshness = request_.features,
                        .history = own_history(request_)};
  }
  std::optional<Refusal> take(const PromptForm& form, const RequestLimits& limits,
                              const Features& features) override;
  std::string catalog_version() const override { return catalog_->version(); }
  std::span<const ItemView> items() const override { return items_; }

  const Policy* policy() const override { return &policy_; }
  std::string user() const override { return owner_of_user(request_.tenant, user_); }
  Situation situation() const override {
    return {.user_tokens = user_tokens_, .item_tokens = sum_of(items_)};
  }
  std::vector<Candidate> candidates(const PromptForm& form, const BlockNames& names) override;
  std::optional<Candidate> candidate_in_place(std::string_view plan, const PromptForm& form,
                                              const BlockNames& names,
                                              std::span<const std::uint8_t> in_place) const override;

  Message reply(RunResult&& result) override;

 private:
  void take_items(const Features& features);
  // A considered plan and the history that fits beside the items.
  struct Fit {
    const PlanKind* plan = nullptr;
    std::size_t item_positions = 0;
    std::shared_ptr<const FittedHistory> history;  // shared by plans whose items take as many positions
  };
  Candidate build(const Fit& fit, const PromptForm& form, const BlockNames& names,
                  std::span<const std::uint8_t> in_place = {}) const;

  std::string user_;  // owner of the history's blocks
  Policy policy_;
  CatalogPointer catalog_;  // owner of the items' tokens
  std::vector<ItemView> items_;
  std::vector<std::string> skipped_;  // candidates that are not in the catalog
  std::vector<Fit> fits_;             // without plans that do not fit even without a history
  std::uint64_t user_tokens_ = 0;
  std::uint64_t profile_version_ = 0;
  bool is_cold_ = false;        // the user is not stored
  double approximate_max_ = 1;  // of the prompt's tokens
  bool scores_each_ = false;
  std::vector<std::string> tasks_;  // like PromptForm::tasks
  double temperature_ = 1;
  std::unique_ptr<const PromptForm> explained_form_;  // if the request wants an explanation
  Features::Source of_ = Features::Source::store;
};

// Returns each candidate's score: the logit of yes minus that of no.
std::vector<double> yes_less_no(const std::vector<ScoreRow>& rows) {
  std::vector<double> scores;
  scores.reserve(rows.size());
  for (const ScoreRow& row : rows) scores.push_back(row.scores.at(0) - row.scores.at(1));
  return scores;
}

// Returns the scores of all readouts in one list.
std::vector<double> all_scores(std::vector<ScoreRow>&& rows) {
  if (rows.size() == 1) return std::move(rows.front().scores);
  std::vector<double> scores;
  for (const ScoreRow& row : rows) scores.insert(scores.end(), row.scores.begin(), row.scores.end());
  return scores;
}

std::optional<Refusal> find_unknown(const RankRequest& request, const Features& features) {
  const std::vector<std::string>& candidates = request.candidates;
  TROUPE_CHECK(features.items.size() == candidates.size(), "the feature port answers for each item");
  std::size_t unknown = 0, first = 0;
  for (std::size_t i = candidates.size(); i-- > 0;)
    if (features.items[i] == no_item) ++unknown, first = i;
  if (unknown == 0 || (request.unknown == UnknownCandidates::skip && unknown < candidates.size()))
    return std::nullopt;
  return Refusal{RefusalKind::not_found, "unknown_item",
                 "item \"" + candidates[first] + "\" is not in the catalog (unknown items: " +
                     std::to_string(unknown) + " of " + std::to_string(candidates.size()) + ")",
                 "candidates[" + std::to_string(first) + "]",
                 request.unknown == UnknownCandidates::skip
                     ? "at least one item of the catalog"
                     : "items of the catalog, or unknown: skip, to rank the others"};
}

void Ranking::take_items(const Features& features) {
  catalog_ = features.catalog;
  items_.reserve(request_.candidates.size());
  for (std::size_t i = 0; i < request_.candidates.size(); ++i)
    if (features.items[i] != no_item)
      items_.push_back(catalog_->item(features.items[i]));
    else
      skipped_.push_back(request_.candidates[i]);
}

std::optional<Refusal> Ranking::take(const PromptForm& form, const RequestLimits& limits,
                                     const Features& features) {
  is_cold_ = !features.user;
  if (is_cold_ && !is_cold_allowed(request_.unknown_user, limits))
    return user_without_profile(request_.user, request_.tenant);
  if (auto unknown = find_unknown(request_, features)) return unknown;
  take_items(features);
  const Profile no_events;
  const Profile& profile = is_cold_ ? no_events : *features.user;
  scores_each_ = form.scores_each();
  approximate_max_ = request_.approximate >= 0 ? request_.approximate
                     : policy_->weighs         ? limits.approximate
                                               : 1;
  tasks_ = form.tasks;
  temperature_ = form.temperature;
  if (form.next_items && profile.events.empty()) return empty_history(request_);
  if (request_.explain) explained_form_ = std::make_unique<const PromptForm>(form);
  std::size_t least = SIZE_MAX;
  for (const PlanKind* plan : allowed_plans(policy_, request_.arrangement, form, approximate_max_ > 0)) {
    const std::size_t own_positions = item_positions(*plan, form, items_);
    const std::size_t positions = positions_without_history(form, own_positions);
    least = std::min(least, positions);
    if (positions > form.positions_max) continue;
    const auto same = std::ranges::find(fits_, own_positions, &Fit::item_positions);
    auto history = same != fits_.end()
                       ? same->history
                       : std::make_shared<const FittedHistory>(fit_history(form, profile, own_positions));
    // Nothing is cheap because it reads less of the history than the preferred exact plan.
    if (policy_->weighs && fits_.empty() && plan->approximate) continue;
    if (policy_->weighs && !fits_.empty() && history->cut > fits_.front().history->cut) continue;
    fits_.push_back({plan, own_positions, std::move(history)});
  }
  if (fits_.empty())
    return Refusal{RefusalKind::unprocessable, "too_long",
                   "the candidates alone make a prompt of " + std::to_string(least) + " positions",
                   "candidates", "at most " + std::to_string(form.positions_max)};
  user_tokens_ = fits_.front().history->tokens.size();
  const std::uint64_t total = sum_of(items_) + user_tokens_;
  if (total > limits.request_tokens_max)
    return Refusal{RefusalKind::too_large, "too_many_tokens",
                   "user and candidates have " + std::to_string(total) + " tokens", "candidates",
                   "at most " + std::to_string(limits.request_tokens_max) + " (router.request_tokens_max)"};
  if (request_.explain && total > explained_tokens_max)
    return Refusal{RefusalKind::unprocessable, "too_long_to_explain",
                   "user and candidates have " + std::to_string(total) + " tokens", "explain",
                   "at most " + std::to_string(explained_tokens_max) +
                       " tokens, such as those of fewer candidates, or no explanation"};
  profile_version_ = profile.version;
  of_ = features.of;
  return std::nullopt;
}

std::vector<Candidate> Ranking::candidates(const PromptForm& form, const BlockNames& names) {
  std::vector<Candidate> made;
  made.reserve(fits_.size());
  for (const Fit& fit : fits_) made.push_back(build(fit, form, names));
  return made;
}

Candidate Ranking::build(const Fit& fit, const PromptForm& form, const BlockNames& names,
                         std::span<const std::uint8_t> in_place) const {
  return fit.plan->build({.form = form,
                          .names = policy_->reuses ? &names : nullptr,
                          .tenant = request_.tenant,
                          .user = user_,
                          .history = fit.history->tokens,
                          .events = fit.history->events,
                          .catalog = catalog_,
                          .items = items_,
                          .repair = policy_.repair_of(*fit.plan),
                          .approximate_max = approximate_max_,
                          .features = fit.history->features,
                          .now = request_.request_timestamp,
                          .scenario = request_.scenario,
                          .in_place = in_place});
}

std::optional<Candidate> Ranking::candidate_in_place(std::string_view plan, const PromptForm& form,
                                                     const BlockNames& names,
                                                     std::span<const std::uint8_t> in_place) const {
  const auto fit = std::ranges::find_if(fits_, [&](const Fit& each) { return each.plan->name == plan; });
  TROUPE_CHECK(fit != fits_.end(), "the plan is one of the request's");
  return build(*fit, form, names, in_place);
}

Message Ranking::reply(RunResult&& result) {
  RankReply reply{.id = request_.id, .user = std::move(request_.user)};
  const auto task = std::ranges::find(tasks_, request_.task);  // none is named: the first
  reply.items = rank_items(
      items_, scores_each_ ? yes_less_no(result.rows) : all_scores(std::move(result.rows)), request_.top_k,
      {.count = std::max<std::size_t>(1, tasks_.size()),
       .ordering = request_.task.empty() ? 0 : static_cast<std::size_t>(task - tasks_.begin()),
       .reported = !tasks_.empty(),
       .temperature = temperature_});
  reply.tasks = std::move(tasks_);
  reply.policy = policy_.name();
  reply.plan = result.plan;
  reply.arrangement = find_plan(result.plan)->arrangement;
  fill_run(result, reply);
  reply.blocks_reused = result.blocks_reused;
  reply.blocks_written = result.blocks_written;
  for (const Fit& fit : fits_) {
    if (fit.plan->name != result.plan) continue;
    reply.history_cut = fit.history->cut;
    if (explained_form_ && result.sent)
      reply.explanation = explain({.sent = *result.sent,
                                   .reused = result.reused,
                                   .items = items_,
                                   .form = *explained_form_,
                                   .history = *fit.history});
  }
  reply.catalog_version = catalog_->version();
  reply.profile_version = profile_version_;
  reply.approximate = result.approximate;
  reply.features_stale = of_ == Features::Source::stale;
  reply.features_missing = of_ == Features::Source::missing;
  if (is_cold_) reply.unknown_user = word_of(UnknownUser::cold);
  reply.skipped = std::move(skipped_);
  if (result.sent)
    for (const std::uint32_t item : result.sent->in_place) reply.in_place.emplace_back(items_[item].id);
  return reply;
}

}  // namespace

std::unique_ptr<Request> take_rank(Message&& message, const Policy& usual) {
  return std::make_unique<Ranking>(std::get<RankRequest>(std::move(message)), usual);
}

}  // namespace troupe::router
