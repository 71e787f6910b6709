#pragma once
// Reads times of tables in the units in which other programs write them, as the whole seconds since 1970 that
// Troupe keeps. Pure.
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/actor/refusal.h"

namespace troupe::deploy {

enum class TimeForm : std::uint8_t {
  whole_seconds,  // as everywhere else (runtime/actor/row_rules.h)
  seconds,        // these four may have a fraction
  milliseconds,
  microseconds,
  nanoseconds,
  iso,  // ISO 8601: 2018-05-03, 2018-05-03T13:22:08.5+02:00; UTC if no offset is given
};

// Returns the form that `s`, `ms`, `us`, `ns` or `iso` names.
std::optional<TimeForm> time_form(std::string_view name);

// A time as it is written. Troupe keeps its seconds; the rest tells which of two events came first.
struct WrittenTime {
  std::int64_t seconds = 0;  // since 1970
  std::uint32_t nanoseconds = 0;
  auto operator<=>(const WrittenTime&) const = default;
};

// Reads a time from 1970 on; digits below a nanosecond are cut off. The refusals are those of read_number()
// for a timestamp, and name the form that the text looks like, if it is another one. `where` names the field.
std::variant<WrittenTime, Refusal> read_time(std::string_view written, TimeForm form,
                                             const std::string& where);

std::string iso_text(std::int64_t seconds);  // 2018-05-03T13:22:08Z

}  // namespace troupe::deploy
