#pragma once
// Which block of the span attention kernel (attend.h) computes what: plain data from plain data. A block
// takes one tile of a group's query vectors, row by row with the heads that share a key-value head side by
// side, so that they share the keys that it loads, and the tiles of keys that at least one of its rows sees.
// Long lists of key tiles may be split among several blocks, whose partial results a second kernel merges. Of
// both tiles of query vectors, with lists whole or split into parts of several lengths, the way is taken that
// is predicted to take least.
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/kernels/attend_cost.h"

namespace troupe::kernels::cuda {

// Query rows with one context and one tail (attend.h of the CPU backend). Their keys are a run of the pass's
// list of token addresses: the context's tokens, then the tail's.
struct AttendGroup {
  std::uint32_t row_begin = 0, row_end = 0;  // query rows
  std::uint32_t key_begin = 0;               // into the list of addresses
  std::uint32_t context_tokens = 0, tail_tokens = 0;
};

// Keys [first, first + count) of a group's run. `masked`: some row of the block does not see all of them, or
// there are fewer than a tile.
struct KeyTile {  // one word: a block keeps several in registers
  std::uint32_t first : 24 = 0;
  std::uint32_t count : 7 = 0;
  std::uint32_t masked : 1 = 0;
};
inline constexpr std::uint32_t attend_keys_max = 1u << 24;  // of a group

inline constexpr std::uint32_t whole_result = ~0u;

// One block's work, for each key-value head. Vector v of the tile is head (vector_begin + v) % heads of query
// row row_begin + (vector_begin + v) / heads. An item of no vectors is no work.
struct AttendItem {
  std::uint32_t row_begin = 0;
  std::uint32_t vector_begin = 0, vectors = 0;
  std::uint32_t key_begin = 0, context_tokens = 0;
  std::uint32_t tile_begin = 0, tile_end = 0;  // into key_tiles
  std::uint32_t partial = whole_result;        // else the number of its partial result
};

// Partial results [partial_begin, partial_end) are of the same vectors.
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

// A way to plan a pass, and what it is predicted to take (attend_cost.h).
struct AttendChoice {
  std::uint32_t tile_vectors = 0;
  std::uint32_t part_tiles = whole_result;  // tiles of keys that an item has at most; longer ones are split
  double cycles = 0;
};

// Partial results of the larger tile that a plan for this machine never exceeds; of the smaller twice as
// many.
std::uint32_t partials_max(const AttendMachine& machine);

// Every way that is considered, in no order of merit. Arguments as below.
std::vector<AttendChoice> attend_choices(const AttendMachine& machine, std::span<const AttendGroup> groups,
                                         std::span<const std::uint32_t> visible_begin,
                                         std::span<const std::uint32_t> visible_end);

// visible_begin/end: per query row, the interval of its group's tail that it sees. Replaces *plan, reusing
// its memory.
void plan_attention(const AttendMachine& machine, std::span<const AttendGroup> groups,
                    std::span<const std::uint32_t> visible_begin, std::span<const std::uint32_t> visible_end,
                    AttendPlan& plan);

}  // namespace troupe::kernels::cuda
