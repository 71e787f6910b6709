#pragma once
// Quotes an unknown word of a client in the text of a refusal.
#include <string>
#include <string_view>

namespace troupe {

// Returns the word in quotes, cut at a character's end if it is longer than 100 bytes.
std::string quoted_word(std::string_view word);

}  // namespace troupe
