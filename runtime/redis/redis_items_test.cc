#include "runtime/redis/redis_items.h"

#include <doctest/doctest.h>

#include <chrono>
#include <thread>

#include "runtime/features/cached_features.h"
#include "runtime/testing/redis_features_test.h"

namespace troupe {
namespace redis_items_test {

using namespace redis_test;

// A router that holds no catalog. Its cache expires after `expiry`.
RedisFeatureOptions items_at(const RedisAddress& address, Freshness usual,
                             Duration expiry = {3'600'000'000}) {
  RedisFeatureOptions options = options_at(address);
  options.cached_items = ExpiryOptions{.expiry = expiry, .unknown_expiry = expiry, .jitter = 0};
  options.items_usual = usual;
  return options;
}

TEST_CASE("Redis items: a router without a catalog answers like one that holds it") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server;
  Router whole(options_at(server.address())), items(items_at(server.address(), Freshness::exact));
  CHECK(items.find("", {"a"}) == "c0 a=-");
  CHECK(whole.write(item("a", 5)) == "1");
  CHECK(items.write(item("b", 6)) == "2");
  CHECK(items.write(history("ann", {"a", "b"})) == "1");
  for (Router* router : {&whole, &items}) {
    CHECK(router->find("ann", {"b", "a", "gone", "a"}) == "c2 ann=5 b=6 a=5 gone=- a=5");
    CHECK(router->find("nobody", {}) == "c2 nobody=-");
    CHECK(router->port.items() == 2);
    CHECK(router->port.catalog_version() == "c2");
  }
  CHECK(items.write(history("bob", {"a", "gone"})) == "unprocessable unknown_item");
  CHECK(items.write(AppendEvents{.tenant = "t", .user = "ann", .history = {"b"}}) == "2");
  CHECK(whole.find("ann", {}) == "c2 ann=5");
  CHECK(items.write(DeleteItem{0, "a"}) == "3");
  CHECK(items.write(DeleteItem{0, "a"}) == "not_found unknown_item");
  CHECK(items.find("", {"a", "b"}) == "c3 a=- b=6");
  CHECK(items.list() == "");
  const JobResult paths = items.port.run(FindFeatures{.tenant = "t", .user = "ann", .paths = true}, 0);
  CHECK(Router::code(std::get<Refusal>(paths)) == "unprocessable no_catalog");
}

TEST_CASE("Redis items: an item has the name of its block, and is read as it was put") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server;
  Router items(items_at(server.address(), Freshness::wait));
  items.write(item("a", 5));
  const JobResult found = items.port.run(FindFeatures{.items = {"a"}}, 0);
  const auto& features = std::get<Features>(found);
  const ItemView a = features.catalog->item(features.items.at(0));
  CHECK(a.title == "title");
  CHECK(a.identifier == 9);
  CHECK(a.block == name_item(std::vector<Token>{5}));
  const JobResult read = items.port.run(Read{GetItem{0, "a"}}, 0);
  CHECK(std::get<ItemReply>(read).version == 1);
}

TEST_CASE("Redis items: within the expiry an item comes from the cache, and own writes are seen at once") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server;
  Router other(options_at(server.address())), items(items_at(server.address(), Freshness::wait));
  other.write(item("a", 5));
  CHECK(items.find("", {"a", "b"}) == "c1 a=5 b=-");
  other.write(item("a", 6));
  other.write(item("b", 7));
  CHECK(items.find("", {"a", "b"}) == "c3 a=5 b=-");  // absence is cached, too
  CHECK(items.write(item("a", 8)) == "4");
  CHECK(items.find("", {"a"}) == "c4 a=8");
  const JobResult exact = items.port.run(FindFeatures{.items = {"a", "b"}, .freshness = Freshness::exact}, 0);
  CHECK(Router::reported(std::get<Features>(exact), {"a", "b"}) == " a=8 b=7");
  CHECK(items.find("", {"b"}) == "c4 b=7");  // learned by the exact reading
}

TEST_CASE("Redis items: a request for stale items does not wait, and they are read behind it") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server;
  Router other(options_at(server.address()));
  other.write(item("a", 5));
  RedisFeaturePort items(items_at(server.address(), Freshness::behind, {1}), limits, name_item);
  const std::vector<std::string> wanted{"a"};
  CHECK(items.catalog_with(wanted, true) == nullptr);  // never read: the request has to wait
  items.run(FindFeatures{.items = wanted}, 0);
  other.write(item("a", 6));
  std::this_thread::sleep_for(std::chrono::milliseconds(1));  // past the expiry
  CHECK(items.catalog_with(wanted, false) == nullptr);
  CHECK_FALSE(items.has_stale());
  const CatalogPointer stale = items.catalog_with(wanted, true);
  REQUIRE(stale);
  CHECK(stale->item(stale->find("a")).tokens[0] == 5);
  CHECK(items.has_stale());
  items.find_users({}, 0);
  CHECK_FALSE(items.has_stale());
  const CatalogPointer read = items.catalog_with(wanted, true);
  REQUIRE(read);
  CHECK(read->item(read->find("a")).tokens[0] == 6);
}

