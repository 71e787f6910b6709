// Reads prompt.json, the prompt form of a model: the tokens that frame users and items, and where
// and how scores are read.
#include "deploy/node/prompt_file.h"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "runtime/config/whole_file.h"
#include "runtime/tokenizer/sentence_file.h"
#include "runtime/tokenizer/tokenizer_file.h"
#include "runtime/wire/json_bounds.h"

namespace troupe::deploy {

namespace {

using kernels::LoadError;
using nlohmann::json;

constexpr std::size_t file_bytes_max = 1 << 20;  // larger than any form that fits a model's positions
constexpr JsonBounds bounds{.values_max = 100'000, .depth_max = 4};

// Default of rankers with semantic-ID items.
constexpr const char* default_form = R"({
  "system": ["<bos>", "<sys_1>", "<sys_2>", "<sys_3>", "<sys_4>", "<sys_5>", "<sys_6>", "<sys_7>"],
  "user": ["<user>"], "instruction": ["<instr_1>", "<instr_2>", "<instr_3>"], "discriminant": ["<disc>"]})";

// Default of generators of semantic-ID items, with the longest histories that such models are
// trained on.
constexpr const char* generator_form =
    R"({"system": ["<bos>"], "user": [], "instruction": [], "events_max": 20})";

// True if the vocabulary has semantic IDs and no name of a ranker's form.
bool names_a_generator(const kernels::Vocabulary& vocabulary) {
  return vocabulary.find("<bos>") && vocabulary.find("<a_0>") && !vocabulary.find("<disc>");
}

json parse_json(const std::string& text, const std::string& where) {
  if (const std::string excess = exceeded_bound(text, bounds); !excess.empty())
    throw LoadError(where + ": has " + excess + "; expected the lists of a prompt form");
  json form = json::parse(text, nullptr, false);
  if (!form.is_object())
    throw LoadError(where + ": is not a JSON object; expected the lists of a prompt form");
  return form;
}

json read_json(const std::filesystem::path& file) {
  std::string text;
  try {
    text = read_whole_file(file.string(), file_bytes_max, "a prompt file");
  } catch (const FileError& error) {
    throw LoadError(error.what());
  }
  return parse_json(text, file.string());
}

// Maps texts and names to tokens.
struct FormText {
  const kernels::Vocabulary& vocabulary;
  const Tokenizer* tokenizer = nullptr;  // null: the model has none
};

Token token_at(const json& entry, const char* key, const std::string& where,
               const kernels::PlanLimits& limits, const FormText& text) {
  std::optional<Token> token;
  if (entry.is_string()) token = text.vocabulary.find(entry.get<std::string>());
  if (entry.is_string() && !token && text.tokenizer) token = text.tokenizer->find(entry.get<std::string>());
  if (entry.is_number_integer() && entry.get<std::int64_t>() >= 0 &&
      entry.get<std::int64_t>() < limits.vocabulary)
    token = entry.get<Token>();
  if (!token)
    throw LoadError(where + ": " + key + " has " + entry.dump().substr(0, 60) +
                    ", which the model does not; " + "expected tokens of vocab.json or ids below " +
                    std::to_string(limits.vocabulary) +
                    ", in a file prompt.json in the model directory or the file of --prompt (model.prompt)");
  return *token;
}

const json& list_at(const json& form, const char* key, const std::string& where) {
  const auto list = form.find(key);
  if (list == form.end() || !list->is_array())
    throw LoadError(where + ": " + key + " is missing or not a list; expected token names or ids");
  return *list;
}

// Appends a token, or all tokens of {"text": …}.
void add_tokens(const json& entry, const char* key, const std::string& where,
                const kernels::PlanLimits& limits, const FormText& text, std::vector<Token>& out) {
  if (!entry.is_object()) return out.push_back(token_at(entry, key, where, limits, text));
  const json written = entry.value("text", json());
  if (entry.size() != 1 || !written.is_string() || !text.tokenizer)
    throw LoadError(where + ": " + key + " has " + entry.dump().substr(0, 60) +
                    "; expected a token, or {\"text\": …} of a model with a tokenizer");
  const auto most = static_cast<std::size_t>(limits.positions_max);
  if (text.tokenizer->encode(written.get_ref<const std::string&>(), most, out) != Tokenizer::Fault::none)
    throw LoadError(where + ": " + key + " has a text of too many tokens; expected at most " +
                    std::to_string(most));
}

std::vector<Token> entry_tokens(const json& entries, const char* key, const std::string& where,
                                const kernels::PlanLimits& limits, const FormText& text) {
  std::vector<Token> tokens;
  for (const json& entry : entries) add_tokens(entry, key, where, limits, text, tokens);
  return tokens;
}

std::vector<Token> token_list(const json& form, const char* key, const std::string& where,
                              const kernels::PlanLimits& limits, const FormText& text) {
  return entry_tokens(list_at(form, key, where), key, where, limits, text);
}

// Returns one token: a word, an id, or {"text": …} of exactly one token.
Token one_token(const json& form, const char* key, const std::string& where,
                const kernels::PlanLimits& limits, const FormText& text) {
  const json entry = form.value(key, json());
  std::vector<Token> tokens;
  add_tokens(entry, key, where, limits, text, tokens);
  if (tokens.size() == 1) return tokens.front();
  throw LoadError(where + ": " + key + " has " + entry.dump().substr(0, 60) + ", a text of " +
                  std::to_string(tokens.size()) + " tokens; expected a text of exactly one token");
}

struct AroundWords {
  json before = json::array(), behind = json::array();
};

// Returns the entries before and after "{words}", which must occur once.
AroundWords around_words(const json& form, const char* key, const std::string& where) {
  AroundWords around;
  std::size_t words = 0;
  for (const json& entry : list_at(form, key, where)) {
    if (entry == "{words}")
      ++words;
    else
      (words == 0 ? around.before : around.behind).push_back(entry);
  }
  if (words != 1)
    throw LoadError(where + ": " + key + " has " + std::to_string(words) +
                    " times \"{words}\"; expected it exactly once");
  return around;
}

// Returns the text of {"text": …}; null for any other entry.
std::string* entry_text(json& entry) {
  const auto text = entry.is_object() ? entry.find("text") : entry.end();
  return entry.is_object() && text != entry.end() && text->is_string() ? text->get_ptr<std::string*>()
                                                                       : nullptr;
}

bool ends_with_blank(json& entries) {
  const std::string* text = entries.empty() ? nullptr : entry_text(entries.back());
  return text && text->ends_with(' ');
}

// Takes the blank from the end of entries that end with one. Nothing is left of a text of one blank.
void drop_blank(json& entries) {
  std::string& text = *entry_text(entries.back());
  text.pop_back();
  if (text.empty()) entries.erase(entries.size() - 1);
}

// Returns the texts of the entries as one; "" unless all are texts that a query's tokens may join: control
// tokens in them would become text.
std::string joined_text(json& entries, const FormText& text) {
  std::string joined;
  for (json& entry : entries) {
    const std::string* part = entry_text(entry);
    if (!part) return "";
    joined += *part;
  }
  std::vector<Token> form, words;
  constexpr std::size_t most = 1 << 20;
  if (!text.tokenizer ||
      text.tokenizer->encode(joined, most, form, ControlTokens::as_tokens) != Tokenizer::Fault::none ||
      text.tokenizer->encode(joined, most, words, ControlTokens::as_text) != Tokenizer::Fault::none)
    return "";
  return form == words ? joined : "";
}

void check_keys(const json& form, const std::set<std::string>& known, const std::string& where,
                const std::string& expected) {
  for (const auto& [key, value] : form.items())
    if (!known.contains(key)) throw LoadError(where + ": unknown key " + key + "; expected " + expected);
}

std::uint32_t events_max_of(const json& form, const char* key, const std::string& where) {
  const auto at = form.find(key);
  if (at == form.end()) return 0;
  if (!at->is_number_integer() || at->get<std::int64_t>() < 1 || at->get<std::int64_t>() > UINT32_MAX)
    throw LoadError(where + ": " + key + " is " + at->dump().substr(0, 60) +
                    "; expected the number of newest history events to read, at least 1");
  return at->get<std::uint32_t>();
}

std::vector<Arrangement> arrangement_list(const json& form, const char* key, const std::string& where,
                                          std::span<const Arrangement> known) {
  const auto fail = [&](const std::string& what) {
    throw LoadError(where + ": " + key + " " + what + "; expected one or more of " + words_of(known));
  };
  const auto list = form.find(key);
  if (list == form.end()) return {};
  if (!list->is_array() || list->empty()) fail("is " + list->dump().substr(0, 60));
  std::vector<Arrangement> arrangements;
  for (const json& entry : *list) {
    Arrangement read = Arrangement::unnamed;
    if (!entry.is_string() || entry == "" || read_word(entry.get_ref<const std::string&>(), read) ||
        std::ranges::find(known, read) == known.end())
      fail("has " + entry.dump().substr(0, 60));
    if (std::ranges::find(arrangements, read) != arrangements.end()) fail("has " + entry.dump() + " twice");
    arrangements.push_back(read);
  }
  return arrangements;
}

// Reads the arrangements of a ranker. A model declares what it was trained for; one that declares
// nothing gets the plain computation, the same whatever the order of candidates if each is scored
// behind its own tokens.
void read_arrangements(const json& form, const std::string& where, PromptForm& prompt) {
  constexpr Arrangement behind_each[] = {Arrangement::candidates_apart, Arrangement::causal,
                                         Arrangement::user_first, Arrangement::item_first};
  constexpr Arrangement at_discriminant[] = {Arrangement::causal, Arrangement::user_first,
                                             Arrangement::item_first, Arrangement::candidates_apart};
  const std::span<const Arrangement> known =
      prompt.scores_each() ? std::span<const Arrangement>(behind_each) : at_discriminant;
  prompt.arrangements = arrangement_list(form, "arrangements", where, known);
  if (prompt.arrangements.empty()) prompt.arrangements = {known.front()};
  prompt.interchangeable = arrangement_list(form, "interchangeable", where, prompt.arrangements);
  if (!prompt.interchangeable.empty() && prompt.interchangeable.front() != prompt.arrangements.front())
    throw LoadError(
        where + ": interchangeable begins with \"" + std::string(word_of(prompt.interchangeable.front())) +
        "\"; expected the first of arrangements, \"" + std::string(word_of(prompt.arrangements.front())) +
        "\", which serves requests that name none");
}

// Form of rankers that score each candidate after its own tokens.
PromptForm scoring_form(const json& form, const std::string& where, const kernels::PlanLimits& limits,
                        const FormText& text) {
  check_keys(form,
             {"instruction", "history_item", "candidate", "read_at", "yes", "no", "max_history", "order",
              "score", "max_words", "arrangements", "interchangeable", "pooling"},
             where,
             "instruction, history_item, candidate, read_at, yes, no, max_history, arrangements, "
             "interchangeable, pooling");
  PromptForm prompt;
  prompt.system = token_list(form, "instruction", where, limits, text);
  AroundWords event = around_words(form, "history_item", where);
  AroundWords item = around_words(form, "candidate", where);
  const auto one = [&](const char* key) { return one_token(form, key, where, limits, text); };
  if (!event.behind.empty())
    throw LoadError(where + ": history_item has tokens after \"{words}\"; expected none");
  if (ends_with_blank(event.before) && ends_with_blank(item.before)) {
    drop_blank(event.before), drop_blank(item.before);
    prompt.words_lead = " ";
  }
  prompt.event = entry_tokens(event.before, "history_item", where, limits, text);
  prompt.item = entry_tokens(item.before, "candidate", where, limits, text);
  prompt.item_text = joined_text(item.before, text);
  prompt.score = entry_tokens(item.behind, "candidate", where, limits, text);
  if (prompt.score.empty() || prompt.score.back() != one("read_at"))
    throw LoadError(
        where +
        ": candidate does not end with read_at; expected read_at as its last token, where the score is read");
  prompt.yes = one("yes");
  prompt.no = one("no");
  prompt.events_max = events_max_of(form, "max_history", where);
  prompt.blocks_see_system = true;
  read_arrangements(form, where, prompt);
  return prompt;
}

Normalised normalised_of(const json& form, const std::string& where) {
  const auto at = form.find("normalised");
  if (at == form.end()) return Normalised::vocabulary;
  Normalised read = Normalised::by_model;
  if (!at->is_string() || read_word(at->get_ref<const std::string&>(), read) || read == Normalised::by_model)
    throw LoadError(where + ": normalised is " + at->dump().substr(0, 60) +
                    "; expected \"vocabulary\" or \"allowed\", the tokens over which probabilities of a "
                    "search are normalised");
  return read;
}

PromptForm usual_form(const json& form, const std::string& where, const kernels::PlanLimits& limits,
                      const FormText& text) {
  const bool ranks = form.contains("discriminant");
  if (ranks)
    check_keys(form,
               {"system", "user", "instruction", "discriminant", "events_max", "arrangements",
                "interchangeable", "pooling"},
               where,
               "system, user, instruction, discriminant, events_max, arrangements, interchangeable, pooling");
  else
    check_keys(form, {"system", "user", "instruction", "events_max", "normalised", "pooling"}, where,
               "system, user, instruction, events_max, normalised, pooling; with discriminant, the form is a "
               "ranker's");
  PromptForm prompt;
  prompt.system = token_list(form, "system", where, limits, text);
  prompt.user = token_list(form, "user", where, limits, text);
  prompt.instruction = token_list(form, "instruction", where, limits, text);
  if (ranks) prompt.discriminant = token_list(form, "discriminant", where, limits, text);
  if (ranks && (prompt.system.empty() || prompt.user.empty() || prompt.discriminant.empty()))
    throw LoadError(where + ": system, user or discriminant is empty; expected at least one token each");
  prompt.events_max = events_max_of(form, "events_max", where);
  if (ranks)
    read_arrangements(form, where, prompt);
  else
    prompt.normalised = normalised_of(form, where);
  return prompt;
}

// Says where an embedding is read: at a text's last token, in all models that are served.
void check_pooling(const json& form, const std::string& where) {
  const auto pooling = form.find("pooling");
  if (pooling != form.end() && *pooling != "last")
    throw LoadError(where + ": pooling is " + pooling->dump().substr(0, 60) +
                    "; expected \"last\": an embedding is the final hidden state of a text's last token");
}

PromptForm parsed_form(const json& form, const std::string& where, const kernels::PlanLimits& limits,
                       const FormText& text) {
  PromptForm prompt = form.contains("candidate") ? scoring_form(form, where, limits, text)
                                                 : usual_form(form, where, limits, text);
  check_pooling(form, where);
  if (prompt.system.empty())
    throw LoadError(where + (prompt.scores_each() ? ": instruction" : ": system") +
                    " is empty; expected at least one token, because a user may have no history");
  const std::size_t tokens =
      prompt.system.size() + prompt.user.size() + prompt.instruction.size() + prompt.discriminant.size();
  if (tokens >= static_cast<std::size_t>(limits.positions_max))
    throw LoadError(where + ": the form has " + std::to_string(tokens) +
                    " tokens; expected fewer, so that items fit within the model's " +
                    std::to_string(limits.positions_max) + " positions");
  prompt.positions_max = static_cast<std::uint32_t>(limits.positions_max);
  prompt.vocabulary = static_cast<std::uint32_t>(limits.vocabulary);
  prompt.state = limits.state;
  return prompt;
}

}  // namespace

