// Writes the log: one JSON object per line, to standard error or to a file that may be rotated
// by size. A log file is created readable by its owner only.
#include "runtime/config/log.h"

#include <fcntl.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "kernels/base/check.h"
#include "runtime/wire/json_text.h"

namespace troupe {
namespace {

constexpr std::array<std::string_view, 4> level_names{"debug", "info", "warning", "error"};

spdlog::level::level_enum spdlog_level(LogLevel level) {
  constexpr spdlog::level::level_enum levels[] = {spdlog::level::debug, spdlog::level::info,
                                                  spdlog::level::warn, spdlog::level::err};
  return levels[static_cast<std::size_t>(level)];
}

// RFC 3339: "2024-08-07T06:05:04.321Z"
std::string time_text(std::chrono::system_clock::time_point time) {
  using namespace std::chrono;
  const auto ms = floor<milliseconds>(time);
  const auto day = floor<days>(ms);
  const year_month_day date(day);
  const hh_mm_ss clock(ms - day);
  char text[40];
  std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ", int(date.year()),
                unsigned(date.month()), unsigned(date.day()), int(clock.hours().count()),
                int(clock.minutes().count()), int(clock.seconds().count()), int(clock.subseconds().count()));
  return text;
}

void append_member(std::string& line, std::string_view name, std::string_view value, bool is_number = false) {
  line += line.empty() ? '{' : ',';
  append_json_string(line, name);
  line += ':';
  if (is_number)
    line += value;
  else
    append_json_string(line, value);
}

// Creates the file with mode 0600, whatever the umask; if that fails, spdlog reports the reason.
void make_private(const std::string& file) {
  if (const int made = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600); made >= 0)
    ::close(made);
}

spdlog::sink_ptr open_sink(const LogOptions& options) {
  const std::string& file = options.file;
  if (file.empty()) return std::make_shared<spdlog::sinks::stderr_sink_mt>();
  spdlog::file_event_handlers events;
  events.before_open = make_private;
  try {
    if (options.file_bytes_max > 0)
      return std::make_shared<spdlog::sinks::rotating_file_sink_mt>(file, options.file_bytes_max,
                                                                    options.files_max, false, events);
    return std::make_shared<spdlog::sinks::basic_file_sink_mt>(file, false, events);
  } catch (const spdlog::spdlog_ex& e) {
    throw LogError("log: " + file + ": cannot be opened (" + e.what() +
                   "); expected a file that can be appended to");
  }
}

}  // namespace

Log::Log(LogOptions options)
    : node_(std::move(options.node)),
      logger_(std::make_shared<spdlog::logger>("troupe", open_sink(options))) {
  logger_->set_pattern("%v");
  logger_->set_level(spdlog_level(options.least));
  logger_->flush_on(spdlog::level::trace);  // a process that crashes loses no lines
}

void Log::operator()(LogLevel level, std::string_view actor, std::string_view event,
                     std::span<const LogField> fields) const {
  if (!logger_->should_log(spdlog_level(level))) return;
  const std::string line = log_line(std::chrono::system_clock::now(), level, node_, actor, event, fields);
  logger_->log(spdlog_level(level), spdlog::string_view_t(line.data(), line.size()));
}

void Log::set_least(LogLevel least) const { logger_->set_level(spdlog_level(least)); }

std::string_view name_of(LogLevel level) { return level_names[static_cast<std::size_t>(level)]; }

std::string log_line(std::chrono::system_clock::time_point time, LogLevel level, std::string_view node,
                     std::string_view actor, std::string_view event, std::span<const LogField> fields) {
  std::string line;
  append_member(line, "time", time_text(time));
  append_member(line, "level", name_of(level));
  if (!node.empty()) append_member(line, "node", node);
  if (!actor.empty()) append_member(line, "actor", actor);
  append_member(line, "event", event);
  for (const LogField& field : fields) append_member(line, field.name, field.value, field.is_number);
  return line + "}";
}

}  // namespace troupe
