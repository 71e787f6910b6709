#pragma once
// Wire format of a link, the connection between two nodes (links.h): frames of a fixed header and a
// body. Integers are little endian. A seal is an 8-byte checksum (XXH3) against damage in transit.
//
//   header       magic "TRP1", kind, role and node of the addressee (cargo only), length of the body
//                in bytes, and a checksum of all these
//   join         first frame of both sides: wire version, sender, intended receiver, incarnation,
//                cluster, greeting, whether the sender supports seals; a seal; the sender's name;
//                another seal; if the connection is for pages, a byte 1 and another seal. The side
//                that connected sends its join first, gets the other join as the answer, and accepts
//                that with a ping. A connection for pages gets no ping, and no frame after the
//                joins: it belongs to the transport of pages (transfer/link_transport.h)
//   rejection    instead of the answer to a join: the reason as text; then the connection is closed
//   cargo        an envelope for an actor of the other process; then a seal, if the link is sealed
//   ping         empty; shows that the sender is alive
//
// A link is sealed if no TLS protects it and both joins said that they support seals. The checksum
// of each header is then verified before its length is used: with a damaged length the reader would
// wait for bytes that never come.
//
// The reader trusts nothing: before it allocates, it checks the length against the maximum for the
// frame's kind. It closes a connection whose frame is invalid.
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "runtime/actor/messages.h"

namespace troupe::link {

inline constexpr std::uint32_t wire_version = 2;
inline constexpr std::size_t header_bytes = 16;
using Header = std::array<std::uint8_t, header_bytes>;

enum class Kind : std::uint8_t { join = 1, rejection, cargo, ping };
struct Frame {
  Kind kind = Kind::ping;
  Address to;
  std::uint32_t bytes = 0;
  bool operator==(const Frame&) const = default;
};
Header encode(const Frame& frame);
// Decodes a header. `joined`: only cargo and pings are valid; otherwise only join and rejection.
// The text says what is wrong.
std::variant<Frame, std::string> decode_header(const Header& header, bool joined);

// Returns whether the checksum that `encode` wrote (CRC-16/CCITT) is right. Older programs write 0.
bool is_whole(const Header& header);

// Seal of cargo: XXH3-64 of header and envelope; the header's length includes the seal.
inline constexpr std::size_t seal_bytes = 8;
using Seal = std::array<std::uint8_t, seal_bytes>;
Seal seal(const Header& header, std::span<const std::uint8_t> envelope);
// Verifies and removes the seal of a cargo's body. Returns "" or the fault.
std::string remove_seal(const Header& header, Bytes& body);

struct Join {
  std::uint32_t wire = wire_version;
  NodeId node = 0, wanted = 0;  // sender and intended receiver
  Incarnation incarnation = 0;
  std::string cluster;
  // data for the peer that is no message, such as the sender's address for pulling pages
  Bytes greeting;
  bool supports_seals = false;  // false for older programs
  // node name after the first seal, with a seal of its own; older programs omit it
  std::string name = {};
  bool for_pages = false;  // omitted unless true; only for peers whose greeting says that they know it
  bool operator==(const Join&) const = default;
};
Bytes encode(const Join& join);
// Decodes a join of any version; bytes after the last seal are reserved for later versions. A join
// of an older program, which does not say whether it supports seals, has no seal.
std::variant<Join, std::string> decode_join(std::span<const std::uint8_t> bytes);

}  // namespace troupe::link
