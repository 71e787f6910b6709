#pragma once
// Versions as HTTP entity tags (RFC 9110 §8.8.3, §13.1): a profile's or an item's version in
// quotes. Writers may name the version to replace, readers the version that they have. Pure.
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/actor/messages.h"

namespace troupe::server {

std::string etag_of(std::uint64_t version);  // "7", with the quotes

// Parses a write's headers, "" = absent. Accepts If-Match: "7" or *, and If-None-Match: *; else 400
// bad_condition.
std::variant<Condition, Refusal> condition_of(std::string_view if_match, std::string_view if_none_match);

// Returns true if a reader with this If-None-Match has the current version.
bool has_already(std::string_view if_none_match, std::string_view etag);

}  // namespace troupe::server
