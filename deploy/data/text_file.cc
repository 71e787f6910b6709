// Reads lines of gzip or plain text files with their line numbers for importers, and writes files
// for commands.
#include "deploy/data/text_file.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <utility>

#include "runtime/wire/json_text.h"

namespace troupe::deploy {

// Bytes of a plain file, or of all members of a gzip file. What a library for gzip files takes for the end,
// such as a damaged second member, is damage here: the file is read whole or refused.
class TextFile::Source {
 public:
  explicit Source(const std::filesystem::path& path) : file_(std::fopen(path.c_str(), "rb")) {
    if (!file_)
      throw ImportError(path.string() + ": cannot be opened; expected a readable text or gzip file");
  }
  ~Source() {
    if (is_gzip_) inflateEnd(&stream_);
    std::fclose(file_);
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  // Replaces `out` by the next bytes. Returns false at the end. Sets `fault` if there is no more to read.
  bool read(std::string& out, const char*& fault) {
    out.clear();
    if (begin_ == end_ && !refill(fault)) return false;
    if (!std::exchange(is_begun_, true)) begin_reading();
    if (is_gzip_) return inflate_some(out, fault);
    out.assign(reinterpret_cast<const char*>(input_.data()) + begin_, end_ - begin_);
    begin_ = end_;
    return true;
  }

 private:
  static constexpr const char* damaged = "the compressed data is damaged or truncated";
  static constexpr int any_window_gzip = 15 + 16;  // the largest window; gzip's header and checksum

  // Sets `fault` if reading fails, or if the file ends within a member.
  bool refill(const char*& fault) {
    begin_ = 0;
    end_ = std::fread(input_.data(), 1, input_.size(), file_);
    if (end_ == 0) fault = std::ferror(file_) ? "the file cannot be read" : in_member_ ? damaged : nullptr;
    return end_ > 0;
  }

  void begin_reading() {
    const bool has_mark = end_ - begin_ >= 2 && input_[begin_] == 0x1f && input_[begin_ + 1] == 0x8b;
    is_gzip_ = in_member_ = has_mark && inflateInit2(&stream_, any_window_gzip) == Z_OK;
  }

  // Ends at bytes, at the end, or at a fault.
  bool inflate_some(std::string& out, const char*& fault) {
    for (;;) {
      if (begin_ == end_ && !refill(fault)) return false;
      if (!in_member_ && !begin_member(fault)) {
        if (fault) return false;
        continue;
      }
      out.resize(input_.size());
      const std::size_t made = inflate_into(out, fault);
      out.resize(made);
      if (fault || made > 0) return !fault;
    }
  }

  // A member may follow another one. Zeros may fill up the last block of a tape.
  bool begin_member(const char*& fault) {
    while (begin_ < end_ && input_[begin_] == 0) ++begin_, is_padded_ = true;
    if (begin_ == end_) return false;
    if (is_padded_ || inflateReset(&stream_) != Z_OK) {
      fault = damaged;
      return false;
    }
    return in_member_ = true;
  }

  std::size_t inflate_into(std::string& out, const char*& fault) {
    stream_.next_in = input_.data() + begin_;
    stream_.avail_in = static_cast<uInt>(end_ - begin_);
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(out.size());
    const int code = ::inflate(&stream_, Z_NO_FLUSH);
    begin_ = end_ - stream_.avail_in;
    if (code == Z_STREAM_END)
      in_member_ = false;
    else if (code != Z_OK && code != Z_BUF_ERROR)
      fault = damaged;
    return out.size() - stream_.avail_out;
  }

  std::FILE* file_;
  z_stream stream_{};
  std::array<Bytef, 64 << 10> input_{};
  std::size_t begin_ = 0, end_ = 0;  // the part of `input_` that was not read yet
  bool is_begun_ = false, is_gzip_ = false, in_member_ = false, is_padded_ = false;
};

TextFile::TextFile(std::filesystem::path path)
    : position_{path.filename().string()}, source_(std::make_unique<Source>(path)) {}

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
  const bool more = source_->read(bytes_, fault);
  if (fault) {
    ++position_.line;
    fail(fault, "a whole text or gzip file");
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
  if (!file_.next(line_)) file_.fail("the file is empty", "a header line");
  for (std::string_view name : split(line_, '\t')) {
    if (has_column(name)) file_.fail("column " + std::string(name) + " is given twice", "each column once");
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
