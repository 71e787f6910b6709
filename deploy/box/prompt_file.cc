#include "deploy/box/prompt_file.h"

#include <nlohmann/json.hpp>
#include <set>

#include "runtime/settings/whole_file.h"
#include "runtime/wire/json_bounds.h"

namespace troupe::deploy {

namespace {

using kernels::LoadError;
using nlohmann::json;

constexpr std::size_t file_bytes_max = 1 << 20;  // of more tokens than any model has positions
constexpr JsonBounds bounds{.values_max = 100'000, .depth_max = 4};

// What rankers with semantic-ID items use unless they bring a prompt.json.
constexpr const char* default_form = R"({
  "system": ["<bos>", "<sys_1>", "<sys_2>", "<sys_3>", "<sys_4>", "<sys_5>", "<sys_6>", "<sys_7>"],
  "user": ["<user>"], "instruction": ["<instr_1>", "<instr_2>", "<instr_3>"], "discriminant": ["<disc>"]})";

// What generators of semantic-ID items use, and the longest histories that such models are trained on.
constexpr const char* generator_form =
    R"({"system": ["<bos>"], "user": [], "instruction": [], "events_max": 20})";

// Of a vocabulary that has semantic IDs and no name of a ranker's form.
bool names_a_generator(const kernels::Vocabulary& vocabulary) {
  return vocabulary.find("<bos>") && vocabulary.find("<a_0>") && !vocabulary.find("<disc>");
}

json read_json(const std::filesystem::path& file) {
  std::string text;
  try {
    text = read_whole_file(file.string(), file_bytes_max, "a prompt file");
  } catch (const FileError& error) {
    throw LoadError(error.what());
  }
  if (const std::string excess = find_excess(text, bounds); !excess.empty())
    throw LoadError(file.string() + ": has " + excess + "; expected the lists of a prompt form");
  json form = json::parse(text, nullptr, false);
  if (!form.is_object())
    throw LoadError(file.string() + ": is no JSON object; expected the lists of a prompt form");
  return form;
}

std::vector<Token> token_list(const json& form, const char* key, const std::string& where,
                              const kernels::PlanLimits& limits, const kernels::Vocabulary& vocabulary) {
  const auto list = form.find(key);
  if (list == form.end() || !list->is_array())
    throw LoadError(where + ": " + key + " is missing or no list; expected token names or ids");
  std::vector<Token> tokens;
  for (const json& entry : *list) {
    std::optional<Token> token;
    if (entry.is_string()) token = vocabulary.find(entry.get<std::string>());
    if (entry.is_number_integer() && entry.get<std::int64_t>() >= 0 &&
        entry.get<std::int64_t>() < limits.vocabulary)
      token = entry.get<Token>();
    if (!token)
      throw LoadError(where + ": " + key + " has " + entry.dump().substr(0, 60) +
                      ", which the model does not; " + "expected tokens of vocab.json or ids below " +
                      std::to_string(limits.vocabulary) +
                      ", in a file prompt.json beside the model or named by --prompt (model.prompt)");
    tokens.push_back(*token);
  }
  return tokens;
}

std::uint32_t events_max_of(const json& form, const std::string& where) {
  const auto at = form.find("events_max");
  if (at == form.end()) return 0;
  if (!at->is_number_integer() || at->get<std::int64_t>() < 1 || at->get<std::int64_t>() > UINT32_MAX)
    throw LoadError(where + ": events_max is " + at->dump().substr(0, 60) +
                    "; expected how many events of a history are read, the newest: at least 1");
  return at->get<std::uint32_t>();
}

}  // namespace

router::PromptForm read_prompt_form(const std::filesystem::path& model_directory,
                                    const std::optional<std::filesystem::path>& file,
                                    const kernels::PlanLimits& limits,
                                    const kernels::Vocabulary& vocabulary) {
  const std::filesystem::path own = model_directory / "prompt.json";
  const bool from_file = file || std::filesystem::exists(own);
  const std::string where = from_file ? (file ? *file : own).string()
                                      : (model_directory / "prompt.json").string() +
                                            " is not there, and the default prompt form does not fit";
  const json form = from_file ? read_json(file ? *file : own)
                              : json::parse(names_a_generator(vocabulary) ? generator_form : default_form);
  const std::set<std::string> known{"system", "user", "instruction", "discriminant", "events_max"};
  for (const auto& [key, value] : form.items())
    if (!known.contains(key))
      throw LoadError(where + ": unknown key " + key + "; expected system, user, instruction, discriminant, events_max");
  router::PromptForm prompt;
  prompt.system = token_list(form, "system", where, limits, vocabulary);
  prompt.user = token_list(form, "user", where, limits, vocabulary);
  prompt.instruction = token_list(form, "instruction", where, limits, vocabulary);
  const bool ranks = form.contains("discriminant");
  if (ranks) prompt.discriminant = token_list(form, "discriminant", where, limits, vocabulary);
  if (ranks && (prompt.system.empty() || prompt.user.empty() || prompt.discriminant.empty()))
    throw LoadError(where + ": system, user or discriminant is empty; expected at least one token each");
  if (prompt.system.empty())
    throw LoadError(where + ": system is empty; expected at least one token, for a user may have no history");
  prompt.events_max = events_max_of(form, where);
  const std::size_t tokens =
      prompt.system.size() + prompt.user.size() + prompt.instruction.size() + prompt.discriminant.size();
  if (tokens >= static_cast<std::size_t>(limits.positions_max))
    throw LoadError(where + ": the form has " + std::to_string(tokens) +
                    " tokens; expected some room for items within the model's " +
                    std::to_string(limits.positions_max) + " positions");
  prompt.positions_max = static_cast<std::uint32_t>(limits.positions_max);
  prompt.vocabulary = static_cast<std::uint32_t>(limits.vocabulary);
  return prompt;
}

kernels::Vocabulary read_vocabulary_if_any(const std::filesystem::path& model_directory,
                                           const kernels::PlanLimits& limits) {
  if (!std::filesystem::exists(model_directory / "vocab.json")) return {};
  return kernels::read_vocabulary(model_directory, static_cast<std::uint32_t>(limits.vocabulary));
}

}  // namespace troupe::deploy
