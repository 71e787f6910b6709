// Reads requests for the tokens of texts, and writes the answer.
#include "server/formats/tokenization.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "server/formats/json_tree.h"

namespace troupe::server {
namespace {

constexpr std::size_t texts_max = 1024, version_digits = 64;
constexpr const char* tokenize_members = "prompt, add_special_tokens, return_token_strs or model";

struct Tokenization {
  std::vector<std::string> texts;
  bool is_list = false, special = true, with_text = false;
};

// The node's one model has its versions as names, which share their tokenizer.
void require_own_model(const std::string& name) {
  const bool is_version = name.size() == version_digits &&
                          std::ranges::all_of(name, [](unsigned char c) { return std::isxdigit(c) != 0; });
  if (!is_version && !name.empty() && name != "troupe")
    throw Refusal{RefusalKind::not_found, "unknown_model", "the requested model is not served", "model",
                  "an id of /v1/models, troupe, or none"};
}

void take_prompt(const JsonTree& value, Tokenization& out) {
  out.is_list = value.is_array();
  if (!out.is_list) return out.texts.push_back(tree_text(value, "prompt"));
  if (value.size() > texts_max)
    throw Refusal{RefusalKind::too_large, "too_many_texts", "there are " + std::to_string(value.size()),
                  "prompt", "at most " + std::to_string(texts_max)};
  for (const JsonTree& text : value)
    out.texts.push_back(tree_text(text, "prompt[" + std::to_string(out.texts.size()) + "]"));
}

void take_tokenize_member(const std::string& name, const JsonTree& value, Tokenization& out) {
  if (name == "prompt") return take_prompt(value, out);
  if (value.is_null()) return;
  if (name == "add_special_tokens") return void(out.special = tree_flag(value, name));
  if (name == "return_token_strs") return void(out.with_text = tree_flag(value, name));
  if (name == "model") return require_own_model(tree_text(value, name));
  if (name == "inputs" || name == "messages")
    tree_fault("unsupported_value", name + " is not supported", name, "prompt: a text, or a list of texts");
  tree_fault("unknown_field", "there is no such field", name, tokenize_members);
}

std::string written_tokens(const Tokenization& asked, const ModelText& model, std::uint32_t tokens_max) {
  nlohmann::ordered_json counts = JsonTree::array(), lists = JsonTree::array(), words = JsonTree::array();
  std::size_t left = tokens_max;
  for (std::size_t i = 0; i < asked.texts.size(); ++i) {
    std::vector<Token> tokens;
    const std::string where = asked.is_list ? "prompt[" + std::to_string(i) + "]" : "prompt";
    const auto add = [&](std::span<const Token> special) {
      if (asked.special) tokens.insert(tokens.end(), special.begin(), special.end());
    };
    if (model.tokenizer) add(model.tokenizer->before());
    add_text_tokens(model, asked.texts[i], where, left, tokens);
    add(model.tokenizer->behind());
    left -= std::min(left, tokens.size());
    nlohmann::ordered_json named = JsonTree::array();
    for (const Token token : tokens)
      if (asked.with_text) named.push_back(text_of_token(model, token));
    counts.push_back(tokens.size()), lists.push_back(tokens), words.push_back(std::move(named));
  }
  const auto shown = [&](nlohmann::ordered_json& list) {
    return asked.is_list ? std::move(list) : std::move(list.front());
  };
  nlohmann::ordered_json body{
      {"count", shown(counts)}, {"max_model_len", tokens_max}, {"tokens", shown(lists)}};
  body["token_strs"] = asked.with_text ? shown(words) : nlohmann::ordered_json(nullptr);
  return body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::variant<std::string, Refusal> tokenized(std::string_view body, const ModelText& model,
                                             std::uint32_t tokens_max) {
  try {
    const JsonTree tree = parse_tree(body, {.values_max = texts_max + 64, .depth_max = 3}, "prompt");
    if (!tree.is_object()) tree_type_fault(tree, "body", "an object");
    Tokenization asked;
    for (const auto& [name, value] : tree.items()) take_tokenize_member(name, value, asked);
    if (!tree.contains("prompt"))
      tree_fault("missing_field", "the body has no prompt", "prompt", tokenize_members);
    return written_tokens(asked, model, tokens_max);
  } catch (const Refusal& refusal) {
    return refusal;
  }
}

}  // namespace troupe::server
