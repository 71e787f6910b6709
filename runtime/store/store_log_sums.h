#pragma once
// Computes the CRC-32C sums of RocksDB's logs. After damage any byte may be the head of a piece,
// and a wrong head claims any length, so reading every claimed piece takes time quadratic in the
// block size. Instead the sums of all prefixes of a block are computed once. The sum of any piece
// follows from two of them, because a CRC is linear: the bytes before the piece pass through as
// many zero bytes as the piece is long.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace troupe {

std::uint32_t crc32c(std::string_view bytes);

class PieceSums {
 public:
  explicit PieceSums(std::string_view block);
  std::uint32_t crc32c(std::size_t at, std::size_t bytes) const;  // sum of a piece of the block

 private:
  // CRC state, started at 0, before each byte and after the last
  std::vector<std::uint32_t> prefix_sums_;
};

}  // namespace troupe
