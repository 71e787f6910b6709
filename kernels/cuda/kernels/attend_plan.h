#pragma once
// Plans which block of the span attention kernel (attend.h) computes what: plain data from plain
// data. A block takes one tile of a group's query vectors, row by row, with the heads that share a
// key-value head side by side, so that they share the loaded keys. It walks the key tiles that at
// least one of its rows sees. Long lists of key tiles may be split among several blocks, whose
// partial results a second kernel merges. The planner considers both sizes of query tiles, with
// lists whole or split into parts of several lengths, and takes the alternative with the least
// predicted time.
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/kernels/attend_cost.h"

namespace troupe::kernels::cuda {

// Query rows with one context and one tail (attend.h of the CPU backend). Their keys are a range of
// the pass's list of token addresses: the context's tokens, then the tail's.
struct AttendGroup {
  std::uint32_t row_begin = 0, row_end = 0;  // query rows
  std::uint32_t key_begin = 0;               // index into the list of addresses
  std::uint32_t context_tokens = 0, tail_tokens = 0;
};

// Keys [first, first + count) of a group. `masked`: some row of the block does not see all of them,
// or the tile is not full.
struct KeyTile {  // one word: a block keeps several in registers
  std::uint32_t first : 24 = 0;
  std::uint32_t count : 7 = 0;
  std::uint32_t masked : 1 = 0;
};
inline constexpr std::uint32_t attend_keys_max = 1u << 24;  // per group

inline constexpr std::uint32_t whole_result = ~0u;

// A block's work, per key-value head. Vector v of the tile is head (vector_begin + v) % heads of
// query row row_begin + (vector_begin + v) / heads. An item without vectors is idle padding.
struct AttendItem {
  std::uint32_t row_begin = 0;
  std::uint32_t vector_begin = 0, vectors = 0;
  std::uint32_t key_begin = 0, context_tokens = 0;
  std::uint32_t tile_begin = 0, tile_end = 0;  // indices into key_tiles
  std::uint32_t partial = whole_result;        // index of its partial result, or whole_result
};

// A merge of the partial results [partial_begin, partial_end), which have the same vectors.
struct AttendMerge {
  std::uint32_t row_begin = 0;
  std::uint32_t vector_begin = 0, vectors = 0;
  std::uint32_t partial_begin = 0, partial_end = 0;
};

struct AttendPlan {
  std::uint32_t tile_vectors = 0;  // of all items
  std::vector<AttendItem> items;   // the longest first
  std::vector<KeyTile> key_tiles;
  std::vector<AttendMerge> merges;
  std::uint32_t partials = 0;
  double predicted_cycles = 0;
};

// A candidate plan and its predicted time (attend_cost.h).
struct AttendChoice {
  std::uint32_t tile_vectors = 0;
  std::uint32_t part_tiles = whole_result;  // maximum key tiles per item; longer items are split
  double cycles = 0;
};

// Returns the maximum number of partial results of the larger tile in plans for this machine; there
// may be twice as many of the smaller.
std::uint32_t partials_max(const AttendMachine& machine);

// Returns every considered choice, in no particular order. Arguments as for plan_attention.
std::vector<AttendChoice> attend_choices(const AttendMachine& machine, std::span<const AttendGroup> groups,
                                         std::span<const std::uint32_t> visible_begin,
                                         std::span<const std::uint32_t> visible_end);

// Replaces `plan` and reuses its memory. visible_begin/end: per query row, the interval of its
// group's tail that it sees.
void plan_attention(const AttendMachine& machine, std::span<const AttendGroup> groups,
                    std::span<const std::uint32_t> visible_begin, std::span<const std::uint32_t> visible_end,
                    AttendPlan& plan);

}  // namespace troupe::kernels::cuda
