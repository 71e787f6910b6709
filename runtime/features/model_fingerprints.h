#pragma once
// Records for which model a store's features were imported. Items are tokens, and a token means
// nothing without its vocabulary: another model would read the same numbers as other words and rank
// by them without an error.
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

// Fingerprints in hex. `vocabulary` is "" if the model has no token names: then only the model
// defines what a token is.
struct ModelFingerprints {
  std::string model, vocabulary, prompt;
  bool operator==(const ModelFingerprints&) const = default;
};

std::string encode(const ModelFingerprints& made_for);
std::optional<ModelFingerprints> decode_model_fingerprints(
    std::string_view text);  // nullopt: not such a text

// Returns the first part of `present` that differs from what the rows were imported for:
// "vocabulary", "model" or "prompt form"; "" if none does. `models_change`: the operator serves
// several versions of one model from the same rows, so another model is no difference if the
// vocabulary is known.
std::string changed_fingerprint(const ModelFingerprints& kept, const ModelFingerprints& present,
                                bool models_change);

}  // namespace troupe