PromptForm read_prompt_form(const std::filesystem::path& model_directory,
                            const std::optional<std::filesystem::path>& file,
                            const kernels::PlanLimits& limits, const kernels::Vocabulary& vocabulary,
                            const Tokenizer* tokenizer) {
  if (limits.features > 0)
    throw LoadError(
        model_directory.string() +
        ": requests of such a model are not served yet, because no prompt gives its tokens their " +
        std::to_string(limits.features) +
        " features; expected a model family with its own plan (`troupe logits --request` accepts any model)");
  const std::filesystem::path own = model_directory / "prompt.json";
  const bool from_file = file || std::filesystem::exists(own);
  const std::string where = from_file ? (file ? *file : own).string()
                                      : (model_directory / "prompt.json").string() +
                                            " is not there, and the default prompt form does not fit";
  const json form = from_file ? read_json(file ? *file : own)
                              : json::parse(names_a_generator(vocabulary) ? generator_form : default_form);
  return parsed_form(form, where, limits, {vocabulary, tokenizer});
}

PromptForm parse_prompt_form(const std::string& text, const std::string& where,
                             const kernels::PlanLimits& limits) {
  const kernels::Vocabulary no_names;
  return parsed_form(parse_json(text, where), where, limits, {no_names, nullptr});
}

