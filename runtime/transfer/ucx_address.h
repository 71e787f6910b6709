#pragma once
// The address of a UCX worker as it travels to other processes. UCX neither checks the addresses that it is
// given nor promises that two versions understand each other, so both are seen to here: damage and another
// version give no address. It does not protect against a peer that lies on purpose.
#include <cstdint>
#include <optional>
#include <span>

#include "runtime/actor/messages.h"

namespace troupe {

inline constexpr std::size_t ucx_address_bytes_max = 4096;

struct UcxVersion {
  std::uint16_t major = 0, minor = 0;
};
Bytes pack_ucx_address(UcxVersion version, std::span<const std::uint8_t> address);
std::optional<Bytes> unpack_ucx_address(UcxVersion version, std::span<const std::uint8_t> packed);

}  // namespace troupe
