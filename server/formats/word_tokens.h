#pragma once
// A body that names tokens by words of the vocabulary, with the tokens' numbers in their place:
// {"tokens":["<a_12>","<b_7>"], "identifier":"<c_1>"}. By the model's tokenizer `tokens` may be a text as a
// whole: {"tokens":"a title"}. Other text stays as it is, so what is no JSON is refused by whoever reads it.
// Pure.
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/actor/messages.h"
#include "server/formats/model_text.h"

namespace troupe::server {

// Refusal: 422 unknown_word; of a text those of model_text.h.
std::variant<std::string, Refusal> with_numbers(std::string_view body, const ModelText& text,
                                                std::size_t tokens_max);

// An answer, and behind its members `words`, those of the tokens, "" of one without a word; of a model with a
// tokenizer `text`, that of all of them. As it is where there are none.
std::string with_words(std::string json, std::span<const Token> tokens, const ModelText& text);

}  // namespace troupe::server
