// Computes CRC-32C sums of any piece of a 32-KiB block of RocksDB's logs, at a cost that hardly
// depends on the piece's length. The log reader (store_log.h) needs them: after damage it tries
// every byte as the start of a record.
#include "runtime/store/store_log_sums.h"

#include <array>

namespace troupe {
namespace {

// Polynomials modulo that of CRC-32C, highest power in the lowest bit: `one` is the polynomial 1.
constexpr std::uint32_t polynomial = 0x82F6'3B78u, one = 0x8000'0000u;

constexpr std::uint32_t times_x(std::uint32_t value) { return value >> 1 ^ (value & 1 ? polynomial : 0); }

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = times_x(value);
    table[i] = value;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> table = make_table();

std::uint32_t append_byte(std::uint32_t crc, unsigned char byte) {
  return crc >> 8 ^ table[(crc ^ byte) & 0xFF];
}

std::uint32_t product(std::uint32_t a, std::uint32_t b) {
  std::uint32_t sum = 0;
  for (; a != 0; a <<= 1, b = times_x(b))
    if (a & one) sum ^= b;
  return sum;
}

// Returns x^(8 * bytes): a CRC's state is multiplied by it when so many zero bytes follow.
std::uint32_t zeros(std::size_t bytes) {
  static const std::vector<std::uint32_t> powers = [] {
    constexpr std::size_t most = 32'768;  // bytes of a block of a log
    std::vector<std::uint32_t> made{one};
    while (made.size() <= most) made.push_back(append_byte(made.back(), 0));
    return made;
  }();
  return powers.at(bytes);
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (const char byte : bytes) crc = append_byte(crc, static_cast<unsigned char>(byte));
  return ~crc;
}

PieceSums::PieceSums(std::string_view block) {
  prefix_sums_.reserve(block.size() + 1);
  prefix_sums_.push_back(0);
  for (const char byte : block)
    prefix_sums_.push_back(append_byte(prefix_sums_.back(), static_cast<unsigned char>(byte)));
}

std::uint32_t PieceSums::crc32c(std::size_t at, std::size_t bytes) const {
  return ~(prefix_sums_[at + bytes] ^ product(prefix_sums_[at] ^ ~0u, zeros(bytes)));
}

}  // namespace troupe
