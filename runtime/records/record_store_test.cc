// Tests how long records live, and that they are found whole or not at all.
#include "runtime/records/record_store.h"

#include <doctest/doctest.h>

#include <fstream>

#include "runtime/store/store_rows.h"
#include "runtime/testing/store_test_folder.h"

using namespace troupe;

namespace record_store_test {

constexpr std::int64_t second = 1'000'000;

AnswerRecord record(const std::string& id, const std::string& user = "ann", std::uint64_t version = 3) {
  AnswerRecord made;
  made.reply = {.request_id = id,
                .kind = "rank",
                .tenant = "t",
                .user = user,
                .model_version = "m1",
                .profile_version = version,
                .values = {{"a", 1.25, 0}, {"b", -2.5, 0}}};
  made.plan = {.priority = Priority::background, .model_version = "m1", .catalog_version = "c1"};
  made.plan.plan.segments = {{SegmentKind::user, std::vector<Token>{7, 8, 9}, 0, {}}};
  made.plan.plan.readouts = {{0, 2, {1, 2}}};
  made.plan.blocks.resize(1);
  made.answer = {.readouts = {{{1.25, -2.5}}}, .model_version = "m1"};
  return made;
}

// Returns the key under which a record of tenant t has its bytes ("r") or its entry ("e").
std::string key(const char* prefix, const std::string& request_id) {
  return std::string(prefix) + "t" + '\0' + request_id;
}

struct Bench {
  explicit Bench(Duration keep = {100 * second}, std::uint64_t bytes_max = 1 << 23)
      : keep(keep), bytes_max(bytes_max) {
    open();
  }
  TestFolder folder;
  Duration keep;
  std::uint64_t bytes_max;
  std::int64_t now_us = 1'000'000 * second;
  std::map<std::string, UserReading> users;  // by key; others have no profile
  std::vector<std::string> looked_up;
  std::unique_ptr<RecordStore> store;

