// Escapes text from outside for JSON and for error lines, and checks UTF-8. No input can break a
// log line or an HTTP answer.
#include "runtime/wire/json_text.h"

#include <cstdint>

namespace troupe {
namespace {

// Returns the length in bytes of the valid UTF-8 character at the start of `text` (not empty); 0 if
// there is none. The bounds of the second byte exclude overlong forms, surrogates and code points
// above U+10FFFF (RFC 3629 §4).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (length == 0 || text.size() < length) return 0;
  const std::uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const std::uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i)
    if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
  return length;
}

void append_escaped(std::string& out, char c) {
  constexpr char digits[] = "0123456789abcdef";
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  const auto byte = static_cast<std::uint8_t>(c);
  if (byte >= 0x20 && byte != 0x7f) {
    out += c;
  } else {
    out += "\\u00";
    out += digits[byte >> 4];
    out += digits[byte & 15];
  }
}

// Returns the length of the prefix that needs no escaping.
std::size_t plain_length(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size()) {
    const auto byte = static_cast<std::uint8_t>(text[length]);
    if (byte < 0x20 || byte >= 0x7f || byte == '"' || byte == '\\') break;
    ++length;
  }
  return length;
}

}  // namespace

std::string printable(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
  return text;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  for (;;) {
    const std::size_t plain = plain_length(text);
    out += text.substr(0, plain);
    text.remove_prefix(plain);
    if (text.empty()) break;
    const std::size_t length = utf8_length(text);
    if (length == 1)
      append_escaped(out, text[0]);
    else if (length == 0)
      out += "\xef\xbf\xbd";  // U+FFFD
    else
      out += text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out += '"';
}

}  // namespace troupe
