// Refuses invalid requests before anything is done for them, with the field, the reason and what
// would be valid.
#include "router/request/request_check.h"

#include <boost/unordered/unordered_flat_set.hpp>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "router/request/allowed_plans.h"
#include "router/request/own_history.h"
#include "router/request/policy.h"
#include "runtime/actor/row_rules.h"

namespace troupe::router {
namespace {

using Fault = std::optional<Refusal>;

Fault bad_id(const std::string& id, std::string_view field, const RequestLimits& limits, bool may_be_empty) {
  return id.empty() && may_be_empty ? std::nullopt : reject_id(id, field, limits.id_bytes_max);
}

Fault bad_user(const std::string& tenant, const std::string& user, const RequestLimits& limits) {
  if (Fault fault = bad_id(tenant, "tenant", limits, true)) return fault;
  return bad_id(user, "user", limits, false);
}

Fault bad_count(std::size_t count, std::size_t max, const char* setting, const char* what,
                std::string where) {
  if (count >= 1 && count <= max) return std::nullopt;
  const std::string expected = "1.." + std::to_string(max) + " (" + setting + ")";
  if (count == 0)
    return Refusal{RefusalKind::malformed, std::string("no_") + what, "the list is empty", std::move(where),
                   expected};
  return Refusal{RefusalKind::too_large, std::string("too_many_") + what,
                 "there are " + std::to_string(count), std::move(where), expected};
}

std::string mebibytes(std::uint64_t bytes) { return std::to_string((bytes >> 20) + 1) + " MiB"; }

// Checks tokens that cannot be in a cache: all of them are computed in one pass.
Fault too_much_memory(std::uint64_t tokens, const RequestLimits& limits) {
  if (limits.pass_tokens_max == 0 || tokens <= limits.pass_tokens_max) return std::nullopt;
  return Refusal{
      RefusalKind::too_large, "too_much_memory",
      std::to_string(tokens) + " tokens take " + mebibytes(tokens * limits.token_bytes) +
          " of working memory",
      "query and items",
      "at most " + std::to_string(limits.pass_tokens_max) + " tokens with this model (inference.memory_max)"};
}

Fault bad_tokens(std::span<const Token> tokens, std::uint32_t vocabulary, const std::string& where) {
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || static_cast<std::uint32_t>(tokens[i]) >= vocabulary)
      return reject_token(tokens[i], vocabulary, where + "[" + std::to_string(i) + "]");
  return std::nullopt;
}

Fault bad_length(std::size_t positions, const PromptForm& form, std::string where) {
  if (positions <= form.positions_max) return std::nullopt;
  return Refusal{RefusalKind::unprocessable, "too_long",
                 "the prompt takes " + std::to_string(positions) + " positions", std::move(where),
                 "at most " + std::to_string(form.positions_max)};
}

Fault bad_budget(std::int64_t budget_us) {
  if (budget_us >= 0) return std::nullopt;
  return Refusal{RefusalKind::malformed, "bad_budget", "the time is " + std::to_string(budget_us) + " us",
                 "budget_us", "at least 0; 0 is the configured one"};
}

Fault bad_timestamp(std::int64_t timestamp) {
  constexpr const char* time = "request_timestamp";
  return reject_number(timestamp, number_rule(time), time);
}

// A model either ranks or generates, as its prompt form says.
Fault other_model(const PromptForm& form, bool wants_generator) {
  if (form.generates() == wants_generator) return std::nullopt;
  if (wants_generator)
    return Refusal{RefusalKind::unprocessable, "not_a_generator",
                   "the served model ranks candidates and does not generate items", "model",
                   "/v1/rank, or a model whose prompt form (prompt.json) has no discriminant"};
  return Refusal{RefusalKind::unprocessable, "not_a_ranker",
                 "the served model generates items and does not rank candidates", "model",
                 "/v1/generate, or a model whose prompt form (prompt.json) has a discriminant"};
}

// A model of next items ranks, and finds items, too, if its item table can be searched.
Fault finds_no_items(const PromptForm& form) {
  if (!form.next_items) return other_model(form, true);
  if (form.searches_items) return std::nullopt;
  return Refusal{RefusalKind::unprocessable, "not_a_generator",
                 "the served model scores the next item, but its item table is not searched here", "model",
                 "/v1/rank, or a CPU and the table in memory (model.device, model.tables)"};
}

Fault bad_list(std::size_t count, const char* where, const RequestLimits& limits) {
  if (count <= limits.candidates_max) return std::nullopt;
  return Refusal{RefusalKind::too_large, "too_many_items", "there are " + std::to_string(count), where,
                 "at most " + std::to_string(limits.candidates_max) + " (router.candidates_max)"};
}

Fault bad_number(std::uint32_t number, std::uint32_t max, const char* setting, const char* where) {
  if (number >= 1 && number <= max) return std::nullopt;
  const std::string what = std::string(where) + " is " + std::to_string(number);
  const std::string expected = "1.." + std::to_string(max) + " (" + setting + ")";
  if (number == 0) return Refusal{RefusalKind::malformed, "too_narrow", what, where, expected};
  return Refusal{RefusalKind::too_large, "too_wide", what, where, expected};
}

std::string names_of_tasks(const PromptForm& form) {
  std::string names;
  for (const std::string& task : form.tasks) names += task + ", ";
  return names + "or none: " + (form.tasks.empty() ? "the model's tasks have no names" : "the first of them");
}

// Checks the user, or the history that the request gives instead of one. The feature port checks the
// history's items and features.
template <class Request>
Fault bad_asker(const Request& request, const PromptForm& form, const RequestLimits& limits) {
  if (!has_own_history(request)) {
    if (!request.event_features.empty())
      return Refusal{RefusalKind::malformed, "missing_field", "there are features of events, but no history",
                     "history", "the history whose events have these features"};
    return bad_user(request.tenant, request.user, limits);
  }
  if (Fault fault = bad_id(request.tenant, "tenant", limits, true)) return fault;
  if (!request.user.empty())
    return Refusal{RefusalKind::malformed, "ambiguous_history", "both user and history are given", "history",
                   "one of the two"};
  if (!request.history.empty() && !request.history_tokens.empty())
    return Refusal{RefusalKind::malformed, "ambiguous_history", "both history and tokens are given",
                   "history", "one of the two"};
  for (const auto& [size, where] :
       {std::pair{request.history.size(), "history"}, std::pair{request.history_tokens.size(), "tokens"}})
    if (size > limits.history_max)
      return bad_count(size, limits.history_max, "router.history_events_max", "events", where);
  return bad_tokens(request.history_tokens, form.vocabulary, "tokens");
}

Fault repeated(const std::vector<std::string>& candidates) {
  boost::unordered_flat_set<std::string_view> seen(candidates.size());
  for (const std::string& id : candidates)
    if (!seen.insert(id).second)
      return Refusal{RefusalKind::unprocessable, "repeated_candidate", "item \"" + id + "\" is named twice",
                     "candidates", "each candidate once"};
  return std::nullopt;
}

// Refuses an option of a newer server: by a default in its place the answer would be another one.
template <class Option>
Fault unreadable(Option option, const char* where) {
  if (option != Option::unreadable) return std::nullopt;
  return Refusal{RefusalKind::unavailable, "unknown_option",
                 std::string(where) + " has a value that the router does not know", where,
                 "a router of the server's version; while a cluster is upgraded, some are older"};
}

}  // namespace

