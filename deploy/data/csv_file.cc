// Reads CSV byte by byte: quotes, separators and ends of lines are told apart where they stand.
#include "deploy/data/csv_file.h"

#include <algorithm>
#include <utility>

#include "runtime/wire/json_text.h"

namespace troupe::deploy {

namespace {

constexpr std::size_t shown_bytes_max = 60;  // of a column's name, in faults

}  // namespace

CsvFile::CsvFile(const std::filesystem::path& path) : CsvFile(name_of_input(path), ByteSource(path)) {}

CsvFile::CsvFile(std::string name, ByteSource source)
    : source_(std::move(source)), record_{std::move(name), 1} {
  skip_byte_order_mark();
  std::vector<std::string> names;
  if (!read_record(names)) record_.fail("the file is empty", "a header line that names the columns");
  check_fields(names);
  header_ = std::move(names);
  for (auto name = header_.begin(); name != header_.end(); ++name)
    if (std::find(header_.begin(), name, *name) != name)
      record_.fail(
          "column " + (name->empty() ? "\"\"" : name->substr(0, shown_bytes_max)) + " is given twice",
          "each column once");
}

bool CsvFile::next(std::vector<std::string>& fields) {
  if (!read_record(fields)) return false;
  if (fields.size() != header_.size())
    record_.fail(
        "the line has " + std::to_string(fields.size()) + (fields.size() == 1 ? " field" : " fields"),
        std::to_string(header_.size()) + ", as many as the header");
  check_fields(fields);
  return true;
}

void CsvFile::check_fields(const std::vector<std::string>& fields) const {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (is_utf8(fields[i])) continue;
    const std::string name =
        i < header_.size() ? header_[i].substr(0, shown_bytes_max) : "field " + std::to_string(i + 1);
    record_.fail(Refusal{RefusalKind::malformed, "malformed_text", name + " is not UTF-8", name, "UTF-8"});
  }
}

int CsvFile::peek() {
  while (at_ == bytes_.size()) {
    const char* fault = nullptr;
    at_ = 0;
    const bool more = source_.read(bytes_, fault);
    if (fault) fail_here(fault, "a whole text, gzip or zstd file");
    if (!more) return end_of_file;
  }
  return static_cast<unsigned char>(bytes_[at_]);
}

void CsvFile::take() {
  const char byte = bytes_[at_++];
  if (byte == '\n') {
    ++line_;
    column_ = 1;
  } else {
    ++column_;
  }
}

void CsvFile::skip_byte_order_mark() {
  if (peek() != 0xef || bytes_.compare(at_, 3, "\xef\xbb\xbf") != 0) return;
  at_ += 3;
}

// A carriage return without a line feed is refused: other readers disagree about what it ends.
bool CsvFile::takes_end_of_line() {
  if (peek() == '\r') {
    take();
    if (peek() != '\n') fail_here("a carriage return without a line feed", "LF or CR LF at a line's end");
  }
  if (peek() != '\n') return false;
  take();
  return true;
}

bool CsvFile::read_record(std::vector<std::string>& fields) {
  while (takes_end_of_line()) {
  }
  record_.line = line_;
  if (peek() == end_of_file) return false;
  record_bytes_ = 0;
  std::size_t count = 0;
  for (;;) {
    if (count == fields.size()) fields.emplace_back();
    fields[count].clear();
    read_field(fields[count++]);
    if (peek() == end_of_file || takes_end_of_line()) break;
    take();        // the comma
    count_byte();  // of it, so that empty fields are bounded, too
    if (count == (header_.empty() ? columns_max : header_.size()))
      fail_here("the line has more than " + std::to_string(count) + " fields",
                header_.empty() ? "a header of at most as many" : "as many as the header");
  }
  fields.resize(count);
  return true;
}

// Ends before a comma, an end of line, or the end of the file.
void CsvFile::read_field(std::string& out) {
  if (peek() == '"') return read_quoted(out);
  for (int byte = peek(); byte != ',' && byte != '\r' && byte != '\n' && byte != end_of_file; byte = peek()) {
    if (byte == '"')
      fail_here("a quote within a field without quotes",
                "the whole field in quotes, and \"\" for a quote in it");
    if (byte == 0) fail_here("a NUL byte", "text");
    append(out, static_cast<char>(byte));
    take();
  }
}

void CsvFile::read_quoted(std::string& out) {
  const std::string begins = std::to_string(line_) + ":" + std::to_string(column_);
  take();
  for (;;) {
    const int byte = peek();
    if (byte == end_of_file)
      fail_here("the file ends within the quoted field that begins at " + begins, "a closing quote");
    if (byte == 0) fail_here("a NUL byte", "text");
    take();
    if (byte == '"') {
      if (peek() != '"') break;
      take();
    }
    append(out, static_cast<char>(byte));
  }
  const int behind = peek();
  if (behind != ',' && behind != '\r' && behind != '\n' && behind != end_of_file)
    fail_here("text behind a closing quote", "a comma or the line's end, and \"\" for a quote in a field");
}

void CsvFile::append(std::string& out, char byte) {
  count_byte();
  out += byte;
}

void CsvFile::count_byte() {
  if (++record_bytes_ > record_bytes_max) fail_here("the record is too long", "at most 16 MiB");
}

void CsvFile::fail_here(std::string_view what, std::string_view expected) const {
  LinePosition here{record_.file + ":" + std::to_string(line_), column_};
  here.fail(what, expected);
}

}  // namespace troupe::deploy
