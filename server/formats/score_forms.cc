// Translates between the score APIs of vLLM and SGLang and this server's requests, so that their
// clients can be used unchanged.
#include "server/formats/score_forms.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "server/formats/json_tree.h"

namespace troupe::server {
namespace {

using OrderedTree = nlohmann::ordered_json;

// Pairs of member names for the two lists of texts, in order.
constexpr std::array<std::pair<const char*, const char*>, 4> pair_names{
    {{"text_1", "text_2"}, {"queries", "documents"}, {"queries", "items"}, {"data_1", "data_2"}}};

// Members of those interfaces without effect here, with their accepted default values; null is
// always accepted.
const std::map<std::string, std::vector<JsonTree>>& inert_members() {
  static const std::map<std::string, std::vector<JsonTree>> members{
      {"max_tokens_per_query", {0}},
      {"max_tokens_per_doc", {0}},
      {"truncate_prompt_tokens", {}},
      {"truncation_side", {"left", "right"}},
      {"use_activation", {true}},
      {"activation", {true}},
      {"softmax", {true}},
      {"priority", {0}},
      {"mm_processor_kwargs", {}},
      {"cache_salt", {}},
      {"encoding_format", {"float"}},
      {"instruction", {}},
      {"chat_template", {}},
  };
  return members;
}
// Joined texts are tokenized once per item, so their total size is bounded: this many bytes per
// token of a request.
constexpr std::size_t joined_bytes_of_token = 16;
constexpr std::array ignored{"user", "request_id", "rid"};  // ignored: they change no answer

class ScoreReader {
 public:
  ScoreReader(ScoreForm form, const ModelText& model, const ScoreLimits& limits)
      : model_(model), limits_(limits) {
    asked_.form = form;
    softmax_ = form == ScoreForm::generative;
  }

  ForeignScore take(std::string_view body) {
    const std::size_t values =
        std::size_t{limits_.tokens_max} + 4 * (std::size_t{limits_.items_max} + limits_.labels_max) + 64;
    tree_ = parse_tree(body, {.values_max = values, .depth_max = 4}, "items");
    if (!tree_.is_object()) tree_type_fault(tree_, "body", "an object");
    if (asked_.form == ScoreForm::pairs)
      take_pairs();
    else
      take_lists();
    return std::move(asked_);
  }

 private:
  bool take_common(const std::string& name, const JsonTree& value) {
    if (value.is_null() || std::ranges::find(ignored, name) != ignored.end()) return true;
    if (name == "model") return asked_.model = tree_text(value, name), true;
    if (name == "budget_us") return budget_us_ = tree_number(value, name, 0, INT64_MAX), true;
    const auto inert = inert_members().find(name);
    if (inert == inert_members().end()) return false;
    if (std::ranges::find(inert->second, value) == inert->second.end())
      tree_fault("unsupported_value", name + " has a value that is not supported", name,
                 (inert->second.empty() ? "" : inert->second.front().dump() + ", ") + "null, or none");
    return true;
  }

  // ---- pairs ----

  TextList text_list(const char* name) const {
    const JsonTree& value = tree_.at(name);
    TextList list{name, {}};
    if (value.is_string()) return list.texts.push_back(tree_text(value, name)), list;
    if (!value.is_array()) tree_type_fault(value, list.name, "a text, or a list of texts");
    for (const JsonTree& text : value)
      list.texts.push_back(tree_text(text, list.name + "[" + std::to_string(list.texts.size()) + "]"));
    return list;
  }

