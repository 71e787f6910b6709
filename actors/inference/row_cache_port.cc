// Caches rows of embedding tables that are not in memory, in pages that the node's KV-cache worker
// lends for them. A pass takes cached rows from there and fetches the missing ones together. Each
// row has a checksum, so that a wrong row is fetched again instead of used.
#include "actors/inference/row_cache_port.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "actors/inference/table_shards_port.h"
#include "kernels/base/check.h"
#include "kernels/operations/gather.h"

namespace troupe::actors {
namespace {

constexpr std::size_t evicted_max = 1 << 20;  // evicted rows remembered for refills
constexpr double fetch_kept = 0.99;           // decay factor of the fetch statistics per fetch
// Rows per step of a refill. A pass that misses rows waits at most for one such step.
constexpr std::size_t refilled_at_once = 64;

std::uint32_t rows_in_page(const PageArena& arena, std::uint32_t columns) {
  const std::size_t rows = arena.page_bytes() / (std::size_t{columns} * sizeof(float));
  TROUPE_CHECK(rows > 0, "a page holds at least one row");
  return static_cast<std::uint32_t>(rows);
}

}  // namespace

// An embedding table of a model version, as executors see it.
class RowCache::CachedTable final : public kernels::EmbeddingTable {
 public:
  CachedTable(std::shared_ptr<RowCache> cache, std::uint32_t number, Table table)
      : cache_(std::move(cache)), number_(number), table_(std::move(table)) {}
  ~CachedTable() override { cache_->drop(number_); }
  std::uint32_t rows() const override { return table_.slow->rows(); }
  std::uint32_t columns() const override { return table_.slow->columns(); }
  void fetch(std::span<const Token> rows, float* out) override { cache_->read(number_, table_, rows, out); }

 private:
  const std::shared_ptr<RowCache> cache_;
  const std::uint32_t number_;
  const Table table_;
};

// Buffers for a lookup, kept to avoid allocations.
struct RowCache::Scratch {
  std::vector<std::uint32_t> asked;
  std::vector<std::uint64_t> sums;       // per row of the batch; valid for ready rows
  std::vector<bool> wrong;               // per row of the batch: ready with a wrong checksum
  std::vector<Token> missed;             // in order of the batch
  std::vector<std::uint32_t> missed_at;  // per row of the batch
  std::vector<float> fetched;            // values of `missed`
  double fetch_us = 0;                   // time that the fetch took
  std::vector<const float*> sources;     // per requested row
};

RowCache::RowCache(PageArena& arena, std::uint32_t columns)
    : arena_(arena),
      columns_(columns),
      slab_(rows_in_page(arena, columns), evicted_max),
      savings_(std::uint64_t{arena.pages()} * slab_.page_rows()) {}

std::shared_ptr<kernels::EmbeddingTable> RowCache::cached(std::shared_ptr<kernels::EmbeddingTable> table) {
  if (table->columns() != columns_) return table;
  const std::lock_guard lock(mutex_);
  const std::uint32_t number = ++last_number_;
  const Table known{std::move(table), std::uint64_t{number} << 32};
  tables_[number] = known;
  return std::make_shared<CachedTable>(shared_from_this(), number, known);
}

void RowCache::drop(std::uint32_t number) {
  const std::lock_guard lock(mutex_);
  slab_.drop(number);
  tables_.erase(number);
}

float* RowCache::place(RowLocation place) const {
  return reinterpret_cast<float*>(arena_.page(place.page)) + std::size_t{place.slot} * columns_;
}

std::uint64_t RowCache::sum(const Table& table, std::uint32_t row, const float* values) const {
  return checksum_bytes(std::as_bytes(std::span(values, columns_)), table.mark | row);
}

// ---- a pass reads ----

void RowCache::read(std::uint32_t number, const Table& table, std::span<const Token> rows, float* out) {
  thread_local Scratch scratch;
  const RowSlab::Batch batch = look_up(number, rows, scratch);
  try {
    check_sums(table, batch, scratch);
    fetch_missed(table, batch, scratch);
  } catch (const MissingShards&) {  // the batch runs again with the shards, and looks up again
    const std::lock_guard lock(mutex_);
    slab_.release(batch, false);
    slab_.undo_counts(batch);
    throw;
  } catch (...) {
    const std::lock_guard lock(mutex_);
    slab_.release(batch, false);
    throw;
  }
  scratch.sources.clear();
  for (const std::uint32_t i : batch.index) {
    const RowSlab::Row& row = batch.rows[i];
    const bool here = row.state == RowState::ready && !scratch.wrong[i];
    scratch.sources.push_back(here ? place(row.place)
                                   : scratch.fetched.data() + std::size_t{scratch.missed_at[i]} * columns_);
  }
  kernels::gather_rows(scratch.sources, columns_, out);
  keep(table, batch, scratch);
}

RowSlab::Batch RowCache::look_up(std::uint32_t number, std::span<const Token> rows, Scratch& scratch) {
  scratch.asked.assign(rows.begin(), rows.end());
  const std::lock_guard lock(mutex_);
  RowSlab::Batch batch = slab_.look_up(number, scratch.asked);
  scratch.sums.assign(batch.rows.size(), 0);
  for (std::size_t i = 0; i < batch.rows.size(); ++i)
    if (batch.rows[i].state == RowState::ready) scratch.sums[i] = sums_[batch.rows[i].handle];
  return batch;
}

void RowCache::check_sums(const Table& table, const RowSlab::Batch& batch, Scratch& scratch) const {
  scratch.wrong.assign(batch.rows.size(), false);
  for (std::size_t i = 0; i < batch.rows.size(); ++i) {
    const RowSlab::Row& row = batch.rows[i];
    if (row.state == RowState::ready)
      scratch.wrong[i] = sum(table, row.row, place(row.place)) != scratch.sums[i];
  }
}

void RowCache::fetch_missed(const Table& table, const RowSlab::Batch& batch, Scratch& scratch) {
  scratch.missed.clear();
  scratch.missed_at.assign(batch.rows.size(), 0);
  for (std::size_t i = 0; i < batch.rows.size(); ++i) {
    if (batch.rows[i].state == RowState::ready && !scratch.wrong[i]) continue;
    scratch.missed_at[i] = static_cast<std::uint32_t>(scratch.missed.size());
    scratch.missed.push_back(static_cast<Token>(batch.rows[i].row));
  }
  scratch.fetched.resize(scratch.missed.size() * columns_);
  if (scratch.missed.empty()) return;
  struct WaitingWork {
    std::atomic<std::uint32_t>& count;
    explicit WaitingWork(std::atomic<std::uint32_t>& passes) : count(passes) { ++count; }
    ~WaitingWork() { --count; }
  } waiting(fetching_);
  const auto begun = std::chrono::steady_clock::now();
  table.slow->fetch(scratch.missed, scratch.fetched.data());
  scratch.fetch_us =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begun).count();
}

