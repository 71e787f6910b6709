#pragma once
// Identities: nodes, roles, processes, requests and names of blocks.
#include <array>
#include <bit>
#include <compare>
#include <cstdint>
#include <vector>

namespace troupe {

using Bytes = std::vector<std::uint8_t>;
using NodeId = std::uint32_t;     // 0 = no node
using RequestId = std::uint64_t;  // chosen by the sender of the request; unique per sender
// Number of a process: every start of a node gets a larger one than all before it. It is the first
// of all numbers that the process chooses (ids, generations), so that messages meant for an earlier
// process are recognised. 0 = none.
using Incarnation = std::uint64_t;

enum class Role : std::uint8_t { server, router, cache_meta, kv_worker, inference_worker, allocator };
struct Address {
  NodeId node = 0;
  Role role = Role::server;
  auto operator<=>(const Address&) const = default;
};

// 256-bit name of a block: a hash over everything that its keys and values depend on
// (runtime/actor/block_name.h). Containers find blocks by name; code that uses a found block checks
// `identical` first. Both comparisons are the same here; a test build makes `==` compare fewer bits
// (tests/sim/mutants), so that names collide and only `identical` tells blocks apart.
struct BlockName {
  std::array<std::uint8_t, 32> bytes{};
  auto operator<=>(const BlockName&) const = default;
  bool operator==(const BlockName& other) const;
};
inline bool identical(const BlockName& a, const BlockName& b) {  // compares four words, without a call
  const auto x = std::bit_cast<std::array<std::uint64_t, 4>>(a),
             y = std::bit_cast<std::array<std::uint64_t, 4>>(b);
  return ((x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]) | (x[3] ^ y[3])) == 0;
}
inline bool BlockName::operator==(const BlockName& other) const { return identical(*this, other); }

}  // namespace troupe
