// Reads and writes the words of request options.
#include "runtime/actor/request_options.h"

#include <algorithm>
#include <iterator>

#include "runtime/actor/quoted_word.h"

namespace troupe {
namespace {

constexpr std::string_view freshness_words[] = {"", "exact", "wait", "behind"};  // in order of Freshness
constexpr std::string_view user_words[] = {"", "refuse", "cold"};                // in order of UnknownUser
constexpr std::string_view normalised_words[] = {"", "vocabulary", "allowed"};   // in order of Normalised

}  // namespace

std::string_view word_of(Freshness freshness) { return freshness_words[static_cast<std::size_t>(freshness)]; }

std::string_view word_of(UnknownCandidates unknown) {
  return unknown == UnknownCandidates::skip ? "skip" : "";
}

std::string_view word_of(UnknownUser unknown) { return user_words[static_cast<std::size_t>(unknown)]; }

std::string_view word_of(Normalised normalised) {
  return normalised_words[static_cast<std::size_t>(normalised)];
}

std::optional<Refusal> read_word(std::string_view word, Freshness& out) {
  const auto at = std::ranges::find(freshness_words, word);
  if (at == std::end(freshness_words))
    return Refusal{RefusalKind::malformed, "unknown_freshness", "features is " + quoted_word(word),
                   "features", "exact, wait or behind; \"\" is as configured (features.freshness)"};
  out = static_cast<Freshness>(at - std::begin(freshness_words));
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
  const auto at = std::ranges::find(user_words, word);
  if (at == std::end(user_words))
    return Refusal{RefusalKind::malformed, "bad_unknown_user", "unknown_user is " + quoted_word(word),
                   "unknown_user",
                   "refuse or cold: how to treat a user that is not stored; \"\" is as configured "
                   "(router.unknown_user)"};
  out = static_cast<UnknownUser>(at - std::begin(user_words));
  return std::nullopt;
}

std::optional<Refusal> read_word(std::string_view word, Normalised& out) {
  const auto at = std::ranges::find(normalised_words, word);
  if (at == std::end(normalised_words))
    return Refusal{RefusalKind::malformed, "unknown_normalisation", "normalised is " + quoted_word(word),
                   "normalised", "vocabulary or allowed; \"\" is as the model's form says"};
  out = static_cast<Normalised>(at - std::begin(normalised_words));
  return std::nullopt;
}

}  // namespace troupe
