// Decides which values rows may have, once for all readers.
#include "runtime/actor/row_rules.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <vector>

#include "runtime/actor/catalog.h"

namespace troupe {
namespace {

using Fault = std::optional<Refusal>;

constexpr std::size_t quoted_bytes_max = 64;
constexpr NumberRule time_rule{.least = 0, .most = row_time_max, .is_time = true};
constexpr NumberRule action_rule{.least = 0, .most = std::int64_t{1} << 40};

constexpr NumberRule scenario_rule{.least = 0, .most = UINT32_MAX};
// -1 stands for no identifier in messages and replies; an item without one is written without the member.
constexpr NumberRule identifier_rule{.least = 0, .most = INT32_MAX};

struct NamedRule {
  std::string_view name;
  NumberRule rule;
};
// A feature has its plural name in a profile and its singular in an event.
constexpr std::array named_rules{
    NamedRule{"timestamps", time_rule},        NamedRule{"timestamp", time_rule},
    NamedRule{"request_timestamp", time_rule}, NamedRule{"actions", action_rule},
    NamedRule{"action", action_rule},          NamedRule{"rating", action_rule},
    NamedRule{"scenario", scenario_rule},      NamedRule{"identifier", identifier_rule}};

// True for -?(0|[1-9][0-9]*).
bool is_whole(std::string_view written) {
  if (written.starts_with('-')) written.remove_prefix(1);
  const bool digits =
      !written.empty() && std::ranges::all_of(written, [](char c) { return c >= '0' && c <= '9'; });
  return digits && (written.size() == 1 || written.front() != '0');
}

// Names the unit in which a number would be a time of today.
std::string_view likely_unit(std::int64_t value) {
  if (value / 1'000 <= row_time_max) return ", which looks like milliseconds";
  if (value / 1'000'000 <= row_time_max) return ", which looks like microseconds";
  return ", which looks like nanoseconds";
}

Refusal out_of_range(std::string what, const NumberRule& rule, const std::string& where) {
  return {RefusalKind::malformed, rule.is_time ? "bad_timestamp" : "wrong_type", std::move(what), where,
          expected_number(rule)};
}

Fault reject_features(std::span<const Feature> features) {
  for (const Feature& feature : features) {
    const NumberRule rule = number_rule(feature.name);
    for (std::size_t i = 0; i < feature.values.size(); ++i)
      if (Fault fault = reject_number(feature.values[i], rule, feature.name + "[" + std::to_string(i) + "]"))
        return fault;
  }
  return std::nullopt;
}

Fault reject_texts(std::span<const std::string> texts, const char* field) {
  for (std::size_t i = 0; i < texts.size(); ++i)
    if (texts[i].find('\0') != std::string::npos)
      return reject_text(texts[i], std::string(field) + "[" + std::to_string(i) + "]");
  return std::nullopt;
}

// Checks the history that a request may have in place of a user.
template <class Request>
Fault reject_own_history(const Request& request) {
  if (Fault fault = reject_texts(request.history, "history")) return fault;
  return reject_features(request.event_features);
}

}  // namespace

NumberRule number_rule(std::string_view name) {
  const auto* const at = std::ranges::find(named_rules, name, &NamedRule::name);
  return at == named_rules.end() ? NumberRule{} : at->rule;
}

std::string expected_number(const NumberRule& rule) {
  return std::string(rule.is_time ? "seconds since 1970, a whole number from " : "a whole number from ") +
         std::to_string(rule.least) + " to " + std::to_string(rule.most);
}

Refusal no_number(std::string_view found, const NumberRule& rule, const std::string& where) {
  return {RefusalKind::malformed, "wrong_type",
          where + " is " + std::string(found.substr(0, quoted_bytes_max)), where, expected_number(rule)};
}

Fault reject_number(std::int64_t value, const NumberRule& rule, const std::string& where) {
  if (value >= rule.least && value <= rule.most) return std::nullopt;
  std::string what = where + " is " + std::to_string(value);
  if (rule.is_time && value > rule.most) what += likely_unit(value);
  return out_of_range(std::move(what), rule, where);
}

std::variant<std::int64_t, Refusal> read_number(std::string_view written, const NumberRule& rule,
                                                const std::string& where) {
  if (!is_whole(written)) return no_number(written.empty() ? "\"\"" : written, rule, where);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), value);
  if (error != std::errc() || end != written.data() + written.size())
    return out_of_range(where + " is " + std::string(written.substr(0, quoted_bytes_max)), rule, where);
  if (Fault fault = reject_number(value, rule, where)) return *std::move(fault);
  return value;
}

