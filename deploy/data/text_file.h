#pragma once
// Reads lines of text files, plain or compressed, with their numbers, for importers, and writes files for
// commands.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "deploy/data/byte_source.h"
#include "runtime/actor/row_rules.h"

namespace troupe::deploy {

// Fault of a file that cannot be imported: "items.tsv.gz:17: …; expected …".
struct ImportError : std::runtime_error {
  using std::runtime_error::runtime_error;
  ImportError(const std::string& text, Refusal reason)
      : std::runtime_error(text), refusal(std::move(reason)) {}
  std::optional<Refusal> refusal;  // of a row, as another reader of the same row gives it
};

// Position of a line reader.
struct LinePosition {
  std::string file;
  std::uint64_t line = 0;                                                          // from 1
  [[noreturn]] void fail(std::string_view what, std::string_view expected) const;  // throws ImportError
  [[noreturn]] void fail(const Refusal& refusal) const;                            // of a row
};

class TextFile {
 public:
  // "-" is standard input. Throws ImportError.
  explicit TextFile(const std::filesystem::path& path);
  ~TextFile();

  // Returns false at the end. A line ends with LF or CR LF; the last one may have no end. Throws ImportError
  // for a file that cannot be read as a whole, a byte order mark, a NUL byte, or a line over
  // `line_bytes_max`.
  bool next(std::string& line);
  // position of the last line; valid as long as the file
  const LinePosition& place() const { return position_; }
  std::uint64_t line_number() const { return position_.line; }

  [[noreturn]] void fail(std::string_view what, std::string_view expected) const {
    position_.fail(what, expected);
  }
  [[noreturn]] void fail(const Refusal& refusal) const { position_.fail(refusal); }

  static constexpr std::size_t line_bytes_max = 16 << 20;

 private:
  bool read_more();  // false at the end

  LinePosition position_;
  ByteSource source_;
  std::string bytes_;   // the part of the file that was read last
  std::size_t at_ = 0;  // in `bytes_`, behind the last line
};

// Returns the name of a file for errors: "items.tsv", or "standard input" of "-".
std::string name_of_input(const std::filesystem::path& path);
// Returns the last name of a path: "a" of x/a and of x/a/.
std::string name_of_path(const std::string& path);

std::vector<std::string_view> split(std::string_view line, char separator);
// Reads a whole number of a column, as runtime/actor/row_rules.h says. `name` is the field in errors.
std::uint64_t parse_number(const TextFile& file, std::string_view text, std::string_view name,
                           std::uint64_t max);
std::int64_t parse_number(const TextFile& file, std::string_view text, std::string_view name,
                          const NumberRule& rule);

// Tab-separated file with a header line. Columns are found by name, each name stands there once. Empty lines
// are no rows. Fields are UTF-8.
class TsvFile {
 public:
  explicit TsvFile(std::filesystem::path path);
  std::size_t column(std::string_view name) const;  // throws ImportError if there is none
  bool has_column(std::string_view name) const;
  bool next(std::vector<std::string_view>& fields);  // views into the current line
  const TextFile& file() const { return file_; }
  const std::vector<std::string>& header() const { return header_; }

 private:
  TextFile file_;
  std::string line_;
  std::vector<std::string> header_;
};

// Throws std::runtime_error if write_output could not write to `path`. Commands call it before long
// work. Creates an empty file if there is none.
void check_output(const std::string& path);

// Writes `text` to a file, or to standard output if `path` is "-". Throws std::runtime_error.
void write_output(const std::string& path, const std::string& text);

}  // namespace troupe::deploy
