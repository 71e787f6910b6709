#include "runtime/store/store_log_sums.h"

#include <doctest/doctest.h>

#include <random>
#include <string>

using namespace troupe;

TEST_CASE("store log sums: crc32c gives the standard check values") {
  CHECK(crc32c("") == 0);
  CHECK(crc32c("123456789") == 0xE306'9283u);
  CHECK(crc32c(std::string(32, '\0')) == 0x8A91'36AAu);
}

TEST_CASE("store log sums: a piece's sum equals the CRC of its bytes") {
  const unsigned seed = 17;
  CAPTURE(seed);
  std::mt19937 random(seed);
  std::string block(32'768, '\0');
  for (char& byte : block) byte = static_cast<char>(random());
  const PieceSums sums(block);
  CHECK(sums.crc32c(0, 0) == 0);
  CHECK(sums.crc32c(0, block.size()) == crc32c(block));
  for (int i = 0; i < 300; ++i) {
    const std::size_t at = random() % (block.size() + 1), bytes = random() % (block.size() - at + 1);
    CAPTURE(at);
    CAPTURE(bytes);
    REQUIRE(sums.crc32c(at, bytes) == crc32c(std::string_view(block).substr(at, bytes)));
  }
}
