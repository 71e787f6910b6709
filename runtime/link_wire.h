#pragma once
// What goes over a link (links.h): frames of a fixed header and a body. Integers are little endian.
//
//   header   magic "TRP1", kind, role and node of the addressee (cargo only), bytes of the body
//   join     the first frame of both sides: who speaks, whom it means. Who called then says that the answer
//            pleases it, by a ping
//   turned_away   instead of the answer to a join: why, in words; then the connection is closed
//   cargo    an envelope for an actor of the other process; then a seal, where no TLS guards the connection
//   and
//            both joins said that they know seals
//   ping     nothing; says that its sender lives
//
// Whoever reads trusts nothing: lengths are checked against what the kind may have before anything is
// allocated, and a connection that brings anything else is closed.
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "runtime/messages.h"

namespace troupe::link {

inline constexpr std::uint32_t wire_version = 1;
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

// XXH3-64 of header and envelope; the header counts its bytes.
inline constexpr std::size_t seal_bytes = 8;
using Seal = std::array<std::uint8_t, seal_bytes>;
Seal seal(const Header& header, std::span<const std::uint8_t> envelope);

struct Join {
  std::uint32_t wire = wire_version;
  NodeId node = 0, wanted = 0;  // who says it, who is meant
  Incarnation incarnation = 0;
  std::string cluster;
  Bytes greeting;
  bool knows_seals = false;  // older programs do not
  bool operator==(const Join&) const = default;
};
Bytes encode(const Join& join);
// Of any version; what follows the known fields is left to later ones.
std::variant<Join, std::string> decode_join(std::span<const std::uint8_t> bytes);

}  // namespace troupe::link
