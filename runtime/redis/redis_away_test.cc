// Makes Redis unreachable in several ways: tests what is refused, what is served as last known, and
// what happens when it returns.
#include <doctest/doctest.h>

#include <atomic>
#include <random>

#include "runtime/testing/redis_features_test.h"

using namespace troupe;
using namespace troupe::redis_test;

namespace {

constexpr WhenAway last_known = WhenAway::last_known;

// Returns text for requests to a Redis that does not answer.
RedisFeatureOptions impatient(const RedisAddress& address, WhenAway when_away = WhenAway::refuse) {
  RedisFeatureOptions options = options_at(address, when_away);
  options.time_limit = std::chrono::milliseconds(400);
  return options;
}

std::string why(Router& router, const Job& job) {
  const JobResult result = router.port.run(job, 0);
  const auto* refusal = std::get_if<Refusal>(&result);
  return refusal ? refusal->what : "";
}

std::string bulk(const std::string& text) {
  return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}

// Greets like a Redis, then answers each command with the next of `answers`, repeating the last
// one.
struct Impostor {
  std::vector<std::string> answers;
  std::atomic<std::size_t> next = 0;
  FakeServer server;
  explicit Impostor(std::vector<std::string> a)
      : answers(std::move(a)), server([this](int peer) {
          std::string greeting;
          for (std::size_t i = 0; i < redis_scripts().size(); ++i) greeting += bulk("sha");
          greeting += bulk("maxmemory_policy:noeviction\r\n") + bulk("evicted_keys:0\r\n");
          greeting += bulk("role:master\r\n") + bulk("run_id:1\r\n");
          std::string heard;  // a greeting may arrive in parts
          while (heard.find("\r\nserver\r\n") == std::string::npos) {
            const std::string more = FakeServer::hear(peer);
            if (more.empty()) return;
            heard += more;
          }
          FakeServer::tell(peer, greeting);
          while (!FakeServer::hear(peer).empty()) {
            FakeServer::tell(peer, answers[next]);
            if (next + 1 < answers.size()) ++next;
          }
        }) {}
};

// An empty catalog, and no user.
const std::string nothing_there = "*8\r\n" + bulk("o") + ":0\r\n:0\r\n*0\r\n*0\r\n$-1\r\n:0\r\n$-1\r\n";

}  // namespace

TEST_CASE("redis away: a router started without Redis refuses, and serves when it appears") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server({"--appendonly", "yes", "--appendfsync", "always"});
  Router(options_at(server.address())).write(item("a", 1));
  server.kill();
  Router router(options_at(server.address())), lenient(options_at(server.address(), last_known));
  CHECK(router.find("", {"a"}) == away);
  CHECK(lenient.find("", {"a"}) == away);
  CHECK(lenient.list() == away);
  CHECK(router.write(item("a", 2)) == away);
  server.start();
  CHECK(router.find("", {"a"}) == "c1 a=1");
  CHECK(lenient.list() == "a");
}

TEST_CASE("redis away: an import reports it, and that nothing was stored") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server({"--appendonly", "yes", "--appendfsync", "always"});
  Router router(options_at(server.address()));
  router.write(item("a", 1));
  server.kill();
  const std::vector<PutItem> items{item("b", 1)};
  const std::vector<PutUser> users{history("ann", {"a"})};
  CHECK_THROWS_WITH_AS(router.port.import_items(items), doctest::Contains(describe(server.address()).c_str()),
                       std::exception);
  CHECK_THROWS_AS(router.port.import_users(users), std::exception);
  server.start();
  CHECK(router.find("", {"a"}) == "c1 a=1");
  CHECK(router.list() == "a");
}

TEST_CASE("redis away: a restart keeps appended writes for routers that had read them") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server({"--appendonly", "yes", "--appendfsync", "always"});
  Router router(options_at(server.address()));
  router.write(item("a", 1)), router.write(history("ann", {"a"}));
  CHECK(router.find("ann", {"a"}) == "c1 ann=1 a=1");
  server.kill();
  CHECK(router.find("ann", {"a"}) == away);
  CHECK(router.write(user("ann", 2)) == away);
  CHECK(router.list() == away);
  server.start();
  CHECK(router.find("ann", {"a"}) == "c1 ann=1 a=1");
  CHECK(router.write(item("a", 2)) == "2");
  server.restart();  // without requests meanwhile
  CHECK(router.write(user("ann", 3)) == "2");
  CHECK(router.find("ann", {"a"}) == "c2 ann=3 a=2");
}

