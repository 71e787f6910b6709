#pragma once
// The log: one JSON object a line, for machines first. A line says when (UTC), how bad, on which node, by
// which actor, what happened (`event`, a stable snake_case word) and the fields that belong to it. Values are
// numbers where the field is one, else strings; they may hold anything, and never break the line.
#include <chrono>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "runtime/actor/core.h"

namespace spdlog {
class logger;
}

namespace troupe {

// "log: x/troupe.log: cannot be opened (…); expected a file that can be appended to"
struct LogError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct LogOptions {
  LogLevel least = LogLevel::info;   // lower ones are dropped
  std::string node;                  // "" leaves the node out
  std::string file;                  // appended to; "" is standard error
  std::uint64_t file_bytes_max = 0;  // then it is set aside as FILE.1, and those before it count up; 0: never
  std::size_t files_max = 5;         // that are set aside
};

// Thread-safe; copies write to the same place. A host's LogSink.
class Log {
 public:
  explicit Log(LogOptions options);  // throws LogError
  void operator()(LogLevel level, std::string_view actor, std::string_view event,
                  std::span<const LogField> fields = {}) const;
  void set_least(LogLevel least) const;  // of all copies, from now on

 private:
  std::string node_;
  std::shared_ptr<spdlog::logger> logger_;
};

LogLevel log_level(std::string_view name);  // of the knob node.log_level; another name is a bug

// The line without its end. Fields follow the fixed members; one that is named like those is still written.
std::string log_line(std::chrono::system_clock::time_point time, LogLevel level, std::string_view node,
                     std::string_view actor, std::string_view event, std::span<const LogField> fields);

}  // namespace troupe
