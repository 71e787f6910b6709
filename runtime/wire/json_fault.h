#pragma once
// Refusals of text that is not JSON, in our own words, for all readers of JSON: bodies and lines over HTTP,
// and lines of files.
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "runtime/actor/refusal.h"

namespace troupe {

// Refuses text before it is parsed: compressed (content_encoding), with a byte order mark, or with a NUL
// byte, which the parser takes for the end of the text. Throws Refusal.
void reject_if_not_text(std::string_view json);

// Throws the Refusal of text that the parser refused at this byte, counted from 1: malformed_json.
[[noreturn]] void refuse_json(std::string_view json, std::size_t byte);

// A member of a message that the text has under another of its spellings.
struct RenamedMember {
  std::string member, written;
};
// Names the field of a refusal as the text spells it. A key that is given twice is named as it is.
Refusal as_written(Refusal refusal, std::span<const RenamedMember> renamed);

}  // namespace troupe
