// Translates between OpenAI's completions API and this server's completion requests. Members that
// would change the answer but have no effect here are refused.
#include "server/http/completions.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "server/formats/json_tree.h"
#include "server/formats/quoted.h"

namespace troupe::server {
namespace {

using Value = nlohmann::json;
using OrderedValue = nlohmann::ordered_json;

constexpr std::uint32_t usual_tokens = 16;  // OpenAI's default

// OpenAI members that have no effect here, with their accepted default values; null is always
// accepted.
struct Inert {
  std::string_view name;
  std::vector<Value> defaults;
};
const std::vector<Inert>& inert_members() {
  static const std::vector<Inert> members{
      {"best_of", {1}},
      {"echo", {false}},
      {"frequency_penalty", {0}},
      {"logit_bias", {}},
      {"presence_penalty", {0}},
      {"stop", {""}},
      {"stream", {false}},
      {"stream_options", {}},
      {"suffix", {""}},
      {"temperature", {0, 1}},
      {"top_p", {1}},
  };
  return members;
}
const Inert* find_inert(std::string_view name) {
  const auto at = std::ranges::find(inert_members(), name, &Inert::name);
  return at == inert_members().end() ? nullptr : &*at;
}

[[noreturn]] void unsupported(const Inert& member) {
  std::string expected;
  for (const Value& value : member.defaults) expected += value.dump() + ", ";
  throw Refusal{RefusalKind::malformed, "unsupported_value",
                std::string(member.name) + " has a value that is not supported", std::string(member.name),
                expected + "null, or none"};
}

// Splits a text into words: separated by blanks, or, for words in angle brackets, by nothing.
class Words {
 public:
  Words(const kernels::Vocabulary& vocabulary, std::string_view text)
      : vocabulary_(vocabulary), left_(text) {}

  // Returns the next token, or nullopt at the end. Throws Refusal.
  std::optional<Token> next() {
    left_.remove_prefix(std::min(left_.find_first_not_of(blanks), left_.size()));
    if (left_.empty()) return std::nullopt;
    std::string_view word = left_.substr(0, left_.find_first_of(blanks));
    if (word.front() == '<') word = word.substr(0, std::min(word.find('>'), word.size() - 1) + 1);
    left_.remove_prefix(word.size());
    if (const std::optional<Token> token = vocabulary_.find(word)) return token;
    throw Refusal{RefusalKind::unprocessable, "unknown_word",
                  in_quotes(word) + " is not in the model's vocabulary", "prompt",
                  "words of vocab.json with blanks between them, or a list of token ids"};
  }

 private:
  static constexpr std::string_view blanks = " \t\r\n";
  const kernels::Vocabulary& vocabulary_;
  std::string_view left_;
};

// Receives the JSON parser's events. A member that the message lacks is refused where it begins.
class Reader {
 public:
  Reader(const ModelText& text, std::uint32_t tokens_max) : text_(text), tokens_max_(tokens_max) {}

  CompleteRequest request{.max_tokens = usual_tokens};

  bool null() { return take(nullptr); }
  bool boolean(bool value) { return take(value); }
  bool number_integer(std::int64_t value) { return take(value); }
  bool number_unsigned(std::uint64_t value) { return take(value); }
  bool number_float(double value, const std::string&) { return take(value); }
  bool string(std::string& value) { return take(std::move(value)); }
  bool binary(Value::binary_t&) { return false; }
  bool start_object(std::size_t) {
    if (begun_) refuse_nested(Value::object(), "another value");
    return begun_ = true;
  }
  bool end_object() { return true; }
  bool start_array(std::size_t);
  bool end_array() {
    --lists_;
    return true;
  }
  bool key(std::string& name);
  bool parse_error(std::size_t byte, const std::string&, const nlohmann::detail::exception&) {
    throw Refusal{RefusalKind::malformed, "malformed_json", "the body is not valid JSON",
                  "byte " + std::to_string(byte), "a JSON object"};
  }

  void finish() const {
    if (!given_.contains("prompt"))
      throw Refusal{RefusalKind::malformed, "missing_field", "the body has no prompt", "prompt",
                    "a list of token ids, or words of the model's vocabulary"};
  }

 private:
  struct Member {
    std::string_view name;
    void (Reader::*take)(const Value&);
  };
  static const std::vector<Member>& members();

  bool take(const Value& value);
  [[noreturn]] void refuse_nested(const Value& value, const std::string& expected) const;
  void take_element(const Value& value);
  void begin_prompt();
  void add_token(Token token);
  void add_text(const std::string& text);
  template <class Number>
  Number number(const Value& value) const;

