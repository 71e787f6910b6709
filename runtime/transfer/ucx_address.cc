// Packs the address of a process's UCX worker for its peers, with a version and a checksum. UCX,
// the library that moves the pages, checks neither.
#include "runtime/transfer/ucx_address.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace troupe {
namespace {

// Format: "TUX1", major, minor, XXH3 of the remaining bytes, the worker's address. "TUX2" appends
// the keys and uses another seed for the checksum, so that neither is taken for the other.
constexpr std::size_t head_bytes = 16;

std::array<std::uint8_t, head_bytes> head_of(UcxVersion version, char form,
                                             std::span<const std::uint8_t> rest) {
  std::array<std::uint8_t, head_bytes> head{'T', 'U', 'X', static_cast<std::uint8_t>(form)};
  const std::uint64_t sum =
      // Seed 0 equals the unseeded hash.
      XXH3_64bits_withSeed(rest.data(), rest.size(), form == '1' ? 0 : 2);
  std::memcpy(head.data() + 4, &version.major, 2);
  std::memcpy(head.data() + 6, &version.minor, 2);
  std::memcpy(head.data() + 8, &sum, 8);
  return head;
}

}  // namespace

Bytes pack_ucx_address(UcxVersion version, const UcxAddress& address) {
  Bytes packed(head_bytes + address.worker.size() + (address.keys ? seal_keys_bytes : 0));
  auto end = std::copy(address.worker.begin(), address.worker.end(), packed.begin() + head_bytes);
  if (address.keys)
    for (const SealKey* key : {&address.keys->requests, &address.keys->replies})
      end = std::copy(key->begin(), key->end(), end);
  const auto head = head_of(version, address.keys ? '2' : '1', std::span(packed).subspan(head_bytes));
  std::copy(head.begin(), head.end(), packed.begin());
  return packed;
}

bool is_ucx_address(std::span<const std::uint8_t> packed) {
  return packed.size() > head_bytes && packed[0] == 'T' && packed[1] == 'U' && packed[2] == 'X';
}

std::optional<UcxAddress> unpack_ucx_address(UcxVersion version, std::span<const std::uint8_t> packed) {
  if (packed.size() <= head_bytes) return std::nullopt;
  const bool keys = packed[3] == '2';
  const auto rest = packed.subspan(head_bytes);
  const std::size_t keys_bytes = keys ? seal_keys_bytes : 0;
  if (rest.size() <= keys_bytes || rest.size() - keys_bytes > ucx_address_bytes_max) return std::nullopt;
  const auto head = head_of(version, keys ? '2' : '1', rest);
  if (!std::equal(head.begin(), head.end(), packed.begin())) return std::nullopt;
  const auto worker = rest.first(rest.size() - keys_bytes), tail = rest.last(keys_bytes);
  UcxAddress address{{worker.begin(), worker.end()}, {}};
  if (keys) {
    address.keys.emplace();
    std::copy_n(tail.begin(), sizeof(SealKey), address.keys->requests.begin());
    std::copy_n(tail.begin() + sizeof(SealKey), sizeof(SealKey), address.keys->replies.begin());
  }
  return address;
}

}  // namespace troupe
