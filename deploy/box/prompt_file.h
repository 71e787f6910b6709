#pragma once
// The prompt form of a model: prompt.json, whose lists hold token names of the model's vocab.json or token
// ids:
//   {"system": ["<bos>", …], "user": ["<user>"], "instruction": […], "discriminant": ["<disc>"]}
// A form without a discriminant is a generator's (`user` may be empty there); `events_max` is how many events of a
// history are read, the newest; without it as many as fit.
#include <filesystem>
#include <optional>

#include "kernels/base/plan.h"
#include "kernels/checkpoint/vocabulary.h"
#include "router/request/prompt.h"

namespace troupe::deploy {

// `file`: an explicit prompt file; else the model directory's prompt.json; else one of the default forms, if
// the vocabulary has its names: the ranker's, or where there are semantic IDs and no "<disc>" the generator's.
// Throws kernels::LoadError.
router::PromptForm read_prompt_form(const std::filesystem::path& model_directory,
                                    const std::optional<std::filesystem::path>& file,
                                    const kernels::PlanLimits& limits,
                                    const kernels::Vocabulary& vocabulary);

// The model directory's vocab.json; empty where there is none (then catalogs hold token ids, not names).
kernels::Vocabulary read_vocabulary_if_any(const std::filesystem::path& model_directory,
                                           const kernels::PlanLimits& limits);

}  // namespace troupe::deploy
