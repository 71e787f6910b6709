// Reads and writes the words of arrangements.
#include "runtime/actor/arrangement.h"

#include <algorithm>
#include <iterator>

#include "runtime/actor/quoted_word.h"
#include "runtime/actor/request_options.h"

namespace troupe {
namespace {

// in order of Arrangement
constexpr std::string_view words[] = {"",        "causal", "user_first",   "item_first", "candidates_apart",
                                      "history", "towers", unreadable_word};

}  // namespace

std::string_view word_of(Arrangement arrangement) { return words[static_cast<std::size_t>(arrangement)]; }

std::optional<Refusal> read_word(std::string_view word, Arrangement& out) {
  const auto at = std::ranges::find(words, word);
  if (at == std::end(words) || word == unreadable_word)
    return Refusal{RefusalKind::malformed, "unknown_arrangement", "arrangement is " + quoted_word(word),
                   "arrangement",
                   "causal, user_first, item_first or candidates_apart, as the model's form declares; \"\" "
                   "is its first"};
  out = static_cast<Arrangement>(at - std::begin(words));
  return std::nullopt;
}

std::string words_of(std::span<const Arrangement> arrangements) {
  std::string text;
  for (const Arrangement arrangement : arrangements)
    text.append(text.empty() ? "" : ", ").append(word_of(arrangement));
  return text;
}

}  // namespace troupe
