// Parses sizes and durations with their units.
#include "runtime/config/units.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string>

namespace troupe {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

// In lower case.
constexpr std::array size_units{
    Unit{"", 1},         Unit{"b", 1},        Unit{"k", 1e3},     Unit{"kb", 1e3},     Unit{"m", 1e6},
    Unit{"mb", 1e6},     Unit{"g", 1e9},      Unit{"gb", 1e9},    Unit{"t", 1e12},     Unit{"tb", 1e12},
    Unit{"ki", 0x1p10},  Unit{"kib", 0x1p10}, Unit{"mi", 0x1p20}, Unit{"mib", 0x1p20}, Unit{"gi", 0x1p30},
    Unit{"gib", 0x1p30}, Unit{"ti", 0x1p40},  Unit{"tib", 0x1p40}};
constexpr std::array duration_units{Unit{"us", 1},     Unit{"\u00b5s", 1}, Unit{"ms", 1e3},
                                    Unit{"s", 1e6},    Unit{"m", 60e6},    Unit{"min", 60e6},
                                    Unit{"h", 3600e6}, Unit{"d", 86400e6}};

// Removes a number from the front of a text. Returns nullopt if it does not begin with a number.
std::optional<double> take_number(std::string_view& text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + digits, value);
  if (error != std::errc() || end != text.data() + digits || !std::isfinite(value)) return std::nullopt;
  text.remove_prefix(digits);
  if (text.starts_with(' ')) text.remove_prefix(1);
  return value;
}

}  // namespace

std::optional<double> parse_size(std::string_view text) {
  const auto number = take_number(text);
  std::string unit(text);
  std::ranges::transform(unit, unit.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto found = std::ranges::find(size_units, std::string_view(unit), &Unit::name);
  if (!number || found == size_units.end()) return std::nullopt;
  return *number * found->factor;
}

std::optional<double> parse_duration_us(std::string_view text) {
  if (text.empty()) return std::nullopt;
  double sum = 0;
  while (!text.empty()) {
    const auto number = take_number(text);
    const std::size_t end = std::min(text.find_first_of("0123456789."), text.size());
    const auto found = std::ranges::find(duration_units, text.substr(0, end), &Unit::name);
    if (!number || found == duration_units.end()) return std::nullopt;
    sum += *number * found->factor;
    text.remove_prefix(end);
  }
  return sum;
}

}  // namespace troupe
