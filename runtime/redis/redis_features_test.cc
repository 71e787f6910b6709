#include "runtime/redis/redis_features.h"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "runtime/store/store.h"
#include "runtime/testing/redis_features_test.h"

using namespace troupe;
using namespace troupe::redis_test;

namespace {

std::uint64_t bytes_sent(RedisTestServer& server) {
  const std::string stats = server.say({"INFO", "stats"}), name = "total_net_output_bytes:";
  const std::size_t at = stats.find(name);
  REQUIRE(at != std::string::npos);
  return std::stoull(stats.substr(at + name.size()));
}

}  // namespace

TEST_CASE("redis features: a write at one router is in every other's next answer") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server;
  Router one(options_at(server.address())), other(options_at(server.address()));
  CHECK(one.find("ann", {"a"}) == "c0 ann=- a=-");
  CHECK(other.write(item("a", 1)) == "1");
  CHECK(one.find("ann", {"a"}) == "c1 ann=- a=1");
  CHECK(one.write(history("ann", {"a"})) == "1");
  CHECK(other.find("ann", {"a"}) == "c1 ann=1 a=1");
  CHECK(one.write(item("b", 2)) == "2");
  CHECK(other.write(history("ann", {"b"})) == "2");  // its memory does not have b yet
  CHECK(one.find("ann", {}) == "c2 ann=2");
  CHECK(one.write(DeleteItem{0, "b"}) == "3");
  CHECK(other.write(history("ann", {"b"})) == "unprocessable unknown_item");  // its memory still has b
  CHECK(other.write(item("a", 5)) == "4");
  CHECK(one.write(history("ann", {"a"})) == "3");  // not what its memory has
  CHECK(other.find("ann", {"a", "b"}) == "c4 ann=5 a=5 b=-");
  CHECK(other.write(DeleteUser{0, "t", "ann"}) == "4");
  CHECK(one.find("ann", {}) == "c4 ann=-");
  CHECK(one.write(DeleteUser{0, "t", "ann"}) == "not_found unknown_user");
  CHECK(one.list() == "a");
}

TEST_CASE("redis features: prefixes and databases isolate routers from each other") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server;
  RedisFeatureOptions prefixed = options_at(server.address()), numbered = prefixed;
  prefixed.prefix = "other:", numbered.address.database = 1;
  Router one(options_at(server.address())), other(prefixed), third(numbered);
  one.write(item("a", 1)), one.write(user("ann", 1));
  CHECK(other.find("ann", {"a"}) == "c0 ann=- a=-");
  CHECK(third.find("ann", {"a"}) == "c0 ann=- a=-");
}

TEST_CASE("redis features: a router that missed more deletions than are remembered reads the whole catalog") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server;
  RedisFeatureOptions options = options_at(server.address());
  options.deletions_max = 2;
  Router writer(options), reader(options);
  for (int i = 0; i < 20; ++i) writer.write(item("i" + std::to_string(i), i));
  CHECK(reader.find("", {"i0", "i19"}) == "c20 i0=0 i19=19");
  writer.write(DeleteItem{0, "i0"}), writer.write(DeleteItem{0, "i1"});
  CHECK(reader.find("", {"i0", "i1", "i2"}) == "c22 i0=- i1=- i2=2");
  for (int i = 2; i < 10; ++i) writer.write(DeleteItem{0, "i" + std::to_string(i)});
  writer.write(item("i0", 77));
  CHECK(server.say({"HGET", "troupe:meta", "trimmed"}) == "28");
  CHECK(server.say({"ZCARD", "troupe:log"}) == "13");  // ten items, i0 again, two deletions
  CHECK(reader.find("", {"i0", "i2", "i7", "i9", "i10"}) == "c31 i0=77 i2=- i7=- i9=- i10=10");
  CHECK(reader.port.items() == 11);
  Router late(options);
  CHECK(late.list() == reader.list());
  CHECK(late.port.items() == 11);

  // An item that is put again is not a deletion to drop.
  writer.write(DeleteItem{0, "i11"}), writer.write(item("i11", 78));
  writer.write(DeleteItem{0, "i12"}), writer.write(DeleteItem{0, "i13"});
  Router later(options);
  CHECK(later.find("", {"i11", "i12"}) == "c35 i11=78 i12=-");
}

TEST_CASE("redis features: a damaged record, or one under another key, is a counted miss") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server;
  Router writer(options_at(server.address()));
  writer.write(item("a", 1)), writer.write(item("b", 2)), writer.write(user("ann", 1));
  writer.write(user("bob", 2));
  server.say({"HSET", "troupe:items", "b", server.say({"HGET", "troupe:items", "a"})});
  const RedisKeys keys("troupe:");
  server.say({"SET", keys.user(user_key("t", "bob")), server.say({"GET", keys.user(user_key("t", "ann"))})});
  Router reader(options_at(server.address()));
  CHECK(reader.find("bob", {"a", "b"}) == "c2 bob=- a=1 b=-");
  CHECK(reader.port.bad_records() == 2);
  CHECK(reader.write(item("b", 3)) == "3");
  CHECK(reader.write(user("bob", 3)) == "3");
  CHECK(reader.find("bob", {"a", "b"}) == "c3 bob=3 a=1 b=3");
}

