#pragma once
// Caches rows of a model's embedding tables in pages of the node's pool, between executors and
// tables that are not in memory. All rows of a pass are looked up at once. Missed rows are fetched
// together, each once, and kept if there is a free slot. RowSlab decides where rows lie and which
// row is evicted; this class holds the bytes and a lock.
//
// Each row has a checksum over its bytes and its identity. Bytes of another row, table or version
// are fetched again, as is a row with a flipped bit. Executors of several slots use the cache at
// the same time. The backing table is read without the lock.
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
  // `arena` outlives the object. Rows have `columns` values; a page holds at least one row.
  RowCache(PageArena& arena, std::uint32_t columns);

  // Returns the table read through the cache. Its rows are dropped when the result is destroyed. A
  // table with another number of columns is returned unchanged.
  std::shared_ptr<kernels::EmbeddingTable> cached(std::shared_ptr<kernels::EmbeddingTable> table);

  // Thread-safe; does not wait for the backing table.
  RowPages change(const ChangeRowPages& change);
  // Prefetches rows. Ends early if a pass waits for rows that it missed.
  RowsRefilled refill(const RefillRows& refill);
  RowTotals totals() const;
  std::string check_invariants() const;

 private:
  class CachedTable;
  struct Scratch;  // buffers of a thread
  struct Table {
    std::shared_ptr<kernels::EmbeddingTable> slow;
    std::uint64_t mark = 0;  // identifies the table in its rows' checksums
  };

  void read(std::uint32_t number, const Table& table, std::span<const Token> rows, float* out);
  RowSlab::Batch look_up(std::uint32_t number, std::span<const Token> rows, Scratch& scratch);
  void check_sums(const Table& table, const RowSlab::Batch& batch, Scratch& scratch) const;
  void fetch_missed(const Table& table, const RowSlab::Batch& batch, Scratch& scratch);
  void keep(const Table& table, const RowSlab::Batch& batch, Scratch& scratch);
  void drop(std::uint32_t number);
  void note_fetch(double us, std::size_t rows);
  float* place(RowLocation place) const;
  std::uint64_t sum(const Table& table, std::uint32_t row, const float* values) const;

  PageArena& arena_;
  const std::uint32_t columns_;
  std::atomic<std::uint32_t> fetching_ = 0;  // passes that wait for the backing table
  mutable std::mutex mutex_;
  RowSlab slab_;                     // guarded by mutex_, as all below
  std::vector<std::uint64_t> sums_;  // of ready rows, by handle
  std::map<std::uint32_t, Table> tables_;
  std::uint32_t last_number_ = 0;
  std::uint64_t bytes_missed_ = 0, bytes_refilled_ = 0;
  RowSavings savings_;
  // Recent fetches by passes, decayed: total time and rows.
  double fetch_us_ = 0, fetched_rows_ = 0;
};

}  // namespace troupe::actors
