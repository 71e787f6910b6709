#pragma once
// Reads times of tables in the units in which other programs write them, as the whole seconds since 1970 that
// Troupe keeps. Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/actor/refusal.h"

namespace troupe::deploy {

enum class TimeForm : std::uint8_t {
  whole_seconds,  // as everywhere else (runtime/actor/row_rules.h)
  seconds,        // of these four a fraction is cut off
  milliseconds,
  microseconds,
  nanoseconds,
  iso,  // ISO 8601: 2018-05-03, 2018-05-03T13:22:08.5+02:00; UTC if no offset is given
};

// Returns the form that `s`, `ms`, `us`, `ns` or `iso` names.
std::optional<TimeForm> time_form(std::string_view name);

// Returns seconds since 1970. The refusals are those of read_number() for a timestamp, and name the form that
// the text looks like, if it is another one. `where` names the field.
std::variant<std::int64_t, Refusal> read_time(std::string_view written, TimeForm form,
                                              const std::string& where);

std::string iso_text(std::int64_t seconds);  // 2018-05-03T13:22:08Z

}  // namespace troupe::deploy
