#pragma once
// The log: one JSON object per line, for machines first. A line has the time (UTC), the level, the
// node, the actor, the event (`event`, a stable snake_case word) and its fields. Values are numbers
// if the field is one, otherwise strings; they may hold any bytes and never break the line.
#include <chrono>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "runtime/actor/core.h"

namespace troupe {

// E.g. "log: x/troupe.log: cannot be opened (…); expected a file that can be appended to".
struct LogError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct LogOptions {
  LogLevel least = LogLevel::info;  // lines of lower levels are dropped
  std::string node;                 // "" = the lines name no node
  std::string file;                 // file to append to; "" = standard error
  // At this size the file is renamed to FILE.1, after FILE.1 to FILE.2 and so on; 0 = never.
  std::uint64_t file_bytes_max = 0;
  std::size_t files_max = 5;  // renamed files to keep
};

// Writes log lines; a host's LogSink. Thread-safe; copies write to the same file. Lines are written by
// a thread of the log, so that logging never waits (log_writer.h); the end of the last copy writes
// what waits, within a second.
class Log {
 public:
  explicit Log(LogOptions options);  // throws LogError
  void operator()(LogLevel level, std::string_view actor, std::string_view event,
                  std::span<const LogField> fields = {}) const;
  // From now on a line whose field `node` is one of these numbers also has the node's name, in a field
  // `node_name`. Applies to all copies.
  void name_nodes(std::map<NodeId, std::string> names) const;
  void set_least(LogLevel least) const;  // applies to all copies, from now on
  // Opens the log file anew, as after logrotate has renamed it; later lines are written there. Throws
  // LogError, and then goes on with the open file. Does nothing to standard error.
  void reopen() const;
  bool flush(std::chrono::milliseconds limit) const;  // waits until all lines are written or lost
  std::uint64_t dropped() const;                      // lines that were lost since the start

 private:
  std::string node_;
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

std::string_view name_of(LogLevel level);  // "debug", "info", "warning" or "error"

// Returns the line without its line break. Fields follow the fixed members, even fields with the
// same names.
std::string log_line(std::chrono::system_clock::time_point time, LogLevel level, std::string_view node,
                     std::string_view actor, std::string_view event, std::span<const LogField> fields);

}  // namespace troupe