PromptForm read_prompt_form(const std::filesystem::path& model_directory,
                            const std::optional<std::filesystem::path>& file, const ModelFacts& facts,
                            const kernels::Vocabulary& vocabulary, const Tokenizer* tokenizer) {
  if (!facts.items_are_tokens())
    return read_prompt_form(model_directory, file, facts.limits, vocabulary, tokenizer);
  if (file)
    throw LoadError(
        file->string() +
        ": is a prompt form; expected none (model.prompt), because this model's tokens are items");
  PromptForm form;
  form.positions_max = static_cast<std::uint32_t>(facts.limits.positions_max);
  form.vocabulary = static_cast<std::uint32_t>(facts.limits.vocabulary);
  form.state = facts.limits.state;
  form.arrangements = {facts.arrangement};
  form.token_features = facts.limits.features;
  form.towers = facts.towers;
  form.scenarios = facts.scenarios;
  form.tasks = facts.tasks;
  form.next_items = facts.next_items;
  form.temperature = facts.temperature;
  form.searches_items = facts.next_items && facts.limits.item_searches;
  form.whole_history = facts.whole_history;
  return form;
}

ControlTokens controls_in_texts(const ModelSettings& settings) {
  return settings.control_tokens ? ControlTokens::as_tokens : ControlTokens::as_text;
}

