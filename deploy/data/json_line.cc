// Parses one JSON line with known fields, strictly and without building a tree, because traces have
// millions of lines. Errors name file, line, field and expected value.
#include "deploy/data/json_line.h"

#include <algorithm>
#include <charconv>

#include "runtime/wire/json_text.h"

namespace troupe::deploy {

namespace {

constexpr std::size_t shown_max = 40, name_bytes_max = 64;

bool is_plain(char c) { return static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\'; }

void append_utf8(std::string& out, std::uint32_t code) {
  const auto put = [&out](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xc0 | code >> 6);
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
  }
  put(0x80 | (code & 0x3f));
}

}  // namespace

void JsonLine::fail(std::string_view field, std::string_view expected) const {
  const std::string_view shown = at_.substr(0, shown_max);
  std::string what(field);
  if (shown.empty()) {
    what += ": the line ends";
  } else {
    what += ": there is ";
    append_json_string(what, shown);
  }
  place_.fail(what, expected);
}

void JsonLine::skip_space() {
  while (!at_.empty() && (at_.front() == ' ' || at_.front() == '\t')) at_.remove_prefix(1);
}

bool JsonLine::take(char c) {
  skip_space();
  if (at_.empty() || at_.front() != c) return false;
  at_.remove_prefix(1);
  return true;
}

void JsonLine::open_object() {
  if (!take('{')) fail("the line's start", "{ and one JSON object");
}

bool JsonLine::close_if_empty() { return take('}'); }

bool JsonLine::next_field() {
  if (take(',')) return true;
  if (!take('}')) fail("after " + name_, ", or }");
  return false;
}

void JsonLine::read_name() {
  name_.clear();
  skip_space();
  read_text(name_, "a field's name", name_bytes_max);
  if (!take(':')) fail("after the name " + name_, ":");
}

void JsonLine::expect_end() {
  skip_space();
  if (!at_.empty()) fail("after the object", "the line's end");
}

std::uint64_t JsonLine::number(std::uint64_t max) {
  skip_space();
  const std::string expected = "a whole number of at most " + std::to_string(max);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(at_.data(), at_.data() + at_.size(), value);
  const auto digits = static_cast<std::size_t>(end - at_.data());
  const bool leading_zero = digits > 1 && at_.front() == '0';
  const std::string_view after = at_.substr(digits);
  const bool ends = after.empty() || std::string_view(" \t,}]").find(after.front()) != after.npos;
  if (error != std::errc() || value > max || leading_zero || !ends) fail(name_, expected);
  at_ = after;
  return value;
}

void JsonLine::text(std::string& out, std::size_t bytes_max) {
  out.clear();
  read_text(out, name_, bytes_max);
}

void JsonLine::texts(std::vector<std::string>& out, std::size_t count_max, std::size_t bytes_max) {
  std::size_t count = 0;
  if (!take('[')) fail(name_, "[ and a list of texts");
  for (bool more = !take(']'); more; ++count) {
    if (count == count_max) fail(name_, "at most " + std::to_string(count_max) + " texts");
    if (count == out.size()) out.emplace_back();
    out[count].clear();
    skip_space();
    if (at_.empty() || at_.front() != '"')
      fail(name_ + "[" + std::to_string(count) + "]", "a text in quotes");
    read_text(out[count], name_, bytes_max);
    more = take(',');
    if (!more && !take(']')) fail("after " + name_ + "[" + std::to_string(count) + "]", ", or ]");
  }
  out.resize(count);
}

// Appends a text to `out`. Runs of plain characters are copied at once.
void JsonLine::read_text(std::string& out, const std::string& field, std::size_t bytes_max) {
  if (!take('"')) fail(field, "a text in quotes");
  for (;;) {
    const auto run =
        static_cast<std::size_t>(std::find_if_not(at_.begin(), at_.end(), is_plain) - at_.begin());
    out.append(at_, 0, run);
    at_.remove_prefix(run);
    if (out.size() > bytes_max) fail(field, "a text of at most " + std::to_string(bytes_max) + " bytes");
    if (at_.empty()) fail(field, "a closing quote");
    const char end = at_.front();  // take() would skip spaces, which belong to the text here
    if (end != '"' && end != '\\') fail(field, "control characters as \\u0000");
    at_.remove_prefix(1);
    if (end == '"') break;
    read_escape(out, field);
  }
  if (std::ranges::any_of(out, [](char c) { return static_cast<unsigned char>(c) >= 0x80; }) && !is_utf8(out))
    fail(field + " is not UTF-8; after it", "valid UTF-8");
}

void JsonLine::read_escape(std::string& out, const std::string& field) {
  constexpr std::string_view names = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
  if (at_.empty()) fail(field, "an escaped character");
  const std::size_t known = names.find(at_.front());
  if (known != names.npos) {
    at_.remove_prefix(1);
    out += meanings[known];
    return;
  }
  if (at_.front() != 'u') fail(field, "one of \" \\ / b f n r t u after the \\");
  at_.remove_prefix(1);
  std::uint32_t code = read_hex(field);
  if (code >= 0xd800 && code < 0xdc00) {  // the first half of a pair
    if (!at_.starts_with("\\u")) fail(field, "the second half of a surrogate pair");
    at_.remove_prefix(2);
    const std::uint32_t low = read_hex(field);
    if (low < 0xdc00 || low >= 0xe000) fail(field, "before it the second half of a surrogate pair");
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  } else if (code == 0 || (code >= 0xdc00 && code < 0xe000)) {
    fail(field, "before it neither \\u0000 nor half of a surrogate pair");
  }
  append_utf8(out, code);
}

std::uint32_t JsonLine::read_hex(const std::string& field) {
  std::uint32_t code = 0;
  const std::string_view digits = at_.substr(0, 4);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
  if (error != std::errc() || digits.size() != 4 || end != digits.data() + 4) fail(field, "four hex digits");
  at_.remove_prefix(4);
  return code;
}

}  // namespace troupe::deploy