Fault validate(const RankRequest& request, const PromptForm& form, const RequestLimits& limits) {
  if (Fault fault = unreadable(request.features, "features")) return fault;
  if (Fault fault = unreadable(request.unknown, "unknown")) return fault;
  if (Fault fault = unreadable(request.unknown_user, "unknown_user")) return fault;
  if (Fault fault = unreadable(request.arrangement, "arrangement")) return fault;
  if (Fault fault = other_model(form, false)) return fault;
  if (Fault fault = bad_timestamp(request.request_timestamp)) return fault;
  if (Fault fault = bad_asker(request, form, limits)) return fault;
  if (Fault fault = bad_count(request.candidates.size(), limits.candidates_max, "router.candidates_max",
                              "candidates", "candidates"))
    return fault;
  if (Fault fault = bad_budget(request.budget_us)) return fault;
  const auto policy = find_policy(request.policy);
  if (!request.policy.empty() && !policy) {
    PolicyFault fault = policy_fault(request.policy);
    return Refusal{RefusalKind::malformed, "unknown_policy", "policy \"" + request.policy + "\"" + fault.what,
                   "policy", std::move(fault.expected)};
  }
  if (policy && policy->repair().prototypes && !form.prototype_set)
    return Refusal{RefusalKind::malformed, "no_prototypes", "policy \"" + request.policy + "\"", "policy",
                   "no prototypes in it, as the server has none (model.prototypes)"};
  if (Fault fault = reject_if_not_allowed(policy ? &*policy : nullptr, request.arrangement, form))
    return fault;
  if (!(request.approximate <= 1) || (request.approximate < 0 && request.approximate != -1))
    return Refusal{RefusalKind::malformed, "bad_approximate",
                   "approximate is " + std::to_string(request.approximate), "approximate",
                   "0 to 1: maximum share of the prompt's tokens that may be approximate; -1: any share"};
  if (request.scenario >= form.scenarios)
    return Refusal{RefusalKind::malformed, "bad_scenario", "scenario is " + std::to_string(request.scenario),
                   "scenario",
                   "below " + std::to_string(form.scenarios) + ", the number of scenarios of the model"};
  if (!request.task.empty() && std::ranges::find(form.tasks, request.task) == form.tasks.end())
    return Refusal{RefusalKind::malformed, "unknown_task", "task \"" + request.task + "\"", "task",
                   names_of_tasks(form)};
  return repeated(request.candidates);
}

