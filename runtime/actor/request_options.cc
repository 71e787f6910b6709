// Reads and writes the words of request options.
#include "runtime/actor/request_options.h"

#include <algorithm>
#include <iterator>
#include <string>

namespace troupe {
namespace {

constexpr std::string_view freshness_words[] = {"", "exact", "wait", "behind"};  // in order of Freshness

// Returns an unknown word as it stands in a refusal: in quotes, and cut if it is long.
std::string quoted(std::string_view word) {
  constexpr std::size_t bytes_max = 100;
  if (word.size() <= bytes_max) return "\"" + std::string(word) + "\"";
  std::size_t end = bytes_max;
  while (end > 0 && (static_cast<unsigned char>(word[end]) & 0xc0) == 0x80) --end;  // not inside a character
  return "\"" + std::string(word.substr(0, end)) + "…\"";
}

}  // namespace

std::string_view word_of(Freshness freshness) { return freshness_words[static_cast<std::size_t>(freshness)]; }

std::string_view word_of(UnknownCandidates unknown) {
  return unknown == UnknownCandidates::skip ? "skip" : "";
}

std::optional<Refusal> read_word(std::string_view word, Freshness& out) {
  const auto at = std::ranges::find(freshness_words, word);
  if (at == std::end(freshness_words))
    return Refusal{RefusalKind::malformed, "unknown_freshness", "features is " + quoted(word), "features",
                   "exact, wait or behind; \"\" is as configured (features.freshness)"};
  out = static_cast<Freshness>(at - std::begin(freshness_words));
  return std::nullopt;
}

std::optional<Refusal> read_word(std::string_view word, UnknownCandidates& out) {
  if (word != "" && word != "refuse" && word != "skip")
    return Refusal{RefusalKind::malformed, "bad_unknown", "unknown is " + quoted(word), "unknown",
                   "refuse or skip: how to treat candidates that are not in the catalog"};
  out = word == "skip" ? UnknownCandidates::skip : UnknownCandidates::refuse;
  return std::nullopt;
}

}  // namespace troupe