TEST_CASE("Redis items: where requests had their items from is counted") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server;
  Router other(options_at(server.address()));
  other.write(item("a", 5)), other.write(item("b", 6));
  ItemSources all;
  const auto counting = [&](Duration expiry) {
    RedisFeatureOptions options = items_at(server.address(), Freshness::behind, expiry);
    options.on_item_sources = [&](const ItemSources& of) {
      all = {all.cached + of.cached, all.stale + of.stale, all.read + of.read};
    };
    return options;
  };
  RedisFeaturePort items(counting({3'600'000'000}), limits, name_item);
  RedisFeaturePort expired(counting({1}), limits, name_item);
  const auto counted = [&](RedisFeaturePort& port, std::vector<std::string> wanted, Freshness freshness) {
    all = {};
    port.run(FindFeatures{.items = std::move(wanted), .freshness = freshness}, 0);
    return std::to_string(all.cached) + " cached, " + std::to_string(all.stale) + " stale, " +
           std::to_string(all.read) + " read";
  };
  CHECK(counted(items, {"a"}, Freshness::exact) == "0 cached, 0 stale, 1 read");
  CHECK(counted(items, {"a", "b", "gone"}, Freshness::wait) == "1 cached, 0 stale, 2 read");
  CHECK(counted(items, {"a", "b", "gone"}, Freshness::exact) == "0 cached, 0 stale, 3 read");
  CHECK(counted(expired, {"a", "b"}, Freshness::wait) == "0 cached, 0 stale, 2 read");
  std::this_thread::sleep_for(std::chrono::milliseconds(1));  // past the expiry
  all = {};
  CHECK(expired.catalog_with(std::vector<std::string>{"a", "b"}, true));
  CHECK(all.stale == 2);
  CHECK(all.cached + all.read == 0);
  CHECK(expired.catalog_with(std::vector<std::string>{"a", "c"}, true) ==
        nullptr);  // to be read by a request
  CHECK(all.stale == 2);
}

TEST_CASE("Redis items: the items of a request's own history are read, too") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server;
  Router whole(options_at(server.address())), exact(items_at(server.address(), Freshness::exact)),
      cached(items_at(server.address(), Freshness::wait));
  whole.write(item("a", 5)), whole.write(item("b", 6));
  const auto ask = [](Router& router, std::vector<std::string> history) {
    FindFeatures wanted{.tenant = "t", .items = {"b"}};
    wanted.history = GivenHistory{.history = std::move(history)};
    return router.port.run(wanted, 0);
  };
  for (Router* router : {&whole, &exact, &cached, &cached}) {
    const JobResult found = ask(*router, {"a", "b", "a"});
    const auto* features = std::get_if<Features>(&found);
    REQUIRE(features);
    CHECK(features->user->tokens == std::vector<Token>{5, 6, 5});
    CHECK(Router::reported(*features, {"b"}) == " b=6");
    CHECK(Router::code(std::get<Refusal>(ask(*router, {"a", "gone"}))) == "unprocessable unknown_item");
  }
}

TEST_CASE("Redis items: stale items of a request without a user are read behind it") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server;
  Router other(options_at(server.address()));
  other.write(item("a", 5));
  CachedFeatures cached(std::make_unique<RedisFeaturePort>(items_at(server.address(), Freshness::behind, {1}),
                                                           limits, name_item),
                        {.usual = Freshness::behind});
  FindFeatures wanted{.tenant = "t", .items = {"a"}};
  wanted.history = GivenHistory{};
  const auto ask = [&] { return std::get<Features>(cached.run(wanted, 0)); };
  ask();
  other.write(item("a", 6));
  std::this_thread::sleep_for(std::chrono::milliseconds(1));  // past the expiry
  CHECK(Router::reported(ask(), {"a"}) == " a=5");
  for (int i = 0; i < 5'000 && cached.has_stale(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK_FALSE(cached.has_stale());
}

TEST_CASE("Redis items: profile and items from caches need no Redis") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server;
  CachedFeatures cached(
      std::make_unique<RedisFeaturePort>(items_at(server.address(), Freshness::wait), limits, name_item),
      {.usual = Freshness::wait});
  cached.run(Write{item("a", 5)}, 0);
  cached.run(Write{user("ann", 7)}, 0);
  const FindFeatures wanted{.tenant = "t", .user = "ann", .items = {"a"}};
  CHECK_FALSE(cached.run_now(wanted));
  CHECK(std::holds_alternative<Features>(cached.run(wanted, 0)));
  server.kill();
  const auto found = cached.run_now(wanted);
  REQUIRE(found);
  CHECK(Router::reported(std::get<Features>(*found), {"a"}) == " a=5");
  CHECK(std::get<Features>(*found).user->tokens[0] == 7);
  const JobResult unread = cached.run(FindFeatures{.tenant = "t", .user = "ann", .items = {"b"}}, 0);
  CHECK(Router::code(std::get<Refusal>(unread)) == away);
}

TEST_CASE("Redis items: more items than one call of Lua takes are read in one round trip") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server;
  Router items(items_at(server.address(), Freshness::exact));
  std::vector<std::string> wanted(9'999, "gone");
  items.write(item("first", 1));
  items.write(item("last", 2));
  wanted.front() = "first", wanted.back() = "last";
  const JobResult result = items.port.run(FindFeatures{.items = wanted}, 0);
  const auto& found = std::get<Features>(result);
  REQUIRE(found.items.size() == wanted.size());
  CHECK(found.catalog->item(found.items.front()).id == "first");
  CHECK(found.catalog->item(found.items.back()).id == "last");
  CHECK(found.items[5'000] == no_item);
}

}  // namespace redis_items_test
}  // namespace troupe
