#include "runtime/redis/redis_evictions.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "runtime/redis/redis_connection_pool.h"
#include "runtime/testing/redis_test_server.h"

namespace troupe {
namespace redis_evictions_test {

RedisStanding standing(const std::string& run, const std::string& policy, std::uint64_t evicted,
                       std::uint64_t maxmemory = 1000) {
  return {run, policy, maxmemory, evicted};
}

TEST_CASE("redis evictions: a policy that evicts keys without time to live is said once for each run") {
  RedisEvictions watch;
  CHECK(watch.note(standing("a", "noeviction", 0)).risk == "");
  CHECK(watch.note(standing("a", "volatile-lru", 0)).risk == "");
  CHECK(watch.note(standing("a", "", 0)).risk == "");
  CHECK(watch.note(standing("a", "allkeys-lru", 0)).risk == "maxmemory-policy allkeys-lru");
  CHECK(watch.note(standing("a", "allkeys-lru", 0)).risk == "");
  CHECK(watch.note(standing("a", "allkeys-random", 0, 0)).risk ==
        "maxmemory-policy allkeys-random, though maxmemory is 0");
  CHECK(watch.note(standing("b", "allkeys-random", 0)).risk == "maxmemory-policy allkeys-random");
}

TEST_CASE("redis evictions: keys that were evicted since the last standing are a loss") {
  RedisEvictions watch;
  const auto first = watch.note(standing("a", "allkeys-lru", 3));
  CHECK(first.loss == "");  // perhaps of others, and told at each start
  CHECK(first.risk == "maxmemory-policy allkeys-lru");
  CHECK(watch.note(standing("a", "allkeys-lru", 3)).loss == "");
  CHECK(watch.note(standing("a", "allkeys-lru", 10)).loss == "7 keys evicted, maxmemory-policy allkeys-lru");
  CHECK(watch.note(standing("a", "allkeys-lru", 9)).loss == "");  // an older standing of another slot
  CHECK(watch.note(standing("a", "allkeys-lru", 11)).loss == "1 keys evicted, maxmemory-policy allkeys-lru");
  CHECK(watch.note(standing("a", "volatile-lru", 20)).loss == "");  // others' keys
  CHECK(watch.note(standing("b", "allkeys-lru", 5)).loss ==
        "");  // a new run, whose keys are judged by version
  CHECK(watch.note(standing("b", "allkeys-lru", 6)).loss == "1 keys evicted, maxmemory-policy allkeys-lru");
}

TEST_CASE("redis evictions: a pool tells the standing at connect, and again while it is used") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server({"--maxmemory-policy", "allkeys-lru", "--maxmemory", "100mb"});
  std::vector<RedisStanding> standings;
  RedisConnectionPool pool({.address = server.address(),
                            .time_limit = std::chrono::seconds(5),
                            .on_standing = [&](const RedisStanding& now) { standings.push_back(now); },
                            .standing_every = std::chrono::microseconds(0)},
                           {"return 1"});
  const auto take = [&] { return std::holds_alternative<RedisFailure>(pool.take(0)) ? "failed" : "taken"; };
  CHECK(take() == std::string("taken"));
  REQUIRE(standings.size() == 1);
  CHECK(standings[0].policy == "allkeys-lru");
  CHECK(standings[0].maxmemory == 100 << 20);
  CHECK(standings[0].evicted == 0);
  CHECK(standings[0].run.size() == 40);
  for (int i = 0; i < 200; ++i) server.say({"SET", "k" + std::to_string(i), std::string(4096, 'x')});
  server.say({"CONFIG", "SET", "maxmemory", "1mb"});
  server.say({"SET", "one", "more"});
  CHECK(take() == std::string("taken"));
  REQUIRE(standings.size() == 2);
  CHECK(standings[1].evicted > 0);
  CHECK(standings[1].run == standings[0].run);
}

TEST_CASE("redis evictions: a Redis Cluster and a Sentinel are refused by name, and the reason is kept") {
  const auto why_of = [](const std::string& mode) {
    FakeServer server([&](int peer) {
      std::string heard;
      while (heard.find("\r\nserver\r\n") == std::string::npos) {
        const std::string more = FakeServer::hear(peer);
        if (more.empty()) return;
        heard += more;
      }
      const std::string info = "run_id:1\r\nredis_mode:" + mode + "\r\n";
      const std::string first = "-ERR unknown command\r\n";  // as a Sentinel answers SCRIPT LOAD
      FakeServer::tell(peer, first + "$1\r\nx\r\n$1\r\nx\r\n$11\r\nrole:master\r\n$" +
                                 std::to_string(info.size()) + "\r\n" + info + "\r\n");
      while (!FakeServer::hear(peer).empty()) {
      }
    });
    RedisConnectionPool pool({.address = server.address(),
                              .time_limit = std::chrono::seconds(5),
                              .reconnect_pause = std::chrono::seconds(60)},
                             {"return 1"});
    const auto failed = [&] {
      auto taken = pool.take(0);
      const auto* failure = std::get_if<RedisFailure>(&taken);
      return failure ? failure->why : "taken";
    };
    const std::string why = failed();
    CHECK(failed() == "it was unreachable a moment ago: " + why);
    return why;
  };
  CHECK(why_of("cluster") == "it is a Redis Cluster; expected one Redis, with or without replicas");
  CHECK(why_of("sentinel") == "it is a Redis Sentinel; expected the Redis that it watches");
  CHECK(why_of("standalone") == "it answers SCRIPT with ERR");
}

}  // namespace redis_evictions_test
}  // namespace troupe
