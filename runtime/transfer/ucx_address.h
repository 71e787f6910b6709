#pragma once
// The address of a UCX worker as it travels to other processes. UCX neither checks the addresses that it is
// given nor promises that two versions understand each other, so both are seen to here: damage and another
// version give no address. It does not protect against a peer that lies on purpose. With it go the keys of an
// owner that seals (page_seal.h); a program that does not know of these takes such an address for one of
// another version.
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
  std::optional<SealKeys> keys;  // none: what it sends and is asked is in the clear
  bool operator==(const UcxAddress&) const = default;
};
Bytes pack_ucx_address(UcxVersion version, const UcxAddress& address);
std::optional<UcxAddress> unpack_ucx_address(UcxVersion version, std::span<const std::uint8_t> packed);

}  // namespace troupe
