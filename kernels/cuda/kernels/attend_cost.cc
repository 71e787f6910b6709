// Predicts how many cycles a launch of span attention takes, by an analytic model. The planner
// compares tile sizes and splits by it.
#include "kernels/cuda/kernels/attend_cost.h"

#include <algorithm>

namespace troupe::kernels::cuda {
namespace {

// Rates of a multiprocessor per cycle: dense 16-bit multiply-adds, and bytes from L2 while all
// multiprocessors read. Multiply-adds are published; mma.sync on sm_90 is assumed to reach 62 % of
// wgmma. L2: 5 TB/s over 132 multiprocessors of sm_90, two thirds of the published width on sm_80,
// and guesses for the others.
struct Rates {
  unsigned capability;  // and later ones, up to the next row
  double mma, wgmma, l2_bytes;
};
constexpr Rates all_rates[] = {
    {80, 1024, 0, 30}, {86, 512, 0, 15}, {90, 1270, 2048, 20.7}, {100, 1024, 0, 20.7}, {120, 512, 0, 15}};

const Rates& rates_of(unsigned capability) {
  const Rates* found = all_rates;
  for (const Rates& rates : all_rates)
    if (rates.capability <= capability) found = &rates;
  return *found;
}

// Assumed shares of the matrix rate once keys and values have arrived. For wgmma: the share of the
// best published attention on long prompts.
constexpr double wgmma_share = 0.75, mma_share = 0.55;
// Softening cycles of a query vector and a tile of keys: powers of two at 16 a cycle, and the
// arithmetic around them (attend.h). SiLU needs a reciprocal in addition, at the same rate, and
// about four operations and a load more per pair than softmax.
constexpr double softmax_cycles = (512 + 350) / 128.0, silu_cycles = (1024 + 600) / 128.0;
constexpr double wait_cycles = 200;  // per tile, for barriers and for the pipeline to fill
constexpr std::uint32_t group_vectors = 64;

}  // namespace

AttendTile attend_tile(unsigned capability, std::uint32_t head_dim, const AttendBlock& block) {
  const Rates& rates = rates_of(capability);
  const double rate = block.wgmma ? rates.wgmma : rates.mma, share = block.wgmma ? wgmma_share : mma_share;
  const auto products = [&](double vectors) { return vectors * attend_key_tile * head_dim * 2 / rate; };
  const auto softening = [&](double vectors) {
    return vectors * (block.silu ? silu_cycles : softmax_cycles);
  };
  const double all = products(block.vectors) / share;
  // A warpgroup softens one tile while it multiplies the previous tile's values; a warp does both
  // in turn.
  const double group = products(group_vectors) / 2;
  const double alone = block.wgmma ? group + std::max(group, softening(group_vectors)) + wait_cycles
                                   : products(block.vectors) + softening(block.vectors) + wait_cycles;
  const double busy = std::max({all, softening(block.vectors), alone / block.resident});
  return {block.vectors, busy, std::max(alone, busy / block.resident)};
}

double l2_bytes_per_cycle(unsigned capability) { return rates_of(capability).l2_bytes; }

namespace {

// Returns a lower bound of the busiest multiprocessor's tiles. Blocks are dealt the longest first.
// In any order, some multiprocessor has its share of all tiles, and one has ceil(n /
// multiprocessors) of the n longest.
double busiest_tiles(const AttendMachine& machine, std::span<const std::uint32_t> of_length) {
  std::uint64_t blocks = 0, tiles = 0, most = 0;
  for (std::size_t length = of_length.size(); length-- > 1;) {
    if (of_length[length] == 0) continue;
    blocks += std::uint64_t{of_length[length]} * machine.kv_heads;
    tiles += std::uint64_t{of_length[length]} * machine.kv_heads * length;
    most = std::max(most, (blocks + machine.multiprocessors - 1) / machine.multiprocessors * length);
  }
  return std::max(static_cast<double>(most), static_cast<double>(tiles) / machine.multiprocessors);
}

// Counts keys and values of every tile, and partial results, which are written and read.
double l2_bytes(const AttendMachine& machine, const AttendTile& tile,
                std::span<const std::uint32_t> of_length, std::uint32_t partials) {
  double tiles = 0;
  for (std::size_t length = 1; length < of_length.size(); ++length)
    tiles += static_cast<double>(length) * of_length[length];
  const double key_bytes = tiles * attend_key_tile * machine.head_dim * 2 * 2;
  const double partial_bytes = 2.0 * partials * tile.vectors * (machine.head_dim + 4) * sizeof(float);
  return (key_bytes + partial_bytes) * machine.kv_heads;
}

}  // namespace

double attend_cycles(const AttendMachine& machine, const AttendTile& tile,
                     std::span<const std::uint32_t> of_length, std::uint32_t partials) {
  std::size_t longest = of_length.size();
  while (longest > 0 && of_length[longest - 1] == 0) --longest;
  if (longest == 0) return 0;
  const double busiest = std::max(static_cast<double>(longest - 1) * tile.alone_cycles,
                                  busiest_tiles(machine, of_length) * tile.cycles);
  const double from_l2 =
      l2_bytes(machine, tile, of_length, partials) / (machine.l2_bytes * machine.multiprocessors);
  const double launches = partials > 0 ? 2 : 1;
  return launches * (machine.launch_cycles + machine.block_cycles) + std::max(busiest, from_l2);
}

}  // namespace troupe::kernels::cuda
