#pragma once
// Rebuilds a damaged store from its sound parts: rows of tables (also those after damaged blocks),
// then log records that no table has. Saved blocks are dropped, since they are recomputed. The
// damaged store is set aside unchanged; nothing is deleted.
#include <array>
#include <filesystem>
#include <vector>

#include "runtime/store/store_check.h"

namespace troupe {

struct SalvageResult {
  std::filesystem::path aside;  // folder of the damaged store, with lost.txt in it
  std::uint64_t losses = 0;
  std::vector<StoreLoss> lost;  // the first losses; lost.txt lists all
  // Counters of the new store, by VersionKind: above all numbers ever used, as far as the mark
  // shows.
  std::array<std::uint64_t, 2> counters{};
};

// The caller holds the lock of <data_dir>/rocksdb. Throws StoreError if no new store can be made,
// and leaves the damaged one unchanged.
SalvageResult salvage_store(const std::filesystem::path& data_dir, const StoreCheck& check);

// Moves the new store into place if a process ended between two steps of the salvage.
void finish_salvage(const std::filesystem::path& data_dir);

}  // namespace troupe
