// Finds the best continuations of a beam-search level on the device, one block per search, so that
// few bytes go to the host.
#include "kernels/cuda/kernels/level_best.h"

#include <limits>

#include "kernels/cuda/kernels/sums_inl.h"
#include "kernels/cuda/simt/simt.h"

namespace troupe::kernels::cuda {
namespace {

using namespace simt;

constexpr float minus_infinity = -std::numeric_limits<float>::infinity(),
                not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr unsigned best_threads = 256, best_warps = best_threads / warp_threads;

// Returns the log-sum-exp of a row's candidates; called by a whole warp.
TROUPE_DEVICE double own_total(const float* logits, std::uint32_t count) {
  float most = minus_infinity;
  std::uint32_t spoiled = 0;
  for (std::uint32_t i = lane(); i < count; i += warp_threads) {
    most = larger(most, logits[i]);
    spoiled += logits[i] - logits[i] == 0 ? 0 : 1;
  }
  TROUPE_UNROLL
  for (unsigned mask = warp_threads / 2; mask > 0; mask /= 2) most = larger(most, shuffle_xor(most, mask));
  float sum = 0;
  for (std::uint32_t i = lane(); i < count; i += warp_threads) sum += exp_fast(logits[i] - most);
  sum = warp_sum(sum);
  const bool finite = warp_sum(spoiled) == 0;
  return finite ? double(most) + log_of(double(sum)) : double(not_a_number);
}

// Maps a double to an integer with the same order; both zeros map to the same.
TROUPE_DEVICE std::uint64_t order_of_value(double x) {
  const std::uint64_t bits = bits_of(x == 0 ? 0.0 : x);
  return bits >> 63 != 0 ? ~bits : bits | 0x8000000000000000u;
}

TROUPE_DEVICE std::uint64_t order_of_candidate(const BestRow& row, double log_total, float logit) {
  const double added = double(logit) - log_total;
  return order_of_value(row.value + (added < 0 ? added : 0.0));
}

// The contiguous rows of this warp, so that candidates stay in order.
struct Run {
  std::uint32_t begin, end;
};
TROUPE_DEVICE Run run_of_warp(const SearchSelection& search) {
  const std::uint32_t rows = search.row_end - search.row_begin;
  const std::uint32_t each = (rows + best_warps - 1) / best_warps;
  const std::uint32_t begin = search.row_begin + warp() * each, last = begin + each;
  return {begin < search.row_end ? begin : search.row_end, last < search.row_end ? last : search.row_end};
}

// Returns the order of the least of the `count` best candidates.
TROUPE_DEVICE std::uint64_t least_taken(const LevelSelection& task, const SearchSelection& search) {
  constexpr unsigned digits = 16;
  TROUPE_SHARED(std::uint32_t, at_least, best_warps * digits);
  const Run run = run_of_warp(search);
  std::uint64_t least = 0;
  for (unsigned shift = 64; shift > 0;) {
    shift -= 4;
    std::uint32_t mine[digits] = {};
    for (std::uint32_t r = run.begin; r < run.end; ++r) {
      const BestRow row = task.rows[r];
      const double total = task.log_totals[r];
      for (std::uint32_t i = lane(); i < row.count; i += warp_threads) {
        const std::uint64_t order = order_of_candidate(row, total, task.logits[row.first + i]);
        TROUPE_UNROLL
        for (unsigned d = 1; d < digits; ++d) mine[d] += order >= least + (std::uint64_t{d} << shift) ? 1 : 0;
      }
    }
    TROUPE_UNROLL
    for (unsigned d = 1; d < digits; ++d) {
      const std::uint32_t of_warp = warp_sum(mine[d]);
      if (lane() == 0) at_least[warp() * digits + d] = of_warp;
    }
    barrier();
    std::uint64_t digit = 0;
    for (unsigned d = 1; d < digits; ++d) {
      std::uint32_t all = 0;
      for (unsigned w = 0; w < best_warps; ++w) all += at_least[w * digits + d];
      if (all >= search.count) digit = d;
    }
    least += digit << shift;
    barrier();
  }
  return least;
}

// Writes the candidates above the least, and the first of those that equal it.
TROUPE_DEVICE void write_taken(const LevelSelection& task, const SearchSelection& search,
                               std::uint64_t least) {
  TROUPE_SHARED(std::uint32_t, above_in, best_warps);
  TROUPE_SHARED(std::uint32_t, equal_in, best_warps);
  const Run run = run_of_warp(search);
  std::uint32_t above = 0, equal = 0;
  for (std::uint32_t r = run.begin; r < run.end; ++r) {
    const BestRow row = task.rows[r];
    const double total = task.log_totals[r];
    for (std::uint32_t i = lane(); i < row.count; i += warp_threads) {
      const std::uint64_t order = order_of_candidate(row, total, task.logits[row.first + i]);
      above += order > least ? 1 : 0;
      equal += order == least ? 1 : 0;
    }
  }
  above = warp_sum(above);
  equal = warp_sum(equal);
  if (lane() == 0) above_in[warp()] = above, equal_in[warp()] = equal;
  barrier();
  std::uint32_t equal_taken = search.count;
  above = equal = 0;
  for (unsigned w = 0; w < best_warps; ++w) {
    equal_taken -= above_in[w];
    above += w < warp() ? above_in[w] : 0;
    equal += w < warp() ? equal_in[w] : 0;
  }
  for (std::uint32_t r = run.begin; r < run.end; ++r) {
    const BestRow row = task.rows[r];
    const double total = task.log_totals[r];
    for (std::uint32_t first = 0; first < row.count; first += warp_threads) {
      const std::uint32_t i = first + lane(), before = (1u << lane()) - 1;
      const bool there = i < row.count;
      const float logit = there ? task.logits[row.first + i] : 0.0f;
      const std::uint64_t order = there ? order_of_candidate(row, total, logit) : 0;
      const bool is_above = there && order > least, is_equal = there && order == least;
      const std::uint32_t all_above = ballot(is_above), all_equal = ballot(is_equal);
      const std::uint32_t equal_rank = equal + count_bits(all_equal & before);
      const std::uint32_t equal_before = equal_rank < equal_taken ? equal_rank : equal_taken;
      const std::uint32_t at = search.out + above + count_bits(all_above & before) + equal_before;
      if (is_above || (is_equal && equal_rank < equal_taken))
        task.out[at] = {r, row.numbered != 0 ? task.tokens[row.first + i] : i, logit};
      above += count_bits(all_above);
      equal += count_bits(all_equal);
    }
  }
}

TROUPE_KERNEL(best_threads) level_best_kernel(LevelSelection task) {
  const SearchSelection search = task.searches[block_x()];
  const Run run = run_of_warp(search);
  for (std::uint32_t r = run.begin; r < run.end; ++r) {
    const BestRow row = task.rows[r];
    double total = 0;
    if (row.sum == BestRow::own) {
      total = own_total(task.logits + row.first, row.count);
    } else {
      const ExponentialSum sum = task.sums[row.sum];
      total = double(sum.largest) + log_of(double(sum.sum));
    }
    if (lane() == 0) task.log_totals[r] = total;
  }
  barrier();
  if (search.count == 0) return;
  write_taken(task, search, least_taken(task, search));
}

}  // namespace

void select_candidates(const LevelSelection& task, Stream& stream) {
  if (task.count == 0) return;
  launch("take_best", level_best_kernel, {.blocks = task.count, .threads = best_threads}, stream, task);
}

}  // namespace troupe::kernels::cuda
