// Opens a store that only holds saved blocks, which can be recomputed. A damaged one is set aside
// and replaced by an empty one, so that its process starts anyway.
#include "runtime/store/store_cache.h"

#include <fstream>
#include <system_error>

namespace troupe {
namespace {

namespace fs = std::filesystem;

// True if the store has held no profile or item: it has no rows and no version counters.
bool holds_only_blocks(const Store& store) {
  bool empty = true;
  const auto see = [&](std::string_view, std::string_view) { return empty = false; };
  const auto see_meta = [&](std::string_view key, std::string_view) {
    return empty = empty && key == "format";
  };
  return store.scan(Column::items, "", "", see) && store.scan(Column::users, "", "", see) &&
         store.scan(Column::meta, "", "", see_meta) && empty;
}

// A store without the marker file is just never set aside, so failing to write it is not an error.
std::unique_ptr<Store> open_and_mark(const fs::path& data_dir) {
  auto store = std::make_unique<Store>(data_dir, StoreOptions{.is_cache = true});
  if (holds_only_blocks(*store))
    std::ofstream(data_dir / "rocksdb" / only_blocks_file) << "Nothing was kept here but saved blocks.\n";
  return store;
}

[[noreturn]] void fail_unchanged(const StoreError& error, const std::string& why) {
  throw StoreError(error.fault, std::string(error.what()) + ". It was not set aside, for " + why);
}

fs::path free_aside_name(const fs::path& data_dir, const StoreError& error) {
  for (const char* const name : {"rocksdb.damaged", "rocksdb.damaged.2"}) {
    std::error_code failure;
    if (fs::symlink_status(data_dir / name, failure).type() == fs::file_type::not_found)
      return data_dir / name;
  }
  fail_unchanged(error, "two damaged ones are there already: look at " +
                            (data_dir / "rocksdb.damaged").string() +
                            " and rocksdb.damaged.2, and remove them");
}

// Creates the empty store under another name, while the damaged one is still in place. A store
// found there was left by a process that ended between these steps.
void make_empty_store(const fs::path& beginning, const StoreError& error) {
  bool empty = false;
  try {
    empty = holds_only_blocks(*open_and_mark(beginning));
  } catch (const StoreError& other) {
    fail_unchanged(error, std::string("an empty one could not be created: ") + other.what());
  }
  if (!empty)
    fail_unchanged(error, (beginning / "rocksdb").string() + ", which would replace it, is not empty");
}

void swap_stores(const fs::path& now, const fs::path& aside, const fs::path& next, const StoreError& error) {
  std::error_code failure, ignored;
  fs::rename(now, aside, failure);
  if (failure)
    fail_unchanged(error, "it could not be renamed to " + aside.string() + ": " + failure.message());
  fs::rename(next, now, failure);
  if (!failure) return;
  fs::rename(aside, now, ignored);
  fail_unchanged(error, "the empty one could not be moved into its place: " + failure.message());
}

}  // namespace

OpenedCache open_cache(const fs::path& data_dir) {
  try {
    return {open_and_mark(data_dir), ""};
  } catch (const StoreError& error) {
    if (error.fault != StoreFault::corrupt && error.fault != StoreFault::foreign_format) throw;
    std::error_code failure;
    if (!fs::exists(data_dir / "rocksdb" / only_blocks_file, failure))
      fail_unchanged(error,
                     "profiles or a catalog may be in it; if only saved blocks are, remove the folder");
    const fs::path aside = free_aside_name(data_dir, error);
    const fs::path beginning = data_dir / "rocksdb.beginning";
    make_empty_store(beginning, error);
    swap_stores(data_dir / "rocksdb", aside, beginning / "rocksdb", error);
    fs::remove(beginning, failure);  // empty by now
    return {open_and_mark(data_dir), std::string(error.what()) + ". It was set aside as " + aside.string()};
  }
}

}  // namespace troupe
