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

#include "kernels/cpu/versions/dots_inl.h"
#include "kernels/operations/readout.h"
#include "kernels/operations/versions.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
#if TROUPE_VECTOR_TARGET

inline constexpr std::size_t kRows = kManyRegisters ? 4 : 2, kStates = kManyRegisters ? 6 : 4;
// Rows whose logits are written together, one cache line for each state. The states' outputs may
// lie a power of two apart, so single writes to all of them would evict each other from the cache.
inline constexpr std::size_t kBlock = 16;

// dots[s][first + r] of S states and R rows.
template <std::size_t S, std::size_t R>
HWY_NOINLINE void dot_tile(const float* const* states, const float* const* rows, std::size_t columns,
                           float (*dots)[kBlock], std::size_t first) {
  dot_rows<S, R>(states, rows, columns,
                 [&](std::size_t s, std::size_t r, float dot) HWY_ATTR { dots[s][first + r] = dot; });
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
