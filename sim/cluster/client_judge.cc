// Judges the outcomes of the simulated clients' requests: in time, correct for the versions named, and
// refused only for a promised reason.
#include "sim/cluster/client_judge.h"

#include <algorithm>
#include <cmath>

#include "router/request/plans.h"
#include "router/request/policy.h"
#include "runtime/actor/message_id.h"
#include "sim/cluster/expected_arrangement.h"
#include "sim/scenario/deployment_config.h"

namespace troupe::sim {
namespace {

constexpr std::int64_t reload_budget_us = 60'000'000;

// True if a refusal may have this kind (promise 1); not_found and unprocessable also need a reason.
bool is_promised(RefusalKind refusal, SentRequest::Kind kind) {
  using enum RefusalKind;
  constexpr RefusalKind of_the_cluster[] = {not_found, unprocessable, over_quota, unavailable,
                                            deadline_exceeded},
                        of_the_client[] = {malformed, unauthenticated, forbidden, too_large};
  const bool may_blame_client = kind == SentRequest::Kind::malformed || kind == SentRequest::Kind::reload;
  return std::ranges::count(of_the_cluster, refusal) > 0 ||
         (may_blame_client && std::ranges::count(of_the_client, refusal) > 0);
}

std::string text_of(const Message& request) {
  if (const auto* generate = std::get_if<GenerateRequest>(&request))
    return "generate request " + std::to_string(generate->id) + " of user " + generate->tenant + "/" +
           generate->user;
  if (const auto* rank = std::get_if<RankRequest>(&request))
    return "rank request " + std::to_string(rank->id) + " of user " + rank->tenant + "/" + rank->user;
  return "request " + std::to_string(id_of(request));
}

bool asks_for_scores(const Message& request) {
  return std::holds_alternative<RankRequest>(request) || std::holds_alternative<ScoreRequest>(request) ||
         std::holds_alternative<GenerateRequest>(request);
}

// User and items that must exist for a valid request.
struct Needed {
  std::string_view tenant, user;
  std::span<const std::string> items;
};
std::optional<Needed> needed_of(const Message& request) {
  if (const auto* rank = std::get_if<RankRequest>(&request))
    return Needed{rank->tenant, rank->user, rank->candidates};
  if (const auto* generate = std::get_if<GenerateRequest>(&request))
    return Needed{generate->tenant, generate->user, generate->allow};
  return std::nullopt;
}

std::vector<Item> items_of(const WorldData& world, const RankRequest& request, const std::string& catalog,
                           WorldData::Edition edition) {
  std::vector<Item> items;
  for (const std::string& id : request.candidates)
    if (auto item = world.item(id, catalog, edition)) items.push_back(std::move(*item));
  return items;
}

std::vector<Token> rows_of(const std::vector<Item>& items) {
  std::vector<Token> rows;
  for (const Item& item : items) rows.push_back(item.identifier);
  return rows;
}

}  // namespace

ClientJudge::ClientJudge(Cluster& cluster, Violations& violations)
    : cluster_(cluster), violations_(violations), served_(cluster), stored_(cluster.scenario().expiry) {
  for (std::uint32_t model = 0; model < cluster.scenario().models; ++model)
    oracles_.emplace_back(cluster.world(), cluster.form(), cluster.family(model),
                          cluster.scenario().approximate,
                          cluster.scenario().served ? cluster.scenario().served->router.limits.width_max : 0);
}

void ClientJudge::note_sent(SentRequest& asked) {
  served_.note();
  stored_.note_sent(asked, cluster_.world());
  ++tally_.requests;
  ++second(asked.sent).sent;
}

Second& ClientJudge::second(Instant at) {
  const auto index = static_cast<std::size_t>(at.us / 1'000'000);
  if (seconds_.size() <= index) seconds_.resize(index + 1);
  return seconds_[index];
}

void ClientJudge::judge(const SentRequest& asked, const Message& answer) {
  const auto* refused = std::get_if<Refused>(&answer);
  if (const auto* reload = std::get_if<Reload>(&asked.request))
    judge_reload(asked, *reload, refused ? &refused->refusal : nullptr);
  Second& now = second(cluster_.now());
  const bool excused = refused && is_excused(asked, refused->refusal);
  if (!excused) {
    tally_.after_kill += asked.since_kill != SentRequest::SinceKill::unknown;
    tally_.long_after_kill += asked.since_kill == SentRequest::SinceKill::long_ago;
  }
  if (refused) {
    now.failed += !excused && asked.kind == SentRequest::Kind::usual;
    const bool late = refused->refusal.kind == RefusalKind::deadline_exceeded;
    ++(late ? tally_.expired : tally_.refused);
    ++(late ? now.expired : now.refused);
    return judge_refusal(asked, refused->refusal);
  }
  if (!asked.refusal.empty())
    report(21, asked, "is answered; expected the refusal " + asked.refusal);
  else if (asked.kind == SentRequest::Kind::malformed)
    report(15, asked, "is malformed but is answered");
  ++tally_.answered;
  ++now.answered;
  tally_.after_kill_ok += asked.since_kill != SentRequest::SinceKill::unknown;
  tally_.long_after_kill_ok += asked.since_kill == SentRequest::SinceKill::long_ago;
  now.latency_ms.push_back(static_cast<float>((cluster_.now() - asked.sent).us) * 1e-3F);
  if (const auto* stored = std::get_if<Stored>(&answer)) {
    if (asks_for_scores(asked.request)) return report(1, asked, "gets the answer of a write");
    return judge_stored(asked, stored->version);
  }
  if (const auto* appended = std::get_if<Appended>(&answer)) return judge_appended(asked, *appended);
  if (const auto* rank = std::get_if<RankReply>(&answer)) {
    tally_.of_others += asked.model > 0;
    tally_.approximate += rank->approximate > 0;
    return judge_rank(asked, *rank);
  }
  if (const auto* generated = std::get_if<GenerateReply>(&answer)) return judge_generated(asked, *generated);
  const auto* score = std::get_if<ScoreReply>(&answer);
  const auto* request = std::get_if<ScoreRequest>(&asked.request);
  if (!score || !request) return report(1, asked, "gets an answer of another kind");
  if (const std::string fault = oracles_.at(asked.model).validate(*request, *score); !fault.empty())
    report(1, asked, fault);
  judge_versions(asked, score->model_version, "");
}

void ClientJudge::judge_rank(const SentRequest& asked, const RankReply& reply) {
  const auto* request = std::get_if<RankRequest>(&asked.request);
  if (!request) return report(1, asked, "gets a ranking");
  if (reply.features_stale + reply.features_missing > (request->features == Freshness::behind ? 1u : 0u))
    report(4, asked, "is answered from a stale or missing profile but does not allow that");
  judge_arrangement(asked, *request, reply);
  const std::string fault =
      oracles_.at(asked.model).validate(*request, reply, asked.edition, cluster_.world().edition());
  judge_content(asked, reply, fault);
}

// The oracle compares the scores with those of the arrangement that the reply names.
void ClientJudge::judge_arrangement(const SentRequest& asked, const RankRequest& request,
                                    const RankReply& reply) {
  if (!asked.refusal.empty()) return;  // reported already
  const std::vector<Arrangement> allowed =
      expected_arrangements(request, cluster_.form(), cluster_.scenario().policy->name);
  if (std::ranges::find(allowed, reply.arrangement) != allowed.end()) return;
  report(21, asked,
         "is answered under arrangement \"" + std::string(word_of(reply.arrangement)) + "\"; expected " +
             words_of(allowed));
}

void ClientJudge::judge_generated(const SentRequest& asked, const GenerateReply& reply) {
  const auto* request = std::get_if<GenerateRequest>(&asked.request);
  if (!request) return report(1, asked, "gets generated items");
  judge_content(asked, reply, oracles_.at(asked.model).validate(*request, reply));
}

template <class Reply>
void ClientJudge::judge_content(const SentRequest& asked, const Reply& reply, const std::string& fault) {
  const bool struck = !fault.empty() && cluster_.struck().explain(reply);
  tally_.struck += struck;
  if (!fault.empty() && !struck) report(1, asked, fault);
  const std::uint64_t known = reply.features_stale > 0 ? asked.profile_stale : asked.profile_known;
  if (reply.profile_version < known && reply.features_missing == 0)
    report(1, asked,
           "is answered from profile " + std::to_string(reply.profile_version) + ", stored before it was " +
               std::to_string(known));
  tally_.tokens_total += reply.tokens_total;
  tally_.tokens_reused += reply.tokens_reused;
  judge_versions(asked, reply.model_version, reply.catalog_version);
}

// No request may be answered from versions that were replaced before it was sent, or from versions that
// were never served.
void ClientJudge::judge_versions(const SentRequest& asked, const std::string& model,
                                 const std::string& catalog) {
  served_.note();
  if (served_.may_answer(asked, model, catalog)) return;
  report(4, asked,
         "is answered by model " + model + " from catalog " + catalog + ", which were not served then");
}

// A reload that no other reload disturbs must succeed, unless a harmful fault is in its way. Model and
// catalog that are changed together must change in one step.
void ClientJudge::judge_reload(const SentRequest& asked, const Reload& reload, const Refusal* refusal) {
  if (!asked.alone) return;
  const bool exists =
      reload.model_version.empty() || std::ranges::count(Cluster::models, reload.model_version) > 0;
  if (refusal) {
    if (exists && cluster_.scenario().harmless)
      report(4, asked, "is refused although nothing prevents it: " + refusal->code + ", " + refusal->what);
    return;
  }
  if (!exists) return report(4, asked, "is answered as done, but there is no such model");
  if (cluster_.coordination().lost_at() >= asked.sent) return;  // the store has lost the reload
  served_.note();
  const Versions now = cluster_.versions();
  const bool is_share = reload.share < 1;
  const bool has_model =
      reload.model_version.empty() || reload.model_version == (is_share ? now.next_model : now.model_version);
  const bool has_catalog = reload.catalog_version.empty() || reload.catalog_version == now.catalog_version;
  const bool may_stay = is_share || (reload.model_version.empty() && now.is_shared());
  const bool has_other = !now.next_model.empty() && !may_stay;
  const bool has_share = !is_share || now.next_share == std::lround(reload.share * Versions::all_users);
  if (!has_model || !has_catalog || !has_share || has_other)
    report(4, asked, "is answered as done, but other versions are served or pending");
  if (reload.model_version.empty() || reload.catalog_version.empty()) return;
  for (const ServedVersions::Since& served : served_.of(0))
    if (served.from > asked.sent && (served.versions.model_version == reload.model_version) !=
                                        (served.versions.catalog_version == reload.catalog_version))
      report(4, asked, "has changed model and catalog one after the other");
}

void ClientJudge::judge_refusal(const SentRequest& asked, const Refusal& refusal) {
  const std::string text = std::string(name_of(refusal.kind)) + " " + refusal.code + ", " + refusal.what;
  if (refusal.code.empty() || !is_promised(refusal.kind, asked.kind))
    return report(1, asked, "gets a refusal that was not promised: " + text);
  if (!asked.refusal.empty() && is_fault_of_request(refusal.kind) && refusal.code != asked.refusal)
    report(15, asked, "gets another refusal than " + asked.refusal + ": " + text);
  if (asked.kind == SentRequest::Kind::malformed || asked.kind == SentRequest::Kind::reload ||
      is_excused(asked, refusal))
    return;
  if (refusal.kind == RefusalKind::not_found)
    return report(1, asked, "is refused as unknown but exists: " + text);
  if (refusal.code == "poison")
    return report(12, asked, "is refused as poison but was not lost twice with its workers");
  if (refusal.kind == RefusalKind::unprocessable)
    return report(1, asked, "is valid but refused as invalid: " + text);
  if (asked.must_succeed) report(6, asked, "is refused although the cluster has the resources: " + text);
}

bool ClientJudge::is_excused(const SentRequest& asked, const Refusal& refusal) {
  served_.note();
  if (refusal.kind == RefusalKind::not_found) return may_be_unknown(asked);
  return refusal.code == "poison" && refusal.kind == RefusalKind::unprocessable && was_lost_twice(asked);
}

// True if the user, or an item of a catalog that the request may have used, was missing at some time while
// the request was in flight.
bool ClientJudge::may_be_unknown(const SentRequest& asked) const {
  const auto request = needed_of(asked.request);
  if (!request) return false;
  const WorldData& world = cluster_.world();
  if (world.was_absent(request->tenant, request->user, asked.profile_since)) return true;
  const std::vector<ServedVersions::Since>& served = served_.of(asked.model);
  for (std::size_t i = 0; i < served.size(); ++i) {
    if (!served_.served_for(asked, i)) continue;
    for (WorldData::Edition edition = asked.edition; edition <= world.edition(); ++edition)
      for (const std::string& id : request->items)
        if (!world.item(id, served[i].versions.catalog_version, edition)) return true;
  }
  return false;
}

// A poison request that killed workers was lost twice too.
bool ClientJudge::was_lost_twice(const SentRequest& asked) {
  if (!attempts_) return true;
  std::set<Content> contents;
  const auto add = [&](const Tokens& user_tokens, const std::vector<Token>& rows) {
    contents.insert(content_of(user_tokens, rows));
  };
  if (const auto* score = std::get_if<ScoreRequest>(&asked.request)) add(score->query, score->label_tokens);
  if (const auto* generate = std::get_if<GenerateRequest>(&asked.request))
    add_contents(RankRequest{.tenant = generate->tenant, .user = generate->user}, asked.profile_since, add);
  if (const auto* rank = std::get_if<RankRequest>(&asked.request))
    add_contents(*rank, asked.profile_since, add);
  return attempts_->lost_twice(cluster_.now(), contents);
}

// Adds the contents for each profile that existed while the request was in flight. Routers identify a
// content by the items' ids, so its losses may date from a time when the items had other rows.
void ClientJudge::add_contents(
    const RankRequest& request, std::uint64_t profile_since,
    const std::function<void(const Tokens&, const std::vector<Token>&)>& add) const {
  const WorldData& world = cluster_.world();
  // A form that scores candidates behind their own tokens reads the same rows behind each.
  const PromptForm& form = cluster_.form();
  const auto rows_read = [&](const std::vector<Item>& items) {
    return form.scores_each() ? std::vector<Token>{form.yes, form.no} : rows_of(items);
  };
  std::set<std::pair<std::vector<Token>, std::size_t>> states;  // rows, positions of the items
  for (const std::string& catalog : world.options().catalogs)
    for (WorldData::Edition edition = 0; edition <= world.edition(); ++edition) {
      const std::vector<Item> items = items_of(world, request, catalog, edition);
      // Items in a row leave fewer positions for the history.
      for (const char* plan : {"item", "apart", "causal"})
        states.insert(
            {rows_read(items), router::item_positions(*router::find_plan(plan), form, views(items))});
    }
  const std::uint64_t last = world.profile_version(request.tenant, request.user);
  for (std::uint64_t version = profile_since; version <= last; ++version)
    if (const auto profile = world.profile(request.tenant, request.user, version))
      for (const auto& [rows, positions] : states)
        add(router::fit_history(cluster_.form(), *profile, positions).tokens, rows);
  if (request.features != Freshness::behind) return;
  for (const auto& [rows, positions] : states)
    add(router::fit_history(cluster_.form(), Profile{}, positions).tokens, rows);
}

// An event that was appended once must not be appended again, and no event may be missing.
void ClientJudge::judge_appended(const SentRequest& asked, const Appended& appended) {
  const auto* events = std::get_if<AppendEvents>(&asked.request);
  if (!events) return report(1, asked, "gets the answer of an append");
  judge_stored(asked, appended.version);
  if (appended.appended + appended.repeated != events->tokens.size())
    report(4, asked,
           "reports that " + std::to_string(appended.appended + appended.repeated) +
               " events were appended, of " + std::to_string(events->tokens.size()));
  if (!stored_.note_appended(*events, asked.sent, cluster_.now(), appended.appended > 0))
    report(4, asked, "appends events that were already appended");
}

void ClientJudge::judge_stored(const SentRequest& asked, std::uint64_t version) {
  stored_.learn(asked, version, cluster_.now());
  tally_.swaps += std::holds_alternative<Reload>(asked.request);
}

// Returns when the outcome must have arrived. The router keeps the deadline by its own clock, which a fault
// may slow down; a paused router may receive the request only after it resumes.
Instant ClientJudge::due(const SentRequest& asked) const {
  const Scenario& s = cluster_.scenario();
  const bool reload = std::holds_alternative<Reload>(asked.request);
  const std::int64_t budget = reload ? reload_budget_us : asked.budget.us;
  const Instant from = std::max(asked.sent, cluster_.node(asked.router).disturbed);
  return from + Duration{(s.drifts ? budget * 11 / 10 : budget) + 2 * s.heartbeat.us};
}

void ClientJudge::report(int promise, const SentRequest& asked, const std::string& what) {
  violations_.report(promise,
                     text_of(asked.request) + " (sent at " + std::to_string(asked.sent.us) + " us to node " +
                         std::to_string(asked.router) + ") " + what,
                     cluster_.now());
}

}  // namespace troupe::sim