Fault validate(const GenerateRequest& request, const PromptForm& form, const RequestLimits& limits) {
  if (Fault fault = unreadable(request.features, "features")) return fault;
  if (Fault fault = unreadable(request.unknown_user, "unknown_user")) return fault;
  if (Fault fault = unreadable(request.normalised, "normalised")) return fault;
  if (Fault fault = finds_no_items(form)) return fault;
  if (Fault fault = bad_asker(request, form, limits)) return fault;
  if (Fault fault = bad_budget(request.budget_us)) return fault;
  if (Fault fault = bad_list(request.allow.size(), "allow", limits)) return fault;
  if (Fault fault = bad_list(request.deny.size(), "deny", limits)) return fault;
  const auto too_wide = [&](std::uint32_t count, const char* where) {
    return Refusal{RefusalKind::too_large, "too_wide", std::string(where) + " is " + std::to_string(count),
                   where, "at most " + std::to_string(limits.width_max) + " (router.width_max)"};
  };
  if (request.width > limits.width_max) return too_wide(request.width, "width");
  if (request.top_k > limits.width_max) return too_wide(request.top_k, "top_k");
  if (request.width > 0 && request.width < request.top_k)
    return Refusal{RefusalKind::malformed, "too_narrow",
                   "a search of width " + std::to_string(request.width) + " finds at most as many items",
                   "width", "at least top_k, " + std::to_string(request.top_k)};
  if (request.among_allowed && request.normalised == Normalised::vocabulary)
    return Refusal{RefusalKind::malformed, "two_normalisations",
                   "among_allowed is true and normalised is \"vocabulary\"", "normalised",
                   "one of the two, or normalised \"allowed\""};
  return bad_timestamp(request.request_timestamp);
}

Fault validate(const CompleteRequest& request, const PromptForm& form, const RequestLimits& limits) {
  if (Fault fault = other_model(form, true)) return fault;
  if (Fault fault = bad_id(request.tenant, "tenant", limits, true)) return fault;
  if (Fault fault = bad_budget(request.budget_us)) return fault;
  if (Fault fault = bad_count(request.prompt.size(), limits.request_tokens_max, "router.request_tokens_max",
                              "tokens", "prompt"))
    return fault;
  if (Fault fault = bad_tokens(request.prompt, form.vocabulary, "prompt")) return fault;
  if (Fault fault = bad_number(request.n, limits.width_max, "router.width_max", "n")) return fault;
  if (Fault fault = bad_number(request.max_tokens, limits.completion_tokens_max,
                               "router.completion_tokens_max", "max_tokens"))
    return fault;
  if (request.beam_width > limits.width_max)
    return bad_number(request.beam_width, limits.width_max, "router.width_max", "beam_width");
  if (request.beam_width > 0 && request.beam_width < request.n)
    return Refusal{RefusalKind::malformed, "too_narrow",
                   "a search of width " + std::to_string(request.beam_width) + " finds at most as many",
                   "beam_width", "at least n, " + std::to_string(request.n)};
  return bad_length(request.prompt.size() + (request.items ? 0 : request.max_tokens), form,
                    "prompt and max_tokens");
}

