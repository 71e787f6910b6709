#pragma once
// Whose rows are in a store of features: those of the model that is served, or another's, whose tokens mean
// other words.
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "kernels/checkpoint/vocabulary.h"
#include "runtime/actor/prompt_form.h"
#include "runtime/config/config.h"
#include "runtime/features/feature_store.h"
#include "runtime/features/made_for.h"

namespace troupe::deploy {

MadeFor made_for(const std::string& model_version, const kernels::Vocabulary& vocabulary,
                 const PromptForm& prompt);

// Why rows that were noted so are not those of `present`, and what to do; "": they are.
std::string why_foreign(std::string_view noted, const MadeFor& present, const Config& config);

std::string why_half_imported(const Config& config);

// Throws ConfigError if the rows are another model's, or if an import into the store did not end. Notes whose
// they are where nobody has. `tell`: of something that is served though it may not be right.
void claim_rows(FeatureStore& features, const MadeFor& present, const Config& config,
                const std::function<void(const std::string& what)>& tell);

std::string features_place(const Config& config);  // for people: the folder, or the Redis

}  // namespace troupe::deploy
