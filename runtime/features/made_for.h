#pragma once
// For which model a store of features was imported. Items are tokens, and a token means nothing without its
// vocabulary: another model would take the same numbers for other words, and rank by them without an error.
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

// Fingerprints, in hex. `vocabulary` is "" where the model brings no names of tokens: then nothing but the
// model says what a token is.
struct MadeFor {
  std::string model, vocabulary, prompt;
  bool operator==(const MadeFor&) const = default;
};

std::string encode(const MadeFor& made_for);
std::optional<MadeFor> decode_made_for(std::string_view text);  // absent: it is no such text

// What of `present` is not what the rows were imported for: "vocabulary", "model" or "prompt form"; "":
// nothing. `models_change`: the operator serves several versions of one model from the same rows.
std::string find_difference(const MadeFor& kept, const MadeFor& present, bool models_change);

}  // namespace troupe
