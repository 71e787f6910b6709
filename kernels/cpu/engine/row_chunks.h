#pragma once
// Divides the rows of a pass into chunks, which idle cores take: between two attentions rows are independent.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/engine/team.h"

namespace troupe::kernels {

struct Rows {
  std::size_t begin, count;
};

inline constexpr double copies_cost = 20;  // operations in the time of copying one value

// Rows per chunk: enough rows per load of the weights, at most `most` so that their activations stay in
// cache, whole tiles of the matrix product, and the same number of chunks for each worker.
inline std::size_t chunk_rows(std::size_t rows, std::uint32_t workers, std::size_t most) {
  constexpr std::size_t tile = 12;
  const std::size_t rounds = std::max<std::size_t>(1, (rows + workers * most - 1) / (workers * most));
  const std::size_t chunks = rounds * workers;
  return std::max(tile, ((rows + chunks - 1) / chunks + tile - 1) / tile * tile);
}

// Calls work(chunk, worker) for all rows in chunks of `chunk_rows`. A row costs `row_operations`.
template <class Work>
void run_chunks(Team::Pass& pass, std::size_t rows, std::size_t chunk_rows, double row_operations,
                Work&& work) {
  const std::size_t chunks = (rows + chunk_rows - 1) / chunk_rows;
  pass.run(chunks, static_cast<double>(rows) * row_operations, [&](std::size_t chunk, std::uint32_t worker) {
    const std::size_t begin = chunk * chunk_rows;
    work(Rows{begin, std::min(chunk_rows, rows - begin)}, worker);
  });
}

}  // namespace troupe::kernels
