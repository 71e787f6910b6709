// Embedding table behind an imitated disk or link of fixed bandwidth, so that one machine can show
// what a slow or remote table costs.
#include "actors/inference/paced_table_port.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "kernels/base/check.h"

namespace troupe::actors {

PacedTable::Clock PacedTable::real_clock() {
  return {[] { return std::chrono::steady_clock::now(); },
          [](Time till) { std::this_thread::sleep_until(till); }};
}

PacedTable::PacedTable(std::shared_ptr<kernels::EmbeddingTable> table, double bytes_per_second, Clock clock)
    : table_(std::move(table)), bytes_per_second_(bytes_per_second), clock_(std::move(clock)) {
  TROUPE_CHECK(bytes_per_second > 0, "bytes_per_second is positive");
}

void PacedTable::fetch(std::span<const Token> rows, float* out) {
  const double bytes = static_cast<double>(rows.size()) * table_->columns() * sizeof(float);
  const std::chrono::duration<double> takes(bytes / bytes_per_second_);
  Time here;
  {
    const std::lock_guard lock(mutex_);
    here = free_ = std::max(free_, clock_.now()) + std::chrono::duration_cast<Time::duration>(takes);
  }
  table_->fetch(rows, out);
  clock_.sleep_until(here);
}

}  // namespace troupe::actors