Fault validate(const ScoreRequest& request, const PromptForm& form, const RequestLimits& limits) {
  if (form.items_are_tokens())
    return Refusal{RefusalKind::unprocessable, "not_a_scorer",
                   "the served model's tokens are items with features, and it has no labels", "model",
                   "/v1/rank, or a model that reads text"};
  if (Fault fault = bad_budget(request.budget_us)) return fault;
  if (Fault fault =
          bad_count(request.items.size(), limits.score_items_max, "router.score_items_max", "items", "items"))
    return fault;
  if (Fault fault = bad_count(request.label_tokens.size(), limits.score_labels_max, "router.score_labels_max",
                              "labels", "label_tokens"))
    return fault;
  if (Fault fault = bad_tokens(request.query, form.vocabulary, "query")) return fault;
  if (Fault fault = bad_tokens(request.label_tokens, form.vocabulary, "label_tokens")) return fault;
  std::size_t longest = 0, total = request.query.size();
  for (std::size_t i = 0; i < request.items.size(); ++i) {
    const std::vector<Token>& tokens = request.items[i].tokens;
    const std::string where = "items[" + std::to_string(i) + "]";
    if (tokens.empty())
      return Refusal{RefusalKind::malformed, "empty_item", "the item has no tokens", where,
                     "at least one token"};
    if (Fault fault = bad_tokens(tokens, form.vocabulary, where)) return fault;
    longest = std::max(longest, tokens.size());
    total += tokens.size();
  }
  if (Fault fault = bad_length(request.query.size() + longest, form, "query and the longest item"))
    return fault;
  if (Fault fault = bad_count(total, limits.request_tokens_max, "router.request_tokens_max", "tokens",
                              "query and items"))
    return fault;
  return too_much_memory(total, limits);
}

namespace {

// Numbers of a reply, which has a hidden state for each text.
constexpr std::size_t embedding_numbers_max = std::size_t{1} << 20;

Fault bad_embed_kind(const EmbedRequest& request, const PromptForm& form) {
  if (!form.embeds())
    return Refusal{RefusalKind::unprocessable, "not_an_embedder",
                   "the served model has no hidden state that stands for a text or a user", "model",
                   "a decoder, or a model whose histories are one sequence"};
  if (form.items_are_tokens() == request.texts.empty()) return std::nullopt;
  if (form.items_are_tokens())
    return Refusal{RefusalKind::unprocessable, "not_an_embedder",
                   "the served model reads users' histories and no texts", "model",
                   "a model that reads text, or a user's id as input"};
  return Refusal{RefusalKind::malformed, "no_texts", "the list is empty", "input", "1 text or more"};
}

}  // namespace

