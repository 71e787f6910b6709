#pragma once
// Predicts the time of a launch of span attention, in cycles of a multiprocessor. The host uses
// this analytic model to choose between tiles and splits (attend_plan.h) and to print expected
// times (cuda_bench --expected). It counts the launches, the keys, values and partial results that
// come from the L2 cache, and the busiest multiprocessor. The rates are published or assumed, none
// is measured. Only ratios matter, and every choice gives correct results.
#include <cstdint>
#include <span>

namespace troupe::kernels::cuda {

inline constexpr std::uint32_t attend_key_tile = 64;  // keys

// Costs of a block with this many query vectors per tile of keys. 0 vectors: the device has no such
// version.
struct AttendTile {
  std::uint32_t vectors = 0;
  double cycles = 0;        // of a multiprocessor per tile, kept busy by as many blocks as it holds
  double alone_cycles = 0;  // from one tile to the next within a block, whatever runs beside it
};

// Properties of a version's blocks that affect time.
struct AttendBlock {
  std::uint32_t vectors = 0;
  std::uint32_t resident = 1;  // blocks on a multiprocessor at once
  bool wgmma = false;          // else mma.sync
  bool silu = false;           // else softmax
};
AttendTile attend_tile(unsigned capability, std::uint32_t head_dim, const AttendBlock& block);
double l2_bytes_per_cycle(unsigned capability);

// The device and model dimensions; defaults are an H100's.
struct AttendMachine {
  std::uint32_t multiprocessors = 1;
  std::uint32_t kv_heads = 1;
  std::uint32_t heads = 1;  // query heads that share a key-value head
  std::uint32_t head_dim = 128;
  AttendTile small = attend_tile(90, 128, {64, 2, true}), large = attend_tile(90, 128, {128, 1, true});
  double l2_bytes = l2_bytes_per_cycle(90);  // per cycle and multiprocessor, while all read
  double launch_cycles = 3600;               // from the end of one kernel to the work of the next: 2 us
  double block_cycles = 2700;                // before a block's first key tile and after its last: 1.5 us
};

// Predicts the cycles of a launch. `of_length[n]`: number of blocks per key-value head that walk n
// key tiles. `partials` of them leave partial results, which a second launch merges.
double attend_cycles(const AttendMachine& machine, const AttendTile& tile,
                     std::span<const std::uint32_t> of_length, std::uint32_t partials);

}  // namespace troupe::kernels::cuda