std::unique_ptr<const Tokenizer> read_tokenizer_if_any(const std::filesystem::path& model_directory,
                                                       const kernels::PlanLimits& limits) {
  const std::filesystem::path json_file = model_directory / "tokenizer.json",
                              pieces = model_directory / "tokenizer.model";
  const bool has_json = std::filesystem::exists(json_file), has_pieces = std::filesystem::exists(pieces);
  if (!has_json && !has_pieces) return nullptr;
  try {
    const bool of_pieces = has_pieces && (!has_json || describes_sentence_pieces(json_file.string()));
    const std::filesystem::path& file = of_pieces ? pieces : json_file;
    auto tokenizer = std::make_unique<const Tokenizer>(of_pieces ? read_sentence_tokenizer(file.string())
                                                                 : read_tokenizer(file.string()));
    if (tokenizer->end() > limits.vocabulary)
      throw LoadError(file.string() + ": has token " + std::to_string(tokenizer->end() - 1) +
                      "; expected ids below " + std::to_string(limits.vocabulary) +
                      ", which are the model's");
    return tokenizer;
  } catch (const TokenizerError& error) {
    throw LoadError(error.what());
  }
}

kernels::Vocabulary read_vocabulary_if_any(const std::filesystem::path& model_directory,
                                           const kernels::PlanLimits& limits) {
  if (!std::filesystem::exists(model_directory / "vocab.json")) return {};
  return kernels::read_vocabulary(model_directory, static_cast<std::uint32_t>(limits.vocabulary));
}

}  // namespace troupe::deploy
