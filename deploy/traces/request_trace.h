#pragma once
// Request traces on disk: JSON lines, plain or gzip, one line per request after a header line. TRACES.md is
// the format. Both sides hold one request at a time, so a trace may be longer than the memory.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "deploy/data/text_file.h"
#include "deploy/traces/repeats.h"
#include "runtime/actor/traced_request.h"

namespace troupe::deploy {

inline constexpr std::uint64_t trace_version = 1;

class TraceReader {
 public:
  // Reads the header. Throws ImportError, as all its functions do.
  explicit TraceReader(std::filesystem::path path);

  const std::string& source() const { return source_; }  // where the trace came from
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
  void read_header();
  void check(const TracedRequest& request);
  void check_candidates(const std::vector<std::string>& candidates);

  TextFile file_;
  std::string line_, source_;
  Instant last_;
  Repeats repeats_;
};

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