Fault validate(const EmbedRequest& request, const PromptForm& form, const RequestLimits& limits) {
  if (Fault fault = bad_embed_kind(request, form)) return fault;
  if (Fault fault = bad_budget(request.budget_us)) return fault;
  if (Fault fault = bad_timestamp(request.request_timestamp)) return fault;
  if (form.items_are_tokens()) return bad_asker(request, form, limits);
  const std::size_t most = std::min<std::size_t>(limits.score_items_max, embedding_numbers_max / form.state);
  if (request.texts.size() > most)
    return Refusal{RefusalKind::too_large, "too_many_items",
                   "there are " + std::to_string(request.texts.size()), "input",
                   "at most " + std::to_string(most) + " (router.score_items_max, and " +
                       std::to_string(embedding_numbers_max) + " numbers in a reply)"};
  std::size_t longest = 0, total = 0;
  for (std::size_t i = 0; i < request.texts.size(); ++i) {
    const std::vector<Token>& tokens = request.texts[i].tokens;
    const std::string where = request.texts.size() == 1 ? "input" : "input[" + std::to_string(i) + "]";
    if (tokens.empty())
      return Refusal{RefusalKind::malformed, "empty_item", "the text has no tokens", where,
                     "at least one token"};
    if (Fault fault = bad_tokens(tokens, form.vocabulary, where)) return fault;
    longest = std::max(longest, tokens.size());
    total += tokens.size();
  }
  if (Fault fault = bad_length(longest, form, "input")) return fault;
  if (Fault fault =
          bad_count(total, limits.request_tokens_max, "router.request_tokens_max", "tokens", "input"))
    return fault;
  return too_much_memory(total, limits);
}

namespace {

// Checks PutUser and AppendEvents, whose members are the same.
template <class Write>
Fault bad_events(const Write& write, const PromptForm& form, const RequestLimits& limits) {
  if (Fault fault = bad_user(write.tenant, write.user, limits)) return fault;
  if (Fault fault = reject_values(write)) return fault;
  if (!write.history.empty() && !write.tokens.empty())
    return Refusal{RefusalKind::malformed, "ambiguous_history", "both history and tokens are given",
                   "history", "one of the two"};
  const std::size_t events = std::max(write.history.size(), write.tokens.size());
  if (events > limits.history_max)
    return bad_count(events, limits.history_max, "router.history_events_max", "events",
                     write.tokens.empty() ? "history" : "tokens");
  return bad_tokens(write.tokens, form.vocabulary, "tokens");
}

}  // namespace

Fault validate(const PutUser& put, const PromptForm& form, const RequestLimits& limits) {
  return bad_events(put, form, limits);
}

Fault validate(const AppendEvents& events, const PromptForm& form, const RequestLimits& limits) {
  if (Fault fault = bad_events(events, form, limits)) return fault;
  if (events.history.empty() && events.tokens.empty())
    return Refusal{RefusalKind::malformed, "no_events", "the list is empty", "events", "1 event or more"};
  return std::nullopt;
}

Fault validate(const GetUser& wanted, const PromptForm&, const RequestLimits& limits) {
  return bad_user(wanted.tenant, wanted.user, limits);
}

Fault validate(const GetItem& wanted, const PromptForm&, const RequestLimits& limits) {
  return bad_id(wanted.item, "item", limits, false);
}

Fault validate(const DeleteUser& remove, const PromptForm&, const RequestLimits& limits) {
  return bad_user(remove.tenant, remove.user, limits);
}

Fault validate(const PutItem& put, const PromptForm& form, const RequestLimits& limits) {
  if (Fault fault = bad_id(put.item, "item", limits, false)) return fault;
  if (Fault fault = reject_values(put)) return fault;
  if (put.tokens.empty()) return no_tokens();
  if (Fault fault = bad_tokens(put.tokens, form.vocabulary, "tokens")) return fault;
  if (Fault fault = reject_identifier(put.identifier, form.vocabulary, form.reads_identifiers()))
    return fault;
  return bad_length(positions_without_history(form, put.tokens.size()), form, "tokens");
}

Fault validate(const DeleteItem& remove, const PromptForm&, const RequestLimits& limits) {
  return bad_id(remove.item, "item", limits, false);
}

Refusal user_without_profile(const std::string& user, const std::string& tenant) {
  if (tenant.empty())
    return {RefusalKind::not_found, "unknown_user", "user \"" + user + "\" has no profile", "user",
            "a user that was put or imported"};
  return {RefusalKind::not_found, "unknown_user",
          "user \"" + user + "\" of tenant \"" + tenant + "\" has no profile", "user",
          "a user that was put as this tenant, or imported with --tenant"};
}

bool is_cold_allowed(UnknownUser unknown, const RequestLimits& limits) {
  return (unknown == UnknownUser::configured ? limits.unknown_user : unknown) == UnknownUser::cold;
}

}  // namespace troupe::router
