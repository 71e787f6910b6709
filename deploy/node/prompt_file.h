#pragma once
// The prompt form of a model: prompt.json, whose lists hold token names of the model's vocab.json or token
// ids:
//   {"system": ["<bos>", …], "user": ["<user>"], "instruction": […], "discriminant": ["<disc>"]}
// A form without a discriminant is a generator's (`user` may be empty there); `events_max` is how many events
// of a history are read, the newest; without it as many as fit. A ranker that scores each candidate behind
// its own tokens has another form, in which "{words}" stands for the tokens of an event or a candidate:
//   {"instruction": […], "history_item": ["<h>", "{words}"], "candidate": ["<c>", "{words}", "<score>"],
//    "read_at": "<score>", "yes": "<yes>", "no": "<no>", "max_history": 10}
// A candidate's score is the logit of `yes` less that of `no` at `read_at`, its last token. Blocks of events
// and candidates, with what precedes their words, are computed behind the instruction. `order`, `score` and
// `max_words` are for people. Of a model with a tokenizer.json {"text": "Is it relevant? "} stands for its
// tokens in any of these lists.
#include <filesystem>
#include <optional>

#include "deploy/models/families.h"
#include "kernels/base/plan.h"
#include "kernels/checkpoint/vocabulary.h"
#include "runtime/actor/prompt_form.h"
#include "runtime/tokenizer/tokenizer.h"

namespace troupe::deploy {

// `file`: an explicit prompt file; else the model directory's prompt.json; else one of the default forms, if
// the vocabulary has its names: the ranker's, or where there are semantic IDs and no "<disc>" the
// generator's. Throws kernels::LoadError.
PromptForm read_prompt_form(const std::filesystem::path& model_directory,
                            const std::optional<std::filesystem::path>& file,
                            const kernels::PlanLimits& limits, const kernels::Vocabulary& vocabulary,
                            const Tokenizer* tokenizer = nullptr);
// The same of a model of any family; one whose tokens are items has no file and takes none.
PromptForm read_prompt_form(const std::filesystem::path& model_directory,
                            const std::optional<std::filesystem::path>& file, const ModelFacts& facts,
                            const kernels::Vocabulary& vocabulary, const Tokenizer* tokenizer = nullptr);

// The model directory's tokenizer.json; null if there is none. Throws LoadError.
std::unique_ptr<const Tokenizer> read_tokenizer_if_any(const std::filesystem::path& model_directory,
                                                       const kernels::PlanLimits& limits);
// Its vocab.json; empty where there is none (then catalogs hold token ids, not names).
kernels::Vocabulary read_vocabulary_if_any(const std::filesystem::path& model_directory,
                                           const kernels::PlanLimits& limits);

}  // namespace troupe::deploy
