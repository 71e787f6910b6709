#pragma once
// Versions as HTTP's entity tags (RFC 9110 §8.8.3, §13.1): a profile's or an item's version in quotes. Writes
// may name the one that they are to replace, readers the one that they have. Pure.
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/actor/messages.h"

namespace troupe::server {

std::string etag_of(std::uint64_t version);  // "7", with the quotes

// Of a write's headers; "": absent. If-Match: "7" or *; If-None-Match: *. Else 400 bad_condition.
std::variant<Condition, Refusal> condition_of(std::string_view if_match, std::string_view if_none_match);

// Whether a reader with this If-None-Match has what is there already.
bool has_already(std::string_view if_none_match, std::string_view etag);

}  // namespace troupe::server
