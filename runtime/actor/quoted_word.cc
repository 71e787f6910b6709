// Quotes unknown words of clients.
#include "runtime/actor/quoted_word.h"

namespace troupe {

std::string quoted_word(std::string_view word) {
  constexpr std::size_t bytes_max = 100;
  if (word.size() <= bytes_max) return "\"" + std::string(word) + "\"";
  std::size_t end = bytes_max;
  while (end > 0 && (static_cast<unsigned char>(word[end]) & 0xc0) == 0x80) --end;  // not inside a character
  return "\"" + std::string(word.substr(0, end)) + "…\"";
}

}  // namespace troupe