TEST_CASE("redis features: lost scripts are loaded again") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server;
  Router router(options_at(server.address()));
  CHECK(router.write(item("a", 1)) == "1");
  server.say({"SCRIPT", "FLUSH"});
  CHECK(router.find("", {"a"}) == "c1 a=1");
  server.say({"SCRIPT", "FLUSH"});
  CHECK(router.write(item("a", 2)) == "2");
}

TEST_CASE("redis features: many executors that miss the catalog read it once, and all answer from it") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server;
  constexpr std::uint32_t connections = 16;
  RedisFeatureOptions options = options_at(server.address());
  options.connections = connections, options.page_items = 256;
  options.time_limit = std::chrono::seconds(20);
  Router writer(options_at(server.address())), router(options);
  const auto find = [&](std::uint32_t connection) {
    const JobResult result = router.port.run(FindFeatures{"t", "", {"i0", "i999"}}, connection);
    const auto* found = std::get_if<Features>(&result);
    return found ? found->catalog->version() + Router::reported(*found, {"i0", "i999"}) : "refused";
  };
  for (std::uint32_t connection = 0; connection < connections; ++connection) find(connection);
  std::vector<PutItem> items;
  for (int i = 0; i < 1'000; ++i) items.push_back(item("i" + std::to_string(i), i));
  writer.port.import_items(items);
  const std::uint64_t before = bytes_sent(server);
  Router(options_at(server.address())).find("", {});
  const std::uint64_t once = bytes_sent(server) - before;

  server.pause();  // so that all ask before the first has an answer
  std::vector<std::string> answers(connections);
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < connections; ++i) threads.emplace_back([&, i] { answers[i] = find(i); });
  poll(nullptr, 0, 200);
  server.go_on();
  for (std::thread& thread : threads) thread.join();
  CHECK(bytes_sent(server) - before - once < 2 * once);
  for (const std::string& answer : answers) CHECK(answer == "c1000 i0=0 i999=999");
}

TEST_CASE("redis features: an emptied store is read as a new one, even if nobody saw it empty") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server;
  Router one(options_at(server.address())), other(options_at(server.address()));
  one.write(item("a", 1)), one.write(item("b", 2));
  CHECK(one.find("", {"a", "b"}) == "c2 a=1 b=2");
  server.say({"FLUSHALL"});
  CHECK(one.find("", {"a", "b"}) == "c0 a=- b=-");
  other.write(item("a", 1)), other.write(item("b", 2));
  CHECK(one.find("", {"a", "b"}) == "c2 a=1 b=2");
  server.say({"FLUSHALL"});
  Router third(options_at(server.address()));
  third.write(item("c", 3)), third.write(item("d", 4));
  CHECK(one.find("", {"a", "c"}) == "c2 a=- c=3");
}

TEST_CASE("redis features: a failed import names its server and the rows stored") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server;
  RedisFeatureOptions options = options_at(server.address());
  options.address.password = "secret";
  server.say({"CONFIG", "SET", "requirepass", "secret"});
  Router router(options);
  const PutItem items[] = {item("a", 1), item("a", 2), item("b", 3)};
  router.port.import_items(items);
  CHECK(router.find("", {"a", "b"}) == "c3 a=2 b=3");
  server.kill();
  std::string error;
  try {
    router.port.import_items(items);
  } catch (const StoreError& failure) {
    error = failure.what();
  }
  CHECK(error.find("item import: redis://127.0.0.1:") == 0);
  CHECK(error.find("expected to store all rows, stored 0") != std::string::npos);
  CHECK(error.find("secret") == std::string::npos);
}

TEST_CASE("redis features: an import resolves a history again if its items changed") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server;
  std::vector<PutUser> users(2'000, history("ann", {"a"}));
  for (std::size_t i = 0; i < users.size(); ++i) users[i].user = "u" + std::to_string(i);
  RedisFeatureOptions options = options_at(server.address());
  options.time_limit = std::chrono::seconds(10);
  Router importer(options), writer(options);
  writer.write(item("a", 1));
  std::atomic<bool> stop = false;
  std::thread thread([&] {
    for (Token n = 2; !stop; ++n) writer.write(item("a", n)), poll(nullptr, 0, 1);
  });
  CHECK_NOTHROW(importer.port.import_users(users));
  stop = true;
  thread.join();
  CHECK(server.say({"DBSIZE"}) == "2003");  // the users, meta, items and log
}
