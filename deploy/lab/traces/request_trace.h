#pragma once
// Request traces on disk: JSON lines, plain or gzip, one line per request after a header line. TRACES.md is
// the format. Both sides hold one request at a time, so a trace may be longer than the memory.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "deploy/data/text_file.h"
#include "deploy/lab/traces/json_line.h"
#include "deploy/lab/traces/repeats.h"
#include "runtime/actor/traced_request.h"

namespace troupe::deploy {

inline constexpr std::uint64_t trace_version = 1;

// A trace's lines one after the other, from texts to values. Throws ImportError.
class TraceLines {
 public:
  explicit TraceLines(const LinePlace& place) : place_(place) {}  // of the line at hand; outlives it

  void read_header(std::string_view line);
  // Strings of `request` are used again.
  void read(std::string_view line, TracedRequest& request);
  const std::string& source() const { return source_; }

 private:
  bool read_kind(JsonLine& line) const;
  void check(const TracedRequest& request);
  void check_candidates(const std::vector<std::string>& candidates);

  const LinePlace& place_;
  std::string source_;
  Instant last_;
  Repeats repeats_;
};

class TraceReader {
 public:
  // Reads the header. Throws ImportError, as all its functions do.
  explicit TraceReader(std::filesystem::path path);

  const std::string& source() const { return lines_.source(); }  // where the trace came from
  // False at the end. Strings of `request` are used again.
  bool next(TracedRequest& request);
  std::uint64_t line_number() const { return file_.line_number(); }  // of the last request
  // When the last request is due in a replay that is so much faster. Fails if that takes a century.
  Instant due(const TracedRequest& request, double speed) const;
  // Says what is wrong with the last request.
  [[noreturn]] void fail(std::string_view what, std::string_view expected) const {
    file_.fail(what, expected);
  }

 private:
  TextFile file_;
  TraceLines lines_;
  std::string line_;
};

void append_request(std::string& out, const TracedRequest& request);  // its line, without the line's end

class TraceWriter {
 public:
  // Gzip if the name ends in .gz. Throws std::runtime_error if the file cannot be written, here or later.
  TraceWriter(std::filesystem::path path, const std::string& source);
  ~TraceWriter();

  // In order of time.
  void write(const TracedRequest& request);
  void close();  // a file that is not closed, or not without an error, is removed: it may be a part

 private:
  void put_line();
  [[noreturn]] void fail() const;

  struct File;
  std::filesystem::path path_;
  std::unique_ptr<File> file_;
  std::string line_;
  Instant last_;
};

}  // namespace troupe::deploy
