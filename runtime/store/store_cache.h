#pragma once
// Opens a store whose content can be recomputed, so that damage to it does not keep its process
// from starting. A damaged store is set aside and replaced by an empty one, but only if it is known
// to have held nothing but saved blocks (`only_blocks_file`). Nothing is ever deleted.
#include <filesystem>
#include <memory>
#include <string>

#include "runtime/store/store.h"

namespace troupe {

struct OpenedCache {
  std::unique_ptr<Store> store;
  std::string damage;  // what was wrong and where the damaged store is now; empty: no damage
};

// Opens or creates <data_dir>/rocksdb. A corrupt one, or one in a foreign format, is renamed to
// <data_dir>/rocksdb.damaged (or rocksdb.damaged.2 beside an earlier one) once an empty one exists.
// Throws StoreError and leaves the store unchanged if both names are taken, if it may hold profiles
// or a catalog, and on any other failure, since failures of the disk or the system may pass.
OpenedCache open_cache(const std::filesystem::path& data_dir);

}  // namespace troupe
