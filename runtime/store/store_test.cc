#include "runtime/store/store.h"

#include <doctest/doctest.h>
#include <rocksdb/iostats_context.h>
#include <rocksdb/perf_level.h>
#include <sys/wait.h>

#include <fstream>
#include <functional>

#include "runtime/testing/store_test_folder.h"

using namespace troupe;

namespace store_test {

std::optional<std::string> get(const Store& store, Column column, const std::string& key) {
  std::optional<std::string> value;
  store.read(column, key, [&](std::string_view bytes) { value = bytes; });
  return value;
}

std::optional<StoreFailure> put(Store& store, Column column, const std::string& key,
                                const std::string& value) {
  const Change change{column, key, value};
  return store.write({&change, 1}, Durability::buffered);
}

// Returns the fault and text with which opening this folder fails; `failed` and "" if it succeeds.
StoreError open_error(const std::filesystem::path& folder) {
  try {
    Store store(folder);
  } catch (const StoreError& error) {
    return error;
  }
  return {StoreFault::failed, ""};
}

bool says(const StoreError& error, const std::string& words) {
  return std::string(error.what()).find(words) != std::string::npos;
}

bool no_disk(const TestFolder& folder) {
  if (!folder.mounted()) MESSAGE("skipped: no permission to mount a disk for this test");
  return !folder.mounted();
}

void overwrite(const std::filesystem::path& file, const std::string& content) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << content;
}

TEST_CASE("store: a write is read in its column, also after reopening") {
  TestFolder folder;
  {
    Store store(folder.path());
    const std::string_view tail[] = {"b", "", "cd"};
    const Change changes[] = {{Column::items, "k", "item"},
                              {Column::users, "k", "user"},
                              {Column::blocks, "k", "a", {tail[0], tail[1], tail[2]}},
                              {Column::users, "gone", "x"},
                              {Column::users, "gone"}};
    CHECK_FALSE(store.write(changes, Durability::synced));
  }
  Store store(folder.path());
  CHECK(get(store, Column::items, "k") == "item");
  CHECK(get(store, Column::users, "k") == "user");
  CHECK(get(store, Column::blocks, "k") == "abcd");
  CHECK(store.read(Column::users, "gone", [](std::string_view) {}) == Store::Read::missing);
}

// True if the log reached the disk before the call returned.
bool is_synced(const std::function<void()>& call) {
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableTime);
  rocksdb::get_iostats_context()->Reset();
  call();
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kDisable);
  return rocksdb::get_iostats_context()->fsync_nanos > 0;
}

TEST_CASE("store: each synced write is on the disk before it is answered; buffered ones are not") {
  TestFolder folder;
  Store store(folder.path());
  const Change add{Column::users, "k", "v"}, erase{Column::users, "k"};
  for (const Change& change : {add, erase}) {
    CHECK(is_synced([&] { CHECK_FALSE(store.write({&change, 1}, Durability::synced)); }));
    CHECK_FALSE(is_synced([&] { CHECK_FALSE(store.write({&change, 1}, Durability::buffered)); }));
  }
}

TEST_CASE("store: a scan visits its range in order and stops on false; a range can be erased") {
  TestFolder folder;
  Store store(folder.path());
  for (const char* key : {"b2", "a", "c", "b1", "b3"}) put(store, Column::items, key, "v");
  std::string seen;
  const auto collect = [&](std::string_view key, std::string_view) { return seen += key, key != "b2"; };
  CHECK(store.scan(Column::items, "b", "c", collect));
  CHECK(seen == "b1b2");
  CHECK_FALSE(store.erase_range(Column::items, "b2", "c"));
  seen.clear();
  CHECK(store.scan(Column::items, "", "", collect));
  CHECK(seen == "ab1c");
}

TEST_CASE("store: a folder that cannot be created is an error that says so") {
  TestFolder folder;
  overwrite(folder.path() / "file", "");
  const StoreError error = open_error(folder.path() / "file" / "data");
  CHECK(error.fault == StoreFault::cannot_create);
  CHECK(says(error, "file/data/rocksdb: the folder cannot be created"));
  CHECK(says(error, "; expected a folder"));
  overwrite(folder.path() / "rocksdb", "");
  CHECK(open_error(folder.path()).fault == StoreFault::cannot_create);
}

TEST_CASE("store: a second store in one folder is refused as locked, and the first continues") {
  TestFolder folder;
  Store store(folder.path());
  const StoreError error = open_error(folder.path());
  CHECK(error.fault == StoreFault::locked);
  CHECK(says(error, "locked by another process"));
  CHECK_FALSE(put(store, Column::items, "k", "v"));
}

