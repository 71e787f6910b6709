#pragma once
// A table whose rows arrive at a bounded rate for all readers together. It imitates a slow disk or
// link on a machine with a fast one, to measure what a remote table would cost. Readers wait for
// each other.
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>

#include "kernels/checkpoint/embedding_table.h"

namespace troupe::actors {

class PacedTable final : public kernels::EmbeddingTable {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Clock {  // clock; tests pass their own
    std::function<Time()> now;
    std::function<void(Time)> sleep_until;
  };
  PacedTable(std::shared_ptr<kernels::EmbeddingTable> table, double bytes_per_second,
             Clock clock = real_clock());
  static Clock real_clock();

  std::uint32_t rows() const override { return table_->rows(); }
  std::uint32_t columns() const override { return table_->columns(); }
  void fetch(std::span<const Token> rows, float* out) override;

 private:
  const std::shared_ptr<kernels::EmbeddingTable> table_;
  const double bytes_per_second_;
  const Clock clock_;
  std::mutex mutex_;
  Time free_;  // guarded by mutex_: when all requested rows have arrived
};

}  // namespace troupe::actors