  void take_pairs() {
    const auto names = std::ranges::find_if(pair_names, [&](const auto& pair) {
      return tree_.contains(pair.first) && tree_.contains(pair.second);
    });
    if (names == pair_names.end())
      tree_fault("missing_field", "the body has only one list of texts", "body",
                 "text_1 and text_2, queries and documents, queries and items, or data_1 and data_2");
    for (const auto& [name, value] : tree_.items())
      if (name != names->first && name != names->second && !take_common(name, value))
        tree_fault("unknown_field", "there is no such field", name,
                   std::string(names->first) + ", " + names->second + ", model or budget_us");
    const TextList queries = text_list(names->first), documents = text_list(names->second);
    if (model_.ranks_texts()) {
      ScoreRequest request = score_pairs(model_, queries, documents, limits_);
      request.budget_us = budget_us_;
      asked_.request = std::move(request);
      return;
    }
    if (queries.texts.size() != 1)
      tree_fault(
          "several_queries",
          "there are " + std::to_string(queries.texts.size()) + ", and the model ranks items of its catalog",
          queries.name, "one: a user's id");
    asked_.candidates = documents.name;
    asked_.request =
        RankRequest{.user = queries.texts.front(), .candidates = documents.texts, .budget_us = budget_us_};
  }

  // ---- query, items, labels ----

  struct Part {
    std::string text;
    std::vector<Token> tokens;
    bool is_text = false;
    std::string where;
  };

  static std::vector<Token> token_list(const JsonTree& value, const std::string& where) {
    std::vector<Token> tokens;
    for (const JsonTree& one : value)
      tokens.push_back(static_cast<Token>(
          tree_number(one, where + "[" + std::to_string(tokens.size()) + "]", 0, INT32_MAX)));
    return tokens;
  }

  static Part part_of(const JsonTree& value, const std::string& where) {
    if (value.is_string()) return {tree_text(value, where), {}, true, where};
    if (!value.is_array()) tree_type_fault(value, where, "a text, or a list of token ids");
    return {"", token_list(value, where), false, where};
  }

  void take_member(const std::string& name, const JsonTree& value) {
    if (name == "query")
      query_ = part_of(value, name);
    else if (name == "items" && value.is_string())
      items_ = {part_of(value, name)};
    else if (name == "items")
      take_items(value);
    else if (name == "label_token_ids")
      take_labels(value);
    else if (name == "apply_softmax")
      softmax_ = tree_flag(value, name);
    else if (name == "item_first")
      item_first_ = tree_flag(value, name);
    else if (name == "add_special_tokens" && asked_.form == ScoreForm::generative)
      special_ = tree_flag(value, name);
    else if (!take_common(name, value))
      tree_fault("unknown_field", "there is no such field", name,
                 "query, items, label_token_ids, apply_softmax, item_first, model or budget_us");
  }

  void take_items(const JsonTree& value) {
    if (!value.is_array())
      tree_type_fault(value, "items", "a text, or a list of texts or of lists of token ids");
    if (value.size() > limits_.items_max)
      throw Refusal{RefusalKind::too_large, "too_many_items", "there are " + std::to_string(value.size()),
                    "items", "at most " + std::to_string(limits_.items_max) + " (router.score_items_max)"};
    for (const JsonTree& one : value)
      items_.push_back(part_of(one, "items[" + std::to_string(items_.size()) + "]"));
  }

  void take_labels(const JsonTree& value) {
    constexpr const char* expected = "a list of token ids, at least one";
    if (!value.is_array()) tree_type_fault(value, "label_token_ids", expected);
    if (value.empty()) tree_fault("wrong_type", "label_token_ids is empty", "label_token_ids", expected);
    if (value.size() > limits_.labels_max)
      throw Refusal{RefusalKind::too_large, "too_many_labels", "there are " + std::to_string(value.size()),
                    "label_token_ids",
                    "at most " + std::to_string(limits_.labels_max) + " (router.score_labels_max)"};
    labels_ = token_list(value, "label_token_ids");
  }

