#pragma once
// The settings of a node, typed and by section, such as `settings.router.deadline`. Each is one row
// of settings_table.h, from which the structs below, the configuration file, the command line, the
// example file and the reference page are made. A setting that is not there does not exist.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/actor/core.h"

namespace troupe {

enum class SettingKind : std::uint8_t {
  integer,
  real,
  share,  // a real, or "auto": the node chooses it
  text,
  boolean,
  size,      // bytes; written e.g. as "512MiB"
  duration,  // written e.g. as "200ms"
  choice     // one of the words in `range`
};

namespace setting_types {  // types of the members, by kind; a choice has its own enum
using integer = std::uint32_t;
using real = double;
using share = std::optional<double>;  // nullopt = auto
using text = std::string;
using boolean = bool;
using size = std::size_t;
using duration = Duration;
}  // namespace setting_types

// Returns a word of a choice's list ("on, off"), or nothing if the list is shorter.
constexpr std::optional<std::string_view> find_choice_word(std::string_view words, std::size_t index) {
  for (; index > 0; --index) {
    const std::size_t comma = words.find(", ");
    if (comma == words.npos) return std::nullopt;
    words.remove_prefix(comma + 2);
  }
  words = words.substr(0, words.find(", "));
  if (words.ends_with('_')) words.remove_suffix(1);  // the enumerator of a keyword
  return words;
}

// ---- the sections: NodeSettings, ModelSettings, … ----

#define TROUPE_SECTION(Struct, section) struct Struct {
#define TROUPE_SETTING(section, name, kind, ...) setting_types::kind name{};
#define TROUPE_CHOICE(section, name, Enum, initial, help, ...)               \
  enum class Enum : std::uint8_t { __VA_ARGS__ };                            \
  Enum name = Enum::initial;                                                 \
  friend constexpr std::string_view word_of(Enum value) {                    \
    return *find_choice_word(#__VA_ARGS__, static_cast<std::size_t>(value)); \
  }
#define TROUPE_CHOICE_OF(section, name, Enum, initial, ...) Enum name = Enum::initial;
// clang-format off
#define TROUPE_SECTION_END };
// clang-format on
#include "runtime/config/settings_table.h"

struct Settings {
  Settings();  // has the defaults; a section by itself has zeros

#define TROUPE_SECTION(Struct, section) Struct section;
#include "runtime/config/settings_table.h"
};

// ---- the table ----

// Value of a setting before it is written to its member. A duration is in microseconds, a choice the
// index of its word; text is text, as is the share "auto", and all other kinds but real, share and
// boolean are integers.
using SettingValue = std::variant<std::int64_t, double, bool, std::string>;

struct Setting {
  std::string_view name;  // section, dot, key: "pool.page_tokens"
  SettingKind kind;
  std::string_view initial;  // the default, as written in a file
  // of numbers "1..256", both ends included; of a choice "user, item"; otherwise ""
  std::string_view range;
  std::string_view unit;  // unit of an integer or real, for readers: "tokens"
  std::string_view help;
  void (*write)(Settings& settings, const SettingValue& value);  // a value that parse_setting returned
};

std::span<const Setting> setting_table();            // settings of one section are adjacent
const Setting* find_setting(std::string_view name);  // null if there is none
constexpr std::string_view section_of(std::string_view name) { return name.substr(0, name.find('.')); }
// Returns the valid alternatives to `name`: the settings of its section or, for an unknown section,
// the sections.
std::string known_settings(std::string_view name);

struct SettingError {
  std::string expected;  // what would be valid, e.g. "1..256 tokens"
};
std::variant<SettingValue, SettingError> parse_setting(const Setting& setting, std::string_view text);

// Returns the valid values of a setting: "1..256 tokens", "bat | user", "true or false".
std::string expected_of(const Setting& setting);

}  // namespace troupe
