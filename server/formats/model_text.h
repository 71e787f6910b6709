#pragma once
// Text form of a model's tokens: single words of its vocab.json, or any text by its tokenizer, which is
// preferred if both exist. The struct owns nothing; what it points to must outlive it.
#include <optional>
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
            const PromptForm* frame = nullptr, ControlTokens controls = ControlTokens::as_text)
      : words(vocabulary), tokenizer(reads), form(frame), controls_in_texts(controls) {}

  const kernels::Vocabulary* words;
  const Tokenizer* tokenizer;
  const PromptForm* form;  // of its prompts
  // of texts that users and merchants write: tokens of items, documents, queries (model.control_tokens)
  ControlTokens controls_in_texts;
  // names <item_1>, <item_2>, … of a model whose tokens are items; null = another model
  const kernels::Vocabulary* item_names = nullptr;

  bool reads_names() const { return words || tokenizer || item_names; }
  // Returns the token with this name: of the vocabulary, the tokenizer or the items.
  std::optional<Token> find(std::string_view name) const;
  bool has_words() const { return words && words->named() > 0; }
  // Returns true if texts outside the catalog can be ranked: each score is read after its own
  // tokens.
  bool ranks_texts() const { return tokenizer && form && form->scores_each(); }
};

// Appends the tokens of a text. Throws Refusal: 422 no_tokenizer, 413 too_many_tokens (if `out`
// would exceed `tokens_max`), 422 unreadable_text. `where` names the text. Control tokens in a prompt, which
// the client's program wrote, are tokens; for other texts pass `controls_in_texts`.
void add_text_tokens(const ModelText& model, std::string_view text, const std::string& where,
                     std::size_t tokens_max, std::vector<Token>& out,
                     ControlTokens controls = ControlTokens::as_tokens);

// Does the same for a text that stands for an event or a candidate: the form may give it a blank at its
// beginning (PromptForm::words_lead), and `behind` is text that becomes tokens together with it.
void add_words_tokens(const ModelText& model, std::string_view text, std::string_view behind,
                      const std::string& where, std::size_t tokens_max, std::vector<Token>& out);

// Returns the token's bytes for an answer; they may be part of a character.
std::string text_of_token(const ModelText& model, Token token);

}  // namespace troupe::server
