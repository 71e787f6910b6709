#pragma once
// Refusals of text that is not JSON, in our own words, for all readers of JSON: bodies and lines over HTTP,
// and lines of files.
#include <cstddef>
#include <string>
#include <string_view>

#include "runtime/actor/refusal.h"

namespace troupe {

// Refuses text before it is parsed: compressed (content_encoding), with a byte order mark, or with a NUL
// byte, which the parser takes for the end of the text. Throws Refusal.
void reject_if_not_text(std::string_view json);

// Throws the Refusal of text that the parser refused at this byte, counted from 1: malformed_json.
[[noreturn]] void refuse_json(std::string_view json, std::size_t byte);

}  // namespace troupe
