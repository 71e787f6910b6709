#pragma once
// Reads users and items from JSON: the body of a PUT, a line over HTTP, or a line of a file; and requests
// that may have a history of their own, with the members of a user. Words of the model's vocabulary and
// texts of its tokenizer stand for tokens. Pure.
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/wire/json.h"
#include "server/formats/model_text.h"

namespace troupe::server {

// Lists of rows as long as these are read.
struct RowLimits {
  std::uint32_t history_events_max = 10'000;  // router.history_events_max
  std::uint32_t prompt_tokens_max = 262'144;  // positions of the model
  std::vector<std::string> event_features;    // of the model; each has a member of its own
};
std::vector<ListLimit> user_limits(const RowLimits& limits);
// Returns the limits of a history's lists. `features`: the member with the list of features.
std::vector<ListLimit> history_limits(std::uint32_t events_max, std::string_view features);
std::vector<ListLimit> item_limits(const RowLimits& limits);

// Parse `json` into `out`. The id may be missing. Refusals are those of runtime/wire/json.h, unknown_word,
// and those of add_text_tokens; on one, `out` is unchanged.
std::optional<Refusal> read_user(std::string_view json, PutUser& out, const RowLimits& limits,
                                 const ModelText& text);
std::optional<Refusal> read_item(std::string_view json, PutItem& out, const RowLimits& limits,
                                 const ModelText& text);

// Parse `json` into `out`, as read_user does. `lists`: limits of the request's own lists.
std::optional<Refusal> read_request(std::string_view json, RankRequest& out, ListLimits lists,
                                    const RowLimits& limits, const ModelText& text);
std::optional<Refusal> read_request(std::string_view json, GenerateRequest& out, ListLimits lists,
                                    const RowLimits& limits, const ModelText& text);

// Reads a history that stands as an object in a body, with the members of a user that is put but its id:
// {"history":["50"],"timestamps":[881250949]}. Throws Refusal, with `where` before the member's name.
PutUser read_history(const nlohmann::json& object, const std::string& where, const RowLimits& limits,
                     const ModelText& text);
// Moves a user's events into a request, in place of the request's user.
template <class Request>
void take_history(PutUser&& from, Request& request) {
  request.history = std::move(from.history);
  request.history_tokens = std::move(from.tokens);
  request.event_features = std::move(from.features);
  request.own_history = true;
}
// Bound of the values of a history in a body, beside those of its form.
std::size_t history_values_max(const RowLimits& limits);
inline constexpr std::size_t history_depth = 4;  // of such an object

}  // namespace troupe::server
