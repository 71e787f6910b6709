#pragma once
// HTTP bodies: converts JSON to the messages that a client may send, and the answers to JSON. Keys,
// types and ranges are those of the Cap'n Proto schemas, so a member is declared once. Members
// marked $internal there (`id`) do not exist here. A body is refused as a whole if it is not JSON
// or has an unknown member or a member of another type. A misspelt option is thus never silently
// replaced by its default.
//
// Integers are plain JSON numbers, exact up to 64 bits; a reader that keeps numbers as doubles
// loses digits above 2^53. A score that is not finite is null. Refusals (malformed) are:
//   malformed_json   not JSON, not UTF-8, with a byte order mark, or a repeated key; where: "byte 17"
//   unknown_field    where: "items[3].colour"
//   missing_field    where: "history or tokens" of a user, "tokens" of an item
//   wrong_type       another type, out of range, or a string with U+0000; where: "candidates[3]"
//   bad_timestamp    a time that is out of range, such as one in milliseconds (runtime/actor/row_rules.h)
//   unknown_freshness, bad_unknown, bad_unknown_user   the word of an option
//                                                     (runtime/actor/request_options.h)
//   unknown_arrangement              the word of an arrangement (runtime/actor/arrangement.h)
// and, for a list that has more elements than its limit, too_many_THINGS (too_large). Such a list is
// refused at the first element too many: the rest is not read and nothing is kept. A compressed body
// is refused with content_encoding (unsupported_media).
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/actor/messages.h"

namespace troupe {

// Limit for all lists of one name in a body together: items[0].tokens and items[1].tokens share it.
struct ListLimit {
  std::string_view list;       // member name, e.g. "candidates"
  std::uint32_t max = 0;       // maximum number of elements
  std::string_view setting;    // setting of the limit, e.g. "router.candidates_max"
  std::string_view things;     // noun in the refusal's code, e.g. too_many_candidates
  std::string_view code = {};  // a code to use instead; "" = too_many_THINGS
};
using ListLimits = std::span<const ListLimit>;
Refusal refuse_length(const ListLimit& limit);

// Parses `body` into `out`. On a refusal `out` is unchanged. Members missing from the body get
// their defaults. Each of `features` may have a member of its own beside "event_features", as in a PutUser,
// and a list "features" is that list.
std::optional<Refusal> from_json(std::string_view body, RankRequest& out, ListLimits limits = {},
                                 std::span<const std::string> features = {});
std::optional<Refusal> from_json(std::string_view body, ScoreRequest& out, ListLimits limits = {});
std::optional<Refusal> from_json(std::string_view body, GenerateRequest& out, ListLimits limits = {},
                                 std::span<const std::string> features = {});
// "id" may stand for "user", and each of `features` may have a member of its own beside "features":
// {"id":"ana","history":["50"],"timestamps":[881250949]}.
std::optional<Refusal> from_json(std::string_view body, PutUser& out, ListLimits limits = {},
                                 std::span<const std::string> features = {});
// "id" may stand for "item".
std::optional<Refusal> from_json(std::string_view body, PutItem& out, ListLimits limits = {});
std::optional<Refusal> from_json(std::string_view body, Reload& out, ListLimits limits = {});
std::optional<Refusal> from_json(std::string_view body, ReplayRequest& out, ListLimits limits = {});

std::string to_json(const RankReply& reply);
std::string to_json(const ScoreReply& reply);
std::string to_json(const GenerateReply& reply);
std::string to_json(const Stored& reply);
std::string to_json(const Appended& reply);
std::string to_json(const UserReply& reply);
std::string to_json(const ItemReply& reply);
std::string to_json(const ReplayReply& reply);
// Returns the JSON Schemas of all bodies by name, in the form of OpenAPI's components.
std::map<std::string, std::string> body_schemas();
std::string to_json(std::span<const StatusReply> actors);  // {"actors":[…]}

}  // namespace troupe
