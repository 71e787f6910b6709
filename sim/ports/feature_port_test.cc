#include "sim/ports/feature_port.h"

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::sim;

namespace {

struct Store {
  int named = 0;
  WorldData world{WorldOptions{.items = 100, .users = 10, .absent = 0}};
  WorldCatalogs catalogs{
      world,
      [this](const std::string& model, std::span<const Token> tokens) {
        ++named;
        return BlockName{{static_cast<std::uint8_t>(model.back()), static_cast<std::uint8_t>(tokens[0])}};
      },
      150};
  SimCoordination coordination{1, Duration{100}, Duration{100}, Duration{5'000}};
  FeatureFaults faults;
  SimFeaturePort port{{.node = 2, .model_version = "m1", .now = [] { return Instant{}; }},
                      world,
                      catalogs,
                      coordination,
                      faults};

  JobResult run(const Job& job) {
    port.begin({}, job, 0);
    return port.run(job, 0);
  }
};

}  // namespace

TEST_CASE("feature port: features come from the pinned catalog, with block names of the pinned model") {
  Store store;
  store.world.write({DeleteItem{.item = "i3"}});
  const auto found =
      std::get<Features>(store.run(FindFeatures{"", "u1", {"i5", "i3", "nothing"}, "m2", "c2"}));
  CHECK(found.catalog->version() == "c2");
  CHECK(*found.user == store.world.profile("", "u1"));
  REQUIRE(found.items[0] != no_item);
  const Item item = found.catalog->item(found.items[0]).copy();
  CHECK(item.tokens == store.world.item("i5", "c2")->tokens);
  CHECK(item.block.bytes[0] == '2');
  CHECK(found.items[1] == no_item);
  CHECK(found.items[2] == no_item);
  const auto present = std::get<Features>(store.run(FindFeatures{"", "nobody", {"i5"}, "", ""}));
  CHECK(present.catalog->version() == "c1");
  CHECK_FALSE(present.user);
  CHECK(present.catalog->item(present.items[0]).block.bytes[0] == '1');
  CHECK(std::get<Refusal>(store.run(FindFeatures{"", "u1", {}, "", "c9"})).code == "wrong_catalog");
}

TEST_CASE("feature port: a request's own history becomes its profile in the pinned catalog") {
  Store store;
  const auto own = [&](std::vector<std::string> items, const std::string& catalog) {
    return store.run(FindFeatures{
        .items = {"i5"}, .catalog_version = catalog, .history = GivenHistory{.history = std::move(items)}});
  };
  const auto found = std::get<Features>(own({"i5", "i5"}, "c2"));
  const auto tokens = store.world.item("i5", "c2")->tokens.size();
  CHECK(found.user->events == std::vector<std::uint32_t>(2, static_cast<std::uint32_t>(tokens)));
  CHECK(found.user->version == 0);
  CHECK(std::get<Refusal>(own({"nothing"}, "c2")).code == "unknown_item");
}

TEST_CASE("feature port: Read returns the world's user or item, or refuses an unknown one") {
  Store store;
  const auto user = std::get<UserReply>(store.run(Read{GetUser{.user = "u1"}}));
  CHECK(user.user == "u1");
  CHECK(user.version == 1);
  CHECK(user.tokens == store.world.profile("", "u1")->tokens);
  CHECK(user.event_tokens == store.world.profile("", "u1")->events);
  const auto item = std::get<ItemReply>(store.run(Read{GetItem{.item = "i5"}}));
  CHECK(item.item == "i5");
  CHECK(item.tokens == store.world.item("i5", "c1")->tokens);
  CHECK(item.identifier == 5);
  CHECK(std::get<Refusal>(store.run(Read{GetUser{.user = "nobody"}})).code == "unknown_user");
  CHECK(std::get<Refusal>(store.run(Read{GetItem{.item = "nothing"}})).code == "unknown_item");
}

TEST_CASE("feature port: each block name is computed once, and their number is bounded") {
  Store store;
  for (int round = 0; round < 3; ++round) store.run(ListItems{0, 100});
  CHECK(store.named == static_cast<int>(store.catalogs.names()));
  CHECK(store.named <= 100);
  store.run(FindFeatures{"", "u1", {"i1"}, "m2", ""});
  for (int n = 0; n < 100; ++n) store.run(FindFeatures{"", "u1", {WorldData::item_id(n)}, "m2", ""});
  CHECK(store.catalogs.names() <= 150);
}

TEST_CASE("world catalog: a snapshot never changes, and is replaced after it has computed enough items") {
  Store store;
  WorldCatalogs few(
      store.world, [](auto&&...) { return BlockName{}; }, 150, 10);
  const CatalogPointer before = few.at("c1", "m");
  const ItemNumber i5 = before->find("i5");
  const std::string id(before->item(i5).id);
  CHECK(few.at("c1", "m") == before);
  store.world.write({PutItem{.item = "new", .title = "", .tokens = {1, 2}, .identifier = 3}});
  store.world.write({DeleteItem{.item = "i5"}});
  const CatalogPointer after = few.at("c1", "m");
  CHECK(after != before);
  CHECK(after->find("i5") == no_item);
  CHECK(before->find("new") == no_item);
  REQUIRE(after->find("new") != no_item);
  CHECK(after->item(after->find("new")).identifier == 3);
  CHECK(before->item(i5).id == "i5");
  for (int n = 10; n < 20; ++n) after->find(WorldData::item_id(n));
  CHECK(few.at("c1", "m") != after);
}

TEST_CASE("feature port: writes are visible to all later reads") {
  Store store;
  const auto written = store.run(Write{PutUser{.tenant = "", .user = "u1", .tokens = {1, 2}}});
  CHECK(std::get<WriteResult>(written).version == 2);
  CHECK(std::get<Features>(store.run(FindFeatures{"", "u1", {}})).user->version == 2);
  const auto refused = store.run(Write{PutUser{.tenant = "", .user = "u1", .history = {"nothing"}}});
  CHECK(std::get<Refusal>(refused).code == "unknown_item");
}

TEST_CASE("feature port: a lenient request is answered immediately and refreshed behind the answer") {
  using Source = Features::Source;
  Store store;
  Instant now;
  const ExpiryOptions expiry{
      .expiry = {10'000}, .stale_for = {10'000}, .unknown_expiry = {10'000}, .jitter = 0};
  SimFeaturePort port({.node = 2, .model_version = "m1", .expiry = expiry, .now = [&] { return now; }},
                      store.world, store.catalogs, store.coordination, store.faults);
  const auto find = [&](Freshness freshness) {
    const Job job = FindFeatures{.user = "u1", .freshness = freshness};
    now = now + *port.begin(now, job, 0);
    return std::get<Features>(port.run(job, 0));
  };
  const Features first = find(Freshness::behind);
  CHECK(first.of == Source::missing);
  CHECK(first.user->events.empty());
  CHECK(now.us < 100);  // no request waited
  now.us = 2'000;
  CHECK(find(Freshness::behind).of == Source::cache);
  store.world.write({PutUser{.tenant = "", .user = "u1", .tokens = {1, 2}}});  // written by another router
  CHECK(find(Freshness::wait).user->version == 1);
  store.faults.failing = true;
  now.us = 15'000;
  CHECK(find(Freshness::behind).of == Source::stale);
  const Job waits = FindFeatures{.user = "u1", .freshness = Freshness::wait};
  CHECK(port.begin(now, waits, 0)->us >= 100);
  CHECK(std::get<Refusal>(port.run(waits, 0)).kind == RefusalKind::unavailable);
  now.us = 30'000;
  CHECK(find(Freshness::behind).of == Source::missing);
  store.faults = {.unreadable = 1};
  CHECK(std::get<Refusal>(port.run(waits, 0)).code == "features_unavailable");
  CHECK(find(Freshness::behind).of == Source::missing);
  store.faults = {};
  CHECK(find(Freshness::wait).of == Source::store);
  CHECK(find(Freshness::wait).of == Source::cache);
  CHECK(find(Freshness::wait).user->version == 2);
  port.run(Write{PutUser{.tenant = "", .user = "u1", .tokens = {1}}}, 0);
  CHECK(find(Freshness::wait).user->version == 3);  // this router's own write is visible immediately
}

TEST_CASE("feature port: faults slow, fail or hang the store but not the coordination store") {
  Store store;
  const Job find = FindFeatures{"", "u1", {}};
  store.faults.slowness = 1'000;
  CHECK(store.port.begin({}, find, 0)->us >= 100'000);
  store.faults = {.failing = true};
  CHECK(std::get<Refusal>(store.run(find)).code == "storage_failed");
  store.run(Write{DeleteUser{.tenant = "", .user = "u1"}});
  CHECK(store.world.profile("", "u1"));
  store.faults = {.unreadable = 1};
  CHECK(std::get<Refusal>(store.run(find)).code == "features_unavailable");
  CHECK(std::holds_alternative<Features>(store.run(FindFeatures{})));
  store.faults.unreadable = 1e-9;
  CHECK(std::holds_alternative<Features>(store.run(find)));
  store.faults = {.hung_until = {5'000'000}};
  CHECK(store.port.begin({4'000'000}, find, 0)->us >= 1'000'000);
  CHECK(store.port.begin({5'000'000}, find, 0)->us < 1'000'000);
  CHECK(std::get<CoordinationReply>(store.run(Coordinate{ReadKey{"k"}})).ok);
  store.coordination.faults().away = true;
  CHECK(store.port.begin({}, Coordinate{ReadKey{"k"}}, 0) == Duration{5'000});
  CHECK(std::get<Refusal>(store.run(Coordinate{ReadKey{"k"}})).code == "coordination_away");
}

TEST_CASE("coordination port: refuses jobs of other kinds") {
  Store store;
  CoordinationPort port(4, store.coordination, [] { return Instant{}; });
  CHECK(port.begin({}, Coordinate{ReadKey{"k"}}, 0) == Duration{100});
  CHECK(std::get<CoordinationReply>(port.run(Coordinate{ReadKey{"k"}}, 0)).ok);
  CHECK(std::get<Refusal>(port.run(ListStored{}, 0)).code == "wrong_port");
}
