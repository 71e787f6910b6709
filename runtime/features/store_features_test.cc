#include "runtime/features/store_features.h"

#include <doctest/doctest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "runtime/actor/block_name.h"
#include "runtime/store/store_check.h"
#include "runtime/store/store_rows.h"
#include "runtime/testing/store_test_folder.h"

using namespace troupe;

namespace {

const FeatureLimits limits{
    .vocabulary = 1000, .item_tokens_max = 8, .history_events_max = 5, .items_max = 20'000};

BlockName name_item(std::span<const Token> tokens) { return block_name({"m", "l"}, "", tokens, 3, {}); }

struct Shop {
  TestFolder folder;
  std::unique_ptr<Store> store;
  std::unique_ptr<RocksFeaturePort> port;

  Shop() { open(limits); }
  void open(const FeatureLimits& l) {
    port.reset(), store.reset();
    store = std::make_unique<Store>(folder.path());
    port = std::make_unique<RocksFeaturePort>(*store, l, name_item);
  }
  JobResult write(auto what) { return port->run(Write{std::move(what)}, 0); }
  std::uint64_t version(auto what) {
    const JobResult result = write(std::move(what));
    REQUIRE(std::holds_alternative<WriteResult>(result));
    return std::get<WriteResult>(result).version;
  }
  Features find(std::string tenant, std::string user, std::vector<std::string> items = {}) {
    return std::get<Features>(
        port->run(FindFeatures{std::move(tenant), std::move(user), std::move(items)}, 1));
  }
  std::string refusal(std::string tenant, std::string user, std::vector<std::string> items = {}) {
    const JobResult result = port->run(FindFeatures{std::move(tenant), std::move(user), std::move(items)}, 1);
    const auto* refusal = std::get_if<Refusal>(&result);
    return refusal ? std::string(name_of(refusal->kind)) + " " + refusal->code + " " + refusal->where : "";
  }
  void put_raw(Column column, const std::string& key, const std::string& value) {
    const Change change{column, key, value};
    REQUIRE_FALSE(store->write({&change, 1}, Durability::buffered));
  }
};

std::vector<Token> tokens(const Features& found) {
  const auto first = found.catalog->item(found.items.at(0)).tokens;
  return {first.begin(), first.end()};
}
PutItem item(const std::string& id, std::vector<Token> tokens) {
  return {0, id, "title of " + id, std::move(tokens), 9};
}

}  // namespace

TEST_CASE_FIXTURE(
    Shop, "store features: bad and swapped records are refused as damaged and counted, and can be replaced") {
  version(item("a", {1})), version(item("b", {2}));
  version(PutUser{0, "t", "ann", {}, {1}}), version(PutUser{0, "t", "bob", {}, {2}});
  std::string anns;
  store->read(Column::users, user_key("t", "ann"), [&](std::string_view value) { anns = value; });
  put_raw(Column::users, user_key("t", "bob"), anns);
  CHECK(refusal("t", "bob") == "unavailable data_damaged user");
  anns[anns.size() / 2] ^= 1;
  put_raw(Column::users, user_key("t", "ann"), anns);
  CHECK(refusal("t", "ann") == "unavailable data_damaged user");
  CHECK(port->bad_records() == 2);
  CHECK(store->health().damages == 2);

  put_raw(Column::items, "a", "not a record");
  open(limits);
  CHECK(port->bad_records() == 1);
  CHECK(port->items() == 1);
  CHECK(refusal("", "", {"b", "a"}) == "unavailable data_damaged item");
  CHECK(find("", "", {"b", "c"}).items[1] == no_item);
  version(item("a", {7}));
  version(PutUser{0, "t", "ann", {}, {3}});
  CHECK(find("t", "ann", {"a"}).user->tokens == std::vector<Token>{3});
  CHECK(tokens(find("t", "ann", {"a"})) == std::vector<Token>{7});
}

TEST_CASE_FIXTURE(
    Shop, "store features: an interrupted import is reported after a restart until another succeeds") {
  CHECK_FALSE(port->half_imported());
  put_raw(Column::meta, "importing", "there");
  open(limits);
  CHECK(port->half_imported());
  const PutItem bad[] = {item("a", {-1})}, good[] = {item("a", {1})};
  CHECK_THROWS_AS(port->import_items(bad), StoreError);
  CHECK(port->half_imported());
  port->import_items(good);
  CHECK_FALSE(port->half_imported());
  open(limits);
  CHECK_FALSE(port->half_imported());
}

TEST_CASE_FIXTURE(Shop, "store features: an import too large for one write is complete at its end") {
  std::vector<PutItem> items;
  for (int i = 0; i < 18'000; ++i) {
    items.push_back(item("item" + std::to_string(i), {i % 1000}));
    items.back().title.assign(4096, 'x');
  }
  port->import_items(items);
  CHECK_FALSE(port->half_imported());
  open(limits);
  CHECK_FALSE(port->half_imported());
  CHECK(port->items() == items.size());
}

TEST_CASE_FIXTURE(Shop, "store features: forget_users erases another model's users, readable or not") {
  version(item("a", {1})), version(PutUser{0, "t", "ann", {}, {3}}), version(PutUser{0, "t", "bob", {}, {4}});
  put_raw(Column::items, "damaged", "not a record");
  CHECK(find("t", "ann").user);
  const PutItem items[] = {item("b", {1})};
  const PutUser users[] = {{0, "t", "bob", {"b"}}};
  port->import({.items = items, .users = users, .replace = true, .forget_users = true});
  for (const bool again : {false, true}) {
    if (again) open(limits);
    CHECK_FALSE(find("t", "ann").user);
    CHECK(find("t", "bob").user->tokens == std::vector<Token>{1});
    CHECK(port->items() == 1);
  }
  CHECK(port->bad_records() == 0);
}

TEST_CASE_FIXTURE(Shop, "store features: a smaller items_max loads that many items and counts the others") {
  for (const char* id : {"a", "b", "c"}) version(PutItem{0, id, "", {1}, 2});
  for (const std::uint32_t most : {4u, 3u, 2u}) {
    CAPTURE(most);
    FeatureLimits fewer = limits;
    fewer.items_max = most;
    open(fewer);
    std::uint32_t found = 0;
    for (const ItemNumber item : find("", "", {"a", "b", "c"}).items) found += item != no_item;
    CHECK(found == std::min(most, 3u));
    CHECK(port->bad_records() == 3 - std::min(most, 3u));
  }
}

TEST_CASE_FIXTURE(Shop, "store features: a lost counter does not lower versions") {
  version(item("a", {1})), version(item("b", {1})), version(DeleteItem{0, "b"});
  version(PutUser{0, "t", "ann"}), version(PutUser{0, "t", "bob"});
  put_raw(Column::meta, "catalog", "nonsense");
  put_raw(Column::meta, "profiles", "nonsense");
  open(limits);
  CHECK(port->bad_records() == 2);
  CHECK(version(item("a", {1})) > 4);
  CHECK(version(PutUser{0, "t", "ann"}) > 3);
}

TEST_CASE_FIXTURE(Shop, "store features: a counter missing beside unreadable rows jumps far ahead") {
  version(item("a", {1})), version(item("b", {1}));
  version(PutUser{0, "t", "ann"}), version(PutUser{0, "t", "bob"});
  bool damaged = true;
  SUBCASE("all rows are readable") { damaged = false; }
  SUBCASE("some rows are unreadable") {
    put_raw(Column::items, "b", "nonsense");
    put_raw(Column::users, user_key("t", "bob"), "nonsense");
  }
  const Change gone[] = {// and everything else that records the counter
                         {Column::meta, "catalog", {}},
                         {Column::meta, "profiles", {}},
                         {Column::meta, std::string(marked_key), {}}};
  REQUIRE_FALSE(store->write(gone, Durability::buffered));
  port.reset(), store.reset();
  std::filesystem::remove(folder.path() / mark_file);
  open(limits);
  const std::uint64_t item_version = version(item("c", {1})), user_version = version(PutUser{0, "t", "cleo"});
  if (!damaged) CHECK(std::pair(item_version, user_version) == std::pair<std::uint64_t, std::uint64_t>(3, 3));
  if (damaged) CHECK(std::min(item_version, user_version) > counter_jump);
}

TEST_CASE_FIXTURE(Shop, "store features: a damaged item is usable again once written or erased") {
  for (const char* id : {"a", "b", "c"}) version(item(id, {1}));
  for (const char* id : {"a", "b"}) put_raw(Column::items, id, "not a record");
  open(limits);
  CHECK(refusal("", "", {"a"}) == "unavailable data_damaged item");
  CHECK(refusal("", "", {"b"}) == "unavailable data_damaged item");
  version(item("a", {2}));
  version(DeleteItem{0, "a"});
  CHECK(find("", "", {"a"}).items[0] == no_item);
  version(DeleteItem{0, "b"});  // whether or not it exists
  CHECK(find("", "", {"b"}).items[0] == no_item);
  const auto unknown = std::get<Refusal>(write(DeleteItem{0, "b"}));
  CHECK(unknown.kind == RefusalKind::not_found);
  open(limits);
  CHECK(find("", "", {"a", "b", "c"}).items == std::vector<ItemNumber>{no_item, no_item, 0});
  CHECK(store->health().damages == 0);
}

TEST_CASE_FIXTURE(Shop, "store features: a damaged item is usable again once imported") {
  version(item("a", {1}));
  put_raw(Column::items, "a", "not a record");
  open(limits);
  const PutItem items[] = {item("a", {3})};
  port->import_items(items);
  version(DeleteItem{0, "a"});
  CHECK(find("", "", {"a"}).items[0] == no_item);
}

TEST_CASE_FIXTURE(Shop, "store features: a sound profile that does not fit the model means no such user") {
  version(PutUser{0, "t", "ann", {}, {900}});
  FeatureLimits smaller = limits;
  smaller.vocabulary = 800;
  open(smaller);
  CHECK_FALSE(find("t", "ann").user);
  CHECK(store->health().damages == 0);
}

TEST_CASE_FIXTURE(Shop, "store features: the mark has answered writes, and imports after their sync") {
  version(PutUser{0, "t", "ann", {}, {1}}), version(item("a", {1}));
  const PutUser rows[] = {{0, "t", "bob", {}, {3}}, {0, "t", "cleo", {}, {3}}};
  port->import_users(rows);
  const auto found = AcknowledgedMark::read_file(folder.path() / "acknowledged");
  REQUIRE(found.state);
  CHECK(found.state->last == std::array<std::uint64_t, 2>{3, 1});
}

TEST_CASE_FIXTURE(Shop,
                  "store features: concurrent readers see an item and the catalog version change together") {
  version(item("a", {1}));  // at version n the item's only token is n
  std::atomic<bool> stop = false;
  std::atomic<int> wrong = 0;
  std::thread reader([&] {
    while (!stop) {
      const Features found = find("", "", {"a"});
      const std::string version = "c" + std::to_string(tokens(found)[0]);
      wrong += found.catalog->version() != version;
    }
  });
  for (Token n = 2; n <= 100; ++n) version(item("a", {n}));
  stop = true;
  reader.join();
  CHECK(wrong == 0);
}

TEST_CASE_FIXTURE(Shop, "store features: an answer's data never changes, and unchanged data is shared") {
  version(item("a", {1})), version(item("b", {2}));
  version(PutUser{0, "t", "ann", {}, {1}});
  const Features before = find("t", "ann", {"a", "b"}), again = find("t", "ann", {"a", "b"});
  CHECK(again.user == before.user);
  CHECK(again.catalog == before.catalog);
  version(item("a", {7, 8})), version(DeleteItem{0, "b"});
  version(PutUser{0, "t", "ann", {}, {2}});
  CHECK(tokens(before) == std::vector<Token>{1});
  CHECK(before.catalog->item(before.items[1]).id == "b");
  CHECK(before.user->tokens == std::vector<Token>{1});
  const Features after = find("t", "ann", {"a", "b"});
  CHECK(after.items[0] == before.items[0]);
  CHECK(after.items[1] == no_item);
  CHECK(after.user->tokens == std::vector<Token>{2});
}

TEST_CASE_FIXTURE(
    Shop, "store features: items that are not published yet are seen with the next write that publishes") {
  const auto held = [](PutItem put) {
    put.publish = false;
    return put;
  };
  CHECK(version(item("a", {1})) == 1);
  CHECK(version(held(item("a", {2}))) == 2);
  CHECK(version(held(item("b", {3}))) == 3);
  CHECK(port->catalog_version() == "c1");
  CHECK(port->items() == 1);
  CHECK(tokens(find("", "", {"a"})) == std::vector<Token>{1});
  CHECK(find("", "", {"b"}).items[0] == no_item);
  CHECK(version(held(item("b", {3}))) == 4);  // a repeated one is no second item
  SUBCASE("another item") { CHECK(version(item("c", {4})) == 5); }
  SUBCASE("the same item once more") { CHECK(version(item("b", {3})) == 5); }
  SUBCASE("a deleted item, which was not published") {
    CHECK(version(held(item("d", {4}))) == 5);
    CHECK(version(DeleteItem{0, "d"}) == 6);
  }
  SUBCASE("a restart") { open(limits); }
  CHECK(tokens(find("", "", {"a"})) == std::vector<Token>{2});
  CHECK(tokens(find("", "", {"b"})) == std::vector<Token>{3});
  CHECK(find("", "", {"d"}).items[0] == no_item);
  CHECK(std::stoul(port->catalog_version().substr(1)) >= 4);
}

TEST_CASE_FIXTURE(Shop, "store features: the catalog's limit counts items that are not published yet") {
  FeatureLimits two = limits;
  two.items_max = 2;
  open(two);
  for (const char* id : {"a", "b"}) {
    PutItem put = item(id, {1});
    put.publish = false;
    version(put);
  }
  CHECK(std::holds_alternative<Refusal>(write(item("c", {1}))));
  version(item("b", {2}));
  CHECK(port->items() == 2);
}

TEST_CASE_FIXTURE(Shop, "store features: a written or deleted profile is not answered from memory") {
  version(PutUser{0, "t", "ann", {}, {1}});
  CHECK(find("t", "ann").user->version == 1);
  version(PutUser{0, "t", "ann", {}, {2}});
  CHECK(find("t", "ann").user->version == 2);
  const PutUser imported[] = {{0, "t", "ann", {}, {3}}};
  port->import_users(imported);
  CHECK(find("t", "ann").user->version == 3);
  version(DeleteUser{0, "t", "ann"});
  CHECK_FALSE(find("t", "ann").user);
}

TEST_CASE_FIXTURE(Shop, "store features: run_now answers users in memory, and nothing that needs the store") {
  version(item("a", {1}));
  version(PutUser{0, "t", "ann", {}, {1}});
  const Job wanted = FindFeatures{"t", "ann", {"a", "b"}};
  CHECK_FALSE(port->run_now(wanted));
  const Features found = find("t", "ann", {"a", "b"});
  const auto now = port->run_now(wanted);
  REQUIRE(now);
  CHECK(std::get<Features>(*now).user == found.user);
  CHECK(std::get<Features>(*now).catalog == found.catalog);
  CHECK(std::get<Features>(*now).items == std::vector<ItemNumber>{0, no_item});
  CHECK(std::get<Refusal>(*port->run_now(FindFeatures{"t", "ann", {}, "", "c9"})).code == "wrong_catalog");
  CHECK(port->run_now(FindFeatures{"", "", {"a"}}));
  CHECK_FALSE(port->run_now(Write{DeleteItem{0, "a"}}));
  CHECK_FALSE(port->run_now(FindFeatures{"t", "ann", std::vector<std::string>(257)}));
  const auto own = port->run_now(FindFeatures{.tenant = "t", .history = GivenHistory{.history = {"a"}}});
  REQUIRE(own);
  CHECK(std::get<Features>(*own).user->events.size() == 1);
  CHECK_FALSE(port->run_now(FindFeatures{.history = GivenHistory{.tokens = std::vector<Token>(257)}}));
  version(PutUser{0, "t", "ann", {}, {2}});
  CHECK_FALSE(port->run_now(wanted));
}

// Reads many profiles beside a request's, as a sweep of records does.
TEST_CASE_FIXTURE(Shop,
                  "store features: find_users neither reads, fills nor reorders the profiles in memory") {
  const std::string ann = user_key("t", "ann"), bob = user_key("t", "bob");
  version(PutUser{0, "t", "ann", {}, {1}});
  version(PutUser{0, "t", "bob", {}, {2}});
  version(PutUser{0, "t", "eve", {}, {3}});
  const std::string keys[] = {ann, user_key("t", "nobody")};
  const std::vector<UserReading> users = port->find_users(keys, 0);
  REQUIRE(users.size() == 2);
  REQUIRE(users[0].user);
  CHECK(users[0].user->tokens == std::vector<Token>{1});
  CHECK(users[1].read);
  CHECK_FALSE(users[1].user);
  CHECK_FALSE(port->run_now(FindFeatures{"t", "ann", {}}));  // not in memory

  // Memory for two profiles: ann's is the least recently used one and stays so.
  const std::size_t one = cached_bytes(ann, users[0].user.get());
  port = std::make_unique<RocksFeaturePort>(*store, limits, name_item, "", 2 * one);
  find("t", "ann");
  find("t", "bob");
  CHECK(port->find_users({&ann, 1}, 0).at(0).user);
  find("t", "eve");
  CHECK_FALSE(port->run_now(FindFeatures{"t", "ann", {}}));
  CHECK(port->run_now(FindFeatures{"t", "bob", {}}));
  port->find_users({&ann, 1}, 0);
  CHECK(port->run_now(FindFeatures{"t", "bob", {}}));
  CHECK(port->run_now(FindFeatures{"t", "eve", {}}));
}

TEST_CASE_FIXTURE(Shop, "store features: a write on a nearly full disk is refused with the bytes kept free") {
  version(item("a", {1})), version(PutUser{0, "t", "ann", {}, {1}});
  port.reset(), store.reset();
  store = std::make_unique<Store>(folder.path(), StoreOptions{.free_bytes_min = std::uint64_t{1} << 60});
  port = std::make_unique<RocksFeaturePort>(*store, limits, name_item);
  for (const JobResult& result : {write(item("b", {2})), write(PutUser{0, "t", "bob", {}, {1}})}) {
    const auto* refusal = std::get_if<Refusal>(&result);
    REQUIRE(refusal);
    CHECK(refusal->code == "storage_failed");
    CHECK(refusal->what ==
          "the disk is full: fewer than 1152921504606846976 bytes are free, which the store keeps free");
    CHECK(refusal->expected == "a disk with more than 1152921504606846976 bytes free");
  }
}

TEST_CASE_FIXTURE(Shop, "store features: writes of many threads have one version each, and none is lost") {
  constexpr int threads = 16, writes = 8;
  version(item("a", {1}));
  std::mutex mutex;
  std::set<std::uint64_t> profiles, items;
  const auto note = [&](std::set<std::uint64_t>& versions, const JobResult& result) {
    const std::lock_guard lock(mutex);
    REQUIRE(std::holds_alternative<WriteResult>(result));
    CHECK(versions.insert(std::get<WriteResult>(result).version).second);
  };
  {
    std::vector<std::jthread> all;
    for (int t = 0; t < threads; ++t)
      all.emplace_back([&, t] {
        for (int i = 0; i < writes; ++i) {
          const std::string own = "u" + std::to_string(t), shared = "s" + std::to_string(i);
          note(profiles, write(PutUser{0, "t", own, {}, {static_cast<Token>(i + 1)}}));
          note(profiles, write(AppendEvents{.tenant = "t", .user = shared, .tokens = {5}}));
          note(items, write(item("i" + std::to_string(t), {static_cast<Token>(i + 1)})));
        }
      });
  }
  CHECK(profiles.size() == 2 * threads * writes);
  CHECK(*profiles.rbegin() == 2 * threads * writes);
  CHECK(*items.rbegin() == threads * writes + 1);
  const auto check = [&] {
    CHECK(port->items() == threads + 1);
    CHECK(port->catalog_version() == "c" + std::to_string(threads * writes + 1));
    for (int t = 0; t < threads; ++t)
      CHECK(find("t", "u" + std::to_string(t)).user->tokens == std::vector<Token>{writes});
    for (int i = 0; i < writes; ++i)
      CHECK(find("t", "s" + std::to_string(i)).user->events.size() == limits.history_events_max);
  };
  check();
  open(limits);
  check();
  CHECK(version(PutUser{0, "t", "ann", {}, {1}}) == 2 * threads * writes + 1);
}

TEST_CASE_FIXTURE(Shop, "store features: writes of one group that are refused do not fail the others") {
  open({.vocabulary = 1000, .item_tokens_max = 8, .history_events_max = 5, .items_max = 4});
  std::atomic<int> put = 0, full = 0;
  {
    std::vector<std::jthread> all;
    for (int t = 0; t < 12; ++t)
      all.emplace_back([&, t] {
        const JobResult result = write(item("i" + std::to_string(t), {1}));
        const auto* refusal = std::get_if<Refusal>(&result);
        ++(refusal && refusal->code == "catalog_full" ? full : put);
      });
  }
  CHECK(put == 4);
  CHECK(full == 8);
  CHECK(port->items() == 4);
}
