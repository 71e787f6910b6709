#pragma once
// What a launch of span attention is predicted to take, in cycles of a multiprocessor: a model on paper, by
// which the host chooses between tiles and splits (attend_plan.h) and says what to expect (cuda_bench
// --expected). It charges the launches, the keys, values and partial results that come from the L2 cache, and
// the busiest multiprocessor. Its rates are published or assumed, none was measured; only ratios decide, and
// every choice is right.
#include <cstdint>
#include <span>

namespace troupe::kernels::cuda {

inline constexpr std::uint32_t attend_key_tile = 64;  // keys

// A block of so many query vectors at work on tiles of keys. No vectors: the device has no such version.
struct AttendTile {
  std::uint32_t vectors = 0;
  double cycles = 0;        // that a multiprocessor takes for one, kept busy by as many blocks as it holds
  double alone_cycles = 0;  // from one to the next of a block, whatever runs beside it
};

// What a version's blocks are, as far as they cost time.
struct AttendBlock {
  std::uint32_t vectors = 0;
  std::uint32_t resident = 1;  // on a multiprocessor at once
  bool wgmma = false;          // else mma.sync
  bool silu = false;           // else softmax
};
AttendTile attend_tile(unsigned capability, std::uint32_t head_dim, const AttendBlock& block);
double l2_bytes_per_cycle(unsigned capability);

// Those of an H100 where nothing else is said.
struct AttendMachine {
  std::uint32_t multiprocessors = 1;
  std::uint32_t kv_heads = 1;
  std::uint32_t heads = 1;  // query heads that share a key-value head
  std::uint32_t head_dim = 128;
  AttendTile small = attend_tile(90, 128, {64, 2, true}), large = attend_tile(90, 128, {128, 1, true});
  double l2_bytes = l2_bytes_per_cycle(90);  // and multiprocessor, where all read
  double launch_cycles = 3600;               // from the end of one kernel to the work of the next: 2 us
  double block_cycles = 2700;                // before a block's first tile of keys and after its last: 1.5 us
};

// `of_length[n]`: how many blocks for each key-value head walk n tiles of keys; of them `partials` leave
// partial results, which a second launch merges.
double attend_cycles(const AttendMachine& machine, const AttendTile& tile,
                     std::span<const std::uint32_t> of_length, std::uint32_t partials);

}  // namespace troupe::kernels::cuda
