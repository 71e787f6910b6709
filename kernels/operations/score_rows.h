#pragma once
// Computes products of states with consecutive rows of a table: the scores of all items of a
// catalog, block by block. The caller takes what it needs of a block while it is in cache, so the
// table is read from memory once for all states. Floor: the table's bytes at the rate of memory.
#include <cstddef>
#include <span>
#include <string_view>

namespace troupe::kernels {

// out[s][r] = dot(states[s], row r) * factors[r] for `rows` rows of `columns` floats, one after the
// other from `table` on. Every state has `columns` values. Accumulates in float32.
struct ScoreTask {
  std::span<const float* const> states;
  const float* table = nullptr;
  const float* factors = nullptr;  // [rows]; null: 1 for all
  std::size_t rows = 0, columns = 0;
  std::span<float* const> out;  // [state]: `rows` values
};
using ScoreRows = void(const ScoreTask& task);

ScoreRows score_rows_reference;  // score_rows_reference.cc: the definition, in double; never tuned
ScoreRows score_rows;            // the best version for this CPU

struct ScoreVersion {
  std::string_view name;  // "avx512", "avx2", …, "reference"
  ScoreRows* run;
  bool usable;  // on this CPU
};
std::span<const ScoreVersion> score_versions();

}  // namespace troupe::kernels
