// Reads lines of gzip or plain text files with their line numbers for importers, and writes files
// for commands.
#include "deploy/data/text_file.h"

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <utility>

#include "runtime/wire/json_text.h"

namespace troupe::deploy {

struct TextFile::Gzip {
  gzFile file = nullptr;
  ~Gzip() {
    if (file) gzclose(file);
  }
};

TextFile::TextFile(std::filesystem::path path)
    : position_{path.filename().string()}, gzip_(std::make_unique<Gzip>()) {
  gzip_->file = gzopen(path.c_str(), "rb");
  if (!gzip_->file)
    throw ImportError(path.string() + ": cannot be opened; expected a readable text or gzip file");
  gzbuffer(gzip_->file, 256 << 10);
}

TextFile::~TextFile() = default;

bool TextFile::next(std::string& line) {
  line.clear();
  char chunk[16 << 10];
  for (z_off_t before = gztell(gzip_->file); gzgets(gzip_->file, chunk, sizeof chunk);) {
    line += chunk;
    const z_off_t after = gztell(gzip_->file);
    if (static_cast<std::size_t>(after - std::exchange(before, after)) != std::strlen(chunk)) {
      ++position_.line;
      fail("the line has a NUL byte", "text");
    }
    if (!line.empty() && line.back() == '\n') break;
    if (line.size() > line_bytes_max) {
      ++position_.line;
      fail("the line is too long", "at most 16 MiB");
    }
  }
  int code = Z_OK;
  gzerror(gzip_->file, &code);
  if (code != Z_OK && code != Z_STREAM_END) {
    ++position_.line;
    fail("the compressed data is damaged or truncated", "a whole gzip file");
  }
  if (line.empty()) return false;
  ++position_.line;
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  return true;
}

void LinePosition::fail(std::string_view what, std::string_view expected) const {
  throw ImportError(printable(file + ":" + std::to_string(line) + ": " + std::string(what) + "; expected " +
                              std::string(expected)));
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
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > max)
    file.fail(std::string(name) + " is \"" + std::string(text.substr(0, 40)) + "\"",
              "a whole number of at most " + std::to_string(max));
  return value;
}

TsvFile::TsvFile(std::filesystem::path path) : file_(std::move(path)) {
  if (!file_.next(line_)) file_.fail("the file is empty", "a header line");
  for (std::string_view name : split(line_, '\t')) header_.emplace_back(name);
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
  if (!file_.next(line_)) return false;
  fields = split(line_, '\t');
  if (fields.size() != header_.size())
    file_.fail("the line has " + std::to_string(fields.size()) + " fields", std::to_string(header_.size()));
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
