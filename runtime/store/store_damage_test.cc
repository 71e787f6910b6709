// Tests damage to a store's files, kind by kind: it is refused with its location, or the store
// starts without the damaged part and names it.
#include "runtime/store/store_damage.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <set>
#include <thread>

#include "runtime/store/store.h"
#include "runtime/store/store_check.h"
#include "runtime/store/store_log.h"
#include "runtime/store/store_rows.h"
#include "runtime/testing/store_test_folder.h"

using namespace troupe;
namespace fs = std::filesystem;

namespace store_damage_test {

std::string user(int i) { return user_key("", "user" + std::to_string(1000 + i)); }

// A store of numbered users, some in tables and the rest in a log, as a killed process leaves it.
struct Damaged {
  TestFolder live, folder;
  int written = 0;
  fs::path rocks = folder.path() / "rocksdb";

  void put(Store& store, int i) {
    const auto version = static_cast<std::uint64_t>(++written);
    const Change changes[] = {
        {Column::users, user(i), encode_profile({version, std::vector<Token>(40, i), {40}}, user(i))},
        {Column::meta, "profiles", encode_counter(version, "profiles")}};
    REQUIRE_FALSE(store.mark().reserve(VersionKind::profiles, version));
    REQUIRE_FALSE(store.write(changes, Durability::synced));
    store.mark().acknowledge(VersionKind::profiles, version);
  }
  Damaged(int in_tables = 300, int in_log = 30) {
    {
      Store store(live.path());
      note(store, "a model");
      for (int i = 0; i < in_tables; ++i) put(store, i);
    }
    Store store(live.path());
    for (int i = in_tables; i < in_tables + in_log; ++i) put(store, i);
    leave(live);
  }
  void note(Store& store, std::string_view model) const {
    const Change change{Column::meta, std::string(made_for_key), encode_note(model, made_for_key)};
    REQUIRE_FALSE(store.write({&change, 1}, Durability::synced));
  }
  // Replaces the folder with a copy of `running`'s, as if its process were killed now.
  void leave(const TestFolder& running) const {
    fs::remove_all(folder.path());
    fs::copy(running.path(), folder.path(), fs::copy_options::recursive);
  }
  // Returns the note of the rows' model, and the losses of `meta` that were named.
  std::pair<std::string, std::vector<std::string>> notes_after_start() const {
    Store store(folder.path(), {.on_damage = OnDamage::start});
    std::pair<std::string, std::vector<std::string>> found{"absent", {}};
    store.read(Column::meta, made_for_key,
               [&](std::string_view value) { found.first = decode_note(made_for_key, value).value_or(""); });
    for (const StoreLoss& loss : store.health().lost)
      if (loss.column == Column::meta) found.second.push_back(loss.from);
    return found;
  }
  fs::path log() const { return folder.newest("rocksdb", ".log"); }
  fs::path table_of_users() const {
    fs::path largest;
    for (const auto& entry : fs::directory_iterator(rocks))
      if (entry.path().extension() == ".sst" &&
          (largest.empty() || fs::file_size(entry) > fs::file_size(largest)))
        largest = entry.path();
    return largest;
  }
  fs::path table_of_notes() const {
    for (const auto& entry : fs::directory_iterator(rocks))
      if (entry.path().extension() == ".sst" && bytes_of(entry.path()).find("a model") != std::string::npos)
        return entry.path();
    FAIL("the note of the model is in no table");
    return {};
  }
  std::string refusal() const {
    try {
      Store store(folder.path());
    } catch (const StoreError& error) {
      CHECK(error.fault == StoreFault::corrupt);
      return error.what();
    }
    FAIL("it was opened");
    return "";
  }
  static std::optional<std::uint64_t> version_of(const Store& store, int i) {
    std::optional<std::uint64_t> version;
    const FeatureLimits limits{.vocabulary = 10'000, .item_tokens_max = 100, .history_events_max = 100};
    store.read(Column::users, user(i), [&](std::string_view value) {
      if (const auto profile = decode_profile(user(i), value, limits)) version = profile->version;
    });
    return version;
  }
  static bool is_named(const StoreHealth& health, int i) {
    for (const StoreLoss& loss : health.lost) {
      const auto version = static_cast<std::uint64_t>(i + 1);
      if (loss.column != Column::users) continue;
      if (loss.is_versions() && loss.first_version <= version && version <= loss.last_version) return true;
      if (!loss.is_versions() && loss.from <= user(i) && (loss.to.empty() || user(i) < loss.to)) return true;
    }
    return false;
  }
  // Starts in spite of damage; checks that each user is there or named. Returns how many are lost.
  int start(int named_max) const {
    Store store(folder.path(), {.on_damage = OnDamage::start});
    const StoreHealth health = store.health();
    int lost = 0, named = 0;
    for (int i = 0; i < written; ++i) {
      CAPTURE(i);
      named += is_named(health, i);
      if (version_of(store, i) == static_cast<std::uint64_t>(i + 1)) continue;
      ++lost;
      CHECK(is_named(health, i));
    }
    CHECK(named <= named_max);
    CHECK(health.damages > 0);
    std::uint64_t counter = 0;
    store.read(Column::meta, "profiles",
               [&](std::string_view value) { counter = decode_counter("profiles", value).value_or(0); });
    CHECK(counter >= static_cast<std::uint64_t>(written));
    if (!health.aside.empty()) CHECK(fs::exists(fs::path(health.aside) / "lost.txt"));
    return lost;
  }
};

bool contains(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

TEST_CASE_FIXTURE(Damaged, "store damage: a store whose process was killed is whole and opens") {
  const StoreCheck check = check_store(folder.path(), ~0ull);
  CHECK(check.is_whole());
  std::uint64_t manifest = 0;
  for (const auto& entry : fs::directory_iterator(folder.path() / "rocksdb"))
    if (entry.path().filename().string().starts_with("MANIFEST-")) manifest = entry.file_size();
  CHECK(check.kinds.at("manifest").bytes == manifest);
  Store store(folder.path());
  CHECK(store.health().damages == 0);
  for (int i = 0; i < written; ++i) CHECK(version_of(store, i) == static_cast<std::uint64_t>(i + 1));
}

TEST_CASE_FIXTURE(Damaged, "store damage: a write cut off before it was acknowledged is not damage") {
  std::string bytes = bytes_of(log());
  overwrite_with(log(), bytes + bytes.substr(bytes.size() - 60));
  Store store(folder.path());
  CHECK(store.health().damages == 0);
  CHECK(version_of(store, written - 1) == static_cast<std::uint64_t>(written));
}

TEST_CASE_FIXTURE(Damaged,
                  "store damage: a wrong byte in the log is refused with its offset, or costs one write") {
  flip_byte(log(), bytes_of(log()).size() / 2);
  const std::string words = refusal();
  CHECK(contains(words, "rocksdb/" + log().filename().string() + " at byte "));
  CHECK(contains(words, "troupe check"));
  CHECK(contains(words, "store.on_damage"));
  refusal();  // nothing was changed
  CHECK(start(1) == 1);
}

TEST_CASE_FIXTURE(Damaged, "store damage: zeros in the log, which RocksDB takes for its end, are found") {
  std::string bytes = bytes_of(log());
  std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(bytes.size() / 2), 512, '\0');
  overwrite_with(log(), bytes);
  CHECK(contains(refusal(), ".log at byte "));
  const int lost = start(4);
  CHECK(lost >= 1);
  CHECK(lost <= 4);
}

TEST_CASE_FIXTURE(Damaged, "store damage: writes missing between sound ones are found by sequence numbers") {
  std::vector<std::uint64_t> offsets;
  read_log(log(), [&](std::uint64_t offset, std::string_view) { offsets.push_back(offset); });
  std::string bytes = bytes_of(log());
  REQUIRE(bytes.size() < 32'768);  // one block: the removed part leaves no trace
  const std::size_t from = offsets[offsets.size() / 2], to = offsets[offsets.size() / 2 + 3];
  overwrite_with(log(), bytes.erase(from, to - from));
  CHECK(contains(refusal(), ".log at byte " + std::to_string(from) + ": writes before this one are missing"));
  CHECK(start(3) == 3);
}

TEST_CASE_FIXTURE(Damaged, "store damage: a lost end of the log is found by the mark") {
  const std::string bytes = bytes_of(log());
  overwrite_with(log(), bytes.substr(0, bytes.size() / 2));
  CHECK(contains(refusal(), "acknowledged and lost: writes of users with profile versions "));
  const int lost = start(16);
  CHECK(lost >= 14);
}

TEST_CASE_FIXTURE(Damaged, "store damage: a lost log is found by the mark") {
  fs::remove(log());
  refusal();
  CHECK(start(30) == 30);
}

TEST_CASE_FIXTURE(Damaged, "store damage: a wrong byte in a table costs only its block") {
  const fs::path table = table_of_users();
  flip_byte(table, bytes_of(table).size() / 2);
  CHECK(contains(refusal(), "rocksdb/" + table.filename().string()));
  const int lost = start(150);
  CHECK(lost >= 1);
  CHECK(lost <= 60);
}

TEST_CASE_FIXTURE(Damaged, "store damage: a missing table is refused, or named with its range of keys") {
  const fs::path table = table_of_users();
  fs::remove(table);
  CHECK(contains(refusal(), table.filename().string() + ": it is missing (users)"));
  CHECK(start(written) == 300);
}

TEST_CASE_FIXTURE(Damaged, "store damage: a lost note of the model is named, unlike one that never existed") {
  SUBCASE("whole") {
    flip_byte(log(), bytes_of(log()).size() / 2);
    const auto [note, named] = notes_after_start();
    CHECK(note == "a model");
    CHECK(named.empty());
  }
  SUBCASE("with its block") {
    const fs::path table = table_of_notes();
    flip_byte(table, bytes_of(table).find("a model"));
    const auto [note, named] = notes_after_start();
    CHECK(note == "lost with damage");
    CHECK(named == std::vector<std::string>{"importing", "made_for"});
  }
  SUBCASE("with its table") {
    fs::remove(table_of_notes());
    const auto [note, named] = notes_after_start();
    CHECK(note == "lost with damage");
    CHECK(named == std::vector<std::string>{"importing", "made_for"});
  }
}

TEST_CASE("store damage: a note of the model lost with the log is named") {
  Damaged damaged(0, 0);
  {
    const TestFolder young;
    Store store(young.path());
    damaged.note(store, "a model");
    for (int i = 0; i < 10; ++i) damaged.put(store, i);
    damaged.leave(young);
  }
  flip_byte(damaged.log(), bytes_of(damaged.log()).find("a model"));
  const auto [note, named] = damaged.notes_after_start();
  CHECK(note == "lost with damage");
  CHECK(named == std::vector<std::string>{"made_for"});
}

TEST_CASE("store damage: a note of the model that is rewritten and lost again is named again") {
  Damaged damaged(10, 0);
  flip_byte(damaged.table_of_notes(), bytes_of(damaged.table_of_notes()).find("a model"));
  REQUIRE(damaged.notes_after_start().first == "lost with damage");
  {
    const TestFolder adopted;
    fs::copy(damaged.folder.path(), adopted.path(), fs::copy_options::recursive);
    Store store(adopted.path());
    damaged.note(store, "the owner's");
    for (int i = 10; i < 20; ++i) damaged.put(store, i);
    damaged.leave(adopted);
  }
  flip_byte(damaged.log(), bytes_of(damaged.log()).find("the owner's"));
  const auto [note, named] = damaged.notes_after_start();
  CHECK(note == "lost with damage");
  CHECK(named == std::vector<std::string>{"made_for"});
}

TEST_CASE("store damage: a note of the model written after the lost one stays") {
  Damaged damaged(10, 0);
  {
    Store store(damaged.live.path());
    damaged.note(store, "another");
    damaged.leave(damaged.live);
  }
  flip_byte(damaged.table_of_notes(), bytes_of(damaged.table_of_notes()).find("a model"));
  const auto [note, named] = damaged.notes_after_start();
  CHECK(note == "another");
  CHECK(named == std::vector<std::string>{"importing"});
}

TEST_CASE("store damage: rows changed by a missing table are lost as one range") {
  Damaged damaged(300, 0);
  {
    Store store(damaged.live.path());
    damaged.put(store, 0), damaged.put(store, 299);
  }
  Store live(damaged.live.path());  // it has moved its log into tables
  damaged.leave(damaged.live);
  fs::path newest;
  for (const auto& entry : fs::directory_iterator(damaged.rocks))
    if (entry.path().extension() == ".sst" && contains(bytes_of(entry.path()), user(0)))
      newest = std::max(newest, entry.path());
  fs::remove(newest);
  Store store(damaged.folder.path(), {.on_damage = OnDamage::start});
  const StoreHealth health = store.health();
  CHECK(health.losses == 2);  // the table's own range, and that of the older table
  for (int i = 0; i < 300; ++i) {
    const bool is_there = Damaged::version_of(store, i).has_value();
    CHECK((is_there || Damaged::is_named(health, i)));
  }
  CHECK_FALSE(Damaged::version_of(store, 0));
}

TEST_CASE("store damage: all losses are counted and listed, a bounded number stays in memory") {
  const Damaged damaged(0, 2'020);
  std::vector<std::uint64_t> offsets;
  read_log(damaged.log(), [&](std::uint64_t offset, std::string_view) { offsets.push_back(offset); });
  std::string bytes = bytes_of(damaged.log());
  std::uint64_t flipped = 0;
  for (std::size_t i = offsets.size() - 2'019; i + 1 < offsets.size(); i += 2, ++flipped)
    bytes[offsets[i] + 30] ^= 1;
  overwrite_with(damaged.log(), bytes);
  Store store(damaged.folder.path(), {.on_damage = OnDamage::start});
  const StoreHealth health = store.health();
  CHECK(health.losses == flipped);
  CHECK(flipped > losses_listed_max);
  CHECK(health.lost.size() == losses_listed_max);
  const std::string list = bytes_of(fs::path(health.aside) / "lost.txt");
  std::uint64_t named = 0;
  for (std::size_t at = list.find("\nlost: "); at != list.npos; at = list.find("\nlost: ", at + 1)) ++named;
  CHECK(named == flipped);
}

// A log that ends in the middle of a saved block, which is not synced, and a newer log that
// continues after it.
struct Torn : Damaged {
  fs::path older, younger;
  std::size_t torn_at = 0;

  explicit Torn(bool row_behind) : Damaged(0, 0) {
    Store store(live.path());
    for (int i = 0; i < 5; ++i) put(store, i);
    for (int i = 0; i < 3; ++i) {
      const Change block{Column::blocks, "block" + std::to_string(i), std::string(100, 'b')};
      REQUIRE_FALSE(store.write({&block, 1}, Durability::buffered));
    }
    if (row_behind) put(store, 5);
    leave(live);
    std::vector<std::uint64_t> offsets;
    older = log();
    read_log(older, [&](std::uint64_t offset, std::string_view) { offsets.push_back(offset); });
    const std::string bytes = bytes_of(older);
    REQUIRE(bytes.size() < 32'768);  // one block: records may be anywhere in it
    const std::size_t second = offsets.size() - (row_behind ? 3 : 2);
    torn_at = offsets[second];
    younger = older.parent_path() / "900000.log";
    overwrite_with(younger, bytes.substr(offsets[second + 1]));
    overwrite_with(older, bytes.substr(0, torn_at + 20));
  }
};

TEST_CASE("store damage: a torn older log is not damage if only saved blocks came later") {
  const Torn torn(false);
  CHECK(check_store(torn.folder.path(), ~0ull).is_whole());
  Store store(torn.folder.path());
  CHECK(store.health().damages == 0);
  for (int i = 0; i < 5; ++i) CHECK(Damaged::version_of(store, i) == static_cast<std::uint64_t>(i + 1));
  CHECK(store.read(Column::blocks, "block0", [](std::string_view) {}) == Store::Read::found);
  CHECK(store.read(Column::blocks, "block2", [](std::string_view) {}) == Store::Read::missing);
}

TEST_CASE("store damage: a torn older log is damage if rows came later") {
  const Torn torn(true);
  CHECK(
      contains(torn.refusal(), torn.older.filename().string() + " at byte " + std::to_string(torn.torn_at)));
  CHECK(torn.start(1) == 0);
}

TEST_CASE_FIXTURE(Damaged, "store damage: without CURRENT all rows are found") {
  SUBCASE("gone") { fs::remove(rocks / "CURRENT"); }
  SUBCASE("nonsense") { overwrite_with(rocks / "CURRENT", "nonsense"); }
  refusal();
  CHECK(start(0) == 0);
}

TEST_CASE_FIXTURE(Damaged,
                  "store damage: without a sound manifest rows are taken from the tables and the logs") {
  fs::path manifest;
  for (const auto& entry : fs::directory_iterator(rocks))
    if (entry.path().filename().string().starts_with("MANIFEST")) manifest = entry.path();
  SUBCASE("gone") { fs::remove(manifest); }
  SUBCASE("a wrong byte") { flip_byte(manifest, bytes_of(manifest).size() / 2); }
  SUBCASE("zeros") {
    std::string bytes = bytes_of(manifest);
    std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(bytes.size() / 2), bytes.end(), '\0');
    overwrite_with(manifest, bytes);
  }
  SUBCASE("zeros for one record, which RocksDB passes over") {
    std::vector<std::uint64_t> offsets;
    read_log(manifest, [&](std::uint64_t offset, std::string_view) { offsets.push_back(offset); });
    REQUIRE(offsets.size() > 2);
    std::string bytes = bytes_of(manifest);
    std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(offsets[offsets.size() - 2]),
              bytes.begin() + static_cast<std::ptrdiff_t>(offsets.back()), '\0');
    overwrite_with(manifest, bytes);
    CHECK(contains(refusal(), " at byte " + std::to_string(offsets[offsets.size() - 2])));
  }
  const StoreCheck check =
      check_store(folder.path(), ~0ull);  // names what is wrong, and no log that never existed
  CHECK(check.kinds.at("manifest").damaged > 0);
  for (const StoreDamage& damage : check.damage) CHECK(damage.file != "rocksdb/000000.log");
  refusal();
  CHECK(start(written) == 0);
}

TEST_CASE_FIXTURE(Damaged,
                  "store damage: if everything is lost it is named, and no version number is reused") {
  fs::remove_all(rocks);
  CHECK(contains(refusal(), "acknowledged and lost"));
  CHECK(start(written) == written);
}

TEST_CASE_FIXTURE(Damaged,
                  "store damage: a damaged mark does not prevent a start; without one numbers jump") {
  const fs::path mark = folder.path() / mark_file;
  std::uint64_t least = static_cast<std::uint64_t>(written);
  SUBCASE("one slot") { flip_byte(mark, 20); }
  SUBCASE("gone") {
    fs::remove(mark);
    least += 1'000'000;
  }
  CHECK_FALSE(check_store(folder.path(), ~0ull).is_whole());
  Store store(folder.path());
  CHECK(store.health().damages == 1);
  CHECK(store.health().lost.empty());
  std::uint64_t counter = 0;
  store.read(Column::meta, "profiles",
             [&](std::string_view value) { counter = decode_counter("profiles", value).value_or(0); });
  CHECK(counter >= least);
}

TEST_CASE_FIXTURE(Damaged, "store damage: without a mark both numbers jump, also in a rebuilt store") {
  flip_byte(log(), bytes_of(log()).size() / 2);
  fs::remove(folder.path() / mark_file);
  Store store(folder.path(), {.on_damage = OnDamage::start});
  CHECK_FALSE(store.health().aside.empty());
  for (const std::string_view key : counter_keys) {
    CAPTURE(key);
    std::uint64_t counter = 0;
    store.read(Column::meta, key,
               [&](std::string_view value) { counter = decode_counter(key, value).value_or(0); });
    CHECK(counter >= 1'000'000);
  }
}

TEST_CASE("store damage: damaged saved blocks are dropped and do not prevent a start") {
  Damaged damaged(50, 0);
  {
    Store store(damaged.folder.path());
    const Change change{Column::blocks, "b", std::string(100, 'b')};
    REQUIRE_FALSE(store.write({&change, 1}, Durability::synced));
  }
  { Store store(damaged.folder.path()); }
  const StoreCheck before = check_store(damaged.folder.path(), ~0ull);
  REQUIRE(before.is_whole());
  for (const auto& entry : fs::directory_iterator(damaged.rocks))
    if (contains(bytes_of(entry.path()), std::string(100, 'b')) && entry.path().extension() == ".sst")
      flip_byte(entry.path(), 10);
  CHECK(check_store(damaged.folder.path(), ~0ull).only_blocks());
  Store store(damaged.folder.path());
  CHECK(store.health().lost.empty());
  CHECK(store.read(Column::blocks, "b", [](std::string_view) {}) == Store::Read::missing);
  for (int i = 0; i < 50; ++i) CHECK(Damaged::version_of(store, i) == static_cast<std::uint64_t>(i + 1));
}

TEST_CASE(
    "store damage: damage to an open store is answered as such, counted, reported once; scans skip it") {
  Damaged damaged(300, 0);
  const fs::path table = damaged.table_of_users();
  Store store(damaged.folder.path());
  std::vector<std::string> reported;
  store.on_damage([&](const StoreDamage& damage) { reported.push_back(describe(damage)); });
  flip_byte(table, bytes_of(table).size() / 2);
  int found = 0, corrupt = 0;
  for (int i = 0; i < damaged.written; ++i) {
    const Store::Read read = store.read(Column::users, user(i), [](std::string_view) {});
    found += read == Store::Read::found;
    corrupt += read == Store::Read::corrupt;
  }
  CHECK(found + corrupt == damaged.written);
  CHECK(corrupt > 0);
  CHECK(found > 150);
  CHECK(reported.size() == 1);
  CHECK(store.health().damaged_reads == static_cast<std::uint64_t>(corrupt));

  std::set<std::string> seen;
  std::vector<Store::Gap> gaps;
  const auto use = [&](std::string_view key, std::string_view) { return seen.emplace(key).second; };
  CHECK(store.scan(Column::users, "", "", use, [&](const Store::Gap& gap) { gaps.push_back(gap); }));
  CHECK(static_cast<int>(seen.size()) == found);
  REQUIRE(gaps.size() == 1);
  for (int i = 0; i < damaged.written; ++i)
    CHECK(seen.contains(user(i)) != (gaps[0].from <= user(i) && user(i) < gaps[0].to));
  CHECK_FALSE(store.scan(Column::users, "", "", [](auto, auto) { return true; }));
}

TEST_CASE("store damage: tables beyond the bound are checked while the store is open") {
  Damaged damaged(300, 0);
  flip_byte(damaged.table_of_users(), 100);
  Store store(damaged.folder.path(), {.check_bytes_max = 0});
  while (store.health().damages == 0) std::this_thread::yield();
  CHECK(contains(describe(store.health().found[0]), damaged.table_of_users().filename().string()));
}

TEST_CASE("store damage: a third damaged store is refused until the others are removed") {
  Damaged damaged(10, 0);
  const auto start = [&] { Store store(damaged.folder.path(), {.on_damage = OnDamage::start}); };
  for (int i = 0; i < 2; ++i) {
    overwrite_with(damaged.rocks / "CURRENT", "nonsense");
    start();
  }
  overwrite_with(damaged.rocks / "CURRENT", "nonsense");
  CHECK_THROWS_AS(start(), StoreError);
  fs::remove_all(damaged.folder.path() / "rocksdb.damaged");
  start();
}

TEST_CASE(
    "store damage: a file-system failure during salvage is reported, and the damaged store stays "
    "in place") {
  Damaged damaged(10, 0);
  overwrite_with(damaged.rocks / "CURRENT", "nonsense");
  // In the way of the list of losses.
  fs::create_directories(damaged.rocks / "lost.txt" / "in the way");
  CHECK_THROWS_WITH_AS(Store(damaged.folder.path(), {.on_damage = OnDamage::start}),
                       doctest::Contains("lost.txt"), StoreError);
  CHECK(fs::exists(damaged.rocks / "CURRENT"));
  CHECK_FALSE(fs::exists(damaged.folder.path() / "rocksdb.damaged"));
  fs::remove_all(damaged.rocks / "lost.txt");
  Store store(damaged.folder.path(), {.on_damage = OnDamage::start});
  CHECK(Damaged::version_of(store, 3) == 4);
}

TEST_CASE("store damage: the next start completes an interrupted salvage") {
  Damaged damaged(10, 0);
  fs::rename(damaged.rocks, damaged.folder.path() / "rocksdb.salvaged");
  Store store(damaged.folder.path());
  CHECK(Damaged::version_of(store, 3) == 4);
}

TEST_CASE("store: files have mode 0600, whatever the umask") {
  const mode_t before = umask(0);
  {
    TestFolder folder;
    Store store(folder.path() / "new");
    const Change change{Column::users, "k", "v"};
    REQUIRE_FALSE(store.write({&change, 1}, Durability::synced));
    for (const auto& entry : fs::recursive_directory_iterator(folder.path() / "new")) {
      CAPTURE(entry.path().string());
      CHECK((fs::status(entry).permissions() & (fs::perms::group_all | fs::perms::others_all)) ==
            fs::perms::none);
    }
    CHECK(fs::status(folder.path() / "new").permissions() == fs::perms::owner_all);
  }
  umask(before);
}

TEST_CASE("store: a store is copied while it is written to, and the copy is whole") {
  Damaged damaged(100, 0);
  Store store(damaged.live.path() / "other");
  damaged.written = 0;
  for (int i = 0; i < 50; ++i) damaged.put(store, i);
  TestFolder target;
  REQUIRE_FALSE(store.copy_to(target.path() / "rocksdb"));
  damaged.put(store, 50);
  CHECK(store.copy_to(target.path() / "rocksdb"));  // it already exists
  Store copy(target.path());
  CHECK(Damaged::version_of(copy, 49) == 50);
  CHECK_FALSE(Damaged::version_of(copy, 50));
}

}  // namespace store_damage_test
