#pragma once
// Reads and writes request traces: JSON lines, plain or gzip, with a header line and one line per request.
// docs/reference/trace-format.md defines the format. Reader and writer hold one request at a time, so a trace
// may be larger than the memory.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "deploy/data/duplicate_finder.h"
#include "deploy/data/json_line.h"
#include "deploy/data/text_file.h"
#include "runtime/actor/traced_request.h"

namespace troupe::deploy {

inline constexpr std::uint64_t trace_version = 1;

// Parses a trace's lines, one after the other. Throws ImportError.
class TraceLines {
 public:
  explicit TraceLines(const LinePosition& place)
      : place_(place) {}  // of the current line; outlives this object

  void read_header(std::string_view line);
  // Reuses the strings of `request`.
  void read(std::string_view line, TracedRequest& request);
  const std::string& source() const { return source_; }

 private:
  bool read_kind(JsonLine& line) const;
  void check(const TracedRequest& request);
  void check_candidates(const std::vector<std::string>& candidates);

  const LinePosition& place_;
  std::string source_;
  Instant last_;
  DuplicateFinder duplicates_;
};

class TraceReader {
 public:
  // Reads the header. Throws ImportError, as all its functions do.
  explicit TraceReader(std::filesystem::path path);

  const std::string& source() const { return lines_.source(); }  // origin of the trace, from its header
  // Returns false at the end. Reuses the strings of `request`.
  bool next(TracedRequest& request);
  std::uint64_t line_number() const { return file_.line_number(); }  // of the last request
  // Returns when `request`, the last one read, is due in a replay with speed-up `speed`. Throws if that is
  // more than a century away.
  Instant due(const TracedRequest& request, double speed) const;
  // Throws an error about the last request, with its line.
  [[noreturn]] void fail(std::string_view what, std::string_view expected) const {
    file_.fail(what, expected);
  }

 private:
  TextFile file_;
  TraceLines lines_;
  std::string line_;
};

// Appends the request's line, without its newline.
void append_request(std::string& out, const TracedRequest& request);

class TraceWriter {
 public:
  // Writes gzip if the name ends in .gz. All functions throw std::runtime_error if the file cannot be
  // written.
  TraceWriter(std::filesystem::path path, const std::string& source);
  ~TraceWriter();

  void write(const TracedRequest& request);  // requests come in order of time
  // Completes the file. A file that is not closed, or not without an error, is removed, because it may be
  // incomplete.
  void close();

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
