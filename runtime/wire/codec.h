#pragma once
// Messages as bytes: one Cap'n Proto envelope (schema/envelope.capnp) per message, and back. Only the
// codec_*.cc files and json.cc see the generated headers; everyone else knows plain structs and bytes.
// Decoding trusts nothing: any bytes give either an envelope that every reader may use, or words that say
// what is wrong with them.
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

// The text says what is wrong: "envelope: 13 bytes; expected a multiple of 8". Allocates at most about 20
// times the input. `bytes` need not be aligned.
std::variant<Envelope, std::string> decode(std::span<const std::uint8_t> bytes);

}  // namespace troupe
