// Reads lines of text files, plain or compressed, with their line numbers for importers, and writes files
// for commands.
#include "deploy/data/text_file.h"

#include <algorithm>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <utility>

#include "runtime/wire/json_text.h"

namespace troupe::deploy {

TextFile::TextFile(const std::filesystem::path& path) : position_{name_of_input(path)}, source_(path) {}

TextFile::~TextFile() = default;

bool TextFile::next(std::string& line) {
  line.clear();
  bool ends = false;
  while (!ends) {
    if (at_ == bytes_.size() && !read_more()) break;
    const std::size_t end = std::min(bytes_.find('\n', at_), bytes_.size());
    line.append(bytes_, at_, end - at_);
    if (std::find(bytes_.begin() + static_cast<std::ptrdiff_t>(at_),
                  bytes_.begin() + static_cast<std::ptrdiff_t>(end),
                  '\0') != bytes_.begin() + static_cast<std::ptrdiff_t>(end)) {
      ++position_.line;
      fail("the line has a NUL byte", "text");
    }
    if (line.size() > line_bytes_max) {
      ++position_.line;
      fail("the line is too long", "at most 16 MiB");
    }
    ends = end < bytes_.size();
    at_ = end + (ends ? 1 : 0);
  }
  if (!ends && line.empty()) return false;
  ++position_.line;
  if (position_.line == 1 && line.starts_with("\xef\xbb\xbf"))
    fail("the file begins with a byte order mark", "UTF-8 without one");
  if (line.ends_with('\r')) line.pop_back();
  return true;
}

bool TextFile::read_more() {
  const char* fault = nullptr;
  at_ = 0;
  const bool more = source_.read(bytes_, fault);
  if (fault) {
    ++position_.line;
    fail(fault, "a whole text, gzip or zstd file");
  }
  return more;
}

void LinePosition::fail(std::string_view what, std::string_view expected) const {
  throw ImportError(printable(file + ":" + std::to_string(line) + ": " + std::string(what) + "; expected " +
                              std::string(expected)));
}

// The field stands before the fault, unless the fault begins with it. A line has no body.
void LinePosition::fail(const Refusal& refusal) const {
  std::string what = refusal.what;
  if (refusal.where == "body")
    what = what.starts_with("body ") ? "the line " + what.substr(5) : what;
  else if (!what.starts_with(refusal.where))
    what = refusal.where + ": " + what;
  throw ImportError(
      printable(file + ":" + std::to_string(line) + ": " + what + "; expected " + refusal.expected), refusal);
}

std::string name_of_input(const std::filesystem::path& path) {
  return path == "-" ? "standard input" : path.filename().string();
}

std::string name_of_path(const std::string& path) {
  const std::filesystem::path given(path);
  return (given.has_filename() ? given : given.parent_path()).filename().string();
}

std::vector<std::string_view> split(std::string_view line, char separator) {
  std::vector<std::string_view> fields;
  for (;;) {
    const std::size_t end = line.find(separator);
    fields.push_back(line.substr(0, end));
    if (end == std::string_view::npos) return fields;
    line.remove_prefix(end + 1);
  }
}

std::uint64_t parse_number(const TextFile& file, std::string_view text, std::string_view name,
                           std::uint64_t max) {
  const NumberRule rule{.least = 0,
                        .most = static_cast<std::int64_t>(std::min<std::uint64_t>(max, INT64_MAX))};
  return static_cast<std::uint64_t>(parse_number(file, text, name, rule));
}

std::int64_t parse_number(const TextFile& file, std::string_view text, std::string_view name,
                          const NumberRule& rule) {
  const auto read = read_number(text, rule, std::string(name));
  if (const auto* refusal = std::get_if<Refusal>(&read)) file.fail(*refusal);
  return std::get<std::int64_t>(read);
}

TsvFile::TsvFile(std::filesystem::path path) : file_(std::move(path)) {
  if (!file_.next(line_)) LinePosition{file_.place().file, 1}.fail("the file is empty", "a header line");
  for (std::string_view name : split(line_, '\t')) {
    if (has_column(name))
      file_.fail("column " + (name.empty() ? "\"\"" : std::string(name)) + " is given twice",
                 "each column once");
    header_.emplace_back(name);
  }
}

bool TsvFile::has_column(std::string_view name) const {
  return std::find(header_.begin(), header_.end(), name) != header_.end();
}

std::size_t TsvFile::column(std::string_view name) const {
  const auto found = std::find(header_.begin(), header_.end(), name);
  if (found == header_.end())
    file_.fail("there is no column " + std::string(name), "a header line that names it");
  return static_cast<std::size_t>(found - header_.begin());
}

bool TsvFile::next(std::vector<std::string_view>& fields) {
  do {
    if (!file_.next(line_)) return false;
  } while (line_.empty());
  fields = split(line_, '\t');
  if (fields.size() != header_.size())
    file_.fail("the line has " + std::to_string(fields.size()) + " fields", std::to_string(header_.size()));
  for (std::size_t i = 0; i < fields.size(); ++i)
    if (!is_utf8(fields[i]))
      file_.fail(Refusal{RefusalKind::malformed, "malformed_text", header_[i] + " is not UTF-8", header_[i],
                         "UTF-8"});
  return true;
}

void check_output(const std::string& path) {
  if (path.empty() || path == "-") return;
  if (!std::ofstream(path, std::ios::app))
    throw std::runtime_error(path + ": cannot be written; expected a file in an existing folder");
}

void write_output(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::cout << text << std::flush;
    return;
  }
  std::ofstream out(path);
  out << text;
  out.close();
  if (!out)
    throw std::runtime_error(path +
                             ": cannot be written; expected a file in an existing folder with free space");
}

}  // namespace troupe::deploy
