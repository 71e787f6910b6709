#pragma once
// Names of blocks. A block's keys and values depend only on the model, the layout, the tokens and
// their features, the start position and the blocks it sees. Its name is SHA-256 over exactly those
// parts, each tagged and length-prefixed. Equal names mean equal bytes (up to rounding). A name is
// salted by the tenant unless the block is public.
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "runtime/actor/messages.h"

namespace troupe {

struct NameContext {
  std::string model_version;
  std::string layout_version;  // changes whenever the meaning of stored pages changes
};

BlockName block_name(const NameContext& context, std::string_view tenant_salt, std::span<const Token> tokens,
                     std::int32_t start,
                     std::span<const BlockName> sees,  // a set: order and repetition are ignored
                     std::span<const std::int64_t> features = {});

std::string to_hex(const BlockName& name);

// Returns the first eight bytes as a number: a hash, as names are hashes.
inline std::uint64_t hash_of(const BlockName& name) {
  std::uint64_t number = 0;
  std::memcpy(&number, name.bytes.data(), sizeof number);
  return number;
}

// Hash for hash tables: names are hashes already.
struct BlockNameHash {
  std::size_t operator()(const BlockName& name) const {
    std::size_t head = 0;
    std::memcpy(&head, name.bytes.data(), sizeof head);
    return head;
  }
};

}  // namespace troupe
