#pragma once
// Who speaks, and of which block: nodes, roles, processes, requests, and names of blocks.
#include <array>
#include <bit>
#include <compare>
#include <cstdint>
#include <vector>

namespace troupe {

using Bytes = std::vector<std::uint8_t>;
using NodeId = std::uint32_t;     // 0 is "no node"
using RequestId = std::uint64_t;  // chosen by whoever asks; unique per asker
// Of a process: every start of a node has a larger one than those before it. It is the first of all numbers
// that the process chooses (ids, generations), so that whatever was meant for an earlier process is
// recognised. 0 is "none".
using Incarnation = std::uint64_t;

enum class Role : std::uint8_t { door, router, cache_meta, kv_worker, inference_worker, allocator };
struct Address {
  NodeId node = 0;
  Role role = Role::door;
  auto operator<=>(const Address&) const = default;
};

// 256-bit name of a block: a hash over all that its keys and values depend on (runtime/actor/block_name.h).
// Containers find blocks by name; whoever uses what it found checks `identical` first. The two are the same
// thing, except in the build whose names collide on purpose (runtime/actor/planted.h), where only `identical`
// sees the whole name.
struct BlockName {
  std::array<std::uint8_t, 32> bytes{};
#ifdef TROUPE_PLANTED
  std::strong_ordering operator<=>(const BlockName& other) const;
  bool operator==(const BlockName& other) const { return (*this <=> other) == 0; }
#else
  auto operator<=>(const BlockName&) const = default;
  bool operator==(const BlockName& other) const;
#endif
};
inline bool identical(const BlockName& a, const BlockName& b) {  // four words, without a call
  const auto x = std::bit_cast<std::array<std::uint64_t, 4>>(a),
             y = std::bit_cast<std::array<std::uint64_t, 4>>(b);
  return ((x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]) | (x[3] ^ y[3])) == 0;
}
#ifndef TROUPE_PLANTED
inline bool BlockName::operator==(const BlockName& other) const { return identical(*this, other); }
#endif

}  // namespace troupe
