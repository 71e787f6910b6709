#pragma once
// HTTP bodies: JSON to the messages that a client may send, and from those that answer it. The keys, types
// and ranges are the ones of the Cap'n Proto schemas, so a member is declared once; members marked $internal
// there
// (`id`) do not exist here. A body that is no JSON, or has a member that we do not know or that has another
// type, is refused as a whole, so that a misspelt option is never silently the default.
//
// Integers are plain JSON numbers, exact up to 64 bits; a reader that keeps numbers as doubles loses digits
// above 2^53. A score that is not finite is null. Refusals (status 400) are:
//   malformed_json   no JSON, not UTF-8, a key twice; where: "byte 17"
//   unknown_field    where: "items[3].colour"
//   missing_field    where: "history or tokens" of a user, "tokens" or "identifier" of an item
//   wrong_type       another type, out of range, or a string with U+0000; where: "candidates[3]"
// and, with status 413, too_many_THINGS of a list that has more elements than its limit. What a message
// cannot hold is refused where it begins: no more of it is read, and none of it is kept.
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/actor/messages.h"

namespace troupe {

// Of all lists of a name in one body together: items[0].tokens and items[1].tokens share theirs.
struct ListLimit {
  std::string_view list;       // the member: "candidates"
  std::uint32_t max = 0;       // elements
  std::string_view knob;       // that sets it: "router.candidates_max"
  std::string_view things;     // in the refusal's code: too_many_candidates
  std::string_view code = {};  // instead of that one
};
using ListLimits = std::span<const ListLimit>;

// On a refusal `out` is as it was. Members that the body leaves out have their defaults.
std::optional<Refusal> from_json(std::string_view body, RankRequest& out, ListLimits limits = {});
std::optional<Refusal> from_json(std::string_view body, ScoreRequest& out, ListLimits limits = {});
std::optional<Refusal> from_json(std::string_view body, GenerateRequest& out, ListLimits limits = {});
std::optional<Refusal> from_json(std::string_view body, PutUser& out, ListLimits limits = {});
std::optional<Refusal> from_json(std::string_view body, PutItem& out, ListLimits limits = {});
std::optional<Refusal> from_json(std::string_view body, Reload& out, ListLimits limits = {});

std::string to_json(const RankReply& reply);
std::string to_json(const ScoreReply& reply);
std::string to_json(const GenerateReply& reply);
std::string to_json(const Stored& reply);
std::string to_json(const Appended& reply);
std::string to_json(const UserReply& reply);
std::string to_json(const ItemReply& reply);
// JSON Schemas of all bodies by their names, in the form of OpenAPI's components.
std::map<std::string, std::string> body_schemas();
std::string to_json(std::span<const StatusReply> actors);  // {"actors":[…]}
std::string to_json(const Refusal& refusal);  // {"error":{"status":404,"code":…,…}}; with OpenAI's members

}  // namespace troupe
