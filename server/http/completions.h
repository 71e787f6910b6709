#pragma once
// POST /v1/completions in OpenAI's form: its body to a message, and the reply to a body. Prompts are token
// ids, text by the model's tokenizer, or words of its vocabulary. OpenAI's members that say nothing here
// (sampling, streaming, several prompts in one request) are refused by name unless they have their default
// values, so that no client takes one answer for another.
//
// Refusals are those of runtime/wire/json.h, and
//   unsupported_value   400: a member that OpenAI has and we do not, not at its default
//   several_prompts     400
//   unknown_word        422: not in the vocabulary
//   no_words            422: the model has neither tokenizer nor vocabulary, so prompts are token ids; and
//   those of model_text.h
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/actor/messages.h"
#include "server/formats/model_text.h"

namespace troupe::server {

// Prompts longer than `prompt_tokens_max` are refused while they
// are read.
std::variant<CompleteRequest, Refusal> read_completion(std::string_view body, const ModelText& text,
                                                       std::uint32_t prompt_tokens_max);

// `created_s`: seconds since 1970.
std::string completion_body(const CompleteReply& reply, const ModelText& text, std::int64_t created_s);

}  // namespace troupe::server
