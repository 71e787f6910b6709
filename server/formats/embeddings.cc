// Translates between OpenAI's embeddings and this server's requests.
#include "server/formats/embeddings.h"

#include <algorithm>
#include <bit>
#include <span>
#include <utility>

#include "server/formats/json_tree.h"

namespace troupe::server {
namespace {

constexpr const char* embedding_members =
    "input, encoding_format, add_special_tokens, model, user, request_timestamp or budget_us";

class EmbeddingReader {
 public:
  EmbeddingReader(const ModelText& text, const ScoreLimits& limits, const RowLimits& rows)
      : text_(text), limits_(limits), rows_(rows), left_(limits.tokens_max) {}

  Embeddings read(std::string_view body) {
    const std::size_t of_texts = std::size_t{limits_.tokens_max} + 2 * std::size_t{limits_.items_max};
    const std::size_t values = std::max(of_texts, history_values_max(rows_)) + 64;
    const JsonTree tree = parse_tree(body, {.values_max = values, .depth_max = 2 + history_depth}, "input");
    if (!tree.is_object()) tree_fault("wrong_type", "the body has the wrong type", "body", "an object");
    for (const auto& [name, value] : tree.items())
      if (!value.is_null()) take(name, value);
    const auto input = tree.find("input");
    if (input == tree.end() || input->is_null())
      tree_fault("missing_field", "the body has no input", "input", embedding_members);
    if (text_.form && text_.form->items_are_tokens())
      take_user(*input);
    else
      take_texts(*input);
    return std::move(out_);
  }

 private:
  void take(const std::string& name, const JsonTree& value) {
    if (name == "input" || name == "user") return;
    if (name == "encoding_format") {
      if (value != "float" && value != "base64")
        tree_fault("unsupported_value", "encoding_format has a value that is not supported", name,
                   "float or base64");
      return void(out_.in_base64 = value == "base64");
    }
    if (name == "dimensions")
      tree_fault("unsupported_value", "embeddings are not cut to other dimensions", name, "null, or none");
    if (name == "add_special_tokens") {
      if (!value.is_boolean()) tree_fault("wrong_type", name + " has the wrong type", name, "true or false");
      return void(special_ = value.get<bool>());
    }
    if (name == "model") return void(out_.model = tree_text(value, name));
    if (name == "budget_us") return void(out_.request.budget_us = tree_number(value, name, 0, INT64_MAX));
    if (name == "request_timestamp")
      return void(out_.request.request_timestamp = tree_number(value, name, 0, INT64_MAX));
    if (name == "priority" && value == 0) return;
    if (name == "truncate_prompt_tokens" || name == "priority")
      tree_fault("unsupported_value", name + " has a value that is not supported", name, "null, or none");
    tree_fault("unknown_field", "there is no such field", name, embedding_members);
  }

  void take_user(const JsonTree& input) {
    const bool is_list = input.is_array() && input.size() == 1;
    if (input.is_array() && !is_list)
      tree_fault("wrong_count", "there are " + std::to_string(input.size()), "input",
                 "one user's id or history, as the model reads users' histories");
    const JsonTree& user = is_list ? input.front() : input;
    const std::string where = is_list ? "input[0]" : "input";
    if (user.is_object()) {
      out_.names = names_of_history(where, true);
      return take_history(read_history(user, where, rows_, text_), out_.request);
    }
    out_.request.user = tree_text(user, where);
  }

  void take_texts(const JsonTree& input) {
    const bool is_one = !input.is_array() || (!input.empty() && input.front().is_number());
    if (is_one) return add(input, "input");
    if (input.empty()) tree_fault("no_texts", "the list is empty", "input", "1 text or more");
    if (input.size() > limits_.items_max)
      throw Refusal{RefusalKind::too_large, "too_many_items", "there are " + std::to_string(input.size()),
                    "input", "at most " + std::to_string(limits_.items_max) + " (router.score_items_max)"};
    for (const JsonTree& one : input) add(one, "input[" + std::to_string(out_.request.texts.size()) + "]");
  }

  void add_template(std::span<const Token> tokens, std::vector<Token>& out) const {
    if (special_) out.insert(out.end(), tokens.begin(), tokens.end());
  }

  void add(const JsonTree& value, const std::string& where) {
    std::vector<Token>& tokens = out_.request.texts.emplace_back().tokens;
    if (value.is_array()) {
      for (const JsonTree& token : value)
        tokens.push_back(static_cast<Token>(
            tree_number(token, where + "[" + std::to_string(tokens.size()) + "]", 0, INT32_MAX)));
    } else if (value.is_string()) {
      if (text_.tokenizer) add_template(text_.tokenizer->before(), tokens);
      add_text_tokens(text_, tree_text(value, where), where, left_, tokens);
      add_template(text_.tokenizer->behind(), tokens);
    } else {
      tree_fault("wrong_type", where + " has the wrong type", where, "a text, or a list of token ids");
    }
    left_ -= std::min(left_, tokens.size());
  }

  const ModelText& text_;
  const ScoreLimits& limits_;
  const RowLimits& rows_;
  std::size_t left_;  // tokens of the request that are left
  bool special_ = true;
  Embeddings out_;
};

}  // namespace

std::variant<Embeddings, Refusal> read_embeddings(std::string_view body, const ModelText& text,
                                                  const ScoreLimits& limits, const RowLimits& rows) {
  try {
    return EmbeddingReader(text, limits, rows).read(body);
  } catch (const Refusal& refusal) {
    return refusal;
  }
}

std::string base64_of(std::span<const double> numbers) {
  static constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  for (const double number : numbers) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(number));
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(bits >> shift);
  }
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i)
      group = (group << 8) | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0u);
    for (std::size_t i = 0; i < 4; ++i)
      text += at + i <= bytes.size() ? digits[(group >> (18 - 6 * i)) & 0x3f] : '=';
  }
  return text;
}

std::string embeddings_body(const Embeddings& asked, const EmbedReply& reply, const std::string& model) {
  nlohmann::ordered_json data = nlohmann::ordered_json::array();
  for (const ScoreRow& row : reply.embeddings) {
    nlohmann::ordered_json one{{"object", "embedding"}, {"index", data.size()}};
    if (asked.in_base64)
      one["embedding"] = base64_of(row.scores);
    else
      one["embedding"] = std::vector<float>(row.scores.begin(), row.scores.end());
    data.push_back(std::move(one));
  }
  const nlohmann::ordered_json body{
      {"object", "list"},
      {"data", std::move(data)},
      {"model", model.empty() ? reply.model_version : model},
      {"usage", {{"prompt_tokens", reply.tokens_total}, {"total_tokens", reply.tokens_total}}}};
  return body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace troupe::server
