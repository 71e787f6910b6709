#pragma once
// How a model's tokens are said in text: words of its vocab.json, one each, or any text by its
// tokenizer.json, which comes first where there are both. Nothing here is owned; it outlives whoever has it.
#include <string>
#include <string_view>
#include <vector>

#include "kernels/checkpoint/vocabulary.h"
#include "runtime/actor/messages.h"
#include "runtime/actor/prompt_form.h"
#include "runtime/tokenizer/tokenizer.h"

namespace troupe::server {

struct ModelText {
  ModelText(const kernels::Vocabulary* vocabulary = nullptr, const Tokenizer* reads = nullptr,
            const PromptForm* frame = nullptr)
      : words(vocabulary), tokenizer(reads), form(frame) {}

  const kernels::Vocabulary* words;
  const Tokenizer* tokenizer;
  const PromptForm* form;  // of its prompts

  bool has_words() const { return words && words->named() > 0; }
  // Whether texts can be ranked that no catalog has: each is read behind its own tokens.
  bool ranks_texts() const { return tokenizer && form && form->scores_each(); }
};

// Appends the tokens of a text. Throws Refusal: 422 no_tokenizer, 413 too_many_tokens (than `tokens_max`, in
// `out` as a whole), 422 unreadable_text; `where` says which text it is.
void add_text_tokens(const ModelText& model, std::string_view text, const std::string& where,
                     std::size_t tokens_max, std::vector<Token>& out);

// For an answer: bytes, of which some may be a part of a character.
std::string text_of_token(const ModelText& model, Token token);

}  // namespace troupe::server
