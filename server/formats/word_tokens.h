#pragma once
// Replaces words of the vocabulary in a body by their token numbers: {"tokens":["<a_12>","<b_7>"],
// "identifier":"<c_1>"}. With a tokenizer, `tokens` may be one text: {"tokens":"a title"}. All
// other text stays unchanged, so invalid JSON is refused by its parser. Pure.
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/actor/messages.h"
#include "server/formats/model_text.h"

namespace troupe::server {

// Refuses with 422 unknown_word, or for a text with the refusals of model_text.h.
std::variant<std::string, Refusal> with_numbers(std::string_view body, const ModelText& text,
                                                std::size_t tokens_max);

// Adds `words` to an answer's members, with the word of each token ("" = no word); with a tokenizer
// also `text`, the text of all tokens. Returns the answer unchanged if the model has neither.
std::string with_words(std::string json, std::span<const Token> tokens, const ModelText& text);

}  // namespace troupe::server
