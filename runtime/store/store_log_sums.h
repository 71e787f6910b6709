#pragma once
// The sums in RocksDB's logs, CRC-32C. Behind damage any byte may be the head of a piece, and a wrong head
// names any length: reading what each of them names would take the square of a block's size. So the sums of
// all beginnings of a block are made once; that of a piece follows from two of them, however long it is,
// since a CRC is linear (what came before the piece has gone through as many zero bytes as the piece is
// long).
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace troupe {

std::uint32_t crc32c(std::string_view bytes);

class PieceSums {
 public:
  explicit PieceSums(std::string_view block);
  std::uint32_t crc32c(std::size_t at, std::size_t bytes) const;  // of a piece of the block

 private:
  std::vector<std::uint32_t> until_;  // the register, begun at 0, before each byte and behind the last
};

}  // namespace troupe
