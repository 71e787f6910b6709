// Makes the table of settings from its rows, and parses the values of settings.
#include "runtime/config/settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "kernels/base/check.h"
#include "runtime/config/units.h"

namespace troupe {
namespace {

using enum SettingKind;

void put(setting_types::integer& member, const SettingValue& value) {
  const auto number = std::get<std::int64_t>(value);
  TROUPE_CHECK(std::in_range<setting_types::integer>(number), "the range of an integer setting has 32 bits");
  member = static_cast<setting_types::integer>(number);
}
void put(setting_types::size& member, const SettingValue& value) {
  member = static_cast<std::size_t>(std::get<std::int64_t>(value));
}
void put(setting_types::duration& member, const SettingValue& value) {
  member.us = std::get<std::int64_t>(value);
}
void put(setting_types::share& member, const SettingValue& value) {
  const auto* number = std::get_if<double>(&value);
  member = number ? std::optional(*number) : std::nullopt;
}
void put(auto& member, const SettingValue& value) {
  using Member = std::remove_reference_t<decltype(member)>;
  if constexpr (std::is_enum_v<Member>)
    member = static_cast<Member>(std::get<std::int64_t>(value));
  else
    member = std::get<Member>(value);
}

constexpr std::string_view auto_word = "auto";

constexpr Setting choice_row(std::string_view name, std::string_view initial, std::string_view words,
                             std::string_view help, void (*write)(Settings&, const SettingValue&)) {
  return {name, choice, *find_choice_word(initial, 0), words, "", help, write};
}

constexpr Setting settings[] = {
#define TROUPE_SETTING(section, name, ...) \
  {#section "." #name, __VA_ARGS__,        \
   [](Settings& s, const SettingValue& value) { put(s.section.name, value); }},
#define TROUPE_CHOICE(section, name, Enum, initial, help, ...) \
  choice_row(#section "." #name, #initial, #__VA_ARGS__, help, \
             [](Settings& s, const SettingValue& value) { put(s.section.name, value); }),
#define TROUPE_CHOICE_OF(section, name, Enum, initial, help, ...)                                           \
  choice_row(#section "." #name, #initial, #__VA_ARGS__, help, [](Settings& s, const SettingValue& value) { \
    using enum Enum;                                                                                        \
    constexpr Enum in_order[] = {__VA_ARGS__};                                                              \
    s.section.name = in_order[std::get<std::int64_t>(value)];                                               \
  }),
#include "runtime/config/settings_table.h"
};

template <class Number>
std::optional<double> parse_number(std::string_view text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return static_cast<double>(value);
}

// Bounds and values of every kind of number fit a double exactly: all are below 2^53.
std::optional<double> parse_amount(SettingKind kind, std::string_view text) {
  if (kind == size) return parse_size(text);
  if (kind == duration) return parse_duration_us(text);
  return kind == real || kind == share ? parse_number<double>(text) : parse_number<std::int64_t>(text);
}

bool in_range(const Setting& setting, double value) {
  const std::size_t dots = setting.range.find("..");
  const auto low = parse_amount(setting.kind, setting.range.substr(0, dots));
  const auto high = parse_amount(setting.kind, setting.range.substr(dots + 2));
  TROUPE_CHECK(low && high, setting.name);
  return *low <= value && value <= *high;
}

std::optional<std::int64_t> find_choice(std::string_view words, std::string_view text) {
  for (std::size_t i = 0; const auto word = find_choice_word(words, i); ++i)
    if (*word == text) return static_cast<std::int64_t>(i);
  return std::nullopt;
}

std::optional<SettingValue> value_of(const Setting& setting, std::string_view text) {
  switch (setting.kind) {
    case SettingKind::text:
      return SettingValue(std::string(text));
    case choice:
      return find_choice(setting.range, text);
    case boolean:
      if (text != "true" && text != "false") return std::nullopt;
      return SettingValue(text == "true");
    case share:
      if (text == auto_word) return SettingValue(std::string(text));
      break;
    default:
      break;
  }
  const auto amount = parse_amount(setting.kind, text);
  if (!amount || !in_range(setting, *amount)) return std::nullopt;
  if (setting.kind == real || setting.kind == share) return SettingValue(*amount);
  if (*amount != std::floor(*amount)) return std::nullopt;
  return SettingValue(static_cast<std::int64_t>(*amount));
}

}  // namespace

Settings::Settings() {
  for (const Setting& setting : settings) {
    const auto initial = parse_setting(setting, setting.initial);
    TROUPE_CHECK(std::holds_alternative<SettingValue>(initial), setting.name);
    setting.write(*this, std::get<SettingValue>(initial));
  }
}

std::span<const Setting> setting_table() { return settings; }

const Setting* find_setting(std::string_view name) {
  const auto found = std::ranges::find(settings, name, &Setting::name);
  return found == std::end(settings) ? nullptr : found;
}

std::string known_settings(std::string_view name) {
  std::string keys, sections;
  std::string_view last;
  for (const Setting& setting : setting_table()) {
    const std::string_view section = section_of(setting.name);
    if (section == section_of(name)) keys += (keys.empty() ? "" : ", ") + std::string(setting.name);
    if (section != last) sections += (sections.empty() ? "one of " : ", ") + std::string(section);
    last = section;
  }
  return keys.empty() ? sections : keys;
}

std::variant<SettingValue, SettingError> parse_setting(const Setting& setting, std::string_view text) {
  if (auto value = value_of(setting, text)) return std::move(*value);
  return SettingError{expected_of(setting)};
}

std::string expected_of(const Setting& setting) {
  std::string range(setting.range);
  switch (setting.kind) {
    case text:
      return "text";
    case boolean:
      return "true or false";
    case choice:
      range = *find_choice_word(setting.range, 0);
      for (std::size_t i = 1; const auto word = find_choice_word(setting.range, i); ++i)
        range += " | " + std::string(*word);
      return range;
    case size:
      return range + " (" + std::string(size_forms) + ")";
    case duration:
      return range + " (" + std::string(duration_forms) + ")";
    case integer:
      return range + (setting.unit.empty() ? "" : " " + std::string(setting.unit));
    case real:
      return range;
    case share:
      return range + " | " + std::string(auto_word);
  }
  return range;
}

}  // namespace troupe