TEST_CASE("redis away: writes lost by a restart do not stay in a router's memory") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server;
  Router one(options_at(server.address())), other(options_at(server.address()));
  one.write(item("a", 1));
  server.say({"SAVE"});
  one.write(item("a", 2)), one.write(item("c", 2));
  CHECK(one.find("", {"a", "b", "c"}) == "c3 a=2 b=- c=2");
  server.restart();
  other.write(item("b", 3)), other.write(item("b", 4));  // versions 2 and 3 again
  CHECK(one.find("", {"a", "b", "c"}) == "c3 a=1 b=4 c=-");
}

TEST_CASE("redis away: with a silent Redis reads are refused, writes unknown, and replies stay in step") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server;
  Router router(impatient(server.address()));
  router.write(item("a", 1)), router.write(user("ann", 1));
  server.pause();
  CHECK(why(router, FindFeatures{"t", "ann", {"a"}}) ==
        "the shared feature store is away: no answer in time");
  server.go_on();
  CHECK(router.find("ann", {"a"}) == "c1 ann=1 a=1");
  server.pause();
  CHECK(router.write(user("ann", 2)) == unknown);
  CHECK(router.write(user("ann", 3)) == away);  // not even connected: certainly not stored
  CHECK(router.write(item("a", 3)) == away);
  server.go_on();
  const std::string found = router.find("ann", {"a"});
  CHECK((found == "c1 ann=1 a=1" || found == "c1 ann=2 a=1"));
  CHECK(router.find("bob", {"a"}) == "c1 bob=- a=1");
}

TEST_CASE("redis away: last_known serves each user as read last, with that reading's items") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server;
  Router writer(options_at(server.address())), router(options_at(server.address(), last_known));
  writer.write(item("a", 1)), writer.write(item("b", 1)), writer.write(item("c", 1));
  for (const char* id : {"ann", "bob", "cid"}) writer.write(user(id, 1));
  CHECK(router.find("ann", {"a", "b", "c", "d"}) == "c3 ann=1 a=1 b=1 c=1 d=-");
  writer.write(item("a", 2)), writer.write(DeleteItem{0, "b"}), writer.write(item("d", 2));
  writer.write(user("ann", 2)), writer.write(user("bob", 2));
  CHECK(router.find("bob", {"a", "b"}) == "c6 bob=2 a=2 b=-");
  writer.write(item("c", 3));
  server.kill();
  CHECK(router.find("ann", {"a", "b", "c", "d"}) == "c3 ann=1 a=1 b=1 c=1 d=-");
  CHECK(router.find("bob", {"a", "b", "c", "d"}) == "c6 bob=2 a=2 b=- c=1 d=2");
  CHECK(router.find("", {"a", "b", "c", "d"}) == "c6 a=2 b=- c=1 d=2");
  CHECK(std::get<Features>(router.port.run(FindFeatures{"t", "bob", {}}, 0)).of == Features::Source::stale);
  CHECK(router.find("cid", {"a"}) == away);
  CHECK(router.list() == "acd");
  CHECK(router.write(user("ann", 4)) == away);
  CHECK(router.write(item("a", 4)) == away);
  CHECK(writer.find("ann", {"a"}) == away);
  const JobResult pinned = router.port.run(FindFeatures{"t", "ann", {"a"}, "", "c6"}, 0);
  CHECK(std::get<Refusal>(pinned).code == "wrong_catalog");
  CHECK(std::get<Refusal>(pinned).expected == "\"c3\"");
}

TEST_CASE("redis away: a plan's catalog version is found after later ones, and without Redis") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server;
  Router writer(options_at(server.address())), worker(options_at(server.address()));
  const auto tokens = [&](const char* version) -> std::string {
    const CatalogPointer catalog = worker.port.catalog_at(version);
    if (!catalog) return "none";
    CHECK(catalog->version() == version);
    std::string text;
    for (const char* id : {"a", "b"}) {
      const ItemNumber item = catalog->find(id);
      text += item != no_item ? std::to_string(catalog->item(item).tokens[0]) : "-";
    }
    return text;
  };
  writer.write(item("a", 1)), writer.write(item("b", 1));
  CHECK(tokens("c2") == "11");
  writer.write(item("a", 2)), writer.write(item("b", 2)), writer.write(item("c", 2));
  CHECK(tokens("c3") == "21");  // the worker's first request since c2, which returns c5
  CHECK(tokens("c4") == "22");
  CHECK(tokens("c5") == "22");
  CHECK(tokens("c2") == "11");
  writer.write(item("b", 3)), writer.write(item("b", 4));
  worker.list();  // like a router that looks now and then
  server.kill();
  CHECK(tokens("c7") == "24");
  CHECK(tokens("c6") == "none");  // hidden by c7, and must not be guessed
  CHECK(tokens("c4") == "22");
  CHECK(tokens("c2") == "11");
}

