#pragma once
// Shards of embedding tables on a simulated device: blocks of the process's pages, each of which stands for
// as many consecutive rows of a model's table. A batch's are used as they were granted: filled from the
// table, compared with their checksum, or taken as they are. What is not the shard that was asked for changes
// what is computed of its rows, and is told; so is a page that is written to before who holds it is done with
// it.
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
  // `pages` outlives it. Each model has a table of `rows` rows, `page_rows` of them in a page.
  SimShards(Pages& pages, std::uint32_t page_rows, std::uint32_t rows, Report report);

  // Those that a batch was granted.
  struct One {
    BlockGrant grant;
    Page found{};  // as it was read, or filled
    std::uint64_t wrong = 0;
    bool ready = false, bad = false;  // neither: nothing was read there yet
    std::optional<BlockOutcome> outcome;
  };
  using Granted = std::map<TableShard, One>;
  static Granted granted(const RunBatch& batch);

  TableShard shard_of(const std::string& model_version, std::uint32_t row) const;
  // Of a shard that is granted and has what it should; else of the table.
  RowSource read(const std::string& model_version, std::uint32_t row, Granted& granted);
  // What became of those that were used.
  std::vector<BlockOutcome> end(Granted& granted);
  ShardsFilled fill(const FillShards& fill, std::span<const std::string> models);
  void add_to(RowTotals& totals) const;

 private:
  bool make_ready(const std::string& model_version, const TableShard& shard, One& one);
  Page page_of(const std::string& model_version, const TableShard& shard) const;
  const BlockName& table_of(const std::string& model_version) const;
  void look(const std::string& model_version, const TableShard& shard, One& one);

  Pages& pages_;
  std::uint32_t page_rows_, rows_;
  Report report_;
  mutable std::map<std::string, BlockName, std::less<>> names_;  // of tables: each is asked for at every row
  std::uint64_t from_here_ = 0, from_nodes_ = 0, from_table_ = 0;
};

}  // namespace troupe::sim
