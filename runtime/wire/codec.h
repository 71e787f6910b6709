#pragma once
// Encodes messages to bytes and back: one Cap'n Proto envelope (schema/envelope.capnp) per message.
// Only the codec*.cc files and json.cc see Cap'n Proto's classes; all other code uses plain
// structs and bytes. Decoding trusts nothing: any bytes give either an envelope that is safe to
// read or an error text.
#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "runtime/actor/messages.h"

namespace troupe {

struct Envelope {
  Address from;
  Message message;
  bool operator==(const Envelope&) const = default;
};

Bytes encode(const Envelope& envelope);

// Returns the envelope or an error text, e.g. "envelope: 13 bytes; expected a multiple of 8".
// Allocates at most about 20 times the input. `bytes` need not be aligned.
std::variant<Envelope, std::string> decode(std::span<const std::uint8_t> bytes);

}  // namespace troupe
