#pragma once
// A body that names tokens by words of the vocabulary, with the tokens' numbers in their place: {"tokens":["<a_12>","<b_7>"],
// "identifier":"<c_1>"}. Other text stays as it is, so what is no JSON is refused by whoever reads it. Pure.
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "kernels/checkpoint/vocabulary.h"
#include "runtime/actor/messages.h"

namespace troupe::router {

// Refusal: 422 unknown_word.
std::variant<std::string, Refusal> with_numbers(std::string_view body, const kernels::Vocabulary& words);

// An answer, and behind its members `words`, those of the tokens, "" of one without a word. As it is where there are none.
std::string with_words(std::string json, std::span<const Token> tokens, const kernels::Vocabulary* words);

}  // namespace troupe::router
