// Vector versions of the readout: logits of named tokens, dot products of final states with rows of
// the output projection. A tile is kRows rows of the projection against up to kStates states, with
// all sums in registers: (kRows + kStates) loads for kRows * kStates multiply-adds per vector of
// columns. All states use a block of rows before the next block, so that rows come from memory once
// and then from cache. Bytes: the named rows once, the states once per block. Operations: 2 *
// columns per logit.
#include "kernels/cpu/versions/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/versions/readout.cc"
#include "hwy/foreach_target.h"

#include <algorithm>
#include <cstring>

#include "hwy/highway.h"
#include "kernels/operations/readout.h"
#include "kernels/operations/versions.h"

#undef TROUPE_UNROLL
#define TROUPE_UNROLL HWY_UNROLL(8)

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
#if TROUPE_VECTOR_TARGET

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
using Vec = hn::Vec<Floats>;
inline constexpr std::size_t kLanes = hn::MaxLanes(Floats());
inline constexpr bool kManyRegisters = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON;  // 32, else 16
inline constexpr std::size_t kRows = kManyRegisters ? 4 : 2, kStates = kManyRegisters ? 6 : 4;
// Rows whose logits are written together, one cache line for each state. The states' outputs may
// lie a power of two apart, so single writes to all of them would evict each other from the cache.
inline constexpr std::size_t kBlock = 16;

// Loads the first `count` numbers at `from`, followed by zeros: the last columns of a row.
HWY_INLINE Vec load_first(const float* from, std::size_t count) {
  HWY_ALIGN float lanes[kLanes] = {};
  std::memcpy(lanes, from, count * sizeof(float));
  return hn::Load(Floats(), lanes);
}

// dots[s][first + r] of S states and R rows.
template <std::size_t S, std::size_t R>
HWY_NOINLINE void dot_tile(const float* const* states, const float* const* rows, std::size_t columns,
                           float (*dots)[kBlock], std::size_t first) {
  const Floats d;
  Vec sum[S][R];
  TROUPE_UNROLL for (std::size_t s = 0; s < S; ++s) TROUPE_UNROLL for (std::size_t r = 0; r < R; ++r)
      sum[s][r] = hn::Zero(d);
  std::size_t c = 0;
  for (; c + kLanes <= columns; c += kLanes) {
    Vec row[R];
    TROUPE_UNROLL for (std::size_t r = 0; r < R; ++r) row[r] = hn::LoadU(d, rows[r] + c);
    TROUPE_UNROLL for (std::size_t s = 0; s < S; ++s) {
      const Vec state = hn::LoadU(d, states[s] + c);
      TROUPE_UNROLL for (std::size_t r = 0; r < R; ++r) sum[s][r] = hn::MulAdd(state, row[r], sum[s][r]);
    }
  }
  if (const std::size_t rest = columns - c) {
    Vec row[R];
    TROUPE_UNROLL for (std::size_t r = 0; r < R; ++r) row[r] = load_first(rows[r] + c, rest);
    TROUPE_UNROLL for (std::size_t s = 0; s < S; ++s) {
      const Vec state = load_first(states[s] + c, rest);
      TROUPE_UNROLL for (std::size_t r = 0; r < R; ++r) sum[s][r] = hn::MulAdd(state, row[r], sum[s][r]);
    }
  }
  TROUPE_UNROLL for (std::size_t s = 0; s < S; ++s) TROUPE_UNROLL for (std::size_t r = 0; r < R; ++r)
      dots[s][first + r] = hn::GetLane(hn::SumOfLanes(d, sum[s][r]));
}

// Computes the logits of S states and a block of rows.
template <std::size_t S>
void dot_block(const float* const* states, const float* const* rows, std::size_t count, std::size_t columns,
               float (*dots)[kBlock]) {
  std::size_t r = 0;
  for (; r + kRows <= count; r += kRows) dot_tile<S, kRows>(states, rows + r, columns, dots, r);
  for (; r < count; ++r) dot_tile<S, 1>(states, rows + r, columns, dots, r);
}

void readout_rows(std::span<const float* const> states, const Matrix& output, std::span<const Token> rows,
                  std::span<float* const> out) {
  HWY_ALIGN float dots[kStates][kBlock];
  for (std::size_t i = 0; i < rows.size(); i += kBlock) {
    const std::size_t count = std::min(kBlock, rows.size() - i);
    const float* at[kBlock];
    for (std::size_t r = 0; r < count; ++r)
      at[r] = output.values.data() + static_cast<std::size_t>(rows[i + r]) * output.columns;
    for (std::size_t s = 0; s < states.size();) {
      const std::size_t left = states.size() - s;
      const std::size_t group = left >= kStates ? kStates : left >= 4 ? 4 : left >= 2 ? 2 : 1;
      const auto run = group == kStates ? &dot_block<kStates>
                       : group == 4     ? &dot_block<4>
                       : group == 2     ? &dot_block<2>
                                        : &dot_block<1>;
      run(&states[s], at, count, output.columns, dots);
      for (std::size_t k = 0; k < group; ++k) std::copy_n(dots[k], count, out[s + k] + i);
      s += group;
    }
  }
}

#endif  // TROUPE_VECTOR_TARGET
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

std::span<const ReadoutVersion> readout_versions() {
  static const std::int64_t here = HWY_SUPPORTED_TARGETS;
#define TROUPE_ENTRY(name, space, target) {name, &space::readout_rows, (here & (target)) != 0},
  static const ReadoutVersion versions[] = {
      TROUPE_TARGETS(TROUPE_ENTRY){"reference", &readout_rows_reference, true}};
#undef TROUPE_ENTRY
  return versions;
}

void readout_rows(std::span<const float* const> states, const Matrix& output, std::span<const Token> rows,
                  std::span<float* const> out) {
  static ReadoutRows* const chosen = first_usable(readout_versions()).run;
  chosen(states, output, rows, out);
}

}  // namespace troupe::kernels
#endif  // HWY_ONCE
