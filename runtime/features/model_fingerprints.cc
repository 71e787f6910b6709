// Encodes and compares fingerprints (hashes) of the model, vocabulary and prompt file for which
// stored items were imported. Items are token ids, so another vocabulary would silently read them
// as other words.
#include "runtime/features/model_fingerprints.h"

#include <algorithm>

namespace troupe {
namespace {

constexpr std::string_view head = "troupe rows for ";

// Takes the text up to the next space, and the space.
std::string_view take_word(std::string_view& text) {
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

std::optional<std::string> value_of(std::string_view word, std::string_view name) {
  if (!word.starts_with(name) || word.substr(name.size(), 1) != "=") return {};
  return std::string(word.substr(name.size() + 1));
}

}  // namespace

std::string encode(const ModelFingerprints& made_for) {
  return std::string(head) + "model=" + made_for.model + " vocabulary=" + made_for.vocabulary +
         " prompt=" + made_for.prompt;
}

std::optional<ModelFingerprints> decode_model_fingerprints(std::string_view text) {
  if (!text.starts_with(head)) return {};
  text.remove_prefix(head.size());
  const auto model = value_of(take_word(text), "model"), vocabulary = value_of(take_word(text), "vocabulary"),
             prompt = value_of(take_word(text), "prompt");
  if (!model || !vocabulary || !prompt || model->empty() || prompt->empty()) return {};
  return ModelFingerprints{*model, *vocabulary, *prompt};
}

std::string changed_fingerprint(const ModelFingerprints& kept, const ModelFingerprints& present,
                                bool models_change) {
  if (kept.vocabulary != present.vocabulary) return "vocabulary";
  const bool only_the_model_knows = kept.vocabulary.empty();
  if (kept.model != present.model && (only_the_model_knows || !models_change)) return "model";
  return kept.prompt != present.prompt ? "prompt form" : "";
}

}  // namespace troupe