TEST_CASE("redis away: last_known does not serve what this router wrote, may have written, or saw deleted") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server;
  Router writer(options_at(server.address())), router(impatient(server.address(), last_known));
  writer.write(item("a", 1));
  for (const char* id : {"ann", "bob", "cid", "dan"}) writer.write(user(id, 1));
  for (const char* id : {"ann", "bob", "cid", "dan"}) router.find(id, {"a"});
  router.write(user("ann", 2));
  writer.write(DeleteUser{0, "t", "bob"});
  CHECK(router.find("bob", {}) == "c1 bob=-");
  router.write(item("a", 2));
  server.pause();
  CHECK(router.write(user("cid", 2)) == unknown);
  CHECK(router.find("dan", {"a"}) == "c1 dan=1 a=1");
  CHECK(router.find("", {"a"}) == "c2 a=2");  // its own write is in its catalog
  for (const char* id : {"ann", "bob", "cid"}) CHECK(router.find(id, {"a"}) == away);
  server.go_on();
  CHECK(router.find("ann", {"a"}) == "c2 ann=2 a=2");
}

TEST_CASE("redis away: last_known refuses a reading since which too many items changed") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server;
  RedisFeatureOptions options = options_at(server.address(), last_known);
  options.catalog_history_max = 6;  // three steps of one item
  Router writer(options_at(server.address())), router(options);
  writer.write(item("a", 1)), writer.write(user("ann", 1)), writer.write(user("bob", 1));
  router.find("ann", {"a"});
  writer.write(item("a", 2));
  router.find("bob", {"a"});
  for (Token n = 3; n < 6; ++n) writer.write(item("a", n)), router.find("", {});
  server.kill();
  CHECK(router.find("bob", {"a"}) == "c2 bob=1 a=2");
  CHECK(why(router, FindFeatures{"t", "ann", {"a"}}).find("its catalog is not known here") !=
        std::string::npos);
}

TEST_CASE("redis away: a full Redis refuses additions, accepts deletions and serves reads") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server;
  Router router(options_at(server.address()));
  router.write(item("a", 1)), router.write(user("ann", 1));
  server.say({"CONFIG", "SET", "maxmemory", "1"});
  CHECK(router.write(item("b", 1)) == away);
  CHECK(router.write(user("ann", 2)) == away);
  CHECK(router.find("ann", {"a", "b"}) == "c1 ann=1 a=1 b=-");
  CHECK(router.write(DeleteItem{0, "a"}) == "2");
  CHECK(router.write(DeleteUser{0, "t", "ann"}) == "2");
  server.say({"CONFIG", "SET", "maxmemory", "0"});
  CHECK(router.write(item("b", 1)) == "3");
  CHECK(router.find("ann", {"a", "b"}) == "c3 ann=- a=- b=1");
}

TEST_CASE("redis away: a replica counts as away until it is a master again") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server;
  Router router(options_at(server.address()));
  router.write(item("a", 1));
  server.say({"CONFIG", "SET", "replica-serve-stale-data", "yes"});
  server.say({"REPLICAOF", "127.0.0.1", "1"});
  CHECK(why(router, Write{item("a", 2)}) == "the shared feature store is away: it answers with READONLY");
  CHECK(why(router, Write{item("a", 2)}) == "the shared feature store is away: it is a replica");
  CHECK(router.find("", {"a"}) == away);
  server.say({"REPLICAOF", "NO", "ONE"});
  CHECK(router.find("", {"a"}) == "c1 a=1");
  CHECK(router.write(item("a", 2)) == "2");
}

TEST_CASE("redis away: a write confirmed by too few replicas is answered outcome_unknown") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server({"--repl-diskless-sync-delay", "0"}), replica;
  RedisFeatureOptions options = options_at(server.address());
  options.wait_replicas = 1, options.time_limit = std::chrono::seconds(2);
  Router router(options);
  CHECK(router.write(item("a", 1)) == unknown);
  CHECK(router.find("", {"a"}) == "c1 a=1");
  CHECK(router.write(DeleteItem{0, "b"}) == "not_found unknown_item");  // nothing was written
  replica.say({"REPLICAOF", "127.0.0.1", std::to_string(server.address().port)});
  std::string written = unknown;
  for (int tries = 0; tries < 30 && written == unknown; ++tries) written = router.write(item("a", 2));
  CHECK(written != unknown);
}

