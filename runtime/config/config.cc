// Sets values by their names, and writes the commented example file. An error names the setting and
// what was expected.
#include "runtime/config/config.h"

#include "runtime/wire/json_text.h"

namespace troupe {
namespace {

constexpr std::size_t quoted_text_bytes_max = 64;  // of a value that an error quotes

[[noreturn]] void unknown(std::string_view name) {
  throw ConfigError(printable("there is no setting " + std::string(name.substr(0, quoted_text_bytes_max)) +
                              "; expected " + known_settings(name)));
}

std::string comment_of(const Setting& setting) {
  std::string line = "  # " + std::string(setting.help);
  if (setting.kind != SettingKind::text) line += " " + expected_of(setting) + ".";
  return line + "\n";
}

}  // namespace

void Config::set(std::string_view name, std::string_view text) {
  const Setting* setting = find_setting(name);
  if (setting == nullptr) unknown(name);
  const auto value = parse_setting(*setting, text);
  if (const auto* fault = std::get_if<SettingError>(&value)) {
    const std::string shown = text.empty() ? "empty" : std::string(text.substr(0, quoted_text_bytes_max));
    throw ConfigError(printable(std::string(name) + " is " + shown + "; expected " + fault->expected));
  }
  setting->write(*this, std::get<SettingValue>(value));
}

std::string example_yaml() {
  std::string out =
      "# Every setting with its default. A key that is left out has its default, too. An environment "
      "variable\n"
      "# overrides this file (TROUPE_HTTP_PORT is http.port), and the command line overrides both.\n";
  std::string_view section;
  for (const Setting& setting : setting_table()) {
    if (section_of(setting.name) != section) {
      section = section_of(setting.name);
      out += "\n" + std::string(section) + ":\n";
    }
    out += comment_of(setting) + "  " + std::string(setting.name.substr(section.size() + 1)) + ": ";
    if (setting.kind == SettingKind::text)
      append_json_string(out, setting.initial);  // also a YAML string
    else
      out += setting.initial;
    out += "\n";
  }
  return out;
}

}  // namespace troupe