TEST_CASE("store: a folder locked by another process is refused") {
  TestFolder folder;
  const auto lock_file = folder.path() / "rocksdb" / "LOCK";
  { Store store(folder.path()); }
  int ready[2], done[2];
  REQUIRE((pipe(ready) == 0 && pipe(done) == 0));
  const pid_t child = fork();
  if (child == 0) {  // holds the lock as another Troupe would; no RocksDB after a fork
    char byte = 0;
    FILE* file = std::fopen(lock_file.c_str(), "r+");
    const bool held = file && lockf(fileno(file), F_TLOCK, 0) == 0;
    close(done[1]);
    if (write(ready[1], held ? "y" : "n", 1) != 1) _exit(1);
    _exit(read(done[0], &byte, 1) < 0);
  }
  close(ready[1]), close(done[0]);
  char held = 0;
  REQUIRE(read(ready[0], &held, 1) == 1);
  CHECK(held == 'y');
  CHECK(open_error(folder.path()).fault == StoreFault::locked);
  close(done[1]), close(ready[0]);
  waitpid(child, nullptr, 0);
  CHECK_NOTHROW(Store(folder.path()));
}

TEST_CASE("store: a damaged store is refused as corrupt") {
  TestFolder folder;
  {
    Store store(folder.path());
    put(store, Column::items, "k", "v");
  }
  overwrite(folder.path() / "rocksdb" / "CURRENT", "nonsense");
  const StoreError error = open_error(folder.path());
  CHECK(error.fault == StoreFault::corrupt);
  CHECK(says(error, "or remove the folder and import again"));
}

TEST_CASE("store: a store in a foreign format is refused") {
  TestFolder folder;
  {
    Store store(folder.path());
    put(store, Column::meta, "format", "troupe store 9");
  }
  const StoreError error = open_error(folder.path());
  CHECK(error.fault == StoreFault::foreign_format);
  CHECK(says(error, "troupe store 9"));
}

TEST_CASE("store: a read-only folder is refused") {
  TestFolder folder("8m");
  if (no_disk(folder)) return;
  { Store store(folder.path()); }
  REQUIRE(folder.make_read_only());
  const StoreError error = open_error(folder.path());
  CHECK(error.fault == StoreFault::read_only);
  CHECK(says(error, "the folder is read-only"));
  CHECK(open_error(folder.path() / "new").fault == StoreFault::read_only);
}

TEST_CASE("store: opening on a full disk is refused") {
  TestFolder folder("1m");
  if (no_disk(folder)) return;
  overwrite(folder.path() / "ballast", std::string(1 << 20, 'x'));
  CHECK(open_error(folder.path()).fault == StoreFault::disk_full);
}

TEST_CASE("store: a full disk is a failure value; reads continue, and writes resume when space is free") {
  TestFolder folder("48m");
  if (no_disk(folder)) return;
  auto opened = std::make_unique<Store>(folder.path(), StoreOptions{.free_bytes_min = 0});
  Store& store = *opened;
  REQUIRE_FALSE(put(store, Column::users, "first", "kept"));
  const auto ballast = folder.path() / "ballast";
  overwrite(ballast, std::string(32 << 20, 'x'));
  const std::string megabyte(1 << 20, 'y');
  std::optional<StoreFailure> failure;
  for (int i = 0; i < 64 && !failure; ++i) failure = put(store, Column::blocks, std::to_string(i), megabyte);
  REQUIRE(failure);
  CHECK(failure->fault == StoreFault::disk_full);
  CHECK(put(store, Column::users, "second", "refused"));
  CHECK(get(store, Column::users, "first") == "kept");
  std::filesystem::remove(ballast);
  failure = put(store, Column::users, "third", "kept");
  INFO((failure ? failure->why : ""));
  CHECK_FALSE(failure);
  for (const bool again : {false, true}) {
    CAPTURE(again);
    if (again)
      opened.reset(), opened = std::make_unique<Store>(folder.path(), StoreOptions{.free_bytes_min = 0});
    CHECK(get(*opened, Column::users, "third") == "kept");
    CHECK(get(*opened, Column::users, "first") == "kept");
    CHECK_FALSE(get(*opened, Column::users, "second"));
  }
}

TEST_CASE("store: with too little free space rows are refused, erasures are not") {
  TestFolder folder;
  {
    Store store(folder.path());
    put(store, Column::users, "old", "row");
  }
  Store store(folder.path(), {.free_bytes_min = ~std::uint64_t{0}});
  const auto failure = put(store, Column::users, "new", "row");
  REQUIRE(failure);
  CHECK(failure->fault == StoreFault::disk_full);
  CHECK(failure->why.find("bytes are free") != std::string::npos);
  const Change erase{Column::users, "old"};
  CHECK_FALSE(store.write({&erase, 1}, Durability::synced));
  CHECK_FALSE(get(store, Column::users, "old"));
}

}  // namespace store_test