Fault reject_id(std::string_view id, std::string_view kind, std::size_t bytes_max) {
  if (id.empty())
    return Refusal{RefusalKind::malformed, "empty_" + std::string(kind), "the id is empty", std::string(kind),
                   "an id"};
  if (id.size() > bytes_max)
    return Refusal{RefusalKind::too_large, "id_too_long",
                   "the id has " + std::to_string(id.size()) + " bytes", std::string(kind),
                   "at most " + std::to_string(bytes_max)};
  return reject_text(id, std::string(kind));
}

Fault reject_text(std::string_view text, const std::string& where) {
  if (text.find('\0') == text.npos) return std::nullopt;
  return Refusal{RefusalKind::malformed, "wrong_type", where + " has U+0000", where,
                 "a string without U+0000"};
}

Refusal no_tokens() {
  return {RefusalKind::malformed, "empty_item", "the item has no tokens", "tokens", "at least one token"};
}

Fault reject_token(Token token, std::int64_t vocabulary, const std::string& where) {
  if (token >= 0 && token < vocabulary) return std::nullopt;
  return Refusal{RefusalKind::unprocessable, "unknown_token",
                 "token " + std::to_string(token) + " is outside the vocabulary", where,
                 "0.." + std::to_string(vocabulary - 1)};
}

Refusal missing_identifier() {
  return {RefusalKind::malformed, "missing_field", "the body has no identifier", "identifier",
          "the vocabulary row whose logit is the item's score"};
}

Fault reject_identifier(Token identifier, std::int64_t vocabulary, bool is_read) {
  if (identifier != no_identifier) return reject_token(identifier, vocabulary, "identifier");
  if (is_read) return missing_identifier();
  return std::nullopt;
}

std::string expected_features(std::span<const std::string> read) {
  std::string names;
  for (const std::string& name : read) names += (names.empty() ? "\"" : ", \"") + name + "\"";
  return names.empty() ? "none, as the model takes none" : names;
}

Refusal unknown_feature(std::string_view name, std::string where, std::span<const std::string> read) {
  return {RefusalKind::unprocessable, "unknown_feature",
          "the model takes no feature \"" + std::string(name.substr(0, quoted_bytes_max)) + "\"",
          std::move(where), expected_features(read)};
}

Fault reject_values(const PutUser& put) {
  if (Fault fault = reject_text(put.user, "user")) return fault;
  return reject_features(put.features);
}

Fault reject_values(const PutItem& put) {
  if (Fault fault = reject_text(put.item, "item")) return fault;
  return reject_text(put.title, "title");
}

Fault reject_values(const AppendEvents& events) {
  if (Fault fault = reject_text(events.user, "user")) return fault;
  return reject_features(events.features);
}

Fault reject_values(const RankRequest& request) {
  for (const auto& [text, where] : {std::pair<std::string_view, const char*>{request.user, "user"},
                                    {request.policy, "policy"},
                                    {request.task, "task"}})
    if (Fault fault = reject_text(text, where)) return fault;
  if (Fault fault = reject_texts(request.candidates, "candidates")) return fault;
  if (Fault fault = reject_own_history(request)) return fault;
  return reject_number(request.request_timestamp, time_rule, "request_timestamp");
}

Fault reject_values(const GenerateRequest& request) {
  if (Fault fault = reject_text(request.user, "user")) return fault;
  if (Fault fault = reject_texts(request.allow, "allow")) return fault;
  if (Fault fault = reject_texts(request.deny, "deny")) return fault;
  if (Fault fault = reject_own_history(request)) return fault;
  return reject_number(request.request_timestamp, time_rule, "request_timestamp");
}

Fault reject_values(const EmbedRequest& request) {
  if (Fault fault = reject_text(request.user, "user")) return fault;
  if (Fault fault = reject_own_history(request)) return fault;
  return reject_number(request.request_timestamp, time_rule, "request_timestamp");
}

}  // namespace troupe
