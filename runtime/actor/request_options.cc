// Reads and writes the words of request options.
#include "runtime/actor/request_options.h"

#include <algorithm>
#include <span>

#include "runtime/actor/quoted_word.h"

namespace troupe {
namespace {

// In the order of their types.
constexpr std::string_view freshness_words[] = {"", "exact", "wait", "behind", unreadable_word};
constexpr std::string_view user_words[] = {"", "refuse", "cold", unreadable_word};
constexpr std::string_view normalised_words[] = {"", "vocabulary", "allowed", unreadable_word};

// Sets `out` to the option with this word. Returns false if none has it.
template <class Option>
bool find_word(std::span<const std::string_view> words, std::string_view word, Option& out) {
  const auto at = std::ranges::find(words, word);
  if (at == words.end() || word == unreadable_word) return false;
  out = static_cast<Option>(at - words.begin());
  return true;
}

}  // namespace

std::string_view word_of(Freshness freshness) { return freshness_words[static_cast<std::size_t>(freshness)]; }

std::string_view word_of(UnknownCandidates unknown) {
  if (unknown == UnknownCandidates::unreadable) return unreadable_word;
  return unknown == UnknownCandidates::skip ? "skip" : "";
}

std::string_view word_of(UnknownUser unknown) { return user_words[static_cast<std::size_t>(unknown)]; }

std::string_view word_of(Normalised normalised) {
  return normalised_words[static_cast<std::size_t>(normalised)];
}

std::optional<Refusal> read_word(std::string_view word, Freshness& out) {
  if (!find_word(freshness_words, word, out))
    return Refusal{RefusalKind::malformed, "unknown_freshness", "features is " + quoted_word(word),
                   "features", "exact, wait or behind; \"\" is as configured (features.freshness)"};
  return std::nullopt;
}

std::optional<Refusal> read_word(std::string_view word, UnknownCandidates& out) {
  if (word != "" && word != "refuse" && word != "skip")
    return Refusal{RefusalKind::malformed, "bad_unknown", "unknown is " + quoted_word(word), "unknown",
                   "refuse or skip: how to treat candidates that are not in the catalog"};
  out = word == "skip" ? UnknownCandidates::skip : UnknownCandidates::refuse;
  return std::nullopt;
}

std::optional<Refusal> read_word(std::string_view word, UnknownUser& out) {
  if (!find_word(user_words, word, out))
    return Refusal{RefusalKind::malformed, "bad_unknown_user", "unknown_user is " + quoted_word(word),
                   "unknown_user",
                   "refuse or cold: how to treat a user that is not stored; \"\" is as configured "
                   "(router.unknown_user)"};
  return std::nullopt;
}

std::optional<Refusal> read_word(std::string_view word, Normalised& out) {
  if (!find_word(normalised_words, word, out))
    return Refusal{RefusalKind::malformed, "unknown_normalisation", "normalised is " + quoted_word(word),
                   "normalised", "vocabulary or allowed; \"\" is as the model's form says"};
  return std::nullopt;
}

}  // namespace troupe