  void model(const Value& value) {
    if (!value.is_string()) tree_type_fault(value, key_, "a string");
    request.model = value.get<std::string>();
  }
  void prompt(const Value& value) {
    if (!value.is_string()) tree_type_fault(value, key_, "a list of token ids, or a string");
    add_text(value.get_ref<const std::string&>());
  }
  void max_tokens(const Value& value) { request.max_tokens = number<std::uint32_t>(value); }
  void n(const Value& value) { request.n = number<std::uint32_t>(value); }
  void beam_width(const Value& value) { request.beam_width = number<std::uint32_t>(value); }
  void budget_us(const Value& value) { request.budget_us = number<std::int64_t>(value); }
  void items(const Value& value) {
    if (!value.is_boolean()) tree_type_fault(value, key_, "true or false");
    request.items = value.get<bool>();
  }
  void logprobs(const Value& value) {
    if (number<std::uint32_t>(value) > 1)
      throw Refusal{RefusalKind::malformed, "unsupported_value",
                    "logprobs is " + value.dump() + ": only the chosen tokens have log-probabilities",
                    "logprobs", "0, 1, null, or none"};
    request.logprobs = true;
  }
  void ignored(const Value&) {}  // ignored: the same request always has the same answer

  const ModelText& text_;
  const std::uint32_t tokens_max_;
  bool begun_ = false;
  std::string key_;              // current member
  std::set<std::string> given_;  // members seen so far
  std::uint32_t lists_ = 0;      // open lists
  std::uint32_t prompts_ = 0;    // prompts in a list
  std::size_t elements_ = 0;     // elements in the prompt's lists
};

const std::vector<Reader::Member>& Reader::members() {
  static const std::vector<Member> known{
      {"model", &Reader::model},  {"prompt", &Reader::prompt},         {"max_tokens", &Reader::max_tokens},
      {"n", &Reader::n},          {"beam_width", &Reader::beam_width}, {"logprobs", &Reader::logprobs},
      {"items", &Reader::items},  {"budget_us", &Reader::budget_us},   {"seed", &Reader::ignored},
      {"user", &Reader::ignored},
  };
  return known;
}

bool Reader::key(std::string& name) {
  const bool known = find_inert(name) || std::ranges::find(members(), name, &Member::name) != members().end();
  if (!known) {
    std::string names;
    for (const Member& member : members())
      names += (names.empty() ? "one of " : ", ") + std::string(member.name);
    throw Refusal{RefusalKind::malformed, "unknown_field", "there is no such field",
                  name.empty() ? "\"\"" : name.substr(0, quoted_bytes_max), names};
  }
  if (!given_.insert(name).second)
    throw Refusal{RefusalKind::malformed, "malformed_json", "a key is given twice", name, "each key once"};
  key_ = name;
  return true;
}

bool Reader::take(const Value& value) {
  if (!begun_) tree_type_fault(value, "body", "an object");
  if (lists_ > 0) return take_element(value), true;
  if (const Inert* inert = find_inert(key_)) {
    if (!value.is_null() && std::ranges::find(inert->defaults, value) == inert->defaults.end())
      unsupported(*inert);
    return true;
  }
  if (value.is_null() && key_ != "prompt") return true;
  const auto member = std::ranges::find(members(), key_, &Member::name);
  (this->*member->take)(value);
  return true;
}

void Reader::refuse_nested(const Value& value, const std::string& expected) const {
  if (const Inert* inert = find_inert(key_)) unsupported(*inert);
  tree_type_fault(value, key_, expected);
}

bool Reader::start_array(std::size_t) {
  if (!begun_) tree_type_fault(Value::array(), "body", "an object");
  if (key_ != "prompt") refuse_nested(Value::array(), "another value");
  if (lists_ == 1) begin_prompt();
  if (lists_ > 1 || (lists_ == 1 && !request.prompt.empty()))
    tree_fault("wrong_type", key_ + " has lists where tokens are expected", key_,
               "a list of token ids, or of one such list");
  ++lists_;
  return true;
}

void Reader::begin_prompt() {
  if (++prompts_ > 1)
    throw Refusal{RefusalKind::malformed, "several_prompts", "there are several prompts", "prompt",
                  "one: a list of token ids, or a string of words with blanks between them"};
}

void Reader::take_element(const Value& value) {
  const std::string where = "prompt[" + std::to_string(elements_++) + "]";
  const bool in_list_of_prompts = lists_ == 1 && prompts_ > 0;
  if (value.is_string() && lists_ == 1 && (request.prompt.empty() || prompts_ > 0)) {
    begin_prompt();
    return add_text(value.get_ref<const std::string&>());
  }
  const bool fits = value.is_number_integer() && value >= 0 && value <= std::numeric_limits<Token>::max();
  if (!fits || in_list_of_prompts) tree_type_fault(value, where, "a token id, like the other elements");
  add_token(value.get<Token>());
}

void Reader::add_token(Token token) {
  if (request.prompt.size() >= tokens_max_) {
    const std::string most = std::to_string(tokens_max_);
    throw Refusal{RefusalKind::too_large, "too_many_tokens", "the prompt has more than " + most + " tokens",
                  "prompt", "at most " + most + " (the model's positions)"};
  }
  request.prompt.push_back(token);
}

void Reader::add_text(const std::string& text) {
  if (text_.tokenizer) return add_text_tokens(text_, text, "prompt", tokens_max_, request.prompt);
  if (!text_.has_words())
    throw Refusal{RefusalKind::unprocessable, "no_words",
                  "the model has no tokenizer.json, and no vocab.json with words", "prompt",
                  "a list of token ids"};
  Words words(*text_.words, text);
  while (const std::optional<Token> token = words.next()) add_token(*token);
}

template <class Number>
Number Reader::number(const Value& value) const {
  const bool fits = value.is_number_unsigned() && std::in_range<Number>(value.get<std::uint64_t>());
  if (!fits)
    tree_type_fault(value, key_,
                    "a whole number from 0 to " + std::to_string(std::numeric_limits<Number>::max()));
  return value.get<Number>();
}

// ---- response ----

struct Text {
  std::string text;
  std::vector<std::string> words;
  std::vector<std::size_t> offsets;  // byte offset of each word
};
Text text_of(const std::vector<Token>& tokens, const ModelText& text) {
  Text made;
  for (const Token token : tokens) {
    made.words.push_back(text_of_token(text, token));
    if (!text.tokenizer && !made.text.empty()) made.text += ' ';
    made.offsets.push_back(made.text.size());
    made.text += made.words.back();
  }
  return made;
}

OrderedValue logprobs_of(const Beam& beam, const Text& text) {
  return {{"tokens", text.words},
          {"token_logprobs", beam.by_token},
          {"top_logprobs", nullptr},
          {"text_offset", text.offsets}};
}

OrderedValue choice_of(const Beam& beam, std::size_t index, bool logprobs, bool items,
                       const ModelText& model) {
  const Text text = text_of(beam.path, model);
  return {{"index", index},
          {"text", text.text},
          {"logprobs", logprobs ? logprobs_of(beam, text) : OrderedValue(nullptr)},
          {"finish_reason", items ? "stop" : "length"},
          {"tokens", beam.path},
          {"log_probability", beam.log_probability}};
}

}  // namespace

std::variant<CompleteRequest, Refusal> read_completion(std::string_view body, const ModelText& text,
                                                       std::uint32_t prompt_tokens_max) {
  try {
    // The library treats a NUL as the end of the text and would ignore what follows.
    if (const auto nul = body.find('\0'); nul != body.npos)
      throw Refusal{RefusalKind::malformed, "malformed_json", "the body has a NUL byte",
                    "byte " + std::to_string(nul + 1), "a JSON object"};
    Reader reader(text, prompt_tokens_max);
    Value::sax_parse(body.begin(), body.end(), &reader);
    reader.finish();
    return std::move(reader.request);
  } catch (const Refusal& refusal) {
    return refusal;
  }
}

std::string completion_body(const CompleteReply& reply, const ModelText& text, std::int64_t created_s) {
  OrderedValue choices = OrderedValue::array();
  std::size_t generated = 0;
  for (const Beam& beam : reply.completions) {
    choices.push_back(choice_of(beam, choices.size(), reply.logprobs, reply.items, text));
    generated += beam.path.size();
  }
  const OrderedValue body{{"id", "cmpl-" + std::to_string(reply.id)},
                          {"object", "text_completion"},
                          {"created", created_s},
                          {"model", reply.model_version},
                          {"choices", std::move(choices)},
                          {"usage",
                           {{"prompt_tokens", reply.tokens_total},
                            {"completion_tokens", generated},
                            {"total_tokens", reply.tokens_total + generated}}}};
  return body.dump(-1, ' ', false, OrderedValue::error_handler_t::replace);
}

}  // namespace troupe::server
