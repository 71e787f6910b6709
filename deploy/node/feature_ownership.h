#pragma once
// Checks whether the rows of a feature store belong to the served model. The tokens of another
// model's rows have other meanings.
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "kernels/checkpoint/vocabulary.h"
#include "runtime/actor/prompt_form.h"
#include "runtime/config/config.h"
#include "runtime/features/feature_store.h"
#include "runtime/features/model_fingerprints.h"

namespace troupe::deploy {

ModelFingerprints made_for(const std::string& model_version, const kernels::Vocabulary& vocabulary,
                           const PromptForm& prompt);

// Returns why rows noted as `noted` do not belong to `present`, and what to do; "": they belong.
std::string describe_mismatch(std::string_view noted, const ModelFingerprints& present, const Config& config);

std::string describe_unfinished_import(const Config& config);

// Throws ConfigError if the rows belong to another model or an import into the store did not
// finish. Notes this model as their owner if none is noted; calls `warn` if rows without an owner
// are served.
void claim_rows(FeatureStore& features, const ModelFingerprints& present, const Config& config,
                const std::function<void(const std::string& what)>& warn);

std::string features_location(const Config& config);  // the folder or the Redis, for error messages

}  // namespace troupe::deploy
