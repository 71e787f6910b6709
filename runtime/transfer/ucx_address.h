#pragma once
// Encodes the address of a UCX worker for other processes. UCX neither checks the addresses that it
// is given nor guarantees compatibility between versions, so this format checks both: a damaged
// address, or one of another version, is rejected. It does not protect against a malicious peer.
// The keys of an owner that seals are appended (page_seal.h); a program that does not know them
// rejects such an address as another version's.
#include <cstdint>
#include <optional>
#include <span>

#include "runtime/actor/messages.h"
#include "runtime/transfer/page_seal.h"

namespace troupe {

inline constexpr std::size_t ucx_address_bytes_max = 4096;

struct UcxVersion {
  std::uint16_t major = 0, minor = 0;
};
struct UcxAddress {
  Bytes worker;
  std::optional<SealKeys> keys;  // nullopt: requests and replies are not encrypted
  bool operator==(const UcxAddress&) const = default;
};
Bytes pack_ucx_address(UcxVersion version, const UcxAddress& address);
std::optional<UcxAddress> unpack_ucx_address(UcxVersion version, std::span<const std::uint8_t> packed);
// Returns whether it is such an address of any version, whole or damaged.
bool is_ucx_address(std::span<const std::uint8_t> packed);

}  // namespace troupe
