#pragma once
// Formats the result lines of a bulk request, and tells which user or item a line is about. Pure.
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/actor/messages.h"

namespace troupe::server {

// Turns an answer's body {"version":7} into {"line":3,"status":200,"version":7}.
std::string bulk_result(std::uint64_t line, unsigned status, std::string_view body);
// Returns the last line {"lines":10,"failed":1}, which tells a client that all results have come.
std::string bulk_end(std::uint64_t lines, std::uint64_t failed);

// Returns the user or item that a line changes, "" = none. Two lines about the same one are handled
// in order.
std::string subject_of(const Message& message);

}  // namespace troupe::server
