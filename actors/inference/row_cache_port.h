#pragma once
// Rows of a model's embedding tables, in pages of the node's pool: what stands between executors and tables
// that are not in memory. A pass's rows are looked up at once; those that are missed are fetched together,
// each once, and kept where there is room. Which row lies where, and which makes room, is RowSlab's to
// decide; here are the bytes, a lock, and a sum for each row, over its bytes and over what it is a row of:
// bytes of another row, table or version are fetched again, as a bit that flipped is.
//
// Executors of several lanes use it at a time. The slow side is read without the lock.
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "actors/inference/row_savings.h"
#include "kernels/checkpoint/embedding_table.h"
#include "runtime/actor/ports.h"
#include "runtime/pool/page_arena.h"
#include "runtime/pool/row_slab.h"

namespace troupe::actors {

class RowCache : public std::enable_shared_from_this<RowCache> {
 public:
  // `arena` outlives it. Rows have `columns` values; a page holds at least one.
  RowCache(PageArena& arena, std::uint32_t columns);

  // This table through the cache, as long as somebody has it; then its rows are dropped. A table with other
  // columns is given back as it is.
  std::shared_ptr<kernels::EmbeddingTable> cached(std::shared_ptr<kernels::EmbeddingTable> table);

  // Thread-safe, without waiting for the slow side.
  RowPages change(const ChangeRowPages& change);
  // Stops where a pass waits for rows that it missed.
  RowsRefilled refill(const RefillRows& refill);
  RowTotals totals() const;
  std::string check_invariants() const;

 private:
  class Cached;
  struct Scratch;  // of a lane
  struct Table {
    std::shared_ptr<kernels::EmbeddingTable> slow;
    std::uint64_t mark = 0;  // of the sums
  };

  void read(std::uint32_t number, const Table& table, std::span<const Token> rows, float* out);
  RowSlab::Batch look_up(std::uint32_t number, std::span<const Token> rows, Scratch& scratch);
  void check_sums(const Table& table, const RowSlab::Batch& batch, Scratch& scratch) const;
  void fetch_missed(const Table& table, const RowSlab::Batch& batch, Scratch& scratch);
  void keep(const Table& table, const RowSlab::Batch& batch, Scratch& scratch);
  void drop(std::uint32_t number);
  void note_fetch(double us, std::size_t rows);
  float* place(RowPlace place) const;
  std::uint64_t sum(const Table& table, std::uint32_t row, const float* values) const;

  PageArena& arena_;
  const std::uint32_t columns_;
  std::atomic<std::uint32_t> fetching_ = 0;  // passes that wait for the slow side
  mutable std::mutex mutex_;
  RowSlab slab_;                     // guarded by mutex_, as all below
  std::vector<std::uint64_t> sums_;  // of ready rows, by handle
  std::map<std::uint32_t, Table> tables_;
  std::uint32_t last_number_ = 0;
  std::uint64_t bytes_missed_ = 0, bytes_refilled_ = 0;
  RowSavings savings_;
  double fetch_us_ = 0, fetched_rows_ = 0;  // for passes, lately: what a row takes
};

}  // namespace troupe::actors
