// Vector versions of the scores of a table's rows. A tile is kScoreRows consecutive rows against up to
// kScoreStates states, with all sums in registers (dots_inl.h). Bytes: each row once, and for every further
// group of states from cache. Operations: 2 * columns per score.
#include "kernels/cpu/versions/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/versions/score_rows.cc"
#include "hwy/foreach_target.h"

#include "kernels/cpu/versions/dots_inl.h"
#include "kernels/operations/score_rows.h"
#include "kernels/operations/versions.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
#if TROUPE_VECTOR_TARGET

inline constexpr std::size_t kScoreRows = 4, kScoreStates = kManyRegisters ? 4 : 2;

// Scores rows [first, first + R) for S states.
template <std::size_t S, std::size_t R>
HWY_NOINLINE void score_tile(const ScoreTask& task, std::size_t state, std::size_t first) {
  const float* rows[R];
  TROUPE_UNROLL for (std::size_t r = 0; r < R; ++r) rows[r] = task.table + (first + r) * task.columns;
  dot_rows<S, R>(
      &task.states[state], rows, task.columns, [&](std::size_t s, std::size_t r, float dot) HWY_ATTR {
        task.out[state + s][first + r] = task.factors == nullptr ? dot : dot * task.factors[first + r];
      });
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
