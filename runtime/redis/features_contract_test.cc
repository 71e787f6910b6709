// Contract of both feature stores: every case runs with RocksDB and with Redis.
#include <doctest/doctest.h>

#include <chrono>
#include <optional>
#include <set>
#include <thread>

#include "runtime/actor/block_name.h"
#include "runtime/features/store_features.h"
#include "runtime/redis/redis_features.h"
#include "runtime/testing/redis_test_server.h"
#include "runtime/testing/store_test_folder.h"

using namespace troupe;

namespace features_contract_test {

const FeatureLimits limits{
    .vocabulary = 1000, .item_tokens_max = 8, .history_events_max = 5, .items_max = 20'000};

BlockName name_item(std::span<const Token> tokens) { return block_name({"m", "l"}, "", tokens, 3, {}); }

bool redis_is_installed() {
  static const bool installed = RedisTestServer::is_installed();
  return installed;
}

// One of the two stores. All cases share one Redis server, each with its own prefix.
struct Shop {
  TestFolder folder;
  std::unique_ptr<Store> store;
  std::optional<RedisFeatureOptions> redis;
  std::unique_ptr<FeatureStore> port;

  Shop() {
    SUBCASE("in RocksDB") {}
    if (redis_is_installed()) {
      SUBCASE("in Redis") {
        static RedisTestServer server;
        static int shops = 0;
        redis = {.address = server.address(),
                 .prefix = "shop " + std::to_string(++shops) + ":",
                 .time_limit = std::chrono::seconds(10),
                 .page_items = 100};
      }
    }
    open(limits);
  }
  void open(const FeatureLimits& l, const std::string& model = "") {
    port.reset(), store.reset();
    if (redis) {
      port = std::make_unique<RedisFeaturePort>(*redis, l, name_item, model);
    } else {
      store = std::make_unique<Store>(folder.path());
      port = std::make_unique<RocksFeaturePort>(*store, l, name_item, model);
    }
  }
  JobResult write(auto what) { return port->run(Write{std::move(what)}, 0); }
  std::uint64_t version(auto what) {
    const JobResult result = write(std::move(what));
    REQUIRE(std::holds_alternative<WriteResult>(result));
    return std::get<WriteResult>(result).version;
  }
  std::string refused(auto what) {
    const JobResult result = write(std::move(what));
    REQUIRE(std::holds_alternative<Refusal>(result));
    const Refusal& refusal = std::get<Refusal>(result);
    return std::string(name_of(refusal.kind)) + " " + refusal.code + " " + refusal.where;
  }
  Features find(std::string tenant, std::string user, std::vector<std::string> items = {}) {
    return std::get<Features>(
        port->run(FindFeatures{std::move(tenant), std::move(user), std::move(items)}, 1));
  }
};

PutItem item(const std::string& id, std::vector<Token> tokens) {
  return {0, id, "title of " + id, std::move(tokens), 9};
}
Item item_of(const Features& found, std::size_t index = 0) {
  return found.catalog->item(found.items.at(index)).copy();
}
PutUser history(const std::string& user, std::vector<std::string> items) {
  return {0, "t", user, std::move(items)};
}

TEST_CASE_FIXTURE(Shop,
                  "feature stores: an item is found with its block name, and listed in order of number") {
  version(item("b", {1, 2})), version(item("a", {3})), version(item("c", {4}));
  const Features found = find("", "", {"a", "none", "b"});
  REQUIRE(found.items.size() == 3);
  CHECK(item_of(found, 0) == Item{"a", "title of a", {3}, 9, name_item(std::vector<Token>{3})});
  CHECK(found.items[1] == no_item);
  CHECK(item_of(found, 2).tokens == std::vector<Token>{1, 2});
  CHECK_FALSE(found.user);

  const auto ids = [&](ItemNumber from, std::uint32_t count) {
    const auto page = std::get<ItemList>(port->run(ListItems{from, count}, 0));
    std::string text;
    for (const ItemNumber number : page.items) text += page.catalog->item(number).id;
    return text + (page.last ? "." : "");
  };
  const Features all = find("", "", {"b", "a", "c"});
  CHECK(all.items == std::vector<ItemNumber>{0, 1, 2});
  CHECK(ids(0, 2) == "ba");
  CHECK(ids(2, 2) == "c.");
  CHECK(ids(0, 3) == "bac.");
  CHECK(ids(3, 3) == ".");
  version(DeleteItem{0, "a"});
  CHECK(ids(0, 2) == "bc.");
}

TEST_CASE_FIXTURE(Shop, "feature stores: a history becomes its items' tokens, one event per item or token") {
  version(item("a", {1, 2})), version(item("b", {3}));
  version(history("ann", {"b", "a", "b"}));
  CHECK(*find("t", "ann").user == Profile{1, {3, 1, 2, 3}, {1, 2, 1}});
  version(PutUser{0, "t", "bob", {}, {5, 6}});
  CHECK(*find("t", "bob").user == Profile{2, {5, 6}, {1, 1}});
  version(PutUser{0, "t", "new"});
  CHECK(*find("t", "new").user == Profile{3, {}, {}});
}

TEST_CASE_FIXTURE(Shop, "feature stores: a request's own history is the profile that a put of it gives") {
  version(item("a", {1, 2})), version(item("b", {3}));
  const auto own = [&](GivenHistory given) {
    return port->run(FindFeatures{.tenant = "t", .items = {"a", "none"}, .history = std::move(given)}, 1);
  };
  const auto found = std::get<Features>(own({.history = {"b", "a", "b"}}));
  CHECK(*found.user == Profile{0, {3, 1, 2, 3}, {1, 2, 1}});
  CHECK(found.items == std::vector<ItemNumber>{0, no_item});
  CHECK(*std::get<Features>(own({.tokens = {5, 6}})).user == Profile{0, {5, 6}, {1, 1}});
  CHECK(*std::get<Features>(own({})).user == Profile{});
  const auto fault = [&](GivenHistory given) {
    const auto refusal = std::get<Refusal>(own(std::move(given)));
    return std::string(name_of(refusal.kind)) + " " + refusal.code + " " + refusal.where;
  };
  CHECK(fault({.history = {"a", "none"}}) == "unprocessable unknown_item history[1]");
  CHECK(fault({.tokens = {1000}}) == "unprocessable unknown_token tokens[0]");
  CHECK(fault({.history = {"a"}, .tokens = {1}}) == "unprocessable bad_history history, tokens");
  CHECK(fault({.history = std::vector<std::string>(6, "a")}) == "unprocessable too_many_events history");
  CHECK(fault({.history = {"a"}, .features = {{"timestamps", {1}}}}) ==
        "unprocessable unknown_feature timestamps");
  FeatureLimits timed = limits;
  timed.event_features = {{.name = "timestamps", .ascending = true}};
  open(timed);
  CHECK(
      std::get<Features>(own({.history = {"a", "b"}, .features = {{"timestamps", {5, 6}}}})).user->features ==
      std::vector<Feature>{{"timestamps", {5, 6}}});
  CHECK(fault({.history = {"a", "b"}, .features = {{"timestamps", {6, 5}}}}) ==
        "unprocessable bad_feature timestamps[1]");
  CHECK(fault({.history = {"a"}}) == "unprocessable missing_feature timestamps");
}

TEST_CASE_FIXTURE(Shop,
                  "feature stores: a profile keeps its items' old tokens; a new history gets the new ones") {
  version(item("a", {1}));
  version(history("ann", {"a"}));
  version(item("a", {2, 3}));
  CHECK(find("t", "ann", {"a"}).user->tokens == std::vector<Token>{1});
  CHECK(item_of(find("t", "ann", {"a"})).block == name_item(std::vector<Token>{2, 3}));
  version(history("ann", {"a"}));
  CHECK(find("t", "ann").user->tokens == std::vector<Token>{2, 3});
}

TEST_CASE_FIXTURE(Shop, "feature stores: a request for another catalog or model version is refused") {
  version(item("a", {1}));
  const auto refused = [&](const FindFeatures& wanted) {
    const JobResult result = port->run(wanted, 0);
    const Refusal* refusal = std::get_if<Refusal>(&result);
    return refusal ? std::string(name_of(refusal->kind)) + " " + refusal->code + " " + refusal->expected : "";
  };
  const std::string now = find("", "", {"a"}).catalog->version();
  CHECK(refused({.items = {"a"}, .catalog_version = now}) == "");
  version(item("a", {2}));
  CHECK(refused({.items = {"a"}, .catalog_version = now}) == "unavailable wrong_catalog \"c2\"");
  // The port does not know its own version.
  CHECK(refused({.items = {"a"}, .model_version = "any"}) == "");
  open(limits, "m");
  CHECK(refused({.items = {"a"}, .model_version = "m", .catalog_version = "c2"}) == "");
  CHECK(refused({.items = {"a"}, .model_version = "m2"}) == "unavailable wrong_model \"m\"");
}

TEST_CASE_FIXTURE(Shop, "feature stores: a version's snapshot is found while it is present or held") {
  version(item("a", {1}));
  std::optional<Features> before = find("", "", {"a"});
  const std::string was = before->catalog->version();
  CHECK(port->catalog_at(was) == before->catalog);
  version(item("a", {2}));
  const std::string is = find("", "", {"a"}).catalog->version();
  REQUIRE(is != was);
  CHECK(port->catalog_at(is)->item(port->catalog_at(is)->find("a")).tokens[0] == 2);
  CHECK(port->catalog_at(was)->item(before->items[0]).tokens[0] == 1);
  CHECK(port->catalog_at("c99") == nullptr);
  before.reset();
  if (!redis) CHECK(port->catalog_at(was) == nullptr);  // over Redis the mirror may keep it for a while
}

TEST_CASE_FIXTURE(Shop, "feature stores: tenants do not see each other's users") {
  version(PutUser{0, "a", "bc", {}, {1}});
  version(PutUser{0, "ab", "c", {}, {2}});
  CHECK(find("a", "bc").user->tokens == std::vector<Token>{1});
  CHECK(find("ab", "c").user->tokens == std::vector<Token>{2});
  CHECK_FALSE(find("", "bc").user);
  CHECK_FALSE(find("abc", "").user);
}

TEST_CASE_FIXTURE(Shop, "feature stores: an invalid write is refused by field name and changes nothing") {
  version(item("a", {1}));
  CHECK(refused(history("ann", {"a", "a", "x", "y"})) == "unprocessable unknown_item history[2]");
  CHECK(refused(PutUser{0, "t", "ann", {}, {1, 1000}}) == "unprocessable unknown_token tokens[1]");
  CHECK(refused(item("b", {})) == "malformed empty_item tokens");
  CHECK(refused(DeleteUser{0, "t", "ann"}) == "not_found unknown_user user");
  for (const auto& [tenant, what] : {std::pair{"t", "tenant \"t\" has no such user"}, {"", "no such user"}}) {
    CHECK(std::get<Refusal>(port->run(Write{DeleteUser{0, tenant, "ann"}}, 0)).what == what);
    CHECK(std::get<Refusal>(port->run(Read{GetUser{0, tenant, "ann"}}, 0)).what == what);
  }
  CHECK(refused(DeleteItem{0, "b"}) == "not_found unknown_item item");
  CHECK_FALSE(find("t", "ann").user);
  CHECK(find("", "").catalog->version() == "c1");
  CHECK(std::get<Refusal>(port->run(ListStored{}, 0)).code == "wrong_port");
}

TEST_CASE_FIXTURE(Shop, "feature stores: versions rise with every write and continue after a restart") {
  CHECK(find("", "").catalog->version() == "c0");
  CHECK(version(item("a", {1})) == 1);
  CHECK(version(DeleteItem{0, "a"}) == 2);
  CHECK(version(item("b", {1})) == 3);
  CHECK(version(history("ann", {"b"})) == 1);
  CHECK(version(history("bob", {})) == 2);
  CHECK(version(DeleteUser{0, "t", "bob"}) == 3);
  open(limits);
  CHECK(find("", "", {"a", "b"}).catalog->version() == "c3");
  CHECK(find("", "", {"a"}).items[0] == no_item);
  CHECK(item_of(find("t", "ann", {"b"})) ==
        Item{"b", "title of b", {1}, 9, name_item(std::vector<Token>{1})});
  CHECK_FALSE(find("t", "bob").user);
  CHECK(*find("t", "ann").user == Profile{1, {1}, {1}});
  CHECK(version(history("bob", {})) == 4);
  CHECK(version(DeleteItem{0, "b"}) == 4);
  CHECK(port->bad_records() == 0);
}

TEST_CASE_FIXTURE(Shop, "feature stores: rows from a larger vocabulary are absent after a change of model") {
  version(item("a", {500})), version(item("b", {20}));
  version(PutUser{0, "t", "ann", {}, {500}});
  FeatureLimits smaller = limits;
  smaller.vocabulary = 100;
  open(smaller);
  CHECK(find("t", "ann", {"a"}).items[0] == no_item);
  CHECK_FALSE(find("t", "ann").user);
  CHECK(find("", "", {"b"}).items[0] != no_item);
}

TEST_CASE_FIXTURE(Shop, "feature stores: a full catalog still accepts changes of its items") {
  FeatureLimits two = limits;
  two.items_max = 2;
  open(two);
  version(item("a", {1})), version(item("b", {1}));
  CHECK(refused(item("c", {1})) == "unprocessable catalog_full item");
  version(item("b", {2}));
  version(DeleteItem{0, "a"});
  version(item("c", {1}));
}

TEST_CASE_FIXTURE(Shop, "feature stores: an import names its first bad row and stores none of it") {
  const auto error_of = [](auto import) -> std::string {
    try {
      import();
    } catch (const StoreError& error) {
      CHECK(error.fault == StoreFault::bad_row);
      return error.what();
    }
    return "";
  };
  const PutItem items[] = {item("a", {1}), item("b", {1, -5}), item("c", {})};
  CHECK(error_of([&] { port->import_items(items); }) ==
        "item row 2: tokens[1]: token -5 is outside the vocabulary; expected 0..999");
  CHECK(port->items() == 0);
  port->import_items({items, 1});
  const PutUser users[] = {history("ann", {"a"}), history("bob", {"a", "b"})};
  CHECK(error_of([&] { port->import_users(users); }) ==
        "user row 2: history[1]: item \"b\" is not in the catalog; expected the id of an item that was put "
        "before");
  CHECK_FALSE(find("t", "ann").user);
}

TEST_CASE_FIXTURE(Shop, "feature stores: items and users import together, and a bad user stops both") {
  const PutItem items[] = {item("a", {1}), item("b", {2, 3})};
  const PutUser users[] = {history("ann", {"a", "b"}), history("bob", {"c"})};
  const auto where = [](std::string_view kind, std::size_t row) {
    return std::string(kind) + "s.jsonl:" + std::to_string(row + 10);
  };
  CHECK_THROWS_WITH_AS(
      port->import({.items = items, .users = users, .where = where}),
      "users.jsonl:11: history[0]: item \"c\" is not in the catalog; expected the id of an item "
      "that was put before",
      StoreError);
  CHECK(port->items() == 0);
  CHECK_FALSE(find("t", "ann").user);
  port->import({.items = items, .users = {users, 1}, .made_for = "a model"});
  open(limits);
  CHECK(port->items() == 2);
  CHECK(find("t", "ann").user->tokens == std::vector<Token>{1, 2, 3});
  CHECK(port->made_for() == "a model");
}

TEST_CASE_FIXTURE(Shop, "feature stores: a replacing import leaves only its items, and users unchanged") {
  version(item("a", {1})), version(item("b", {2})), version(history("ann", {"a"}));
  const std::string before = port->catalog_version();
  const PutItem items[] = {item("b", {5}), item("c", {6})};
  port->import({.items = items, .replace = true});
  for (const bool again : {false, true}) {
    if (again) open(limits);
    CHECK(port->items() == 2);
    CHECK(port->catalog_version() != before);
    CHECK(find("", "", {"a"}).items[0] == no_item);
    CHECK(item_of(find("", "", {"b"})).tokens == std::vector<Token>{5});
    CHECK(find("t", "ann").user->tokens == std::vector<Token>{1});
  }
  version(item("a", {7}));
  CHECK(item_of(find("", "", {"a"})).tokens == std::vector<Token>{7});
}

TEST_CASE_FIXTURE(Shop, "feature stores: untouched and made_for report the writes and their model") {
  CHECK(port->untouched());
  CHECK_FALSE(port->made_for());
  port->note_made_for("one");
  CHECK(port->untouched());
  port->note_made_for("two");
  CHECK(port->made_for() == "two");
  version(item("a", {1}));
  version(DeleteItem{0, "a"});
  open(limits);
  CHECK_FALSE(port->untouched());
  CHECK(port->made_for() == "two");
}

TEST_CASE_FIXTURE(Shop, "feature stores: 10,000 items and users are imported and persist after a restart") {
  std::vector<PutItem> items;
  std::vector<PutUser> users;
  for (int i = 0; i < 10'000; ++i) {
    items.push_back(item("item" + std::to_string(i), {i % 1000, i / 1000, 5, 6, 7, 8}));
    users.push_back(history("user" + std::to_string(i), {"item" + std::to_string(i), "item7", "item77"}));
  }
  const auto seconds = [](auto work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const double items_s = seconds([&] { port->import_items(items); });
  const double users_s = seconds([&] { port->import_users(users); });
  const double open_s = seconds([&] { open(limits); });
  MESSAGE("10,000 rows: items " << items_s << " s, users " << users_s << " s, open " << open_s << " s");
  CHECK(port->items() == 10'000);
  CHECK(item_of(find("", "", {"item9999"})).tokens == items[9999].tokens);
  CHECK(find("t", "user9999").user->version == 10'000);
  CHECK(find("t", "user9999").user->events == std::vector<std::uint32_t>{6, 6, 6});
  CHECK(port->bad_records() == 0);
}

TEST_CASE_FIXTURE(Shop,
                  "feature stores: several users are found at once, and the present catalog without a read") {
  version(item("a", {1, 2}));
  version(history("ann", {"a"})), version(PutUser{0, "t", "bob", {}, {5}});
  const std::string keys[] = {user_key("t", "bob"), user_key("t", "none"), user_key("t", "ann")};
  const std::vector<UserReading> users = port->find_users(keys, 1);
  REQUIRE(users.size() == 3);
  for (const UserReading& user : users) CHECK(user.read);
  CHECK(*users[0].user == Profile{2, {5}, {1}, {}});
  CHECK_FALSE(users[1].user);
  CHECK(*users[2].user == Profile{1, {1, 2}, {2}, {}});
  CHECK(port->present_catalog()->version() == port->catalog_version());
  CHECK(port->present_catalog()->find("a") != no_item);
}

AppendEvents append_of(const std::string& user, std::vector<std::string> items,
                       std::vector<std::string> ids = {}) {
  return {0, "t", user, std::move(items), {}, {}, std::move(ids)};
}

TEST_CASE_FIXTURE(
    Shop, "feature stores: events append to an old or new profile, and the newest up to the limit are kept") {
  version(item("a", {1, 2})), version(item("b", {3}));
  const auto counts = [&](AppendEvents events) {
    const auto w = std::get<WriteResult>(write(std::move(events)));
    return std::vector<std::uint64_t>{w.version, w.appended, w.repeated, w.dropped, w.events};
  };
  CHECK(counts(append_of("ann", {"b", "a"})) == std::vector<std::uint64_t>{1, 2, 0, 0, 2});
  CHECK(counts(append_of("ann", {"b"})) == std::vector<std::uint64_t>{2, 1, 0, 0, 3});
  CHECK(*find("t", "ann").user == Profile{2, {3, 1, 2, 3}, {1, 2, 1}});
  CHECK(counts(append_of("ann", {"b", "b", "a"})) == std::vector<std::uint64_t>{3, 3, 0, 1, 5});
  CHECK(*find("t", "ann").user == Profile{3, {1, 2, 3, 3, 3, 1, 2}, {2, 1, 1, 1, 2}});
  CHECK(refused(append_of("ann", {"b", "none"})) == "unprocessable unknown_item events[1].item");
}

TEST_CASE_FIXTURE(Shop, "feature stores: appending for a model of short prompts keeps the stored events") {
  FeatureLimits wide = limits;
  wide.history_events_max = 100;
  open(wide);
  version(item("a", {1, 2, 3, 4, 5}));
  version(PutUser{0, "t", "ann", std::vector<std::string>(60, "a")});
  FeatureLimits narrow = wide;
  narrow.item_tokens_max = 6;  // positions of a model whose prompt has room for one event
  open(narrow);
  const auto grown = std::get<WriteResult>(write(append_of("ann", {"a"})));
  CHECK(grown.dropped == 0);
  CHECK(grown.events == 61);
  open(wide);
  CHECK(find("t", "ann").user->events.size() == 61);
}

TEST_CASE_FIXTURE(Shop, "feature stores: a repeated event is skipped, whatever happened to its item") {
  version(item("a", {1})), version(item("b", {2}));
  version(append_of("ann", {"a", "b"}, {"e1", "e2"}));
  version(DeleteItem{0, "a"});
  const auto again = std::get<WriteResult>(write(append_of("ann", {"a", "b"}, {"e1", "e2"})));
  CHECK(again.version == 1);
  CHECK(again.repeated == 2);
  CHECK(again.events == 2);
  const auto some = std::get<WriteResult>(write(append_of("ann", {"a", "b", "b"}, {"e1", "e3", "e3"})));
  CHECK(some.appended == 1);
  CHECK(some.repeated == 2);
  CHECK(refused(append_of("ann", {"b", "a"}, {"e2", "e4"})) == "unprocessable unknown_item events[1].item");
  CHECK(refused(append_of("ann", {"b"}, {"e4", "e5"})) == "unprocessable bad_event_ids event_ids");
  version(PutUser{0, "t", "ann"});  // forgets the event ids
  CHECK(std::get<WriteResult>(write(append_of("ann", {"b"}, {"e2"}))).appended == 1);
}

TEST_CASE_FIXTURE(Shop, "feature stores: a late event is inserted in time order") {
  FeatureLimits timed = limits;
  timed.event_features = {{.name = "timestamps", .ascending = true}, {.name = "actions"}};
  open(timed);
  version(item("a", {1})), version(item("b", {2})), version(item("c", {3}));
  const auto at = [](std::vector<std::string> items, std::vector<std::int64_t> times,
                     std::vector<std::int64_t> actions) {
    return AppendEvents{0,     "t",
                        "ann", std::move(items),
                        {},    {{"timestamps", std::move(times)}, {"actions", std::move(actions)}}};
  };
  version(at({"a", "c"}, {10, 30}, {1, 3}));
  version(at({"c", "b"}, {30, 20}, {4, 2}));
  const Profile profile = *find("t", "ann").user;
  CHECK(profile.tokens == std::vector<Token>{1, 2, 3, 3});
  CHECK(profile.features ==
        std::vector<Feature>{{"timestamps", {10, 20, 30, 30}}, {"actions", {1, 2, 3, 4}}});
  CHECK(refused(append_of("ann", {"a"})) == "unprocessable missing_feature events[0].timestamp");
}

TEST_CASE_FIXTURE(Shop, "feature stores: users and items are read as they were put, with versions") {
  const auto user = [&](const std::string& id) {
    return std::get<UserReply>(port->run(Read{GetUser{0, "t", id}}, 1));
  };
  const std::uint64_t wrote = version(item("a", {1, 2}));
  version(item("b", {3}));
  CHECK(std::get<ItemReply>(port->run(Read{GetItem{0, "a"}}, 0)) ==
        ItemReply{0, "a", "title of a", {1, 2}, 9, wrote});
  version(PutUser{.tenant = "t", .user = "ann", .history = {"b", "a"}, .event_ids = {"e1", ""}});
  CHECK(user("ann") ==
        UserReply{.user = "ann", .version = 1, .history = {"b", "a"}, .event_ids = {"e1", ""}});
  version(PutUser{0, "t", "bob", {}, {5, 6}});
  CHECK(user("bob") == UserReply{.user = "bob", .version = 2, .tokens = {5, 6}});
  version(append_of("bob", {"a"}, {"e9"}));
  CHECK(user("bob") == UserReply{.user = "bob",
                                 .version = 3,
                                 .history = {"", "", "a"},
                                 .tokens = {5, 6, 1, 2},
                                 .event_tokens = {1, 1, 2},
                                 .event_ids = {"", "", "e9"}});
  for (const Read& none :
       {Read{GetUser{0, "t", "none"}}, Read{GetUser{0, "", "ann"}}, Read{GetItem{0, "none"}}})
    CHECK(std::get<Refusal>(port->run(none, 0)).kind == RefusalKind::not_found);
  open(limits);
  CHECK(user("ann").history == std::vector<std::string>{"b", "a"});
}

TEST_CASE_FIXTURE(Shop, "feature stores: a write whose condition fails changes nothing") {
  const auto when = [](auto what, Condition condition) {
    what.condition = condition;
    return what;
  };
  const Condition absent{.absent = true}, present{.present = true};
  version(item("a", {1}));
  const std::uint64_t ann = version(when(history("ann", {"a"}), absent));
  CHECK(refused(when(history("ann", {}), absent)) == "precondition_failed changed_meanwhile if-none-match");
  CHECK(refused(when(history("bob", {}), present)) == "precondition_failed changed_meanwhile if-match");
  CHECK(refused(when(history("ann", {}), {.version = ann + 7})) ==
        "precondition_failed changed_meanwhile if-match");
  CHECK(refused(when(append_of("ann", {"a"}), {.version = ann + 7})) ==
        "precondition_failed changed_meanwhile if-match");
  CHECK(refused(when(DeleteUser{0, "t", "ann"}, {.version = ann + 7})) ==
        "precondition_failed changed_meanwhile if-match");
  CHECK(find("t", "ann").user->version == ann);
  const std::uint64_t next = version(when(append_of("ann", {"a"}, {"e1"}), {.version = ann}));
  // A repeated append gets its answer again.
  CHECK(version(when(append_of("ann", {"a"}, {"e1"}), {.version = ann})) == next);
  CHECK(version(when(history("ann", {"a"}), {.version = next})) > next);
  const std::uint64_t made = std::get<ItemReply>(port->run(Read{GetItem{0, "a"}}, 0)).version;
  CHECK(refused(when(item("a", {2}), absent)) == "precondition_failed changed_meanwhile if-none-match");
  CHECK(refused(when(DeleteItem{0, "a"}, {.version = made + 1})) ==
        "precondition_failed changed_meanwhile if-match");
  const std::uint64_t changed = version(when(item("a", {2}), {.version = made}));
  version(when(DeleteItem{0, "a"}, {.version = changed}));
  CHECK(refused(when(item("a", {2}), present)) == "precondition_failed changed_meanwhile if-match");
  version(when(DeleteUser{0, "t", "ann"}, present));
}

TEST_CASE_FIXTURE(Shop, "feature stores: of concurrent appends none is lost and none repeated") {
  FeatureLimits long_ones = limits;
  long_ones.history_events_max = 1000;
  open(long_ones);
  version(item("a", {1}));
  constexpr int writers = 4, each = 20;
  std::vector<std::thread> threads;
  for (int w = 0; w < writers; ++w)
    threads.emplace_back([&, w] {
      for (int i = 0; i < each; ++i)
        for (int again = 0; again < 2; ++again)
          port->run(Write{append_of("ann", {"a"}, {std::to_string(w) + "-" + std::to_string(i)})},
                    static_cast<std::uint32_t>(w % 2));
    });
  for (std::thread& thread : threads) thread.join();
  const auto user = std::get<UserReply>(port->run(Read{GetUser{0, "t", "ann"}}, 0));
  CHECK(user.event_ids.size() == writers * each);
  CHECK(std::set<std::string>(user.event_ids.begin(), user.event_ids.end()).size() == writers * each);
}

}  // namespace features_contract_test
