#include "runtime/transfer/ucx_address.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace troupe {
namespace {

// "TUX1", major, minor, XXH3 of the rest; then the address.
constexpr std::size_t head_bytes = 16;

std::array<std::uint8_t, head_bytes> head_of(UcxVersion version, std::span<const std::uint8_t> address) {
  std::array<std::uint8_t, head_bytes> head{'T', 'U', 'X', '1'};
  const std::uint64_t sum = XXH3_64bits(address.data(), address.size());
  std::memcpy(head.data() + 4, &version.major, 2);
  std::memcpy(head.data() + 6, &version.minor, 2);
  std::memcpy(head.data() + 8, &sum, 8);
  return head;
}

}  // namespace

Bytes pack_ucx_address(UcxVersion version, std::span<const std::uint8_t> address) {
  const auto head = head_of(version, address);
  Bytes packed(head_bytes + address.size());
  std::copy(head.begin(), head.end(), packed.begin());
  std::copy(address.begin(), address.end(), packed.begin() + head_bytes);
  return packed;
}

std::optional<Bytes> unpack_ucx_address(UcxVersion version, std::span<const std::uint8_t> packed) {
  if (packed.size() <= head_bytes || packed.size() > head_bytes + ucx_address_bytes_max) return std::nullopt;
  const auto address = packed.subspan(head_bytes);
  const auto head = head_of(version, address);
  if (!std::equal(head.begin(), head.end(), packed.begin())) return std::nullopt;
  return Bytes(address.begin(), address.end());
}

}  // namespace troupe
