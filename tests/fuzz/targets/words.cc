#include "tests/fuzz/targets/target.h"

namespace troupe::fuzz {

void check_words(std::string_view text, std::size_t bytes_max) {
  TROUPE_CHECK(!text.empty(), "an error without words");
  TROUPE_CHECK(text.size() <= bytes_max, "an error that does not end");
  for (const char c : text)
    TROUPE_CHECK(static_cast<unsigned char>(c) >= ' ' && c != 0x7f, "an error with a control character");
}

}  // namespace troupe::fuzz
