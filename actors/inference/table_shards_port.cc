// Reads embedding tables that are spread over the memory of several nodes. A shard is a run of rows
// that fills one page of the pool and is cached like any block. Rows whose shard is not granted to
// the batch come from the table itself, which is slower.
#include "actors/inference/table_shards_port.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <utility>

#include "kernels/base/check.h"
#include "runtime/actor/block_name.h"
#include "runtime/actor/table_shard.h"

namespace troupe::actors {
namespace {

std::uint32_t whole_rows(const PageArena& arena, std::uint32_t columns) {
  const std::size_t rows = arena.page_bytes() / (std::size_t{columns} * sizeof(float));
  TROUPE_CHECK(rows > 0, "a page holds at least one row");
  return static_cast<std::uint32_t>(rows);
}

// A table of another size, or cut into other shards, has another name.
BlockName table_name(const std::string& model_version, std::string_view what,
                     const kernels::EmbeddingTable& table, std::uint32_t page_rows) {
  const std::string layout = "table " + std::string(what) + " rows " + std::to_string(table.rows()) +
                             " columns " + std::to_string(table.columns()) + " shards " +
                             std::to_string(page_rows);
  return block_name({model_version, layout}, "", {}, 0, {});
}

}  // namespace

// An embedding table of a model version whose rows may come from shards. Executors read it, or the
// row cache (row_cache_port.h) in front of it.
class TableShards::ShardedTable final : public kernels::EmbeddingTable {
 public:
  ShardedTable(std::shared_ptr<TableShards> shards, BlockName name,
               std::shared_ptr<kernels::EmbeddingTable> table)
      : shards_(std::move(shards)), name_(name), table_(std::move(table)) {}
  std::uint32_t rows() const override { return table_->rows(); }
  std::uint32_t columns() const override { return table_->columns(); }
  void fetch(std::span<const Token> rows, float* out) override { shards_->read(*table_, name_, rows, out); }

 private:
  const std::shared_ptr<TableShards> shards_;
  const BlockName name_;
  const std::shared_ptr<kernels::EmbeddingTable> table_;
};

thread_local TableShards::BatchShards* TableShards::batch_shards_ = nullptr;

TableShards::TableShards(PageArena& arena, std::uint32_t columns)
    : arena_(arena), columns_(columns), page_rows_(whole_rows(arena, columns)) {}

std::shared_ptr<kernels::EmbeddingTable> TableShards::sharded(std::shared_ptr<kernels::EmbeddingTable> table,
                                                              const std::string& model_version,
                                                              std::string_view what) {
  if (table->columns() != columns_) return table;
  const BlockName name = table_name(model_version, what, *table, page_rows_);
  const std::lock_guard lock(mutex_);
  std::erase_if(tables_, [](const auto& entry) { return entry.second.expired(); });
  tables_[name] = table;
  return std::make_shared<ShardedTable>(shared_from_this(), name, std::move(table));
}

void TableShards::add_to(RowTotals& totals) const {
  const std::lock_guard lock(mutex_);
  totals.from_here = from_here_;
  totals.from_nodes = from_nodes_;
  totals.from_table = from_table_;
}

// ---- a batch's shards ----

TableShards::BatchShards::BatchShards(const TableShards* shards, const RunBatch& batch)
    : asks_(shards != nullptr && batch.asks_for_shards), before_(batch_shards_) {
  for (const GrantedShard& granted : batch.shards) shards_[granted.shard].granted = &granted;
  batch_shards_ = this;
}

TableShards::BatchShards::~BatchShards() { batch_shards_ = before_; }

std::vector<BlockOutcome> TableShards::BatchShards::take_outcomes() {
  std::vector<BlockOutcome> outcomes;
  for (auto& [shard, one] : shards_)
    if (one.outcome) outcomes.push_back(*std::exchange(one.outcome, std::nullopt));
  return outcomes;
}

// ---- rows ----

// Reads rows of granted shards in place, and other rows from the table. In the first run of a batch
// (`asks_`) missing shards are thrown as MissingShards instead: the core acquires them, and the
// batch runs again.
void TableShards::read(kernels::EmbeddingTable& table, const BlockName& name, std::span<const Token> rows,
                       float* out) {
  if (batch_shards_ == nullptr) return table.fetch(rows, out);  // outside of a batch
  std::vector<Token> left;
  std::vector<std::size_t> left_at;
  std::set<TableShard> away;
  std::uint64_t here = 0, nodes = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto row = static_cast<std::uint32_t>(rows[i]);
    const TableShard shard{name, row / page_rows_};
    const auto at = batch_shards_->shards_.find(shard);
    if (at != batch_shards_->shards_.end() && make_ready(table, at->second)) {
      std::memcpy(out + i * columns_, row_of(at->second, row), std::size_t{columns_} * sizeof(float));
      const BlockGrant& grant = at->second.granted->grant;
      // For a write grant, the table was just read.
      if (grant.grant == Grant::read) ++(grant.pulled ? nodes : here);
    } else {
      if (batch_shards_->asks_) away.insert(shard);
      left.push_back(rows[i]);
      left_at.push_back(i);
    }
  }
  if (!away.empty()) {
    MissingShards elsewhere;
    elsewhere.shards.assign(away.begin(), away.end());
    throw elsewhere;
  }
  std::vector<float> values(left.size() * columns_);
  if (!left.empty()) table.fetch(left, values.data());
  for (std::size_t k = 0; k < left.size(); ++k)
    std::copy_n(&values[k * columns_], columns_, out + left_at[k] * columns_);
  const std::lock_guard lock(mutex_);
  from_here_ += here;
  from_nodes_ += nodes;
  from_table_ += rows.size() - here - nodes;
}

