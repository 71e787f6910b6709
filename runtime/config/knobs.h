#pragma once
// The one table of what can be configured: name, kind, default, range, unit and help. The configuration file,
// the command line and the example file are all read off it; a knob that is not here does not exist.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace troupe {

enum class KnobKind : std::uint8_t {
  integer,
  real,
  text,
  boolean,
  size,      // bytes; written as "512MiB"
  duration,  // microseconds; written as "200ms"
  choice     // one of a few words
};

struct Knob {
  std::string_view name;  // "pool.page_tokens": section, dot, key
  KnobKind kind;
  std::string_view initial;  // the default, as it would stand in a file
  std::string_view range;    // numbers: "1..256", both included; choice: "user|item"; else ""
  std::string_view unit;     // of an integer or real, for people: "tokens"
  std::string_view help;
};

std::span<const Knob> knob_table();            // sections together
const Knob* find_knob(std::string_view name);  // null: there is none

// integer, size and duration are std::int64_t; text and choice are std::string.
using KnobValue = std::variant<std::int64_t, double, bool, std::string>;

struct KnobFault {
  std::string expected;  // "an integer from 1 to 256"
};
std::variant<KnobValue, KnobFault> parse_knob(const Knob& knob, std::string_view text);

// What the knob takes: "1..256 tokens", "bat | user", "true or false".
std::string expected_of(const Knob& knob);

}  // namespace troupe
