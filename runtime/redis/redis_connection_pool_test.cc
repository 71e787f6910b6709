#include "runtime/redis/redis_connection_pool.h"

#include <doctest/doctest.h>

#include "runtime/testing/redis_test_server.h"

using namespace troupe;

namespace {

std::string taken_from(RedisConnectionPool& connections) {
  auto taken = connections.take(0);
  const auto* failure = std::get_if<RedisFailure>(&taken);
  return failure ? failure->why : "taken";
}

}  // namespace

TEST_CASE("redis lanes: all may connect while Redis is reachable; after a failure one per pause") {
  ReconnectGate gate(std::chrono::milliseconds(50));
  const RedisDeadline start;
  const auto at = [&](int ms) { return start + std::chrono::milliseconds(ms); };
  CHECK(gate.enter(at(0)));
  CHECK(gate.enter(at(0)));
  gate.leave(at(10), true);
  gate.leave(at(10), false);
  CHECK_FALSE(gate.enter(at(59)));
  CHECK(gate.enter(at(60)));
  CHECK_FALSE(gate.enter(at(1000)));  // one is trying
  gate.leave(at(1000), false);
  CHECK(gate.enter(at(1050)));
  gate.leave(at(1051), true);
  CHECK(gate.enter(at(1051)));
  CHECK(gate.enter(at(1051)));
}

TEST_CASE("redis lanes: a login is used, and a wrong one is reported without its text") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server({"--requirepass", "open sesame"});
  const auto with = [&](const std::string& user, const std::string& password) {
    RedisAddress address = server.address();
    address.user = user, address.password = password, address.database = 3;
    RedisConnectionPool connections({.address = address, .time_limit = std::chrono::seconds(5)},
                                    {"return 1"});
    return taken_from(connections);
  };
  CHECK(with("", "open sesame") == "taken");
  CHECK(with("default", "open sesame") == "taken");
  CHECK(with("", "open barley") == "it answers AUTH with WRONGPASS");
  CHECK(with("", "") == "it answers SELECT with NOAUTH");
}

TEST_CASE("redis lanes: a replica, a missing database and a server without a role are refused") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server;
  RedisAddress address = server.address();
  address.database = 99;
  RedisConnectionPool beyond({.address = address, .time_limit = std::chrono::seconds(5)}, {});
  CHECK(taken_from(beyond) == "it answers SELECT with ERR");
  server.say({"REPLICAOF", "127.0.0.1", "1"});
  RedisConnectionPool replica({.address = server.address(), .time_limit = std::chrono::seconds(5)}, {});
  CHECK(taken_from(replica) == "it is a replica");
  FakeServer mute([](int peer) {
    while (!FakeServer::hear(peer).empty())
      FakeServer::tell(peer, "$1\r\nx\r\n$1\r\nx\r\n$11\r\nrole:master\r\n$1\r\nx\r\n");
  });
  RedisConnectionPool hidden({.address = mute.address(), .time_limit = std::chrono::seconds(5)}, {});
  CHECK(taken_from(hidden) == "it does not tell its run_id");
}

TEST_CASE("redis lanes: only an error's code is reported") {
  const auto code = [](const std::string& text) {
    return error_code({.kind = RedisReply::Kind::error, .text = text});
  };
  CHECK(code("LOADING Redis is loading the dataset in memory") == "LOADING");
  CHECK(code("ERR") == "ERR");
  CHECK(code("secret words") == "an error");
  CHECK(code("") == "an error");
}
