#include "runtime/redis/redis_memory.h"

#include <doctest/doctest.h>

#include "runtime/testing/redis_features_test.h"

using namespace troupe;
using namespace troupe::redis_test;

namespace {

StorePoint at(const char* run, const char* origin, std::uint64_t catalog, std::uint64_t profiles) {
  StorePoint point;
  point.at = {run, origin, catalog};
  point.profiles = profiles;
  return point;
}

RedisFeatureOptions watched(const RedisAddress& address, std::string& reported) {
  RedisFeatureOptions options = options_at(address);
  options.on_loss = [&reported](const std::string& what) { reported = what; };
  return options;
}

}  // namespace

TEST_CASE("redis memory: a store that returns with less has lost data, reported once") {
  RedisMemory memory;
  CHECK(memory.note(at("1", "a", 5, 7)).empty());
  CHECK(memory.note(at("1", "a", 4, 7)).empty());  // a late slot
  CHECK(memory.note(at("2", "a", 5, 7)).empty());  // a restart that lost nothing
  CHECK(memory.note(at("2", "", 0, 0)) == "catalog version 0 after 5, profile version 0 after 7");
  CHECK(memory.note(at("2", "", 0, 0)).empty());
  CHECK(memory.catalog() == 5);
  CHECK(memory.profiles() == 7);
}

TEST_CASE("redis memory: a lost profile alone is a loss") {
  RedisMemory memory;
  memory.note(at("1", "a", 5, 7));
  CHECK_FALSE(memory.note(at("2", "a", 5, 6)).empty());
}

TEST_CASE("redis memory: a Redis that returns empty is reported, and versions continue") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server;
  std::string reported;
  Router router(watched(server.address(), reported));
  router.write(item("a", 1)), router.write(user("ann", 1)), router.write(user("bob", 1));
  CHECK(router.find("ann", {"a"}) == "c1 ann=1 a=1");
  CHECK(reported.empty());
  server.restart();
  CHECK(router.find("ann", {"a"}) == "c0 ann=- a=-");
  CHECK(reported == "catalog version 0 after 1, profile version 0 after 2");
  CHECK(router.write(item("a", 1)) == "2");
  CHECK(router.write(user("ann", 1)) == "3");
  CHECK(router.write(DeleteUser{0, "t", "ann"}) == "4");
  CHECK(router.write(DeleteItem{0, "a"}) == "3");
}

TEST_CASE("redis memory: a Redis imported for another model is refused") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server;
  Router importer(options_at(server.address()));
  const PutItem items[] = {item("a", 1)};
  importer.port.import({.items = items, .made_for = "theirs"});
  CHECK(importer.port.made_for() == "theirs");
  RedisFeatureOptions options = options_at(server.address());
  options.refuses = [](const std::string& made_for) {
    return made_for == "ours" ? "" : "it was imported for another model";
  };
  Router router(options);
  CHECK(router.find("", {"a"}) == away);
  CHECK(router.port.made_for() == "theirs");
  importer.port.note_made_for("ours");
  CHECK(router.find("", {"a"}) == "c1 a=1");
}
