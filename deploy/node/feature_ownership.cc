// Refuses to serve users and items that were stored for another model, since their tokens mean
// something else there, and those of an unfinished import.
#include "deploy/node/feature_ownership.h"

#include <xxhash.h>

#include <cstdio>

#include "deploy/node/features.h"

namespace troupe::deploy {
namespace {

constexpr std::size_t shown_digits = 12;  // digits of a fingerprint in error texts

// Hashes each part with its length, so that different lists of parts have different bytes.
class FieldHash {
 public:
  void add(const void* bytes, std::uint64_t size) {
    text_.append(reinterpret_cast<const char*>(&size), sizeof size);
    text_.append(static_cast<const char*>(bytes), size);
  }
  void add(const Tokens& tokens) { add(tokens.data(), tokens.size() * sizeof(Token)); }
  std::string hex() const {
    const XXH128_hash_t hash = XXH3_128bits(text_.data(), text_.size());
    char digits[33];
    std::snprintf(digits, sizeof digits, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                  static_cast<unsigned long long>(hash.low64));
    return digits;
  }

 private:
  std::string text_;
};

std::string fingerprint(const kernels::Vocabulary& vocabulary, std::uint32_t size) {
  if (vocabulary.named() == 0) return "";
  FieldHash names;
  for (std::uint32_t token = 0; token < size; ++token) {
    const std::string& name = vocabulary.name(static_cast<Token>(token));
    names.add(name.data(), name.size());
  }
  return names.hex();
}

std::string part_of(const ModelFingerprints& made_for, const std::string& part) {
  const std::string& hex = part == "vocabulary" ? made_for.vocabulary
                           : part == "model"    ? made_for.model
                                                : made_for.prompt;
  return hex.empty() ? "none" : hex.substr(0, shown_digits);
}

constexpr const char* adopt_advice = "`troupe import --adopt` if tokens have the same meaning in both models";

// In a Redis, an import can replace the catalog but not the users.
std::string other_store_advice(const Config& config) {
  return features_in_redis(config.features)
             ? "another features.store or cluster.name, and an import there"
             : "another node.data_dir, or `troupe import --replace` with this model's catalog";
}

}  // namespace

ModelFingerprints made_for(const std::string& model_version, const kernels::Vocabulary& vocabulary,
                           const PromptForm& prompt) {
  FieldHash form;
  for (const Tokens* part : {&prompt.system, &prompt.user, &prompt.instruction, &prompt.discriminant})
    form.add(*part);
  return {model_version, fingerprint(vocabulary, prompt.vocabulary), form.hex()};
}

std::string features_location(const Config& config) {
  return features_in_redis(config.features) ? "the Redis of features.store" : config.node.data_dir;
}

std::string describe_mismatch(std::string_view noted, const ModelFingerprints& present,
                              const Config& config) {
  const auto kept = decode_model_fingerprints(noted);
  if (!kept)
    return features_location(config) + ": the note of its model is damaged or lost; expected " +
           other_store_advice(config) + ", or " + adopt_advice;
  const std::string other = changed_fingerprint(*kept, present, !config.model.versions.empty());
  if (other.empty()) return "";
  return features_location(config) + ": users and items there were imported for another " + other + " (" +
         part_of(*kept, other) + ") than that of " + config.model.directory + " (" + part_of(present, other) +
         "); expected model " + kept->model.substr(0, shown_digits) + ", " + other_store_advice(config) +
         (other == "vocabulary" ? "" : std::string(", or ") + adopt_advice);
}

std::string describe_unfinished_import(const Config& config) {
  return features_location(config) +
         ": an import into it did not finish, and some of its rows are missing; expected a complete import: "
         "run `troupe import --replace` with all items and users";
}

namespace {

void claim(FeatureStore& features, const ModelFingerprints& present, const Config& config,
           const std::function<void(const std::string& what)>& warn) {
  const std::string location = features_location(config);
  const auto noted = features.made_for();
  if (noted && !features.untouched()) {
    if (const std::string why = describe_mismatch(*noted, present, config); !why.empty())
      throw ConfigError(why);
    return;
  }
  if (!features.untouched() && features.bad_records() > 0)
    throw ConfigError(
        location + ": " + std::to_string(features.bad_records()) +
        " rows do not fit this model, or are damaged, and nothing says for which model they were "
        "imported; expected rows of this model: " +
        other_store_advice(config) + ", or " + adopt_advice);
  if (!features.untouched())
    warn(location +
         ": its rows have no note of the model that they were imported for; they are taken for this model's");
  features.note_made_for(encode(present));
}

}  // namespace

void claim_rows(FeatureStore& features, const ModelFingerprints& present, const Config& config,
                const std::function<void(const std::string& what)>& warn) {
  if (features.half_imported()) throw ConfigError(describe_unfinished_import(config));
  try {
    claim(features, present, config, warn);
  } catch (const StoreError&) {  // a Redis that is away is checked again before each answer
    if (!features_in_redis(config.features)) throw;
  }
}

}  // namespace troupe::deploy
