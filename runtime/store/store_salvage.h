#pragma once
// A damaged store is made anew from what of it is whole: rows of tables (behind damaged blocks, too), then
// what the logs have that no table has. Saved blocks are left out, for they are computed again. The damaged
// one is set aside as it is; nothing is deleted.
#include <array>
#include <filesystem>
#include <vector>

#include "runtime/store/store_check.h"

namespace troupe {

struct Salvaged {
  std::filesystem::path aside;  // where the damaged one lies, with lost.txt in it
  std::uint64_t losses = 0;
  std::vector<StoreLoss> lost;  // the first of them; all stand in lost.txt
  // Of the new store, by Numbered: above all that were ever given out, as far as the mark is there to say.
  std::array<std::uint64_t, 2> counters{};
};

// The caller has the lock of <data_dir>/rocksdb. Throws StoreError if no other can be made, and leaves the
// store as it was.
Salvaged salvage_store(const std::filesystem::path& data_dir, const StoreCheck& check);

// After an end between two steps of it: puts the new store where it belongs.
void finish_salvage(const std::filesystem::path& data_dir);

}  // namespace troupe