TEST_CASE("redis away: each not-ready error gives a refusal or the last known answer") {
  for (const std::string error :
       {"LOADING Redis is loading", "BUSY a script", "MASTERDOWN no link", "ERR odd"}) {
    CAPTURE(error);
    Impostor impostor({nothing_there, nothing_there, "-" + error + "\r\n"});
    Router strict(options_at(impostor.server.address()));
    CHECK(strict.find("", {"a"}) == "c0 a=-");
    CHECK(strict.find("", {"a"}) == away);
  }
  for (const std::string error : {"LOADING", "BUSY", "OOM", "READONLY", "MISCONF"}) {
    Impostor impostor({nothing_there, "-" + error + " x\r\n"});
    CHECK(Router(options_at(impostor.server.address())).write(item("a", 1)) == away);
  }
  Impostor odd({nothing_there, "-ERR in the midst of the script\r\n"});
  CHECK(Router(options_at(odd.server.address())).write(item("a", 1)) == unknown);
  Impostor hung_up({nothing_there, nothing_there, "-LOADING\r\n"});
  Router lenient(options_at(hung_up.server.address(), last_known));
  CHECK(lenient.find("", {"a"}) == "c0 a=-");
  CHECK(lenient.find("", {"a"}) == "c0 a=-");
  CHECK(lenient.find("ann", {"a"}) == away);
}

TEST_CASE("redis away: malformed replies count as no reply") {
  const std::string endless = "*6\r\n" + bulk("o") + ":0\r\n:9000\r\n*8\r\n" + bulk("a") + bulk("1") +
                              bulk("b") + bulk("2") + bulk("c") + bulk("3") + bulk("d") + bulk("4") +
                              "*4\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n";
  for (const std::string& answer :
       {std::string("+OK\r\n"), std::string("*0\r\n"), std::string("$-1\r\n"), std::string("junk\r\n"),
        std::string("*8\r\n"), nothing_there + nothing_there, std::string("HTTP/1.1 200 OK\r\n\r\n"),
        endless}) {
    CAPTURE(answer);
    Impostor impostor({nothing_there, answer});
    CHECK(Router(impatient(impostor.server.address())).find("ann", {"a"}) == away);
    Impostor writable({nothing_there, answer});
    CHECK(Router(impatient(writable.server.address())).write(item("a", 1)) == unknown);
  }
}

TEST_CASE("redis away: a key of another type fails one user of a batch; without Redis all fail") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server;
  Router router(impatient(server.address()));
  router.write(user("ann", 1)), router.write(user("bob", 2));
  const std::string ann = user_key("t", "ann"), bob = user_key("t", "bob");
  const std::string of_ann = RedisKeys(options_at(server.address()).prefix).user(ann);
  server.say({"DEL", of_ann});
  server.say({"LPUSH", of_ann, "x"});
  const std::vector<std::string> keys{ann, bob};
  const auto found = router.port.find_users(keys, 0);
  CHECK_FALSE(found.at(0).read);
  REQUIRE(found.at(1).user);
  CHECK(found[1].user->tokens == std::vector<Token>{2});
  CHECK(router.find("ann", {}) == "unavailable features_unavailable");
  CHECK(router.find("bob", {}).find("bob=2") != std::string::npos);
  server.kill();
  for (const UserReading& one : router.port.find_users(keys, 0)) CHECK_FALSE(one.read);
}

TEST_CASE("redis away: random damage to a reply causes at most a refusal or a miss") {
  const std::uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const std::string row = encode_item({"a", "title", {1}, 9, {}}, 0, "a");
  const std::string page = "*8\r\n" + bulk("o") + ":0\r\n:1\r\n*2\r\n" + bulk("a") + bulk("1") + "*1\r\n" +
                           bulk(row) + bulk("1 " + encode_profile({0, {5}, {1}}, user_key("t", "ann"))) +
                           ":1\r\n$-1\r\n";
  std::vector<std::string> answers = {page, page};
  for (int i = 0; i < 400; ++i) {
    std::string damaged = page;
    for (std::uint64_t n = 1 + random() % 3; n > 0; --n) {
      const std::size_t at = random() % damaged.size();
      if (random() % 4 == 0)
        damaged.erase(at, 1 + random() % 8);
      else
        damaged[at] = random() % 2 ? static_cast<char>(random()) : "*$:-+0123456789\r\n"[random() % 17];
    }
    answers.push_back(damaged + "\r\n+x\r\n");
  }
  Impostor impostor(answers);
  RedisFeatureOptions options = options_at(impostor.server.address());
  options.time_limit = std::chrono::milliseconds(20);
  Router router(options);
  CHECK(router.find("ann", {"a"}) == "c1 ann=5 a=1");
  while (impostor.next + 1 < answers.size()) {
    const std::string found = router.find("ann", {"a"});
    CHECK((found == away || found.find("ann=5") != std::string::npos ||
           found.find("ann=-") != std::string::npos));
  }
}
