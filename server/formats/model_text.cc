// Turns text into a model's tokens and tokens into text, by the model's tokenizer or its
// vocabulary.
#include "server/formats/model_text.h"

namespace troupe::server {

std::optional<Token> ModelText::find(std::string_view name) const {
  if (const auto token = words ? words->find(std::string(name)) : std::nullopt) return token;
  if (const auto token = tokenizer ? tokenizer->find(name) : std::nullopt) return token;
  return item_names ? item_names->find(std::string(name)) : std::nullopt;
}

void add_text_tokens(const ModelText& model, std::string_view text, const std::string& where,
                     std::size_t tokens_max, std::vector<Token>& out, ControlTokens controls) {
  if (!model.tokenizer)
    throw Refusal{RefusalKind::unprocessable, "no_tokenizer",
                  "the model has no tokenizer to turn text into tokens", where, "a list of token ids"};
  const Tokenizer::Fault fault = model.tokenizer->encode(text, tokens_max, out, controls);
  if (fault == Tokenizer::Fault::none) return;
  const std::string most = std::to_string(tokens_max);
  if (fault == Tokenizer::Fault::too_many)
    throw Refusal{RefusalKind::too_large, "too_many_tokens",
                  "with this text there are more than " + most + " tokens", where, "at most " + most};
  throw Refusal{RefusalKind::unprocessable, "unreadable_text",
                fault == Tokenizer::Fault::no_text
                    ? "the text is not valid UTF-8"
                    : "the text takes the tokenizer too long, because of its pattern or of combining marks",
                where, "another text, or a list of token ids"};
}

void add_words_tokens(const ModelText& model, std::string_view text, std::string_view behind,
                      const std::string& where, std::size_t tokens_max, std::vector<Token>& out) {
  std::string whole = model.form ? model.form->words_lead : "";
  whole.append(text).append(behind);
  add_text_tokens(model, whole, where, tokens_max, out, model.controls_in_texts);
}

std::string text_of_token(const ModelText& model, Token token) {
  if (model.tokenizer) return model.tokenizer->text(token);
  const std::string name = model.has_words() ? model.words->name(token) : "";
  return name.empty() ? std::to_string(token) : name;
}

}  // namespace troupe::server