  void take_lists() {
    for (const auto& [name, value] : tree_.items())
      if (!value.is_null()) take_member(name, value);
    if (!query_)
      tree_fault("missing_field", "the body has no query", "query", "a text, or a list of token ids");
    if (labels_.empty())
      tree_fault("missing_field", "the body has no label_token_ids", "label_token_ids",
                 "a list of token ids, at least one");
    if (!softmax_)
      tree_fault("unsupported_value",
                 "apply_softmax is false, and probabilities over the whole vocabulary are not computed",
                 "apply_softmax", "true: over the labels");
    ScoreRequest request{.label_tokens = labels_, .apply_softmax = true, .budget_us = budget_us_};
    std::vector<std::vector<Token>> prompts;
    if (asked_.form == ScoreForm::lists)
      check_joined();
    else if (!items_.empty())
      read_query();
    for (const Part& item : items_) prompts.push_back(prompt_of(item));
    share(prompts, request);
    asked_.request = std::move(request);
  }

  void check_joined() const {
    const std::size_t most = joined_bytes_of_token * limits_.tokens_max;
    std::size_t bytes = 0;
    for (const Part& item : items_) {
      bytes += item.is_text ? query_->text.size() + item.text.size() : 0;
      if (bytes > most)
        throw Refusal{
            RefusalKind::too_large, "too_many_tokens",
            "the query's text with each item's has more than " + std::to_string(most) + " bytes in all",
            item.where,
            "at most " + std::to_string(joined_bytes_of_token) + " for each of " +
                std::to_string(limits_.tokens_max) + " tokens (" + limits_.tokens_setting + ")"};
    }
  }

  // The query is tokenized alone, so its tokens are the same before each item.
  void read_query() {
    if (!query_->is_text) return;
    add_special(query_->tokens);
    add_text(query_->text, query_->where, query_->tokens);
  }

  std::vector<Token> prompt_of(const Part& item) {
    if (query_->is_text != item.is_text && asked_.form == ScoreForm::lists)
      tree_fault("wrong_type",
                 "one of query and " + item.where + " is a text and the other a list of token ids",
                 item.where, "the same type as the query");
    std::vector<Token> prompt;
    const Part &first = item_first_ ? item : *query_, &second = item_first_ ? *query_ : item;
    if (item.is_text && asked_.form == ScoreForm::lists) {
      add_special(prompt);
      add_text(first.text + second.text, item.where, prompt);
    } else {
      add(first, prompt);
      add(second, prompt);
    }
    total_ += prompt.size();
    if (total_ > limits_.tokens_max)
      throw Refusal{RefusalKind::too_large, "too_many_tokens",
                    "query and items have more than " + std::to_string(limits_.tokens_max) + " tokens",
                    item.where,
                    "at most " + std::to_string(limits_.tokens_max) + " (" + limits_.tokens_setting + ")"};
    return prompt;
  }

  void add_special(std::vector<Token>& prompt) const {
    if (!model_.tokenizer || !special_) return;
    const auto before = model_.tokenizer->before();
    prompt.insert(prompt.end(), before.begin(), before.end());
  }

  void add(const Part& part, std::vector<Token>& prompt) const {
    if (!part.is_text || &part == &*query_)
      return void(prompt.insert(prompt.end(), part.tokens.begin(), part.tokens.end()));
    add_text(part.text, part.where, prompt);
  }

  void add_text(const std::string& text, const std::string& where, std::vector<Token>& prompt) const {
    add_text_tokens(model_, text, where, limits_.tokens_max, prompt);
  }

  // Moves the common beginning of all prompts into the query, whatever texts it came from. Each
  // prompt keeps at least one token of its own.
  static void share(const std::vector<std::vector<Token>>& prompts, ScoreRequest& request) {
    if (prompts.empty()) return;
    std::size_t same = prompts.front().size();
    for (const auto& prompt : prompts) {
      const auto ends = std::ranges::mismatch(prompts.front(), prompt);
      same = std::min<std::size_t>(same, static_cast<std::size_t>(ends.in1 - prompts.front().begin()));
      same = std::min(same, prompt.empty() ? 0 : prompt.size() - 1);
    }
    request.query.assign(prompts.front().begin(),
                         prompts.front().begin() + static_cast<std::ptrdiff_t>(same));
    for (const auto& prompt : prompts)
      request.items.push_back({{prompt.begin() + static_cast<std::ptrdiff_t>(same), prompt.end()}});
  }

