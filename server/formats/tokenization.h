#pragma once
// Answers requests for the tokens of a text, in the form of vLLM and SGLang. Pure.
//
//   prompt              text, or a list of texts
//   add_special_tokens  false = without the tokens of the tokenizer's template; true if absent
//   return_token_strs   true = also the text of each token
//   model               as for completions
//
// The answer has count, max_model_len, tokens and token_strs, of a list of texts a list of each.
// Refusals are those of json.h and model_text.h, and 400 unsupported_value.
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/actor/messages.h"
#include "server/formats/model_text.h"

namespace troupe::server {

// `tokens_max`: positions of the model; more tokens are refused.
std::variant<std::string, Refusal> tokenized(std::string_view body, const ModelText& model,
                                             std::uint32_t tokens_max);

}  // namespace troupe::server
