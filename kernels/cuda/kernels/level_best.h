#pragma once
// Finds the best continuations of a beam-search level's paths (kernels/search) on the device, so
// that only the candidates that may be kept go to the host. The order is the host's: by value, then
// by row, then by place within the row. One block handles one search. It walks the candidates once
// per four bits of a value until it has the threshold, and twice to write the chosen ones in order:
// 18 × candidates reads, from the cache, and few bytes of output.
#include <cstdint>

#include "kernels/cuda/device/device.h"
#include "kernels/operations/exponential_sum.h"

namespace troupe::kernels::cuda {

// A path and its candidates: logits [first, first + count), contiguous.
struct BestRow {
  static constexpr std::uint32_t own = UINT32_MAX;
  double value = 0;  // log-probability of the path
  std::uint32_t first = 0, count = 0;
  std::uint32_t sum = own;     // index of the sum that normalises; own: normalise by the row's candidates
  std::uint32_t numbered = 0;  // 0: candidate i is child i; otherwise its child is in `tokens`
};

// A search: its rows, and where its best candidates go; `count` is at most the number of
// candidates.
struct SearchSelection {
  std::uint32_t row_begin = 0, row_end = 0;
  std::uint32_t out = 0, count = 0;
};

struct SelectedLogit {
  std::uint32_t row = 0, child = 0;
  float logit = 0;
};

// Arguments of select_candidates; device pointers.
struct LevelSelection {
  const float* logits = nullptr;
  const std::uint32_t* tokens = nullptr;  // parallel to `logits`
  const ExponentialSum* sums = nullptr;
  const BestRow* rows = nullptr;
  const SearchSelection* searches = nullptr;
  std::uint32_t count = 0;       // searches
  double* log_totals = nullptr;  // [row]: written for all rows of all searches
  SelectedLogit* out = nullptr;  // per search, ordered by row, then by place
};
void select_candidates(const LevelSelection& task, Stream& stream);

}  // namespace troupe::kernels::cuda
