#pragma once
// Shards of embedding tables on a simulated device: blocks of the process's pages, each standing for
// consecutive rows of a model's table. A batch uses its shards as they were granted: filled from the table,
// compared with their checksum, or taken as they are. A wrong shard changes what is computed from its rows
// and is reported, as is a page written before its holder releases it.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/actor/ports.h"
#include "sim/ports/sim_rows.h"
#include "sim/world/pages.h"

namespace troupe::sim {

class SimShards {
 public:
  using Report = std::function<void(int promise, const TableShard& shard, std::string_view what)>;
  // `pages` must outlive this object. Each model has a table of `rows` rows, `page_rows` of them per page.
  SimShards(Pages& pages, std::uint32_t page_rows, std::uint32_t rows, Report report);

  // Shard granted to a batch.
  struct HeldShard {
    BlockGrant grant;
    Page found{};  // as it was read or filled
    std::uint64_t wrong = 0;
    bool ready = false, bad = false;  // both false = not read yet
    std::optional<BlockOutcome> outcome;
  };
  using HeldShards = std::map<TableShard, HeldShard>;
  static HeldShards granted(const RunBatch& batch);

  TableShard shard_of(const std::string& model_version, std::uint32_t row) const;
  // Reads a row from its granted shard if that is right, else from the table.
  RowSource read(const std::string& model_version, std::uint32_t row, HeldShards& granted);
  // Returns the outcomes of the shards that were used.
  std::vector<BlockOutcome> end(HeldShards& granted);
  ShardsFilled fill(const FillShards& fill, std::span<const std::string> models);
  void add_to(RowTotals& totals) const;

 private:
  bool make_ready(const std::string& model_version, const TableShard& shard, HeldShard& one);
  Page page_of(const std::string& model_version, const TableShard& shard) const;
  const BlockName& table_of(const std::string& model_version) const;
  void look(const std::string& model_version, const TableShard& shard, HeldShard& one);

  Pages& pages_;
  std::uint32_t page_rows_, rows_;
  Report report_;
  // Names of tables, cached because every row needs one.
  mutable std::map<std::string, BlockName, std::less<>> names_;
  std::uint64_t from_here_ = 0, from_nodes_ = 0, from_table_ = 0;
};

}  // namespace troupe::sim
