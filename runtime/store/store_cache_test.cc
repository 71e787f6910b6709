#include "runtime/store/store_cache.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "runtime/testing/store_test_folder.h"

using namespace troupe;
namespace fs = std::filesystem;

namespace {

void put(Store& store, Column column, const std::string& key, const std::string& value) {
  const Change change{column, key, value};
  REQUIRE_FALSE(store.write({&change, 1}, Durability::synced));
}

std::string get(const Store& store, const std::string& key) {
  std::string found;
  store.read(Column::blocks, key, [&](std::string_view bytes) { found = bytes; });
  return found;
}

bool contains(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

struct Cache {
  TestFolder folder;
  const fs::path now = folder.path() / "rocksdb", first = folder.path() / "rocksdb.damaged",
                 second = folder.path() / "rocksdb.damaged.2",
                 beginning = folder.path() / "rocksdb.beginning";

  OpenedCache open() const { return open_cache(folder.path()); }
  void fill(const std::string& value) const { put(*open().store, Column::blocks, "k", value); }
  void damage(const std::string& mark) const { std::ofstream(now / "CURRENT") << mark; }
  static std::string mark_of(const fs::path& store) {
    std::string mark;
    std::ifstream(store / "CURRENT") >> mark;
    return mark;
  }
  StoreError refusal() const {
    try {
      open();
    } catch (const StoreError& error) {
      return error;
    }
    FAIL("it was opened");
    return {StoreFault::failed, ""};
  }
};

}  // namespace

TEST_CASE_FIXTURE(Cache, "store cache: a sound cache opens with its content, a locked one is refused") {
  fill("v");
  const OpenedCache opened = open();
  CHECK(opened.damage.empty());
  CHECK(get(*opened.store, "k") == "v");
  CHECK(refusal().fault == StoreFault::locked);
  CHECK_FALSE(fs::exists(first));
}

TEST_CASE_FIXTURE(Cache, "store cache: a damaged cache is set aside and replaced by an empty one") {
  fill("v");
  damage("one");
  const OpenedCache opened = open();
  CHECK(contains(opened.damage, "the store is corrupt"));
  CHECK(contains(opened.damage, "set aside as " + first.string()));
  CHECK(get(*opened.store, "k").empty());
  CHECK_FALSE(fs::exists(beginning));
}

TEST_CASE_FIXTURE(Cache, "store cache: a third damaged cache is refused until the others are removed") {
  for (const char* const mark : {"one", "two", "three"}) {
    fill("v");
    damage(mark);
    if (mark != std::string("three")) open();
  }
  const StoreError error = refusal();
  CHECK(error.fault == StoreFault::corrupt);
  CHECK(contains(error.what(), now.string() + ": the store is corrupt"));
  CHECK(contains(error.what(), "two damaged ones are there already: look at " + first.string()));
  CHECK(mark_of(first) == "one");
  CHECK(mark_of(second) == "two");
  CHECK(mark_of(now) == "three");
  fs::remove_all(first);
  CHECK(contains(open().damage, "set aside as " + first.string()));
  CHECK(mark_of(first) == "three");
}

TEST_CASE_FIXTURE(Cache, "store cache: a cache in a foreign format is set aside") {
  put(*open().store, Column::meta, "format", "troupe store 9");
  CHECK(contains(open().damage, "troupe store 9"));
  CHECK(fs::exists(first));
}

TEST_CASE_FIXTURE(Cache, "store cache: a store that held profiles or a catalog is never set aside") {
  const auto stays = [&] {
    damage("mark");
    const StoreError error = refusal();
    CHECK(contains(error.what(), "the store is corrupt"));
    CHECK(contains(error.what(), "expected a sound store"));
    CHECK(contains(error.what(), "profiles or a catalog may be in it"));
    CHECK(mark_of(now) == "mark");
    CHECK_FALSE(fs::exists(first));
  };
  SUBCASE("with a row that was opened as a cache") {
    put(*std::make_unique<Store>(folder.path()), Column::users, "u", "row");
    open();
    stays();
  }
  SUBCASE("with a counter alone, after all rows were deleted") {
    put(*std::make_unique<Store>(folder.path()), Column::meta, "profiles", "7");
    open();
    stays();
  }
  SUBCASE("with a row written after it was a cache") {
    fill("v");
    put(*std::make_unique<Store>(folder.path()), Column::items, "i", "row");
    stays();
  }
  SUBCASE("without the marker file") {
    { Store store(folder.path()); }
    stays();
  }
}

TEST_CASE_FIXTURE(Cache, "store cache: too many open files is not damage, at any file") {
  fill("v");
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const int lowest_free = dup(0);
  close(lowest_free);
  int refused = 0;
  for (rlim_t spare = 0; spare < 40; ++spare) {
    rlimit few = before;
    few.rlim_cur = static_cast<rlim_t>(lowest_free) + spare;
    REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
    std::string words;
    StoreFault fault = StoreFault::failed;
    try {
      open();
    } catch (const StoreError& error) {
      ++refused;
      fault = error.fault;
      words = error.what();
    }
    REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
    CAPTURE(spare);
    INFO(words);
    CHECK((fault == StoreFault::failed || fault == StoreFault::locked));
    CHECK_FALSE(fs::exists(first));
    CHECK_FALSE(fs::exists(beginning));
  }
  CHECK(refused > 3);
  CHECK(get(*open().store, "k") == "v");
}

TEST_CASE_FIXTURE(Cache, "store cache: an unreadable file is not damage, though RocksDB calls it corrupt") {
  fill("v");
  fill("v");  // the first is in a file of its own by now
  fs::path table;
  for (const auto& entry : fs::directory_iterator(now))
    if (entry.path().extension() == ".sst") table = entry.path();
  REQUIRE_FALSE(table.empty());
  fs::rename(table, folder.path() / "table");
  fs::create_symlink(table.filename(), table);  // a loop
  CHECK(refusal().fault == StoreFault::failed);
  CHECK_FALSE(fs::exists(first));
  fs::remove(table);
  fs::rename(folder.path() / "table", table);
  const OpenedCache opened = open();
  CHECK(opened.damage.empty());
  CHECK(get(*opened.store, "k") == "v");
}

TEST_CASE_FIXTURE(Cache, "store cache: a cache with a missing file is damaged") {
  fill("v");
  damage("MANIFEST-000999\n");
  CHECK(contains(open().damage, "the store is corrupt"));
}

TEST_CASE_FIXTURE(Cache, "store cache: a damaged cache stays in place while no empty one can be created") {
  fill("v");
  damage("mark");
  SUBCASE("a file is in the way") { std::ofstream{beginning}; }
  SUBCASE("rows are in the way") { put(*std::make_unique<Store>(beginning), Column::users, "u", "row"); }
  CHECK(contains(refusal().what(), "rocksdb.beginning"));
  CHECK(mark_of(now) == "mark");
  CHECK_FALSE(fs::exists(first));
  CHECK(fs::exists(beginning));
  fs::remove_all(beginning);
  CHECK_FALSE(open().damage.empty());
}

TEST_CASE_FIXTURE(Cache, "store cache: the next start completes an interrupted replacement") {
  fill("v");
  damage("mark");
  { Store left(beginning, {.is_cache = true}); }
  SUBCASE("after the empty one was created") {
    CHECK_FALSE(open().damage.empty());
    CHECK_FALSE(fs::exists(beginning));
  }
  SUBCASE("after the damaged one was renamed") {
    fs::rename(now, first);
    CHECK(open().damage.empty());
  }
  CHECK(mark_of(first) == "mark");
  CHECK(open().damage.empty());
}

TEST_CASE("store cache: a disk failure is an error, and the cache stays in place") {
  TestFolder folder("8m");
  if (!folder.mounted()) {
    MESSAGE("skipped: no permission to mount a disk for this test");
    return;
  }
  { Store store(folder.path()); }
  REQUIRE(folder.make_read_only());
  CHECK_THROWS_AS(open_cache(folder.path()), StoreError);
  CHECK_FALSE(fs::exists(folder.path() / "rocksdb.damaged"));
}
