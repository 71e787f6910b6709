// Reads users and items from JSON, for HTTP and for files.
#include "server/formats/row_bodies.h"

#include <algorithm>
#include <iterator>

#include "runtime/actor/catalog.h"
#include "runtime/actor/row_rules.h"
#include "server/formats/json_tree.h"
#include "server/formats/word_tokens.h"

namespace troupe::server {
namespace {

bool names_token(const Refusal& refusal) {
  return refusal.where.starts_with("tokens[") || refusal.where == "tokens" || refusal.where == "identifier";
}

// Says of a member that is a feature of other models what the list of features would say of it.
std::optional<Refusal> named_feature(std::optional<Refusal> refusal, const RowLimits& limits) {
  if (!refusal || refusal->code != "unknown_field") return refusal;
  if (std::ranges::find(event_feature_names, refusal->where) == std::end(event_feature_names)) return refusal;
  return unknown_feature(refusal->where, refusal->where, limits.event_features);
}

// Reads a row whose tokens may be words or a text. Rows of numbers, which are most, are parsed once.
template <class Row, class Read>
std::optional<Refusal> read_with_words(std::string_view json, Row& out, const RowLimits& limits,
                                       const ModelText& text, const Read& read_row) {
  std::optional<Refusal> refusal = read_row(json, out);
  if (!refusal || refusal->code != "wrong_type" || !names_token(*refusal)) return refusal;
  if (text.reads_names()) {
    const auto numbers = with_numbers(json, text, limits.prompt_tokens_max);
    if (const auto* unknown = std::get_if<Refusal>(&numbers)) return *unknown;
    refusal = read_row(std::get<std::string>(numbers), out);
  }
  if (refusal && refusal->what.ends_with(" is string"))
    refusal->expected += "; words and texts are for models with a vocab.json or a tokenizer.json";
  return refusal;
}

}  // namespace

std::vector<ListLimit> history_limits(std::uint32_t events_max, std::string_view features) {
  return {{"history", events_max, "router.history_events_max", "events"},
          {"tokens", events_max, "router.history_events_max", "events"},
          {features, 16, "16, the most of any model", "features"},
          {"values", 16 * events_max, "16 times router.history_events_max", "events"}};
}

std::vector<ListLimit> user_limits(const RowLimits& limits) {
  std::vector<ListLimit> lists = history_limits(limits.history_events_max, "features");
  lists.push_back({"event_ids", limits.history_events_max, "router.history_events_max", "events"});
  return lists;
}

std::vector<ListLimit> item_limits(const RowLimits& limits) {
  return {{"tokens", limits.prompt_tokens_max, "the model's positions", "tokens"}};
}

std::optional<Refusal> read_user(std::string_view json, PutUser& out, const RowLimits& limits,
                                 const ModelText& text) {
  return read_with_words(json, out, limits, text, [&](std::string_view body, PutUser& row) {
    return named_feature(from_json(body, row, user_limits(limits), limits.event_features), limits);
  });
}

std::optional<Refusal> read_item(std::string_view json, PutItem& out, const RowLimits& limits,
                                 const ModelText& text) {
  return read_with_words(json, out, limits, text, [&](std::string_view body, PutItem& row) {
    std::optional<Refusal> refusal = from_json(body, row, item_limits(limits));
    const bool is_needed = text.form && text.form->reads_identifiers();
    if (refusal && !is_needed && refusal->where == "identifier" && refusal->what.ends_with(" is -1"))
      refusal->expected += ", or no such member";
    if (!refusal && is_needed && row.identifier == no_identifier) refusal = missing_identifier();
    return refusal;
  });
}

std::optional<Refusal> read_request(std::string_view json, RankRequest& out, ListLimits lists,
                                    const RowLimits& limits, const ModelText& text) {
  return read_with_words(json, out, limits, text, [&](std::string_view body, RankRequest& request) {
    return named_feature(from_json(body, request, lists, limits.event_features), limits);
  });
}

std::optional<Refusal> read_request(std::string_view json, GenerateRequest& out, ListLimits lists,
                                    const RowLimits& limits, const ModelText& text) {
  return read_with_words(json, out, limits, text, [&](std::string_view body, GenerateRequest& request) {
    return named_feature(from_json(body, request, lists, limits.event_features), limits);
  });
}

PutUser read_history(const JsonTree& object, const std::string& where, const RowLimits& limits,
                     const ModelText& text) {
  PutUser user;
  std::optional<Refusal> refusal = read_user(object.dump(), user, limits, text);
  for (const char* of_rows : {"user", "id", "event_ids"})
    if (!refusal && object.contains(of_rows))
      refusal = Refusal{RefusalKind::malformed, "unknown_field", "a history in a request has no such member",
                        of_rows, "history, tokens, or the names of the model's features"};
  if (!refusal) return user;
  refusal->where = where + "." + refusal->where;
  throw *std::move(refusal);
}

std::size_t history_values_max(const RowLimits& limits) {
  return (2 + limits.event_features.size()) * std::size_t{limits.history_events_max};
}

}  // namespace troupe::server
