// Vector versions of the scores of a table's rows. A tile is kRows consecutive rows against up to
// kStates states, with all sums in registers. The last columns of a row are loaded with a mask, so
// nothing behind the table is read. Bytes: each row once, and for every further group of states
// from cache. Operations: 2 * columns per score.
#include "kernels/cpu/versions/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/versions/score_rows.cc"
#include "hwy/foreach_target.h"

#include <algorithm>
#include <cstring>

#include "hwy/highway.h"
#include "kernels/operations/score_rows.h"
#include "kernels/operations/versions.h"

#undef TROUPE_UNROLL
#define TROUPE_UNROLL HWY_UNROLL(8)

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
#if TROUPE_VECTOR_TARGET

namespace hn = hwy::HWY_NAMESPACE;
using ScoreTag = hn::ScalableTag<float>;
using ScoreVec = hn::Vec<ScoreTag>;
inline constexpr std::size_t kScoreLanes = hn::MaxLanes(ScoreTag());
inline constexpr std::size_t kScoreRows = 4;
inline constexpr std::size_t kScoreStates = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON ? 4 : 2;

// Loads the first `count` floats, followed by zeros, and reads no others.
HWY_INLINE ScoreVec load_score_columns(const float* from, std::size_t count) {
  const ScoreTag d;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2  // elsewhere a masked load may fault
  return hn::MaskedLoad(hn::FirstN(d, count), d, from);
#else
  HWY_ALIGN float lanes[kScoreLanes] = {};
  std::memcpy(lanes, from, count * sizeof(float));
  return hn::Load(d, lanes);
#endif
}

// Scores rows [first, first + R) for S states.
template <std::size_t S, std::size_t R>
HWY_NOINLINE void score_tile(const ScoreTask& task, std::size_t state, std::size_t first) {
  const ScoreTag d;
  const std::size_t columns = task.columns;
  const float* const rows = task.table + first * columns;
  ScoreVec sum[S][R];
  TROUPE_UNROLL for (std::size_t s = 0; s < S; ++s) TROUPE_UNROLL for (std::size_t r = 0; r < R; ++r)
      sum[s][r] = hn::Zero(d);
  std::size_t c = 0;
  for (; c + kScoreLanes <= columns; c += kScoreLanes) {
    ScoreVec row[R];
    TROUPE_UNROLL for (std::size_t r = 0; r < R; ++r) row[r] = hn::LoadU(d, rows + r * columns + c);
    TROUPE_UNROLL for (std::size_t s = 0; s < S; ++s) {
      const ScoreVec of_state = hn::LoadU(d, task.states[state + s] + c);
      TROUPE_UNROLL for (std::size_t r = 0; r < R; ++r) sum[s][r] = hn::MulAdd(of_state, row[r], sum[s][r]);
    }
  }
  if (const std::size_t left = columns - c) {
    ScoreVec row[R];
    TROUPE_UNROLL for (std::size_t r = 0; r < R; ++r) row[r] =
        load_score_columns(rows + r * columns + c, left);
    TROUPE_UNROLL for (std::size_t s = 0; s < S; ++s) {
      const ScoreVec of_state = load_score_columns(task.states[state + s] + c, left);
      TROUPE_UNROLL for (std::size_t r = 0; r < R; ++r) sum[s][r] = hn::MulAdd(of_state, row[r], sum[s][r]);
    }
  }
  TROUPE_UNROLL for (std::size_t s = 0; s < S; ++s) TROUPE_UNROLL for (std::size_t r = 0; r < R; ++r) {
    const float dot = hn::GetLane(hn::SumOfLanes(d, sum[s][r]));
    task.out[state + s][first + r] = task.factors == nullptr ? dot : dot * task.factors[first + r];
  }
}

template <std::size_t S>
void score_states(const ScoreTask& task, std::size_t state) {
  std::size_t r = 0;
  for (; r + kScoreRows <= task.rows; r += kScoreRows) score_tile<S, kScoreRows>(task, state, r);
  for (; r < task.rows; ++r) score_tile<S, 1>(task, state, r);
}

void score_rows(const ScoreTask& task) {
  std::size_t s = 0;
  for (; s + kScoreStates <= task.states.size(); s += kScoreStates) score_states<kScoreStates>(task, s);
  for (; s < task.states.size(); ++s) score_states<1>(task, s);
}

#endif  // TROUPE_VECTOR_TARGET
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

std::span<const ScoreVersion> score_versions() {
  static const std::int64_t here = HWY_SUPPORTED_TARGETS;
#define TROUPE_ENTRY(name, space, target) {name, &space::score_rows, (here & (target)) != 0},
  static const ScoreVersion versions[] = {
      TROUPE_TARGETS(TROUPE_ENTRY){"reference", &score_rows_reference, true}};
#undef TROUPE_ENTRY
  return versions;
}

void score_rows(const ScoreTask& task) {
  static ScoreRows* const chosen = first_usable(score_versions()).run;
  chosen(task);
}

}  // namespace troupe::kernels
#endif  // HWY_ONCE
