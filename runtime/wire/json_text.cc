// Escapes text from outside for JSON and for error lines, and checks UTF-8. No input can break a
// log line or an HTTP answer.
#include "runtime/wire/json_text.h"

#include <cstdint>
#include <cstdio>

#include "runtime/actor/utf8.h"

namespace troupe {
namespace {

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

// Returns the number of a valid UTF-8 character of at most three bytes.
unsigned code_point(std::string_view character) {
  const auto bits = [&](std::size_t i, unsigned mask) {
    return static_cast<std::uint8_t>(character[i]) & mask;
  };
  if (character.size() == 1) return bits(0, 0x7f);
  if (character.size() == 2) return bits(0, 0x1f) << 6 | bits(1, 0x3f);
  return bits(0, 0x0f) << 12 | bits(1, 0x3f) << 6 | bits(2, 0x3f);
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

std::string terminal_text(std::string_view text, bool keeps_lines) {
  std::string out;
  char code[8];
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const std::string_view character = text.substr(0, length == 0 ? 1 : length);
    if (length == 0) {
      std::snprintf(code, sizeof code, "\\x%02x", static_cast<unsigned>(static_cast<std::uint8_t>(text[0])));
      out += code;
    } else if ((is_control(character) || reorders_text(character)) && !(keeps_lines && text[0] == '\n')) {
      std::snprintf(code, sizeof code, "\\u%04x", code_point(character));
      out += code;
    } else {
      out += character;
    }
    text.remove_prefix(character.size());
  }
  return out;
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
