#include "deploy/node/record_folders.h"

#include <doctest/doctest.h>

#include <fstream>

#include "runtime/records/record_store.h"
#include "runtime/testing/store_test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

TEST_CASE("record folders: what no model records any more is deleted, and nothing else") {
  const TestFolder data;
  const auto make = [&](const std::filesystem::path& folder) {
    std::filesystem::create_directories(folder / "rocksdb");
  };
  const auto there = [&](const char* name) { return std::filesystem::exists(data.path() / name); };
  make(data.path());
  make(record_folder(data.path(), ""));
  make(record_folder(data.path(), "a"));
  make(record_folder(data.path(), "b"));
  CHECK(there("replay/rocksdb"));
  CHECK(there("replay/models/a/rocksdb"));
  delete_other_records(data.path(), {"b"});
  CHECK_FALSE(there("replay/rocksdb"));
  CHECK_FALSE(there("replay/models/a"));
  CHECK(there("replay/models/b/rocksdb"));
  make(record_folder(data.path(), ""));
  delete_other_records(data.path(), {""});
  CHECK(there("replay/rocksdb"));
  CHECK_FALSE(there("replay/models/b"));
  delete_other_records(data.path(), {});
  CHECK_FALSE(there("replay"));
  CHECK(there("rocksdb"));
  delete_other_records(data.path(), {});
  delete_other_records(data.path(), {"a"});
}

TEST_CASE("record folders: a folder of models that cannot be listed is an error, a missing one is not") {
  const TestFolder data;
  delete_other_records(data.path(), {"a"});
  std::filesystem::create_directories(data.path() / "replay");
  delete_other_records(data.path(), {"a"});
  std::ofstream(data.path() / "replay" / "models") << "not a folder";
  CHECK_THROWS_AS(delete_other_records(data.path(), {"a"}), StoreError);
}
