// Writes the log: one JSON object per line, to standard error or to a file that may be rotated
// by size. A log file is created readable by its owner only.
#include "runtime/config/log.h"

#include <fcntl.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/config/log_writer.h"
#include "runtime/wire/json_text.h"

namespace troupe {
namespace {

constexpr std::array<std::string_view, 4> level_names{"debug", "info", "warning", "error"};

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

spdlog::sink_ptr open_file(const LogOptions& options) {
  const std::string& file = options.file;
  spdlog::file_event_handlers events;
  events.before_open = make_private;
  try {
    if (options.file_bytes_max > 0)
      return std::make_shared<spdlog::sinks::rotating_file_sink_st>(file, options.file_bytes_max,
                                                                    options.files_max, false, events);
    return std::make_shared<spdlog::sinks::basic_file_sink_st>(file, false, events);
  } catch (const spdlog::spdlog_ex& e) {
    throw LogError("log: " + file + ": cannot be opened (" + e.what() +
                   "); expected a file that can be appended to");
  }
}

// A log file that can be opened anew while the log's thread writes: logrotate renames the file and sends
// SIGHUP, after which lines belong into a new file of the old name.
class LogFile {
 public:
  explicit LogFile(LogOptions options) : options_(std::move(options)) { reopen(); }

  // Throws LogError, and then goes on with the open file.
  void reopen() {
    const spdlog::sink_ptr opened = open_file(options_);
    opened->set_pattern("%v");
    const std::lock_guard lock(mutex_);
    sink_ = opened;
  }
  // Flushes each line: a process that crashes loses only those that were not written yet.
  bool write(std::string_view line) {
    const spdlog::sink_ptr sink = present();
    try {
      sink->log({"troupe", spdlog::level::info, spdlog::string_view_t(line.data(), line.size())});
      sink->flush();
      return true;
    } catch (const spdlog::spdlog_ex&) {  // such as a full disk
      return false;
    }
  }

 private:
  spdlog::sink_ptr present() {
    const std::lock_guard lock(mutex_);
    return sink_;
  }
  const LogOptions options_;
  std::mutex mutex_;  // protects `sink_`, which the log's thread uses without it
  spdlog::sink_ptr sink_;
};

WriteLine line_file(std::shared_ptr<LogFile> file) {
  return [file = std::move(file)](std::string_view line, const std::atomic<bool>& given_up) {
    return !given_up && file->write(line);
  };
}

std::shared_ptr<LogFile> log_file(const LogOptions& options) {
  return options.file.empty() ? nullptr : std::make_shared<LogFile>(options);
}

std::function<std::string(std::uint64_t)> lost_line(const std::string& node) {
  return [node](std::uint64_t lost) {
    const std::vector<LogField> fields{
        {"lines", lost}, {"why", "they came faster than the log could be written, or could not be written"}};
    return log_line(std::chrono::system_clock::now(), LogLevel::warning, node, "main", "log_lines_dropped",
                    fields);
  };
}

}  // namespace

struct Log::Shared {
  std::atomic<LogLevel> least;
  std::shared_ptr<LogFile> file;  // null: standard error
  LogWriter writer;
  std::mutex mutex = {};
  std::map<NodeId, std::string> names = {};  // guarded by mutex

  Shared(const LogOptions& options, std::shared_ptr<LogFile> opened)
      : least(options.least),
        file(std::move(opened)),
        writer(file ? line_file(file) : line_stream(STDERR_FILENO), lost_line(options.node)) {}

  // Returns the fields with a `node_name` for each `node` whose name is known.
  std::vector<LogField> named(std::span<const LogField> fields) {
    std::vector<LogField> named;
    const std::lock_guard lock(mutex);
    for (const LogField& field : fields) {
      named.push_back(field);
      NodeId node = 0;
      if (!field.is_number || field.name != "node") continue;
      std::from_chars(field.value.data(), field.value.data() + field.value.size(), node);
      if (const auto name = names.find(node); name != names.end())
        named.push_back({"node_name", name->second});
    }
    return named;
  }
};

Log::Log(LogOptions options)
    : node_(options.node), shared_(std::make_shared<Shared>(options, log_file(options))) {}

void Log::operator()(LogLevel level, std::string_view actor, std::string_view event,
                     std::span<const LogField> fields) const {
  if (level < shared_->least) return;
  shared_->writer.push(
      log_line(std::chrono::system_clock::now(), level, node_, actor, event, shared_->named(fields)));
}

void Log::name_nodes(std::map<NodeId, std::string> names) const {
  const std::lock_guard lock(shared_->mutex);
  shared_->names = std::move(names);
}

void Log::set_least(LogLevel least) const { shared_->least = least; }

void Log::reopen() const {
  if (shared_->file) shared_->file->reopen();
}

bool Log::flush(std::chrono::milliseconds limit) const { return shared_->writer.flush(limit); }

std::uint64_t Log::dropped() const { return shared_->writer.dropped(); }

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
