#pragma once
// What lines of a bulk request are answered with, line for line, and what they are about. Pure.
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/actor/messages.h"

namespace troupe::server {

// {"line":3,"status":200,"version":7} of an answer's body {"version":7}.
std::string bulk_result(std::uint64_t line, unsigned status, std::string_view body);
// {"lines":10,"failed":1}: the last one, by which a client knows that all have come.
std::string bulk_end(std::uint64_t lines, std::uint64_t failed);

// Whose state a line changes: two lines about the same are done one after the other. "": it changes nothing.
std::string subject_of(const Message& message);

}  // namespace troupe::server
