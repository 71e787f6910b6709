#pragma once
// Embedding tables that are spread over nodes' memory. A shard is a run of rows that fills a page.
// It is a block like others, so the KV-cache workers decide who holds it, whether it may be read,
// and when it is evicted. This class reads rows from granted shards, and fills shards from their
// tables. The first run of a batch ends with MissingShards if it needs rows of shards without a
// grant, so that all of them are acquired at once. In the second run, rows of shards that were not
// granted are read from the table.
//
// A wrong row is never read. A shard's name says which rows of which model's table it holds, and
// its bytes are verified against the block's checksum if the grant asks for that, as for all
// blocks.
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

// Thrown in the first run of a batch when rows of a pass are in shards without a grant.
struct MissingShards final : std::exception {
  std::vector<TableShard> shards;
  const char* what() const noexcept override { return "rows of a table are on other nodes"; }
};

class TableShards : public std::enable_shared_from_this<TableShards> {
 public:
  // `arena` outlives the object. Rows have `columns` values; a page holds at least one row.
  TableShards(PageArena& arena, std::uint32_t columns);

  // Returns the table, read through shards: while a BatchShards exists on the reading thread, rows
  // of granted shards come from these. A table with another number of columns is returned
  // unchanged. `what` names the table within the model.
  std::shared_ptr<kernels::EmbeddingTable> sharded(std::shared_ptr<kernels::EmbeddingTable> table,
                                                   const std::string& model_version, std::string_view what);
  // Thread-safe.
  ShardsFilled fill(const FillShards& fill);
  void add_to(RowTotals& totals) const;

  // The shards granted to a batch, for tables read on this thread during the object's lifetime.
  class BatchShards {
   public:
    BatchShards(const TableShards* shards, const RunBatch& batch);
    ~BatchShards();
    BatchShards(const BatchShards&) = delete;
    BatchShards& operator=(const BatchShards&) = delete;
    std::vector<BlockOutcome> take_outcomes();

   private:
    friend class TableShards;
    struct ShardState {
      const GrantedShard* granted = nullptr;
      bool is_ready = false, is_bad = false;
      std::optional<BlockOutcome> outcome;
    };
    const bool asks_;
    std::map<TableShard, ShardState> shards_;
    BatchShards* const before_;
  };

 private:
  class ShardedTable;
  std::uint32_t shards_of(const kernels::EmbeddingTable& table) const {
    return (table.rows() + page_rows_ - 1) / page_rows_;
  }
  void read(kernels::EmbeddingTable& table, const BlockName& name, std::span<const Token> rows, float* out);
  bool make_ready(kernels::EmbeddingTable& table, BatchShards::ShardState& shard) const;
  std::uint64_t fill_page(kernels::EmbeddingTable& table, std::uint32_t shard, std::uint32_t page) const;
  const std::byte* row_of(const BatchShards::ShardState& shard, std::uint32_t row) const;

  static thread_local BatchShards* batch_shards_;
  PageArena& arena_;
  const std::uint32_t columns_, page_rows_;
  mutable std::mutex mutex_;
  // Guarded by mutex_, as all below.
  std::map<BlockName, std::weak_ptr<kernels::EmbeddingTable>> tables_;
  std::uint64_t from_here_ = 0, from_nodes_ = 0, from_table_ = 0;
};

}  // namespace troupe::actors