  const ModelText& model_;
  const ScoreLimits& limits_;
  ForeignScore asked_;
  JsonTree tree_;
  std::optional<Part> query_;
  std::vector<Part> items_;
  std::vector<Token> labels_;
  bool softmax_ = false, item_first_ = false, special_ = true;
  std::int64_t budget_us_ = 0;
  std::size_t total_ = 0;  // in tokens
};

OrderedTree data_of(const std::vector<double>& scores) {
  OrderedTree data = OrderedTree::array();
  for (const double score : scores)
    data.push_back({{"index", data.size()}, {"object", "score"}, {"score", score}});
  return data;
}

OrderedTree usage_of(std::uint32_t tokens) {
  return {{"prompt_tokens", tokens}, {"total_tokens", tokens}, {"completion_tokens", 0}};
}

// Returns scores in the order of the documents; the reply has each item once.
std::vector<double> in_order(const RankRequest& asked, const RankReply& reply) {
  std::map<std::string_view, double> by_item;
  for (const RankedItem& item : reply.items) by_item.emplace(item.id, item.probability);
  std::vector<double> scores;
  for (const std::string& item : asked.candidates)
    scores.push_back(by_item.contains(item) ? by_item.at(item) : 0);
  return scores;
}

}  // namespace

// In our own form only member names are strings, so a quoted name found in the body is a member's.
ScoreForm score_form(std::string_view path, std::string_view body) {
  if (path == "/generative_scoring") return ScoreForm::generative;
  if (body.find("\"label_token_ids\"") != body.npos) return ScoreForm::lists;
  for (const auto& [first, second] : pair_names)
    for (const char* name : {first, second})
      if (name != std::string_view("items") && body.find("\"" + std::string(name) + "\"") != body.npos)
        return ScoreForm::pairs;
  return ScoreForm::ours;
}

std::variant<ForeignScore, Refusal> read_score(ScoreForm form, std::string_view body, const ModelText& model,
                                               const ScoreLimits& limits) {
  try {
    return ScoreReader(form, model, limits).take(body);
  } catch (const Refusal& refusal) {
    return refusal;
  }
}

std::string score_body(const ForeignScore& asked, const Message& reply, const std::string& model,
                       std::int64_t created_s) {
  std::vector<double> first;
  RequestId id = 0;
  std::uint32_t tokens = 0;
  OrderedTree rows = OrderedTree::array();
  if (const auto* scored = std::get_if<ScoreReply>(&reply)) {
    id = scored->id, tokens = scored->tokens_total;
    for (const ScoreRow& row : scored->items) {
      first.push_back(row.scores.front());
      if (asked.form == ScoreForm::lists) rows.push_back(row.scores);
    }
  } else if (const auto* ranked = std::get_if<RankReply>(&reply)) {
    id = ranked->id, tokens = ranked->tokens_total;
    first = in_order(std::get<RankRequest>(asked.request), *ranked);
  }
  OrderedTree body;
  if (asked.form == ScoreForm::lists) {
    body = {
        {"scores", std::move(rows)}, {"model", model}, {"usage", usage_of(tokens)}, {"object", "scoring"}};
  } else {
    const char* const kind = asked.form == ScoreForm::pairs ? "score-" : "generative-scoring-";
    body = {{"id", kind + std::to_string(id)},
            {"object", "list"},
            {"created", created_s},
            {"model", model},
            {"data", data_of(first)},
            {"usage", usage_of(tokens)}};
  }
  return body.dump(-1, ' ', false, OrderedTree::error_handler_t::replace);
}

}  // namespace troupe::server
