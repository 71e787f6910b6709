#pragma once
// Embedding tables that are spread over nodes' memory: a shard is a run of rows that fills a page, and a
// block like others, so that who has it, whether it may be read, and what becomes of it is for the KV-cache
// workers to say. Here rows are read where shards were granted, and shards are filled from their tables. A
// batch that misses rows of shards that it was not granted ends (RowsAway), so that they are asked for, all
// at once; what is not granted then either comes from the table.
//
// Never a wrong row: a shard's name says of which rows of which model's table it is, and its bytes are
// compared with the block's checksum where the grant asks for that, as of all blocks.
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/checkpoint/embedding_table.h"
#include "runtime/actor/ports.h"
#include "runtime/pool/page_arena.h"

namespace troupe::actors {

// The rows of a pass are elsewhere.
struct RowsAway final : std::exception {
  std::vector<TableShard> shards;
  const char* what() const noexcept override { return "rows of a table are on other nodes"; }
};

class TableShards : public std::enable_shared_from_this<TableShards> {
 public:
  // `arena` outlives it. Rows have `columns` values; a page holds at least one.
  TableShards(PageArena& arena, std::uint32_t columns);

  // This table, its rows read from shards while a Lent is there, as long as somebody has it. One with other
  // columns is given back as it is. `what`: which of the model's tables it is.
  std::shared_ptr<kernels::EmbeddingTable> sharded(std::shared_ptr<kernels::EmbeddingTable> table,
                                                   const std::string& model_version, std::string_view what);
  // Thread-safe.
  ShardsFilled fill(const FillShards& fill);
  void add_to(RowTotals& totals) const;

  // The shards of a batch, for the tables that are read on this thread until its end.
  class Lent {
   public:
    Lent(const TableShards* shards, const RunBatch& batch);
    ~Lent();
    Lent(const Lent&) = delete;
    Lent& operator=(const Lent&) = delete;
    std::vector<BlockOutcome> take_outcomes();

   private:
    friend class TableShards;
    struct One {
      const GrantedShard* granted = nullptr;
      bool is_ready = false, is_bad = false;
      std::optional<BlockOutcome> outcome;
    };
    const bool asks_;
    std::map<TableShard, One> shards_;
    Lent* const before_;
  };

 private:
  class Sharded;
  std::uint32_t shards_of(const kernels::EmbeddingTable& table) const {
    return (table.rows() + page_rows_ - 1) / page_rows_;
  }
  void read(kernels::EmbeddingTable& table, const BlockName& name, std::span<const Token> rows, float* out);
  bool make_ready(kernels::EmbeddingTable& table, Lent::One& shard) const;
  std::uint64_t fill_page(kernels::EmbeddingTable& table, std::uint32_t shard, std::uint32_t page) const;
  const std::byte* row_of(const Lent::One& shard, std::uint32_t row) const;

  static thread_local Lent* lent_;
  PageArena& arena_;
  const std::uint32_t columns_, page_rows_;
  mutable std::mutex mutex_;
  std::map<BlockName, std::weak_ptr<kernels::EmbeddingTable>> tables_;  // guarded by mutex_, as all below
  std::uint64_t from_here_ = 0, from_nodes_ = 0, from_table_ = 0;
};

}  // namespace troupe::actors
