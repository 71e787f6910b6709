// Reads a prompt form's file, and writes one with the arrangements that were shown.
#include "deploy/verify/form_file.h"

#include <nlohmann/json.hpp>

#include "kernels/base/errors.h"
#include "runtime/config/whole_file.h"
#include "runtime/wire/json_bounds.h"

namespace troupe::deploy {
namespace {

using ordered = nlohmann::ordered_json;

constexpr std::size_t form_bytes_max = 1 << 20;
constexpr JsonBounds form_bounds{.values_max = 100'000, .depth_max = 4};

ordered words_in(std::span<const Arrangement> arrangements) {
  ordered list = ordered::array();
  for (const Arrangement arrangement : arrangements) list.push_back(word_of(arrangement));
  return list;
}

ordered tokens_in(const Tokens& tokens, const kernels::Vocabulary& vocabulary) {
  ordered list = ordered::array();
  for (const Token token : tokens) {
    const bool is_named = vocabulary.named() > 0 && !vocabulary.name(token).empty();
    list.push_back(is_named ? ordered(vocabulary.name(token)) : ordered(token));
  }
  return list;
}

// Returns the members of a ranker's form with a discriminant. Only such a form has a default.
ordered members_of(const PromptForm& form, const kernels::Vocabulary& vocabulary) {
  ordered members = {{"system", tokens_in(form.system, vocabulary)},
                     {"user", tokens_in(form.user, vocabulary)},
                     {"instruction", tokens_in(form.instruction, vocabulary)},
                     {"discriminant", tokens_in(form.discriminant, vocabulary)}};
  if (form.events_max > 0) members["events_max"] = form.events_max;
  return members;
}

// Writes one member a line.
std::string lines_of(const ordered& members) {
  std::string text = "{";
  for (const auto& [key, value] : members.items())
    text.append(text.size() > 1 ? "," : "")
        .append("\n ")
        .append(ordered(key).dump())
        .append(": ")
        .append(value.dump());
  return text + "\n}\n";
}

}  // namespace

FormFile read_form_file(const std::filesystem::path& file) {
  FormFile form{.file = file, .exists = std::filesystem::exists(file)};
  if (!form.exists) return form;
  try {
    form.text = read_whole_file(file.string(), form_bytes_max, "a prompt file");
  } catch (const FileError& error) {
    throw kernels::LoadError(error.what());
  }
  if (const std::string excess = exceeded_bound(form.text, form_bounds); !excess.empty())
    throw kernels::LoadError(file.string() + ": has " + excess + "; expected the lists of a prompt form");
  const ordered members = ordered::parse(form.text, nullptr, false);
  if (!members.is_object())
    throw kernels::LoadError(file.string() + ": is not a JSON object; expected the lists of a prompt form");
  form.declares = members.contains("arrangements");
  return form;
}

std::string form_text(const std::string& text, const PromptForm& form, const kernels::Vocabulary& vocabulary,
                      std::span<const Arrangement> arrangements,
                      std::span<const Arrangement> interchangeable) {
  ordered members = text.empty() ? members_of(form, vocabulary) : ordered::parse(text);
  members["arrangements"] = words_in(arrangements);
  if (interchangeable.size() > 1)
    members["interchangeable"] = words_in(interchangeable);
  else
    members.erase("interchangeable");
  return lines_of(members);
}

bool same_members(const std::string& one, const std::string& other) {
  return nlohmann::json::parse(one) == nlohmann::json::parse(other);
}

std::string describe_arrangements(const PromptForm& form) {
  if (form.items_are_tokens())
    return "the model has one arrangement, " + std::string(word_of(form.arrangements.front()));
  if (form.generates()) return "the form is a generator's, which has one arrangement, causal";
  std::string text = "the form declares " + words_of(form.arrangements);
  if (form.interchangeable.size() > 1) text += "; interchangeable are " + words_of(form.interchangeable);
  return text;
}

}  // namespace troupe::deploy
