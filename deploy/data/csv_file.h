#pragma once
// Reads CSV as RFC 4180 describes it, strictly: fields are separated by commas and may stand in quotes,
// within which commas, ends of lines and doubled quotes are text. Faults name file, line and column.
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "deploy/data/text_file.h"

namespace troupe::deploy {

// A line ends with LF or CR LF; the last one may have no end. Blank lines are no records. Each record has as
// many fields as the header, the first record, which names each column once. Fields are UTF-8 without NUL
// bytes. A byte order mark at the file's beginning, which spreadsheets write, is skipped.
class CsvFile {
 public:
  // Both read the header and throw ImportError. `name` is the file's in faults.
  explicit CsvFile(const std::filesystem::path& path);
  CsvFile(std::string name, ByteSource source);

  const std::vector<std::string>& header() const { return header_; }
  // Reads the next record into `fields`; false at the end. Throws ImportError.
  bool next(std::vector<std::string>& fields);
  const LinePosition& place() const { return record_; }  // where the last record begins

  static constexpr std::size_t record_bytes_max = TextFile::line_bytes_max;
  static constexpr std::size_t columns_max = 10'000;

 private:
  static constexpr int end_of_file = -1;

  int peek();
  void take();  // what peek() returned
  bool takes_end_of_line();
  bool read_record(std::vector<std::string>& fields);
  void read_field(std::string& out);
  void read_quoted(std::string& out);
  void append(std::string& out, char byte);
  void count_byte();
  void skip_byte_order_mark();
  void check_fields(const std::vector<std::string>& fields) const;
  [[noreturn]] void fail_here(std::string_view what, std::string_view expected) const;

  ByteSource source_;
  LinePosition record_;                  // of the last record
  std::string bytes_;                    // the part of the file that was read last
  std::size_t at_ = 0;                   // in `bytes_`
  std::uint64_t line_ = 1, column_ = 1;  // of the next byte
  std::size_t record_bytes_ = 0;
  std::vector<std::string> header_;
};

}  // namespace troupe::deploy
