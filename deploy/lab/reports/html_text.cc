// Escapes texts for HTML and XML and makes them valid UTF-8, because names may come from a damaged
// file or a hostile request.
#include "deploy/lab/reports/html_text.h"

#include <algorithm>
#include <cstdint>

namespace troupe::deploy {

namespace {

unsigned char byte_at(std::string_view text, std::size_t i) { return static_cast<unsigned char>(text[i]); }

bool continues(std::string_view text, std::size_t i) {
  return i < text.size() && (byte_at(text, i) & 0xC0) == 0x80;
}

bool allowed(std::uint32_t point, std::size_t length) {
  // smaller values would be an overlong encoding
  static constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (point < least[length] || point > 0x10FFFF) return false;
  if (point < 0x20) return point == '\t' || point == '\n' || point == '\r';
  return !(point >= 0x7F && point < 0xA0) && !(point >= 0xD800 && point < 0xE000) &&
         (point & 0xFFFE) != 0xFFFE;
}

// Returns the length of the valid code point that begins at i; 0 if none does.
std::size_t valid_length(std::string_view text, std::size_t i) {
  const unsigned char lead = byte_at(text, i);
  const std::size_t length = lead < 0x80 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if ((lead >= 0x80 && lead < 0xC0) || lead >= 0xF8) return 0;
  std::uint32_t point = length == 1 ? lead : lead & (0xFFu >> (length + 1));
  for (std::size_t k = 1; k < length; ++k) {
    if (!continues(text, i + k)) return 0;
    point = point << 6 | (byte_at(text, i + k) & 0x3Fu);
  }
  return allowed(point, length) ? length : 0;
}

std::string_view entity(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return {};
  }
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = valid_length(text, i);
    if (length == 0)
      out += "\uFFFD";
    else if (const std::string_view safe = entity(text[i]); !safe.empty())
      out += safe;
    else
      out += text.substr(i, length);
    i += std::max<std::size_t>(1, length);
  }
  return out;
}

std::size_t code_points(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace troupe::deploy
