// Replaces vocabulary words in a request body by token numbers before the body is parsed, so that
// clients need not know the numbers.
#include "server/formats/word_tokens.h"

#include <nlohmann/json.hpp>

#include "runtime/wire/json_text.h"
#include "server/formats/quoted.h"

namespace troupe::server {
namespace {

class WordRewriter {
 public:
  WordRewriter(std::string_view body, const ModelText& text, std::size_t tokens_max)
      : body_(body), text_(text), tokens_max_(tokens_max) {}

  // Throws Refusal.
  std::string rewritten() {
    for (at_ = 0; at_ < body_.size();) {
      const char c = body_[at_];
      if (c == '"') {
        take_string();
        continue;
      }
      if (c == '{' || c == '[') ++depth_, element_ = 0;
      if (c == '}' || c == ']') --depth_;
      if (c == ',' && depth_ == 2) ++element_;
      if (c == ',' && depth_ == 1) key_ = {};
      out_ += c;
      ++at_;
    }
    return std::move(out_);
  }

 private:
  // Returns the position after the closing quote; npos = there is none.
  std::size_t end_of_string() const {
    for (std::size_t i = at_ + 1; i < body_.size(); ++i) {
      if (body_[i] == '\\')
        ++i;
      else if (body_[i] == '"')
        return i + 1;
    }
    return body_.npos;
  }

  bool is_key(std::size_t end) const {
    const std::size_t next = body_.find_first_not_of(" \t\r\n", end);
    return next != body_.npos && body_[next] == ':';
  }

  void take_string() {
    const std::size_t end = end_of_string();
    const std::string_view literal = body_.substr(at_, end == body_.npos ? end : end - at_);
    const bool key = depth_ == 1 && end != body_.npos && is_key(end);
    if (key) key_ = literal;
    const bool is_word =
        (depth_ == 1 && !key && key_ == "\"identifier\"") || (depth_ == 2 && key_ == "\"tokens\"");
    const bool is_text = depth_ == 1 && !key && key_ == "\"tokens\"";
    if (end != body_.npos && is_text)
      out_ += tokens_of(literal);
    else if (end != body_.npos && is_word)
      out_ += std::to_string(token_of(literal));
    else
      out_ += literal;
    at_ += literal.size();
  }

  static std::string text_in(std::string_view literal) {
    const auto text = nlohmann::json::parse(literal, nullptr, false);
    return text.is_string() ? text.get<std::string>() : std::string(literal);
  }

  std::string tokens_of(std::string_view literal) const {
    std::vector<Token> tokens;
    add_words_tokens(text_, text_in(literal), "", "tokens", tokens_max_, tokens);
    std::string list = "[";
    for (const Token token : tokens) list += (list.size() > 1 ? "," : "") + std::to_string(token);
    return list + "]";
  }

  Token token_of(std::string_view literal) const {
    const std::string word = text_in(literal);
    if (const auto token = text_.find(word)) return *token;
    throw Refusal{RefusalKind::unprocessable, "unknown_word",
                  in_quotes(word) + " is not in the model's vocabulary",
                  depth_ == 1 ? "identifier" : "tokens[" + std::to_string(element_) + "]",
                  "a word of vocab.json or tokenizer.json, or a token's number"};
  }

  const std::string_view body_;
  const ModelText& text_;
  const std::size_t tokens_max_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::size_t element_ = 0;  // index in the current list
  std::string_view key_;     // current member of the body, in quotes
  std::string out_;
};

}  // namespace

std::variant<std::string, Refusal> with_numbers(std::string_view body, const ModelText& text,
                                                std::size_t tokens_max) {
  try {
    return WordRewriter(body, text, tokens_max).rewritten();
  } catch (const Refusal& refusal) {
    return refusal;
  }
}

std::string with_words(std::string json, std::span<const Token> tokens, const ModelText& text) {
  if (tokens.empty() || (!text.tokenizer && !text.has_words())) return json;
  json.back() = ',';
  if (text.tokenizer) {
    const std::string decoded = text.tokenizer->decode(tokens);
    const std::string_view lead = text.form ? std::string_view(text.form->words_lead) : "";
    append_json_string(json += "\"text\":",
                       std::string_view(decoded).substr(decoded.starts_with(lead) ? lead.size() : 0));
    return json + "}";
  }
  json += "\"words\":[";
  for (const Token token : tokens) {
    if (!json.ends_with('[')) json += ',';
    append_json_string(json, text.words->name(token));
  }
  return json + "]}";
}

}  // namespace troupe::server
