#pragma once
// Reads a model's prompt form. The file prompt.json has lists of token names of the model's
// vocab.json, or token ids:
//   {"system": ["<bos>", …], "user": ["<user>"], "instruction": […], "discriminant": ["<disc>"]}
// A form without a discriminant is a generator's; its `user` may be empty. `events_max` is the
// number of newest history events that are read; without it, as many as fit.
//
// A ranker that scores each candidate after the candidate's own tokens has another form, in which
// "{words}" stands for the tokens of an event or a candidate:
//   {"instruction": […], "history_item": ["<h>", "{words}"], "candidate": ["<c>", "{words}", "<score>"],
//    "read_at": "<score>", "yes": "<yes>", "no": "<no>", "max_history": 10}
// A candidate's score is the logit of `yes` minus that of `no` at `read_at`, its last token. Blocks
// of events and candidates include the tokens before their words and are computed after the
// instruction. `order`, `score` and `max_words` are for human readers and are ignored.
//
// "arrangements" lists the arrangements under which the model's scores mean what they should, the
// preferred one first; without it, "causal" alone, or "candidates_apart" for the form above.
// "interchangeable" lists those of them, the first among them, of which a policy may choose one per
// request (runtime/actor/arrangement.h).
//
// "normalised" says, for a generator, over which tokens a search normalises probabilities unless the request
// says so itself: "vocabulary", as without it, or "allowed", those that may follow.
//
// "pooling" says where an embedding of a text is read; "last", its last token, is the only one.
//
// With a tokenizer, {"text": "Is it relevant? "} in any of these lists stands for the text's tokens. As
// `read_at`, `yes` or `no` it stands for one token. Texts that end with a blank before both "{words}" leave
// the blank to the words, as tokenizers do ("Document: {words}").
#include <filesystem>
#include <optional>
#include <string>

#include "deploy/models/model_families.h"
#include "kernels/base/plan.h"
#include "kernels/checkpoint/vocabulary.h"
#include "runtime/actor/prompt_form.h"
#include "runtime/tokenizer/tokenizer.h"

namespace troupe::deploy {

// Reads `file` if given, else the model directory's prompt.json, else a default form whose names
// the vocabulary has. The default is the generator's form if there are semantic IDs and no
// "<disc>", else the ranker's. Throws kernels::LoadError.
PromptForm read_prompt_form(const std::filesystem::path& model_directory,
                            const std::optional<std::filesystem::path>& file,
                            const kernels::PlanLimits& limits, const kernels::Vocabulary& vocabulary,
                            const Tokenizer* tokenizer = nullptr);
// Returns the form that a prompt.json with this text declares, with tokens by their ids. `where` names the
// text in errors. Throws kernels::LoadError.
PromptForm parse_prompt_form(const std::string& text, const std::string& where,
                             const kernels::PlanLimits& limits);
// Does the same for a model of any family. A model whose tokens are items has no prompt file and
// refuses one.
PromptForm read_prompt_form(const std::filesystem::path& model_directory,
                            const std::optional<std::filesystem::path>& file, const ModelFacts& facts,
                            const kernels::Vocabulary& vocabulary, const Tokenizer* tokenizer = nullptr);

// Returns the model directory's tokenizer; null if there is none. tokenizer.json is read, or, if it is not
// there or of SentencePiece's kind, tokenizer.model. Throws LoadError.
std::unique_ptr<const Tokenizer> read_tokenizer_if_any(const std::filesystem::path& model_directory,
                                                       const kernels::PlanLimits& limits);
// Returns what control tokens in texts of users and merchants become (model.control_tokens).
ControlTokens controls_in_texts(const ModelSettings& settings);
// Returns the model directory's vocab.json; empty if there is none: catalogs then hold token ids,
// not names.
kernels::Vocabulary read_vocabulary_if_any(const std::filesystem::path& model_directory,
                                           const kernels::PlanLimits& limits);

}  // namespace troupe::deploy
