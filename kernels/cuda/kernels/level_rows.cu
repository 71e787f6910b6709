// Extracts from each logit row of a beam-search level what the host needs: the sum of exponentials,
// and given or largest logits.
#include "kernels/cuda/kernels/level_rows.h"

#include <limits>

#include "kernels/cuda/kernels/sums_inl.h"
#include "kernels/cuda/simt/simt.h"

namespace troupe::kernels::cuda {
namespace {

using namespace simt;

constexpr unsigned threads = 256, warps = threads / warp_threads;
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

TROUPE_DEVICE float block_largest(float value) {
  TROUPE_SHARED(float, partial, warps);
  TROUPE_UNROLL
  for (unsigned mask = warp_threads / 2; mask > 0; mask /= 2) value = larger(value, shuffle_xor(value, mask));
  if (lane() == 0) partial[warp()] = value;
  barrier();
  for (unsigned i = 0; i < warps; ++i) value = larger(value, partial[i]);
  return value;
}

TROUPE_DEVICE void sum_exponentials_of(const float* logits, std::uint32_t count, ExponentialSum* out) {
  float most = -infinity;
  bool finite = true;
  for (std::uint32_t i = thread_x(); i < count; i += threads) {
    most = larger(most, logits[i]);
    finite = finite && logits[i] - logits[i] == 0;
  }
  most = block_largest(most);
  float sum = 0;
  for (std::uint32_t i = thread_x(); i < count; i += threads) sum += exp_fast(logits[i] - most);
  sum = block_sum<warps>(sum);
  const bool spoiled = barrier_or(!finite);
  if (thread_x() == 0) out->largest = most, out->sum = spoiled ? not_a_number : sum;
}

// Maps a float to an integer with the same order; both zeros map to the same.
TROUPE_DEVICE std::uint32_t order_of(float x) {
  const std::uint32_t bits = bits_of(x == 0 ? 0.0f : x);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}

// Returns the order of the least of the `count` largest logits.
TROUPE_DEVICE std::uint32_t least_order(const float* logits, std::uint32_t vocabulary, std::uint32_t count) {
  constexpr unsigned digits = 16;
  TROUPE_SHARED(std::uint32_t, not_below, warps * digits);
  std::uint32_t least = 0;
  for (unsigned shift = 32; shift > 0;) {
    shift -= 4;
    std::uint32_t mine[digits] = {};
    for (std::uint32_t i = thread_x(); i < vocabulary; i += threads) {
      const std::uint32_t order = order_of(logits[i]);
      TROUPE_UNROLL
      for (unsigned d = 1; d < digits; ++d) mine[d] += order >= least + (d << shift) ? 1 : 0;
    }
    TROUPE_UNROLL
    for (unsigned d = 1; d < digits; ++d) {
      const std::uint32_t of_warp = warp_sum(mine[d]);
      if (lane() == 0) not_below[warp() * digits + d] = of_warp;
    }
    barrier();
    std::uint32_t digit = 0;
    for (unsigned d = 1; d < digits; ++d) {
      std::uint32_t all = 0;
      for (unsigned w = 0; w < warps; ++w) all += not_below[w * digits + d];
      if (all >= count) digit = d;
    }
    least += digit << shift;
    barrier();
  }
  return least;
}

// Writes the largest logits. Each warp takes a contiguous part of the vocabulary, so that tokens
// stay in order.
TROUPE_DEVICE void take_largest(const LevelRows& task, const LevelRow& row, const float* logits) {
  TROUPE_SHARED(std::uint32_t, above_in, warps);
  TROUPE_SHARED(std::uint32_t, equal_in, warps);
  const std::uint32_t least = least_order(logits, task.vocabulary, row.count);
  const std::uint32_t pieces = (task.vocabulary + warp_threads - 1) / warp_threads;
  const std::uint32_t run = (pieces + warps - 1) / warps * warp_threads;
  const std::uint32_t begin = warp() * run, last = begin + run;
  const std::uint32_t end = last < task.vocabulary ? last : task.vocabulary;
  std::uint32_t above = 0, equal = 0;
  for (std::uint32_t first = begin; first < end; first += warp_threads) {
    const std::uint32_t token = first + lane();
    const std::uint32_t order = token < end ? order_of(logits[token]) : 0;
    above += count_bits(ballot(token < end && order > least));
    equal += count_bits(ballot(token < end && order == least));
  }
  if (lane() == 0) above_in[warp()] = above, equal_in[warp()] = equal;
  barrier();
  std::uint32_t equal_taken = row.count;
  above = equal = 0;
  for (unsigned w = 0; w < warps; ++w) {
    equal_taken -= above_in[w];
    above += w < warp() ? above_in[w] : 0;
    equal += w < warp() ? equal_in[w] : 0;
  }
  for (std::uint32_t first = begin; first < end; first += warp_threads) {
    const std::uint32_t token = first + lane(), before = (1u << lane()) - 1;
    const std::uint32_t order = token < end ? order_of(logits[token]) : 0;
    const bool is_above = token < end && order > least, is_equal = token < end && order == least;
    const std::uint32_t all_above = ballot(is_above), all_equal = ballot(is_equal);
    const std::uint32_t equal_rank = equal + count_bits(all_equal & before);
    const std::uint32_t equal_before = equal_rank < equal_taken ? equal_rank : equal_taken;
    const std::uint32_t at = row.out + above + count_bits(all_above & before) + equal_before;
    if (is_above || (is_equal && equal_rank < equal_taken))
      task.tokens_out[at] = token, task.logits_out[at] = logits[token];
    above += count_bits(all_above);
    equal += count_bits(all_equal);
  }
}

// Processes a row per block.
TROUPE_KERNEL(threads) level_rows_kernel(LevelRows task) {
  const LevelRow row = task.rows[block_x()];
  const float* const logits = task.logits + block_x() * std::size_t{task.stride};
  sum_exponentials_of(logits, task.vocabulary, task.sums + block_x());
  if (row.asked == LogitSelection::largest && row.count > 0) return take_largest(task, row, logits);
  for (std::uint32_t i = thread_x(); i < row.count; i += threads)
    task.logits_out[row.out + i] = logits[task.tokens[row.list + i]];
}

}  // namespace

void read_level(const LevelRows& task, Stream& stream) {
  if (task.count == 0) return;
  launch("read_level", level_rows_kernel, {.blocks = task.count, .threads = threads}, stream, task);
}

}  // namespace troupe::kernels::cuda
