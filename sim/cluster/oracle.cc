// Recomputes a simulated reply without any cache and compares it exactly, so that any wrong reuse
// in the cluster is found.
#include "sim/cluster/oracle.h"

#include <algorithm>

#include "router/request/policy.h"
#include "router/request/ranking.h"
#include "sim/world/expected_results.h"

namespace troupe::sim {
namespace {

constexpr std::uint32_t usual_results = 10, usual_width = 128;  // of a search

std::string differs(std::string_view field, std::string_view is, std::string_view expected) {
  return std::string(field) + " is " + std::string(is) + "; expected " + std::string(expected);
}
std::string differs(std::string_view field, std::uint64_t is, std::uint64_t expected) {
  return differs(field, std::to_string(is), std::to_string(expected));
}

std::string compare(const std::vector<RankedItem>& is, const std::vector<RankedItem>& expected) {
  if (is.size() != expected.size()) return differs("the number of items", is.size(), expected.size());
  for (std::size_t i = 0; i < is.size(); ++i) {
    const std::string where = "items[" + std::to_string(i) + "]";
    if (is[i].id != expected[i].id) return differs(where + ".id", is[i].id, expected[i].id);
    if (is[i].title != expected[i].title) return differs(where + ".title", is[i].title, expected[i].title);
    if (is[i].score != expected[i].score)
      return differs(where + ".score", std::to_string(is[i].score), std::to_string(expected[i].score));
    if (is[i].probability != expected[i].probability)
      return differs(where + ".probability", std::to_string(is[i].probability),
                     std::to_string(expected[i].probability));
  }
  return "";
}

template <class Reply>
std::string compare_tokens(const Reply& reply, std::uint32_t total) {
  if (reply.tokens_total != total) return differs("tokens_total", reply.tokens_total, total);
  if (std::uint64_t{reply.tokens_computed} + reply.tokens_reused != total)
    return differs("tokens_computed + tokens_reused",
                   std::uint64_t{reply.tokens_computed} + reply.tokens_reused, total);
  return "";
}

// Only approximate plans compute some of the candidates in their place.
std::string find_misplaced(const RankRequest& request, const RankReply& reply) {
  const bool may = reply.plan == "blocks" || reply.plan == "all_blocks" || reply.plan == "prototypes";
  if (!reply.in_place.empty() && !may)
    return differs("in_place", "not empty", "no items under the plan " + reply.plan);
  for (const std::string& item : reply.in_place)
    if (std::ranges::find(request.candidates, item) == request.candidates.end())
      return differs("in_place", item, "candidates alone");
  return "";
}

}  // namespace

std::string Oracle::validate(const RankRequest& request, const RankReply& reply, WorldData::Edition since,
                             WorldData::Edition until) const {
  if (reply.user != request.user) return differs("user", reply.user, request.user);
  if (!world_.has_catalog(reply.catalog_version))
    return differs("catalog_version", reply.catalog_version, "a catalog of the world");
  const bool missing = reply.features_missing > 0;  // unknown profile: computed as a user without events
  const std::optional<Profile> profile =
      missing ? std::optional<Profile>(Profile{})
              : world_.profile(request.tenant, request.user, reply.profile_version);
  if (!profile || (missing && reply.profile_version != 0))
    return "profile_version is " + std::to_string(reply.profile_version) +
           "; expected a version that existed";
  std::string fault;
  for (WorldData::Edition edition = until + 1; edition-- > since;) {
    fault = find_fault_at(request, reply, *profile, edition);
    if (fault.empty()) return "";
  }
  return fault.empty() ? "since is after until" : fault;
}

std::string Oracle::find_fault_at(const RankRequest& request, const RankReply& reply, const Profile& profile,
                                  WorldData::Edition edition) const {
  std::vector<Item> items;
  items.reserve(request.candidates.size());
  for (const std::string& id : request.candidates) {
    auto item = world_.item(id, reply.catalog_version, edition);
    if (!item) return "item " + id + " is not in catalog " + reply.catalog_version + "; expected a refusal";
    items.push_back(std::move(*item));
  }
  if (!request.policy.empty() && reply.policy != request.policy)
    return differs("policy", reply.policy, request.policy);
  RequestedRepair asked;
  if (request.approximate >= 0) asked.approximate_max = request.approximate;
  if (const auto policy = router::find_policy(reply.policy)) {
    if (const router::PlanKind* const plan = router::find_plan(reply.plan))
      asked.choice = policy->repair_of(*plan);
    if (request.approximate < 0 && (*policy)->weighs) asked.approximate_max = approximate_;
  }
  if (const std::string fault = find_misplaced(request, reply); !fault.empty()) return fault;
  asked.in_place.insert(reply.in_place.begin(), reply.in_place.end());
  const auto truth = expected_ranking(form_, reply.model_version, reply.plan, profile, items, family_, asked);
  if (!truth)
    return differs("plan", reply.plan,
                   "user, item, causal, apart, blocks, all_blocks, prototypes, history or towers");
  if (reply.arrangement != truth->arrangement)
    return differs("arrangement", word_of(reply.arrangement), word_of(truth->arrangement));
  if (reply.approximate != truth->approximate)
    return differs("approximate", std::to_string(reply.approximate), std::to_string(truth->approximate));
  if (reply.approximate > asked.approximate_max)
    return differs("approximate", std::to_string(reply.approximate),
                   "at most " + std::to_string(asked.approximate_max));
  if (reply.history_cut != truth->history_cut)
    return differs("history_cut", reply.history_cut, truth->history_cut);
  if (std::string fault = compare_tokens(reply, truth->tokens); !fault.empty()) return fault;
  return compare(reply.items, router::rank_items(views(items), truth->scores, request.top_k,
                                                 {.count = form_.tasks_read(),
                                                  .reported = !form_.tasks.empty(),
                                                  .temperature = form_.temperature}));
}

const std::vector<Item>& Oracle::items_of(const std::string& catalog) {
  const auto [at, is_new] = items_.try_emplace(catalog);
  for (ItemNumber number = 0; is_new && number < world_.item_numbers(); ++number)
    if (auto item = world_.item(world_.id_of(number), catalog)) at->second.push_back(std::move(*item));
  return at->second;
}

std::string Oracle::validate(const GenerateRequest& request, const GenerateReply& reply) {
  if (reply.user != request.user) return differs("user", reply.user, request.user);
  if (!world_.has_catalog(reply.catalog_version))
    return differs("catalog_version", reply.catalog_version, "a catalog of the world");
  const auto profile = world_.profile(request.tenant, request.user, reply.profile_version);
  if (!profile)
    return "profile_version is " + std::to_string(reply.profile_version) +
           "; expected a version that existed";
  GenerateRequest within = request;  // a search without a width has the usual one, within the routers' limit
  if (width_max_ > 0) {
    const std::uint32_t results = std::min(request.top_k > 0 ? request.top_k : usual_results, width_max_);
    within.top_k = results;
    if (request.width == 0 && !form_.next_items)
      within.width = std::min(std::max(results, usual_width), width_max_);
  }
  const ExpectedGeneration truth = expected_generation(form_, reply.model_version, *profile,
                                                       items_of(reply.catalog_version), within, family_);
  if (reply.width != truth.width) return differs("width", reply.width, truth.width);
  if (reply.history_cut != truth.history_cut)
    return differs("history_cut", reply.history_cut, truth.history_cut);
  if (std::string fault = compare_tokens(reply, truth.tokens); !fault.empty()) return fault;
  if (reply.reason.empty() != (truth.items.size() == truth.asked_for))
    return differs("reason", "\"" + reply.reason + "\"",
                   "a reason exactly if there are fewer items than requested");
  if (reply.items.size() != truth.items.size())
    return differs("the number of items", reply.items.size(), truth.items.size());
  for (std::size_t i = 0; i < truth.items.size(); ++i)
    if (reply.items[i] != truth.items[i])
      return differs("items[" + std::to_string(i) + "]",
                     reply.items[i].id + " at " + std::to_string(reply.items[i].log_probability),
                     truth.items[i].id + " at " + std::to_string(truth.items[i].log_probability));
  return "";
}

std::string Oracle::validate(const ScoreRequest& request, const ScoreReply& reply) const {
  if (reply.items.size() != request.items.size())
    return differs("the number of items", reply.items.size(), request.items.size());
  const ExpectedScores truth = expected_scores(reply.model_version, request, family_);
  if (std::string fault = compare_tokens(reply, truth.tokens); !fault.empty()) return fault;
  const std::vector<ScoreRow>& rows = truth.items;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto expected = request.apply_softmax ? router::softmax(rows[i].scores) : rows[i].scores;
    if (reply.items[i].scores != expected)
      return "items[" + std::to_string(i) + "] has other scores than the model computes";
  }
  return "";
}

}  // namespace troupe::sim
