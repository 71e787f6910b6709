#pragma once
// Follows the allocator's split of the node's pool: sizes the areas, lends pages for rows of
// embedding tables (row_lending.h), and reports to the allocator how the areas are used.
#include <cstdint>
#include <optional>
#include <vector>

#include "actors/kv_worker/area_savings.h"
#include "actors/kv_worker/kv_worker_config.h"
#include "runtime/actor/core.h"
#include "runtime/pool/page_pool.h"

namespace troupe::actors {

class PoolSplit {
 public:
  PoolSplit(const KvWorkerConfig& config, PagePool& pool, const AreaSavings& savings);

  void on_split(const SetSplit& split, Effects& effects);
  void on_pages_lent(Instant now, Address from, PagesLent&& answer, Effects& effects);
  // Sends a report, and sets a timer for the next one. `ready`: the worker is ready.
  void on_report_timer(Instant now, bool ready, Effects& effects);
  // Lends and demands pages, and notes the end of a boundary's move.
  void advance(Instant now, bool ready, Effects& effects) { lend(now, ready, false, effects); }

  PoolReport report() const;
  const RowLending& rows() const { return rows_; }
  std::uint64_t boundary_bytes_copied() const { return boundary_bytes_copied_; }

 private:
  Address allocator() const { return {config_.node, Role::allocator}; }
  void lend(Instant now, bool ready, bool ask, Effects& effects);
  void end_boundary_move(Effects& effects);
  void count_saved(const PoolReport& report, Effects& effects);

  const KvWorkerConfig& config_;
  PagePool& pool_;
  const AreaSavings& savings_;
  RowLending rows_;
  std::uint64_t epoch_ = 0;  // of the split that is in force
  // Block positions before the boundary between areas began to move.
  std::optional<PagePool::PageHashes> boundary_moves_;
  std::uint64_t boundary_bytes_copied_ = 0;
  std::vector<double> counted_saved_us_;  // per area, as of the last metrics update
};

}  // namespace troupe::actors
