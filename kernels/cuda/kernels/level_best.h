#pragma once
// The best continuations of the paths of a beam search's level (kernels/search), found where their logits
// are: of all candidates of all rows of a search the few that may be kept, so that no more goes to the host.
// They are ordered as there: by value, and of equal ones by row, then by place within the row. One block a
// search. It walks the candidates once for each four bits of a value, until it has the least that is taken,
// and twice to write them in order: 18 × candidates reads, from the cache, and few bytes come out.
#include <cstdint>

#include "kernels/cuda/device/device.h"
#include "kernels/operations/exponential_sum.h"

namespace troupe::kernels::cuda {

// A path and its candidates: logits [first, first + count), one behind the other.
struct BestRow {
  static constexpr std::uint32_t own = UINT32_MAX;
  double value = 0;  // of the path
  std::uint32_t first = 0, count = 0;
  std::uint32_t sum = own;     // of the sums, by which it is normalised; own: by its candidates alone
  std::uint32_t numbered = 0;  // 0: candidate i is child i; else its child stands in `tokens`
};

// A search: its rows, and where the best of their candidates go; no more than there are.
struct BestOf {
  std::uint32_t row_begin = 0, row_end = 0;
  std::uint32_t out = 0, count = 0;
};

struct TakenLogit {
  std::uint32_t row = 0, child = 0;
  float logit = 0;
};

// Device pointers.
struct LevelBest {
  const float* logits = nullptr;
  const std::uint32_t* tokens = nullptr;  // beside them
  const ExponentialSum* sums = nullptr;
  const BestRow* rows = nullptr;
  const BestOf* searches = nullptr;
  std::uint32_t count = 0;       // of searches
  double* log_totals = nullptr;  // [row]: written for all rows of all searches
  TakenLogit* out = nullptr;     // of each search by row, then by place
};
void take_best(const LevelBest& task, Stream& stream);

}  // namespace troupe::kernels::cuda
