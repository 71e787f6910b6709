#pragma once
// Finds the characters of UTF-8 text from outside.
#include <cstdint>
#include <string_view>

namespace troupe {

// Returns the length in bytes of the valid UTF-8 character at the start of `text` (not empty); 0 if
// there is none. The bounds of the second byte exclude overlong forms, surrogates and code points
// above U+10FFFF (RFC 3629 §4).
inline std::size_t utf8_length(std::string_view text) {
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

// Returns true for a character, as utf8_length delimits it, that a terminal or a file of lines would
// interpret: U+0000 to U+001F, and U+007F to U+009F.
inline bool is_control(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(character[i]); };
  if (character.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7f;
  return character.size() == 2 && byte(0) == 0xc2 && byte(1) < 0xa0;
}

// Returns true for a character, as utf8_length delimits it, that reorders the text around it in a terminal
// (Unicode's bidirectional controls: U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069).
inline bool reorders_text(std::string_view character) {
  if (character == "\xd8\x9c") return true;
  if (character.size() != 3 || character[0] != '\xe2') return false;
  const auto last = static_cast<std::uint8_t>(character[2]);
  if (character[1] == '\x80') return last == 0x8e || last == 0x8f || (last >= 0xaa && last <= 0xae);
  return character[1] == '\x81' && last >= 0xa6 && last <= 0xa9;
}

}  // namespace troupe