  void open() {
    store.reset();
    store = std::make_unique<RecordStore>(
        folder.path(),
        RecordStoreOptions{
            keep, bytes_max, [this] { return now_us; },
            [this](std::span<const std::string> keys, std::uint32_t) {
              std::vector<UserReading> found;
              for (const std::string& key : keys) {
                looked_up.push_back(key);
                found.push_back(users.contains(key) ? users.at(key) : UserReading{nullptr, true});
              }
              return found;
            }});
  }
  void put_user(const std::string& user, std::uint64_t version) {
    users[user_key("t", user)] = {std::make_shared<const Profile>(Profile{.version = version}), true};
  }
  RecordsChanged run(const Job& job) { return std::get<RecordsChanged>(store->run(job, 0)); }
  // Runs sweeps until their round ends; returns the number of users that each of them looked up.
  std::vector<std::size_t> sweep_round() {
    std::vector<std::size_t> sizes;
    for (bool more = true; more;) {
      const std::size_t before = looked_up.size();
      more = run(SweepRecords{}).more;
      sizes.push_back(looked_up.size() - before);
      REQUIRE(sizes.size() < 100);
    }
    return sizes;
  }
  // Keeps a record of each of `count` users with a profile: u1000, u1001 and so on.
  void keep_users(int count) {
    std::vector<AnswerRecord> records;
    for (int i = 0; i < count; ++i) {
      const std::string number = std::to_string(1000 + i);
      records.push_back(record("r" + number, "u" + number));
      put_user("u" + number, 3);
    }
    keep_all(std::move(records));
  }
  RecordsChanged keep_all(std::vector<AnswerRecord> records) { return run(KeepRecords{std::move(records)}); }
  std::optional<AnswerRecord> find(const std::string& id, const std::string& tenant = "t") {
    return std::get<FoundRecord>(store->run(FindRecord{tenant, id}, 0)).record;
  }
  // Changes bytes of the stored records through a store of its own.
  void change(const std::string& key, std::optional<std::string> value) {
    store.reset();
    Store raw(folder.path(), {.is_cache = true});
    const Change change{Column::blocks, key, std::move(value)};
    REQUIRE_FALSE(raw.write({&change, 1}, Durability::buffered));
  }
  // Closes the store and returns true if the key is in it.
  bool is_on_disk(const std::string& key) {
    store.reset();
    const Store raw(folder.path(), {.is_cache = true});
    return raw.read(Column::blocks, key, [](std::string_view) {}) == Store::Read::found;
  }
};

TEST_CASE(
    "record store: a record is found as it was kept, with the time of its answer, also after a restart") {
  Bench b;
  CHECK_FALSE(b.find("r1"));
  const RecordsChanged changed = b.keep_all({record("r1"), record("r2", "bob")});
  CHECK(changed.lost == 0);
  CHECK(changed.records == 2);
  CHECK(changed.bytes == b.store->bytes());
  AnswerRecord expected = record("r1");
  expected.reply.answered_at = b.now_us / second;
  CHECK(b.find("r1") == expected);
  const std::uint64_t bytes = b.store->bytes();
  b.open();
  CHECK(b.find("r1") == expected);
  CHECK(b.store->records() == 2);
  CHECK(b.store->bytes() == bytes);
}

TEST_CASE("record store: a later record replaces the one with its request id") {
  Bench b;
  b.keep_all({record("r1", "ann")});
  b.keep_all({record("r1", "bob")});
  CHECK(b.store->records() == 1);
  CHECK(b.find("r1")->reply.user == "bob");
  b.run(DropRecords{{{"t", "ann"}}});
  CHECK(b.find("r1"));
  b.run(DropRecords{{{"t", "bob"}}});
  CHECK_FALSE(b.find("r1"));
  CHECK(b.store->bytes() == 0);
}

TEST_CASE("record store: a record beyond its retention is not found, and the next sweep erases it") {
  Bench b;
  b.keep_all({record("old")});
  b.now_us += 60 * second;
  b.keep_all({record("new", "")});
  b.now_us += 41 * second;
  CHECK_FALSE(b.find("old"));
  CHECK(b.find("new"));
  CHECK(b.store->records() == 2);
  CHECK(b.run(SweepRecords{}).records == 1);
  CHECK_FALSE(b.is_on_disk(key("r", "old")));
  CHECK(b.is_on_disk(key("r", "new")));
}

TEST_CASE("record store: a restart erases what is older than the present retention") {
  Bench b;
  b.keep_all({record("r1")});
  b.now_us += 50 * second;
  b.keep = {49 * second};
  b.open();
  CHECK(b.store->records() == 0);
  CHECK_FALSE(b.is_on_disk(key("r", "r1")));
  CHECK_FALSE(b.is_on_disk(key("e", "r1")));
}

TEST_CASE("record store: a clock that is set back lengthens the retention at most once") {
  Bench b;
  b.keep_all({record("r1", "")});
  b.now_us -= 99 * second;
  CHECK(b.find("r1"));
  b.now_us -= 2 * second;
  CHECK_FALSE(b.find("r1"));
  CHECK(b.run(SweepRecords{}).records == 0);
}

TEST_CASE("record store: beyond its bytes the oldest records go, and one that is too large is not kept") {
  Bench probe;
  probe.keep_all({record("r1")});
  const std::uint64_t one = probe.store->bytes();
  Bench b({100 * second}, 3 * one);
  for (const char* id : {"r1", "r2", "r3"}) {
    b.keep_all({record(id)});
    b.now_us += second;
  }
  CHECK(b.store->records() == 3);
  b.keep_all({record("r4")});
  CHECK_FALSE(b.find("r1"));
  for (const char* id : {"r2", "r3", "r4"}) CHECK(b.find(id));
  CHECK(b.store->bytes() <= 3 * one);
  b.keep_all({record("r2")});  // newer than r3 from now on
  b.keep_all({record("r5")});
  CHECK_FALSE(b.find("r3"));
  CHECK(b.find("r2"));
  AnswerRecord large = record("r6");
  large.reply.plan = std::string(4 * one, 'x');
  const RecordsChanged changed = b.keep_all({large, record("r7")});
  CHECK(changed.lost == 1);
  CHECK(changed.why.find("larger than replay.bytes_max") != std::string::npos);
  CHECK(b.find("r7"));
}

TEST_CASE("record store: deleting a user erases the user's records, of this tenant alone") {
  Bench b;
  AnswerRecord other = record("r1", "ann");
  other.reply.tenant = "u";
  b.keep_all({record("r1", "ann"), record("r2", "anna"), record("r3", "ann"), other});
  CHECK(b.find("r1"));
  CHECK_FALSE(b.find("r2", "u"));
  CHECK(b.run(DropRecords{{{"t", "ann"}, {"t", "nobody"}}}).records == 2);
  CHECK_FALSE(b.find("r1"));
  CHECK_FALSE(b.find("r3"));
  CHECK(b.find("r2"));
  REQUIRE(b.find("r1", "u"));
  CHECK(b.find("r1", "u")->reply.tenant == "u");
  CHECK_FALSE(b.is_on_disk(key("r", "r1")));
}

TEST_CASE("record store: a sweep erases records of users that have no profile, or another one") {
  Bench b;
  b.put_user("ann", 3);
  b.put_user("again", 2);  // deleted and put again: its versions began anew
  b.put_user("put", 5);    // had no profile when the request was answered
  b.users[user_key("t", "unread")] = {nullptr, false};
  b.keep_all({record("same", "ann", 3), record("gone", "bob", 3), record("again", "again", 3),
              record("unread", "unread", 3), record("without", "none", 0), record("put", "put", 0),
              record("history", "", 0)});
  CHECK(b.run(SweepRecords{}).records == 4);
  for (const char* id : {"same", "unread", "put", "history"}) CHECK(b.find(id));
  for (const char* id : {"gone", "again", "without"}) CHECK_FALSE(b.find(id));
  b.put_user("ann", 9);  // changed, not deleted
  CHECK(b.run(SweepRecords{}).records == 4);
  b.users.erase(user_key("t", "ann"));
  CHECK(b.run(SweepRecords{}).records == 3);
  CHECK_FALSE(b.is_on_disk(key("r", "same")));
}

TEST_CASE("record store: a round of sweeps looks each user up once, at most 256 in each") {
  Bench b;
  b.keep_users(600);
  std::vector<AnswerRecord> more;
  for (int i = 0; i < 600; ++i) more.push_back(record("s" + std::to_string(i), "u1000"));
  b.keep_all(std::move(more));
  for (int round = 1; round <= 2; ++round) {
    b.looked_up.clear();
    CHECK(b.sweep_round() == std::vector<std::size_t>{256, 256, 88});
    CHECK(std::set<std::string>(b.looked_up.begin(), b.looked_up.end()).size() == 600);
  }
  CHECK(b.store->records() == 1200);
  Bench exact;
  exact.keep_users(512);
  CHECK(exact.sweep_round() == std::vector<std::size_t>{256, 256});
  Bench empty;
  CHECK(empty.sweep_round() == std::vector<std::size_t>{0});
}

TEST_CASE("record store: a round goes on when users of its later batches are dropped meanwhile") {
  Bench b;
  b.keep_users(300);
  CHECK(b.run(SweepRecords{}).more);
  DropRecords drop;
  for (int i = 256; i < 300; ++i) drop.of.push_back({"t", "u" + std::to_string(1000 + i)});
  b.run(drop);
  CHECK_FALSE(b.run(SweepRecords{}).more);
  CHECK(b.store->records() == 256);
  CHECK(b.run(SweepRecords{}).records == 256);
}

TEST_CASE("record store: old records are erased at the begin of a round, once") {
  Bench b;
  b.keep_users(300);
  b.keep_all({record("old", "")});
  CHECK(b.run(SweepRecords{}).more);
  b.now_us += 101 * second;
  CHECK(b.run(SweepRecords{}).records == 301);
  CHECK(b.run(SweepRecords{}).records == 0);
}

TEST_CASE("record store: a profile that cannot be read ends the round, and hides no other user for long") {
  Bench b;
  b.keep_users(600);
  b.users.erase(user_key("t", "u1100"));               // deleted, in the first batch
  b.users[user_key("t", "u1101")] = {nullptr, false};  // for ever
  b.users.erase(user_key("t", "u1599"));               // deleted, in the last batch
  CHECK(b.sweep_round() == std::vector<std::size_t>{256});
  CHECK_FALSE(b.find("r1100"));
  CHECK(b.find("r1101"));
  CHECK(b.find("r1599"));
  b.sweep_round();  // a minute later
  CHECK_FALSE(b.find("r1599"));
  CHECK(b.find("r1101"));
  CHECK(b.store->records() == 598);
  b.users.erase(user_key("t", "u1101"));
  b.sweep_round();
  CHECK_FALSE(b.find("r1101"));
}

TEST_CASE("record store: while no profile can be read, a round is one sweep and erases nobody's records") {
  Bench b;
  b.keep_users(600);
  const auto users = b.users;
  for (auto& [key, reading] : b.users) reading = {nullptr, false};
  for (int minute = 0; minute < 4; ++minute) CHECK(b.sweep_round().size() == 1);
  CHECK(b.store->records() == 600);
  b.users = users;
  b.users.erase(user_key("t", "u1300"));
  b.sweep_round();
  CHECK(b.store->records() == 599);
}

TEST_CASE("record store: a record counts for its share of the index, 512 bytes") {
  Bench b;
  b.keep_all({record("r1")});
  const std::uint64_t bytes = b.store->bytes();
  std::size_t on_disk = 0;
  b.store.reset();
  {
    const Store raw(b.folder.path(), {.is_cache = true});
    const auto count = [&](std::string_view value) { on_disk = value.size(); };
    REQUIRE(raw.read(Column::blocks, key("r", "r1"), count) == Store::Read::found);
  }
  CHECK(bytes == on_disk + key("", "r1").size() + user_key("t", "ann").size() + 512);
}

TEST_CASE("record store: a damaged record is absent, and what cannot be read at the start is erased") {
  Bench b;
  b.keep_all({record("r1"), record("r2"), record("r3")});
  b.change(key("r", "r1"), "nonsense");
  b.open();
  CHECK(b.store->records() == 3);
  CHECK_FALSE(b.find("r1"));
  CHECK(b.store->records() == 2);
  b.change(key("e", "r2"), "nonsense");
  b.open();
  CHECK(b.store->records() == 1);
  CHECK_FALSE(b.is_on_disk(key("r", "r2")));
  b.open();
  CHECK(b.find("r3"));
}

TEST_CASE("record store: a damaged store is deleted, not set aside") {
  Bench b;
  b.keep_all({record("r1")});
  b.store.reset();
  for (const auto& file : std::filesystem::directory_iterator(b.folder.path() / "rocksdb"))
    if (file.path().filename().string().starts_with("MANIFEST"))
      std::ofstream(file.path(), std::ios::binary | std::ios::trunc) << "nonsense";
  b.open();
  CHECK(b.store->records() == 0);
  CHECK(std::ranges::distance(std::filesystem::directory_iterator(b.folder.path())) == 1);
  CHECK(b.keep_all({record("r2")}).lost == 0);
  CHECK(b.find("r2"));
}

TEST_CASE("record store: a store that cannot be opened is not one that cannot be deleted") {
  Bench b;
  const auto open_again = [&] { RecordStore other(b.folder.path(), {{100 * second}, 1 << 20, {}, {}}); };
  try {
    open_again();
    FAIL("a store that is open was opened again");
  } catch (const UndeletableRecords&) {
    FAIL("a locked store was reported as one that cannot be deleted");
  } catch (const StoreError& error) {
    CHECK(error.fault == StoreFault::locked);
  }
  // Nobody, root included, can delete a folder of /proc.
  CHECK_THROWS_AS(delete_records("/proc/self/fd"), UndeletableRecords);
}

TEST_CASE("record store: other jobs are refused") {
  Bench b;
  CHECK(std::get<Refusal>(b.store->run(ListStored{}, 0)).code == "wrong_port");
}

}  // namespace record_store_test
