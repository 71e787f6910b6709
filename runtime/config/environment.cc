// Maps environment variables to settings, and refuses unknown ones.
#include "runtime/config/environment.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>

#include "runtime/config/nearest_name.h"
#include "runtime/wire/json_text.h"

namespace troupe {
namespace {

constexpr std::size_t quoted_name_bytes_max = 64;  // of a variable's name that an error quotes
// An unknown variable is compared with the known ones up to this edit distance.
constexpr std::size_t variable_distance_max = 12;

constexpr OtherVariable other_table[] = {
    {"TROUPE_BUG", "mutation that a mutated program has on, for tests of mutations"},
    {"TROUPE_COHERE", "folder of Cohere's client, for tests"},
    {"TROUPE_CUDA_ARCHITECTURES", "GPU architectures that deploy/build.sh compiles for"},
    {"TROUPE_LAB", "the program troupe-lab, for scripts of tests and benchmarks"},
    {"TROUPE_OLD", "the former program, for the test of upgrades"},
    {"TROUPE_OPENAI", "folder of OpenAI's client, for tests"},
    {"TROUPE_PEERS", "folder of the engines that benchmarks compare with"},
    {"TROUPE_REACHED", "file to which a mutated program writes the mutations that ran"},
    {"TROUPE_TESTS", "folder of the tests' programs, for their scripts"},
};

// Parts behind a service's prefix in the names of its variables.
constexpr std::string_view service_parts[] = {"_SERVICE_HOST", "_SERVICE_PORT", "_PORT"};

const Setting* setting_of(std::string_view variable) {
  const auto table = setting_table();
  const auto found = std::ranges::find_if(
      table, [&](const Setting& setting) { return variable_of(setting.name) == variable; });
  return found == table.end() ? nullptr : &*found;
}

using Variables = std::map<std::string, std::string, std::less<>>;

Variables variables_of(std::span<const std::string> entries) {
  Variables variables;
  for (const std::string& entry : entries) {
    const std::size_t equals = entry.find('=');
    if (equals == entry.npos || !entry.starts_with(variable_prefix)) continue;
    variables.try_emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return variables;
}

// Returns true for the variables that Kubernetes makes of a service: PREFIX_SERVICE_HOST marks its prefix,
// and PREFIX_PORT is a URL, where the variable of a setting has a number.
bool is_of_service(const Variables& variables, std::string_view name, std::string_view value) {
  if (setting_of(name) != nullptr && value.find("://") == value.npos) return false;
  for (std::size_t at = name.find('_'); at != name.npos; at = name.find('_', at + 1)) {
    const std::string_view rest = name.substr(at);
    const bool is_part = std::ranges::any_of(service_parts, [&](std::string_view part) {
      return rest.starts_with(part) && (rest.size() == part.size() || rest[part.size()] == '_');
    });
    if (is_part && variables.contains(std::string(name.substr(0, at)) + "_SERVICE_HOST")) return true;
  }
  return false;
}

[[noreturn]] void refuse_variable(std::string_view name) {
  std::vector<std::string> known;
  for (const Setting& setting : setting_table()) known.push_back(variable_of(setting.name));
  const std::string nearest =
      nearest_name(known, name.substr(0, quoted_name_bytes_max), variable_distance_max);
  throw ConfigError(
      printable("the environment variable " + std::string(name.substr(0, quoted_name_bytes_max)) +
                " is no setting; expected " +
                (nearest.empty() ? "TROUPE_SECTION_NAME, such as TROUPE_HTTP_PORT for http.port" : nearest) +
                ", or no variable of that name"));
}

}  // namespace

std::string variable_of(std::string_view setting) {
  std::string variable(variable_prefix);
  for (const char c : setting)
    variable += c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return variable;
}

std::span<const OtherVariable> other_variables() { return other_table; }

std::vector<SettingVariable> settings_of_environment(std::span<const std::string> entries) {
  Variables left = variables_of(entries);
  std::erase_if(left, [all = left](const auto& entry) {
    return is_of_service(all, entry.first, entry.second) ||
           std::ranges::find(other_table, entry.first, &OtherVariable::name) != std::end(other_table);
  });
  std::vector<SettingVariable> settings;
  for (const Setting& setting : setting_table())
    if (auto given = left.extract(variable_of(setting.name)))
      settings.push_back({std::move(given.key()), std::move(given.mapped()), setting.name});
  if (!left.empty()) refuse_variable(left.begin()->first);
  return settings;
}

void apply_environment(SingleNodeFile& box, std::span<const std::string> entries) {
  for (const SettingVariable& given : settings_of_environment(entries)) {
    try {
      override_for_all_models(box, given.setting, given.value);
    } catch (const ConfigError& error) {
      throw ConfigError("the environment variable " + given.variable + ": " + error.what());
    }
  }
}

}  // namespace troupe
