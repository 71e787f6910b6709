#pragma once
// What goes over a link (links.h): frames of a fixed header and a body. Integers are little endian.
//
//   header   magic "TRP1", kind, role and node of the addressee (cargo only), bytes of the body, and a sum of
//            all these
//   join     the first frame of both sides: who speaks, whom it means, that it knows seals, and a seal. Who
//            called then says that the answer pleases it, by a ping
//   turned_away   instead of the answer to a join: why, in words; then the connection is closed
//   cargo    an envelope for an actor of the other process; then a seal, where the link is sealed
//   ping     nothing; says that its sender lives
//
// A link is sealed where no TLS guards it and both joins said that they know seals. Then the sum of each
// header is checked, too, before its length is believed: one that was damaged on the way would make the
// reader wait.
//
// Whoever reads trusts nothing: lengths are checked against what the kind may have before anything is
// allocated, and a connection that brings anything else is closed.
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

enum class Kind : std::uint8_t { join = 1, turned_away, cargo, ping };
struct Frame {
  Kind kind = Kind::ping;
  Address to;
  std::uint32_t bytes = 0;
  bool operator==(const Frame&) const = default;
};
Header encode(const Frame& frame);
// `joined`: cargo and pings may come, else only a join or that it was turned away. The text says what is
// wrong.
std::variant<Frame, std::string> decode_header(const Header& header, bool joined);

// Whether the sum that `encode` put there, CRC-16/CCITT, is right. Older programs put 0.
bool is_whole(const Header& header);

// XXH3-64 of header and envelope; the header counts its bytes.
inline constexpr std::size_t seal_bytes = 8;
using Seal = std::array<std::uint8_t, seal_bytes>;
Seal seal(const Header& header, std::span<const std::uint8_t> envelope);
// Leaves the envelope of a sealed cargo's body. The text, if any, says what is wrong.
std::string take_seal_off(const Header& header, Bytes& body);

struct Join {
  std::uint32_t wire = wire_version;
  NodeId node = 0, wanted = 0;  // who says it, who is meant
  Incarnation incarnation = 0;
  std::string cluster;
  Bytes greeting;
  bool knows_seals = false;  // older programs do not
  std::string name = {};     // of a node, behind the seal, with a seal of its own; older programs say none
  bool operator==(const Join&) const = default;
};
Bytes encode(const Join& join);
// Of any version; what follows the last seal is left to later ones. One that does not say whether it knows
// seals, for it is of an older program, has none.
std::variant<Join, std::string> decode_join(std::span<const std::uint8_t> bytes);

}  // namespace troupe::link
