#pragma once
// Options of a request that clients and the wire spell as words: how fresh features must be, what
// becomes of unknown candidates and users, and over which tokens a search's probabilities are normalised.
// Readers of request bodies turn the words into these types, and refuse an unknown one. From the wire, a word
// that this build does not know is `unreadable`: routers refuse such a request of a newer server.
#include <cstdint>
#include <optional>
#include <string_view>

#include "runtime/actor/refusal.h"

namespace troupe {

// How fresh the features of a request's user must be (runtime/features/cached_features.h).
enum class Freshness : std::uint8_t {
  configured,  // as the setting features.freshness says
  exact,       // as stored now
  wait,        // read from the store no longer ago than the expiry
  behind,      // what this process knows now, or nothing; the store is read after the answer
  unreadable
};

// Treatment of candidates that are not in the catalog.
enum class UnknownCandidates : std::uint8_t {
  refuse,  // the request is refused
  skip,    // the other candidates are ranked
  unreadable
};

// Treatment of a user that is not stored.
enum class UnknownUser : std::uint8_t {
  configured,  // as the setting router.unknown_user says
  refuse,      // the request is refused
  cold,        // the user is answered as one without events, and the answer says so
  unreadable
};

// Tokens over which a search normalises the probability of a token (kernels::Search::Normalisation).
enum class Normalised : std::uint8_t {
  by_model,    // as the model's prompt form says
  vocabulary,  // the whole vocabulary
  allowed,     // the tokens that may follow
  unreadable
};

// Word of an unreadable option; no reader takes it.
inline constexpr std::string_view unreadable_word = "?";

// Return the word of an option; "" for the default.
std::string_view word_of(Freshness freshness);
std::string_view word_of(UnknownCandidates unknown);
std::string_view word_of(UnknownUser unknown);
std::string_view word_of(Normalised normalised);

// Set `out` to the option with this word; "" is the default, which also has the word "refuse" for
// unknown candidates. An unknown word is refused and leaves `out` unchanged.
std::optional<Refusal> read_word(std::string_view word, Freshness& out);
std::optional<Refusal> read_word(std::string_view word, UnknownCandidates& out);
std::optional<Refusal> read_word(std::string_view word, UnknownUser& out);
std::optional<Refusal> read_word(std::string_view word, Normalised& out);

}  // namespace troupe
