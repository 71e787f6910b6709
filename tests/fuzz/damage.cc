#include "tests/fuzz/damage.h"

#include <algorithm>

namespace troupe::fuzz {

namespace {

const std::vector<std::string>& lies() {
  static const std::vector<std::string> texts{"0",
                                              "-1",
                                              "1",
                                              "2",
                                              "1.5",
                                              "-0.0",
                                              "1e308",
                                              "1e999",
                                              "2147483648",
                                              "4294967296",
                                              "9223372036854775808",
                                              "18446744073709551615",
                                              "18446744073709551616",
                                              "123456789012345678901234567890",
                                              "null",
                                              "true",
                                              "false",
                                              "\"\"",
                                              "\"x\"",
                                              "\"\\ud800\"",
                                              "\"\\u0000\"",
                                              "\"a\\nb\"",
                                              "[]",
                                              "{}",
                                              "[[]]",
                                              "[null]",
                                              "{\"a\":{\"a\":1}}",
                                              "NaN",
                                              "-Infinity",
                                              ",",
                                              ":",
                                              "",
                                              "~",
                                              "!!int 3",
                                              "&a",
                                              "*a",
                                              "- ",
                                              "? ",
                                              "| ",
                                              "%",
                                              "@",
                                              "`",
                                              "#",
                                              "\t",
                                              "\n",
                                              "\r\n",
                                              " ",
                                              std::string(1, '\0'),
                                              "\xff",
                                              "\xc0\xaf",
                                              "\xed\xa0\x80",
                                              "\xef\xbb\xbf",
                                              std::string(30'000, '['),
                                              std::string(30'000, '{'),
                                              std::string(5'000, '9'),
                                              std::string(5'000, 'a'),
                                              std::string(5'000, '-'),
                                              "\"" + std::string(5'000, 'z') + "\""};
  return texts;
}

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_';
}

}  // namespace

std::size_t draw(Chance& chance, std::size_t below) {
  return std::uniform_int_distribution<std::size_t>(0, below - 1)(chance);
}

void damage_bytes(std::string& bytes, Chance& chance) {
  if (bytes.empty()) return;
  const std::size_t at = draw(chance, bytes.size());
  const std::size_t length = std::min<std::size_t>(draw(chance, bytes.size() - at) + 1, 1'000);
  switch (draw(chance, 6)) {
    case 0:
      for (std::size_t flips = draw(chance, 8) + 1; flips > 0; --flips)
        bytes[draw(chance, bytes.size())] ^= static_cast<char>(1 << draw(chance, 8));
      break;
    case 1:
      bytes.resize(at);
      break;
    case 2:
      bytes.append(draw(chance, 100) + 1, static_cast<char>(draw(chance, 256)));
      break;
    case 3:
      bytes.erase(at, length);
      break;
    case 4:
      bytes.insert(at, bytes.substr(at, length));
      break;
    default:
      bytes[at] = static_cast<char>(draw(chance, 256));
      break;
  }
}

void damage_text(std::string& text, Chance& chance) {
  if (text.empty()) return;
  const std::size_t from = draw(chance, text.size());
  std::size_t begin = from, end = from;
  if (draw(chance, 2) == 0) {  // a word or a number
    begin = static_cast<std::size_t>(
        std::find_if(text.begin() + static_cast<std::ptrdiff_t>(from), text.end(), is_word) - text.begin());
    end = begin;
    while (end < text.size() && is_word(text[end])) ++end;
  } else if (const std::size_t quote = text.find('"', from); quote != text.npos) {
    begin = quote;
    end = std::min(text.find('"', quote + 1), text.size() - 1) + 1;
  }
  text.replace(begin, end - begin, pick(chance, lies()));
}

}  // namespace troupe::fuzz
