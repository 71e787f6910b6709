#pragma once
// Arrangements: the order, positions and visibility of a prompt's parts. A model's scores mean what
// its training made them mean under the arrangements that it was trained with, so its form declares
// them (runtime/actor/prompt_form.h). Within an arrangement, reuse changes the cost of an answer,
// never the answer. docs/concepts/plans-and-scores.md draws each of them.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/actor/refusal.h"

namespace troupe {

enum class Arrangement : std::uint8_t {
  unnamed,           // of a request: as the form says
  causal,            // system → user → items, each part sees all before it
  user_first,        // system → user → items, which do not see each other (BAT §4.2, user prefix)
  item_first,        // system → items, which do not see each other → user (BAT §4.2, item prefix)
  candidates_apart,  // system → user → one candidate, read behind it: as many such prompts as candidates
  history,           // events → candidates, which see all events and themselves (HSTU)
  towers,            // the events of several towers → candidates, which see all events (Climber)
  unreadable         // a word of the wire that this build does not know (request_options.h)
};

// Returns the word of an arrangement; "" for `unnamed`.
std::string_view word_of(Arrangement arrangement);

// Sets `out` to the arrangement with this word; "" is `unnamed`. An unknown word is refused and
// leaves `out` unchanged.
std::optional<Refusal> read_word(std::string_view word, Arrangement& out);

// Returns the words, separated by ", ".
std::string words_of(std::span<const Arrangement> arrangements);

}  // namespace troupe
