#pragma once
// A store whose content can be made anew: damage to it does not keep its process from starting. It is set
// aside and an empty one takes its place, but only if it is known that nothing was ever kept in it but saved
// blocks (`only_blocks_file`). Nothing is deleted here, whatever happens.
#include <filesystem>
#include <memory>
#include <string>

#include "runtime/store/store.h"

namespace troupe {

struct OpenedCache {
  std::unique_ptr<Store> store;
  std::string damage;  // what was wrong, and where the damaged one lies now; empty: nothing
};

// Opens or makes <data_dir>/rocksdb. One that is corrupt or has a foreign format becomes
// <data_dir>/rocksdb.damaged, or rocksdb.damaged.2 beside an earlier one, as soon as an empty one could be
// made. Throws StoreError, and leaves the store as it was, where both lie there already, where profiles or a
// catalog may be in it, and on any other failure: those of the disk or the system may pass.
OpenedCache open_cache(const std::filesystem::path& data_dir);

}  // namespace troupe
