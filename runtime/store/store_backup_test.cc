#include "runtime/store/store_backup.h"

#include <doctest/doctest.h>

#include <xxhash.h>

#include "runtime/store/store.h"
#include "runtime/store/store_check.h"
#include "runtime/store/store_rows.h"
#include "runtime/testing/store_test_folder.h"

using namespace troupe;
namespace fs = std::filesystem;

namespace {

struct BackedUp {
  TestFolder folder;
  const fs::path data = folder.path() / "data", backup = folder.path() / "backup",
                 other = folder.path() / "other";

  BackedUp() {
    Store store(data);
    const Change changes[] = {{Column::users, "ann", "row"},
                              {Column::blocks, "b", std::string(100'000, 'b')},
                              {Column::meta, "profiles", encode_counter(7, "profiles")}};
    REQUIRE_FALSE(store.write(changes, Durability::synced));
    folder.write("data/coordination", "who leads");
    REQUIRE_FALSE(store.copy_to(folder.path() / "copy"));
    const Change later{Column::users, "bob", "row"};
    REQUIRE_FALSE(store.write({&later, 1}, Durability::synced));
    CHECK(make_backup(folder.path() / "copy", data, backup) < 50'000);
  }
  static bool has(const Store& store, Column column, const char* key) {
    return store.read(column, key, [](std::string_view) {}) == Store::Read::found;
  }
};

// Writes a list with a right sum: whoever can write a backup can also write its sums.
void write_list(const fs::path& backup, const std::string& entries) {
  const std::string list = "troupe backup 1\n" + entries;
  overwrite_with(backup / "backup",
                 list + "sum " + std::to_string(XXH3_64bits(list.data(), list.size())) + "\n");
}

std::string entry_of(const fs::path& file, const std::string& name) {
  const std::string bytes = bytes_of(file);
  return "file " + std::to_string(bytes.size()) + " " +
         std::to_string(XXH3_64bits(bytes.data(), bytes.size())) + " " + name + "\n";
}

std::string entries_of(const fs::path& backup) {
  const std::string list = bytes_of(backup / "backup");
  const std::size_t begin = list.find('\n') + 1;
  return list.substr(begin, list.rfind("sum ") - begin);
}

}  // namespace

TEST_CASE_FIXTURE(BackedUp, "backup: has the rows and coordination of its time, no saved blocks, mode 0600") {
  CHECK(check_backup(backup).empty());
  for (const auto& entry : fs::recursive_directory_iterator(backup))
    CHECK((fs::status(entry).permissions() & (fs::perms::group_all | fs::perms::others_all)) ==
          fs::perms::none);
  restore_backup(backup, other);
  CHECK(bytes_of(other / "coordination") == "who leads");
  CHECK(check_store(other, ~0ull).is_whole());
  Store store(other);
  CHECK(has(store, Column::users, "ann"));
  CHECK_FALSE(has(store, Column::users, "bob"));
  CHECK_FALSE(has(store, Column::blocks, "b"));
}

TEST_CASE_FIXTURE(BackedUp, "backup: version numbers used after the backup are not reused after a restore") {
  restore_backup(backup, other);
  Store store(other);
  std::uint64_t counter = 0;
  store.read(Column::meta, "profiles",
             [&](std::string_view value) { counter = decode_counter("profiles", value).value_or(0); });
  CHECK(counter > 1'000'000);
  CHECK(store.health().damages == 0);
}

TEST_CASE_FIXTURE(BackedUp, "backup: a folder that is not empty is refused for backup and restore") {
  CHECK_THROWS_WITH_AS(restore_backup(backup, data), doctest::Contains("it is not empty"), StoreError);
  CHECK_THROWS_WITH_AS(make_backup(folder.path() / "copy", data, backup),
                       doctest::Contains("it is not empty"), StoreError);
}

TEST_CASE_FIXTURE(BackedUp, "backup: the root of a new volume is an empty folder") {
  fs::create_directories(other / "lost+found");
  restore_backup(backup, other);
  CHECK(check_store(other, ~std::uint64_t{0}).is_whole());
  const fs::path volume = folder.path() / "volume";
  fs::create_directories(volume / "lost+found");
  fs::create_directories(volume / "other");
  CHECK_THROWS_WITH_AS(restore_backup(backup, volume), doctest::Contains("it is not empty"), StoreError);
}

TEST_CASE_FIXTURE(BackedUp, "backup: a damaged or missing file is named and the restore refused") {
  for (const auto& entry : fs::recursive_directory_iterator(backup)) {
    if (!entry.is_regular_file() || entry.file_size() == 0) continue;
    CAPTURE(entry.path().string());
    const std::string sound = bytes_of(entry.path());
    flip_byte(entry.path(), sound.size() / 2);
    REQUIRE(check_backup(backup).size() == 1);
    CHECK(check_backup(backup)[0].find(entry.path().filename().string()) != std::string::npos);
    CHECK_THROWS_AS(restore_backup(backup, other), StoreError);
    CHECK_FALSE(fs::exists(other));
    fs::remove(entry.path());
    CHECK(check_backup(backup).size() == 1);
    overwrite_with(entry.path(), sound);
  }
  CHECK(check_backup(backup).empty());
}

TEST_CASE_FIXTURE(BackedUp, "backup: a list that names other files than a backup has is refused") {
  folder.write("outside", "stolen");
  const std::string entries = entries_of(backup);
  write_list(backup, entries);
  REQUIRE(check_backup(backup).empty());
  for (const std::string& name :
       std::vector<std::string>{"../outside", "rocksdb/../../outside", (folder.path() / "outside").string(),
                                "rocksdb/../coordination", "./coordination", "rocksdb//CURRENT", "rocksdb/",
                                "rocksdb", "", "acknowledged", "rocksdb/LOCK", "rocksdb/sub/000001.sst",
                                "rocksdb/.sst", "rocksdb/000001.sst/x", "rocksdb/000001.sst.exe", "backup",
                                "rocksdb/MANIFEST-", "rocksdb/MANIFEST-../x", "rocksdb.restored/CURRENT"}) {
    CAPTURE(name);
    write_list(backup, entries + entry_of(folder.path() / "outside", name));
    REQUIRE(check_backup(backup).size() == 1);
    CHECK(check_backup(backup)[0].find("no file of a backup") != std::string::npos);
    CHECK_THROWS_WITH_AS(restore_backup(backup, other), doctest::Contains(name.c_str()), StoreError);
    CHECK_FALSE(fs::exists(other));
  }
  CHECK(bytes_of(folder.path() / "outside") == "stolen");
  write_list(backup, entries + entry_of(backup / "coordination", "coordination"));
  CHECK_THROWS_WITH_AS(restore_backup(backup, other), doctest::Contains("twice"), StoreError);
}

TEST_CASE_FIXTURE(BackedUp, "backup: a link in a backup is not followed") {
  fs::rename(backup / "coordination", folder.path() / "outside");
  fs::create_symlink(folder.path() / "outside", backup / "coordination");
  CHECK_THROWS_WITH_AS(restore_backup(backup, other),
                       doctest::Contains("coordination: it is not a regular file"), StoreError);
  fs::remove(backup / "coordination");
  fs::rename(folder.path() / "outside", backup / "coordination");
  fs::rename(backup / "rocksdb", folder.path() / "elsewhere");
  fs::create_directory_symlink(folder.path() / "elsewhere", backup / "rocksdb");
  CHECK_THROWS_WITH_AS(restore_backup(backup, other), doctest::Contains("it is not a regular file"),
                       StoreError);
  CHECK_FALSE(fs::exists(other));
}
