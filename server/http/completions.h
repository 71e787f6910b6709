#pragma once
// Parses and writes POST /v1/completions in OpenAI's form: a body becomes a message, a reply
// becomes a body. Prompts are token ids, text for the model's tokenizer, or words of its
// vocabulary. OpenAI members that have no effect here (sampling, streaming, several prompts in one
// request) are refused by name unless they have their default values. A client therefore never gets
// a different answer than it asked for.
//
// Refusals are those of runtime/wire/json.h and of model_text.h, and
//   unsupported_value   400: a member that OpenAI has and this server lacks, not at its default
//   several_prompts     400
//   unknown_word        422: not in the vocabulary
//   no_words            422: the model has neither tokenizer nor vocabulary, so prompts are token ids
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/actor/messages.h"
#include "server/formats/model_text.h"

namespace troupe::server {

// Parses the body. Prompts longer than `prompt_tokens_max` are refused while they are parsed.
std::variant<CompleteRequest, Refusal> read_completion(std::string_view body, const ModelText& text,
                                                       std::uint32_t prompt_tokens_max);

// Writes the reply. `created_s`: seconds since 1970.
std::string completion_body(const CompleteReply& reply, const ModelText& text, std::int64_t created_s);

}  // namespace troupe::server
