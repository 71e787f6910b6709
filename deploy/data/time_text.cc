// Reads numbers with a unit, and dates of ISO 8601, as seconds since 1970.
#include "deploy/data/time_text.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

#include "runtime/actor/row_rules.h"

namespace troupe::deploy {

namespace {

constexpr std::size_t shown_bytes_max = 64;

struct NamedForm {
  std::string_view name;
  TimeForm form;
  std::int64_t per_second;
  std::string_view unit;
};
constexpr std::array named_forms{NamedForm{"s", TimeForm::seconds, 1, "seconds"},
                                 NamedForm{"ms", TimeForm::milliseconds, 1'000, "milliseconds"},
                                 NamedForm{"us", TimeForm::microseconds, 1'000'000, "microseconds"},
                                 NamedForm{"ns", TimeForm::nanoseconds, 1'000'000'000, "nanoseconds"},
                                 NamedForm{"iso", TimeForm::iso, 1, ""}};
constexpr std::uint32_t nanoseconds_per_second = 1'000'000'000;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool begins_with_date(std::string_view text) {
  return text.size() >= 10 && text[4] == '-' && text[7] == '-' && is_digit(text[0]) && is_digit(text[9]);
}

Refusal bad_time(std::string_view written, const std::string& where, std::string expected) {
  return {RefusalKind::malformed, "bad_timestamp",
          where + " is " + (written.empty() ? "\"\"" : std::string(written.substr(0, shown_bytes_max))),
          where, std::move(expected)};
}

// Reads parts of a date from its beginning.
class DateReader {
 public:
  explicit DateReader(std::string_view text) : rest_(text) {}

  bool takes(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  // Reads exactly so many digits; sets the fault if they are not there, or above `most`.
  int number(std::size_t digits, int most) {
    int value = 0;
    for (std::size_t i = 0; i < digits; ++i) {
      if (rest_.empty() || !is_digit(rest_.front())) return fail();
      value = 10 * value + (rest_.front() - '0');
      rest_.remove_prefix(1);
    }
    return value <= most ? value : fail();
  }
  // Nanoseconds of a fraction of a second, if one follows.
  std::uint32_t fraction() {
    if (!takes('.') && !takes(',')) return 0;
    if (rest_.empty() || !is_digit(rest_.front())) fail();
    std::uint32_t nanoseconds = 0;
    for (std::uint32_t unit = nanoseconds_per_second / 10; !rest_.empty() && is_digit(rest_.front());
         unit /= 10) {
      nanoseconds += unit * static_cast<std::uint32_t>(rest_.front() - '0');
      rest_.remove_prefix(1);
    }
    return nanoseconds;
  }
  int fail() {
    is_bad_ = true;
    return 0;
  }
  bool at_end() const { return rest_.empty(); }
  bool is_bad() const { return is_bad_; }

 private:
  std::string_view rest_;
  bool is_bad_ = false;
};

// Without seconds there is no fraction: it would be one of a minute.
WrittenTime time_of_day(DateReader& date) {
  const int hour = date.number(2, 23);
  if (!date.takes(':')) date.fail();
  const int minute = date.number(2, 59);
  if (!date.takes(':')) return {hour * 3600 + minute * 60, 0};
  const int second = date.number(2, 60);  // 60: a leap second
  return {hour * 3600 + minute * 60 + second, date.fraction()};
}

// Seconds that the offset is ahead of UTC: Z, +02:00, +0200, +02, or none.
std::int64_t offset(DateReader& date) {
  if (date.at_end() || date.takes('Z')) return 0;
  const bool is_ahead = date.takes('+');
  if (!is_ahead && !date.takes('-')) return date.fail();
  const int hours = date.number(2, 23);
  const bool has_colon = date.takes(':');
  const int minutes = has_colon || !date.at_end() ? date.number(2, 59) : 0;
  return (is_ahead ? 1 : -1) * (hours * 3600 + minutes * 60);
}

std::optional<WrittenTime> iso_time(std::string_view written) {
  DateReader date(written);
  const int year = date.number(4, 9999);
  if (!date.takes('-')) date.fail();
  const int month = date.number(2, 12);
  if (!date.takes('-')) date.fail();
  const int day = date.number(2, 31);
  const std::chrono::year_month_day named{std::chrono::year(year),
                                          std::chrono::month(static_cast<unsigned>(month)),
                                          std::chrono::day(static_cast<unsigned>(day))};
  if (date.is_bad() || !named.ok()) return std::nullopt;
  WrittenTime time;
  if (date.takes('T') || date.takes(' ')) {
    time = time_of_day(date);
    time.seconds -= offset(date);
  }
  time.seconds += std::chrono::sys_days(named).time_since_epoch().count() * std::int64_t{86'400};
  if (date.is_bad() || !date.at_end()) return std::nullopt;
  return time;
}

std::variant<WrittenTime, Refusal> read_iso(std::string_view written, const NumberRule& rule,
                                            const std::string& where) {
  const std::optional<WrittenTime> time = iso_time(written);
  if (!time)
    return bad_time(written, where, "a time of ISO 8601, such as 2018-05-03T13:22:08Z or 2018-05-03");
  if (time->seconds < rule.least || time->seconds > rule.most)
    return bad_time(written, where, "a time from 1970-01-01T00:00:00Z on");
  return *time;
}

// Returns the digits behind the point; nothing if it is not followed by digits only. "" = there is no point.
std::optional<std::string_view> fraction_of(std::string_view written) {
  const std::size_t point = written.find('.');
  if (point == written.npos) return "";
  const std::string_view digits = written.substr(point + 1);
  if (digits.empty() || !std::ranges::all_of(digits, is_digit)) return std::nullopt;
  return digits;
}

// Reads a number of `form`, which may have a fraction.
std::variant<WrittenTime, Refusal> read_units(std::string_view written, const NamedForm& form,
                                              const NumberRule& rule, const std::string& where) {
  const auto fraction = fraction_of(written);
  const NumberRule any{.least = 0, .most = INT64_MAX};
  const auto number = read_number(written.substr(0, written.find('.')), any, where);
  const auto* const value = std::get_if<std::int64_t>(&number);
  if (!value || !fraction || written.starts_with('-'))
    return bad_time(written, where, std::string(form.unit) + " since 1970, a number from 0 on");
  WrittenTime time{*value / form.per_second, 0};
  if (auto fault = reject_number(time.seconds, rule, where)) {
    if (form.per_second == 1) return *std::move(fault);
    return bad_time(written, where,
                    std::string(form.unit) + " since 1970, a number from 0 to " +
                        std::to_string(rule.most * form.per_second));
  }
  auto unit = static_cast<std::uint32_t>(nanoseconds_per_second / form.per_second);  // in nanoseconds
  time.nanoseconds = static_cast<std::uint32_t>(*value % form.per_second) * unit;
  for (const char digit : *fraction)
    time.nanoseconds += (unit /= 10) * static_cast<std::uint32_t>(digit - '0');
  return time;
}

}  // namespace

std::optional<TimeForm> time_form(std::string_view name) {
  for (const NamedForm& named : named_forms)
    if (named.name == name) return named.form;
  return std::nullopt;
}

std::variant<WrittenTime, Refusal> read_time(std::string_view written, TimeForm form,
                                             const std::string& where) {
  const NumberRule rule = number_rule("timestamp");
  if (form == TimeForm::iso) return read_iso(written, rule, where);
  if (begins_with_date(written))
    return bad_time(written, where, "seconds since 1970, or :iso behind the column's name");
  const auto* const named = std::ranges::find(named_forms, form, &NamedForm::form);
  if (named != named_forms.end()) return read_units(written, *named, rule, where);
  auto number = read_number(written, rule, where);
  if (auto* refusal = std::get_if<Refusal>(&number)) return std::move(*refusal);
  return WrittenTime{std::get<std::int64_t>(number), 0};
}

std::string iso_text(std::int64_t seconds) {
  const std::chrono::sys_seconds time{std::chrono::seconds(seconds)};
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  char text[40];
  std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02dZ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
                static_cast<int>(clock.seconds().count()));
  return text;
}

}  // namespace troupe::deploy