// Stores the fetched rows in their slots. No other pass reads a slot before the release.
void RowCache::keep(const Table& table, const RowSlab::Batch& batch, Scratch& scratch) {
  for (std::size_t i = 0; i < batch.rows.size(); ++i) {
    const RowSlab::Row& row = batch.rows[i];
    if (row.state != RowState::fill) continue;
    const float* const values = scratch.fetched.data() + std::size_t{scratch.missed_at[i]} * columns_;
    std::memcpy(place(row.place), values, std::size_t{columns_} * sizeof(float));
    scratch.sums[i] = sum(table, row.row, values);
  }
  const std::lock_guard lock(mutex_);
  savings_.use(batch, fetched_rows_ > 0 ? fetch_us_ / fetched_rows_ : 1);
  for (std::size_t i = 0; i < batch.rows.size(); ++i) {
    if (scratch.wrong[i]) slab_.discard(batch.rows[i]);
    if (batch.rows[i].state == RowState::fill) sums_[batch.rows[i].handle] = scratch.sums[i];
  }
  bytes_missed_ += scratch.fetched.size() * sizeof(float);
  if (!scratch.missed.empty()) note_fetch(scratch.fetch_us, scratch.missed.size());
  slab_.release(batch);
}

void RowCache::note_fetch(double us, std::size_t rows) {
  fetch_us_ = fetch_us_ * fetch_kept + us;
  fetched_rows_ = fetched_rows_ * fetch_kept + static_cast<double>(rows);
}

// ---- pages lent and given back ----

RowPages RowCache::change(const ChangeRowPages& change) {
  RowPages changed;
  {
    const std::lock_guard lock(mutex_);
    for (const std::uint32_t page : change.pages) slab_.grow(page);
    changed.given_back = slab_.shrink(change.give_back);
    sums_.resize(slab_.handles());
    savings_.add_to(changed);
  }
  changed.rows = totals();
  return changed;
}

RowsRefilled RowCache::refill(const RefillRows& refill) {
  const std::size_t row_bytes = std::size_t{columns_} * sizeof(float);
  std::size_t left = refill.bytes / row_bytes;
  std::vector<float> values;
  std::vector<Token> rows;
  while (left > 0 && fetching_ == 0) {
    RowSlab::Batch batch;
    Table table;
    {
      const std::lock_guard lock(mutex_);
      batch = slab_.refill(std::min(left, refilled_at_once));
      if (batch.rows.empty()) break;
      const auto known = tables_.find(batch.table);
      if (known != tables_.end()) table = known->second;
    }
    rows.clear();
    for (const RowSlab::Row& row : batch.rows) rows.push_back(static_cast<Token>(row.row));
    values.resize(rows.size() * columns_);
    bool filled = table.slow != nullptr;
    try {
      if (filled) table.slow->fetch(rows, values.data());
    } catch (const std::exception&) {
      filled = false;  // the next pass that needs them sees the error
    }
    for (std::size_t i = 0; filled && i < rows.size(); ++i)
      std::memcpy(place(batch.rows[i].place), &values[i * columns_], row_bytes);
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; filled && i < rows.size(); ++i)
      sums_[batch.rows[i].handle] = sum(table, batch.rows[i].row, &values[i * columns_]);
    slab_.release(batch, filled);
    bytes_refilled_ += filled ? rows.size() * row_bytes : 0;
    left -= rows.size();
  }
  return {totals()};
}

RowTotals RowCache::totals() const {
  const std::lock_guard lock(mutex_);
  RowTotals totals = savings_.totals(slab_);
  totals.bytes_missed = bytes_missed_;
  totals.bytes_refilled = bytes_refilled_;
  return totals;
}

std::string RowCache::check_invariants() const {
  const std::lock_guard lock(mutex_);
  return slab_.check_invariants();
}

}  // namespace troupe::actors