const std::byte* TableShards::row_of(const BatchShards::ShardState& shard, std::uint32_t row) const {
  const std::size_t offset = std::size_t{row % page_rows_} * columns_ * sizeof(float);
  return arena_.page(shard.granted->grant.pages.front()) + offset;
}

// Prepares a shard at its first use. Returns false if it has no valid bytes.
bool TableShards::make_ready(kernels::EmbeddingTable& table, BatchShards::ShardState& shard) const {
  if (shard.is_ready || shard.is_bad) return shard.is_ready;
  const BlockGrant& grant = shard.granted->grant;
  const bool fits = grant.pages.size() == 1 && grant.pages.front() < arena_.pages();
  shard.is_bad = grant.grant == Grant::none || !fits;
  if (shard.is_bad) return false;
  const BlockName block = block_of(shard.granted->shard);
  if (grant.grant == Grant::write) {
    const std::uint64_t sum = fill_page(table, shard.granted->shard.shard, grant.pages.front());
    shard.outcome = {block, grant.generation, Outcome::written, sum};
  } else if (grant.check) {
    shard.is_bad = checksum_pages(arena_, grant.pages) != grant.checksum;
    shard.outcome = {block, grant.generation, shard.is_bad ? Outcome::corrupt : Outcome::done};
  }
  return shard.is_ready = !shard.is_bad;
}

// Fills the page and returns its checksum. The unused rest of the page is zero, as in all blocks.
std::uint64_t TableShards::fill_page(kernels::EmbeddingTable& table, std::uint32_t shard,
                                     std::uint32_t page) const {
  std::vector<Token> rows(std::min(page_rows_, table.rows() - shard * page_rows_));
  std::iota(rows.begin(), rows.end(), static_cast<Token>(shard * page_rows_));
  std::byte* const bytes = arena_.page(page);
  const std::size_t used = rows.size() * columns_ * sizeof(float);
  table.fetch(rows, reinterpret_cast<float*>(bytes));
  std::memset(bytes + used, 0, arena_.page_bytes() - used);
  return checksum_pages(arena_, std::span(&page, 1));
}

// Fills this node's own shards ahead of requests. The answer also lists all tables, so that the
// core knows which shards there are.
ShardsFilled TableShards::fill(const FillShards& fill) {
  ShardsFilled filled;
  std::map<BlockName, std::shared_ptr<kernels::EmbeddingTable>> tables;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, known] : tables_)
      if (auto table = known.lock()) tables[name] = std::move(table);
  }
  for (const auto& [name, table] : tables) filled.tables.push_back({name, shards_of(*table)});
  for (const GrantedShard& granted : fill.shards) {
    const auto at = tables.find(granted.shard.table);
    if (at == tables.end() || granted.shard.shard >= shards_of(*at->second) ||
        granted.grant.grant != Grant::write)
      continue;
    BatchShards::ShardState one{&granted};
    if (make_ready(*at->second, one)) filled.outcomes.push_back(*one.outcome);
  }
  return filled;
}

}  // namespace troupe::actors
