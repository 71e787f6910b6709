#pragma once
// The table of all settings: name, kind, default, range, unit and help. The configuration file, the
// command line and the example file are derived from it; a setting that is not here does not exist.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace troupe {

enum class SettingKind : std::uint8_t {
  integer,
  real,
  text,
  boolean,
  size,      // bytes; written e.g. as "512MiB"
  duration,  // microseconds; written e.g. as "200ms"
  choice     // one of the words in `range`
};

struct Setting {
  std::string_view name;  // section, dot, key: "pool.page_tokens"
  SettingKind kind;
  std::string_view initial;  // the default, as written in a file
  // of numbers "1..256", both ends included; of a choice "user|item"; otherwise ""
  std::string_view range;
  std::string_view unit;  // unit of an integer or real, for readers: "tokens"
  std::string_view help;
};

std::span<const Setting> setting_table();            // settings of one section are adjacent
const Setting* find_setting(std::string_view name);  // null if there is none

// integer, size and duration are std::int64_t; text and choice are std::string.
using SettingValue = std::variant<std::int64_t, double, bool, std::string>;

struct SettingError {
  std::string expected;  // what would be valid, e.g. "1..256 tokens"
};
std::variant<SettingValue, SettingError> parse_setting(const Setting& setting, std::string_view text);

// Returns the valid values of a setting: "1..256 tokens", "bat | user", "true or false".
std::string expected_of(const Setting& setting);

}  // namespace troupe
