#include "runtime/redis/redis_connection.h"

#include <doctest/doctest.h>

#include "runtime/testing/redis_test_server.h"

using namespace troupe;

namespace {

using Kind = RedisReply::Kind;

RedisDeadline in(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }

const std::vector<RedisCommand> two_pings = {{"PING"}, {"PING", "again"}};

// Returns the result of two commands whose reply bytes are `answer`.
OrRedisFailure<std::vector<RedisReply>> run_against(const std::string& answer,
                                                    const RedisReplyLimits& limits = {}) {
  FakeServer server([&](int peer) {
    FakeServer::hear(peer);
    FakeServer::tell(peer, answer);
    while (!FakeServer::hear(peer).empty()) {
    }
  });
  auto open = RedisConnection::open(server.address(), in(std::chrono::seconds(5)), limits);
  if (auto* failure = std::get_if<RedisFailure>(&open)) return *failure;
  return std::get<std::unique_ptr<RedisConnection>>(open)->run(two_pings, in(std::chrono::milliseconds(100)));
}

std::string failure_of(const std::string& answer, const RedisReplyLimits& limits = {}) {
  const auto result = run_against(answer, limits);
  const auto* failure = std::get_if<RedisFailure>(&result);
  if (!failure) return "";
  CHECK(failure->may_have_run);
  return failure->why;
}

}  // namespace

TEST_CASE("redis connection: replies of every kind come back in order") {
  const auto result = run_against("*5\r\n$3\r\na\r\n\r\n:-7\r\n$-1\r\n*0\r\n*1\r\n+OK\r\n-ERR no\r\n");
  REQUIRE(std::holds_alternative<std::vector<RedisReply>>(result));
  const auto& replies = std::get<std::vector<RedisReply>>(result);
  REQUIRE(replies.size() == 2);
  REQUIRE(replies[0].list.size() == 5);
  CHECK(replies[0].list[0].is(Kind::text));
  CHECK(replies[0].list[0].text == "a\r\n");
  CHECK(replies[0].list[1].integer == -7);
  CHECK(replies[0].list[2].is(Kind::nil));
  CHECK(replies[0].list[3].is(Kind::list));
  CHECK(replies[0].list[4].list[0].is(Kind::status));
  CHECK(replies[1].is(Kind::error));
  CHECK(replies[1].text == "ERR no");
}

TEST_CASE("redis connection: hostile bytes end only the connection") {
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "*1\r\n";
  for (const std::string& answer :
       {std::string("HTTP/1.1 400 Bad Request\r\n\r\n"), std::string(100, '\0'), deep,
        std::string("*4294967296\r\n:1\r\n"), std::string("*4294967297\r\n:1\r\n:2\r\n"),
        std::string("*2147483647\r\n:1\r\n"), std::string("*-2\r\n:1\r\n"), std::string("$-2\r\n\r\n"),
        std::string("$99999999999999999999\r\nx"), std::string(":12x\r\n:1\r\n"),
        std::string("*65537\r\n:1\r\n")})
    CHECK(failure_of(answer).find("not a Redis reply") == 0);
  CHECK(failure_of("$9223372036854775807\r\nx") != "");
  CHECK(failure_of("+OK\r\n+OK\r\n+more\r\n") == "more replies than commands");
  CHECK(failure_of("+OK\r\n+half an ans") == "no answer in time");
}

TEST_CASE("redis connection: a pipeline's replies are bounded together") {
  const std::string long_text = "$90\r\n" + std::string(90, 'x') + "\r\n";
  CHECK(failure_of(long_text + long_text, {.bytes_max = 1'000}) == "");
  CHECK(failure_of(long_text + long_text, {.bytes_max = 150}) ==
        "a reply that is too long: expected at most 150 bytes");
  CHECK(failure_of("*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n+OK\r\n", {.elements_max = 4}) == "");
  CHECK(failure_of("*5\r\n:1\r\n:2\r\n:3\r\n:4\r\n:5\r\n+OK\r\n", {.elements_max = 4}) != "");
}

TEST_CASE("redis connection: the deadline covers all replies, however slowly bytes arrive") {
  FakeServer server([](int peer) {
    FakeServer::hear(peer);
    for (const char byte : std::string("+slow, but sure\r\n+slow, but sure\r\n")) {
      poll(nullptr, 0, 10);
      if (!FakeServer::tell(peer, {&byte, 1})) return;
    }
  });
  auto open = RedisConnection::open(server.address(), in(std::chrono::seconds(5)));
  auto& connection = std::get<std::unique_ptr<RedisConnection>>(open);
  const auto result = connection->run(two_pings, in(std::chrono::milliseconds(100)));
  REQUIRE(std::holds_alternative<RedisFailure>(result));
  CHECK(std::get<RedisFailure>(result).why == "no answer in time");
  connection.reset();
}

TEST_CASE("redis connection: after a truncated reply the command may have run") {
  FakeServer server([](int peer) {
    FakeServer::hear(peer);
    FakeServer::tell(peer, "+OK\r\n$10\r\nhalf");
  });
  auto open = RedisConnection::open(server.address(), in(std::chrono::seconds(5)));
  const auto result =
      std::get<std::unique_ptr<RedisConnection>>(open)->run(two_pings, in(std::chrono::seconds(5)));
  REQUIRE(std::holds_alternative<RedisFailure>(result));
  CHECK(std::get<RedisFailure>(result).why == "it closed the connection");
  CHECK(std::get<RedisFailure>(result).may_have_run);
}

TEST_CASE("redis connection: a closed one, or one with unrequested bytes, is not quiet") {
  std::atomic<bool> speak = false, end = false;
  FakeServer server([&](int peer) {
    while (!speak && !end) poll(nullptr, 0, 1);
    if (speak) FakeServer::tell(peer, "+what?\r\n"), FakeServer::hear(peer);
  });
  const auto open = [&] {
    return std::get<std::unique_ptr<RedisConnection>>(
        RedisConnection::open(server.address(), in(std::chrono::seconds(5))));
  };
  const auto becomes_loud = [](RedisConnection& connection) {
    for (int tries = 0; tries < 1000 && connection.is_quiet(); ++tries) poll(nullptr, 0, 5);
    return !connection.is_quiet();
  };
  auto first = open();
  CHECK(first->is_quiet());
  end = true;
  CHECK(becomes_loud(*first));
  end = false, speak = true;
  auto second = open();
  CHECK(becomes_loud(*second));
  second.reset();
}

TEST_CASE("redis connection: if connecting fails, nothing ran") {
  RedisAddress nobody{"127.0.0.1"};
  close(listen_on_loopback(nobody.port));
  auto open = RedisConnection::open(nobody, in(std::chrono::seconds(5)));
  REQUIRE(std::holds_alternative<RedisFailure>(open));
  CHECK(std::get<RedisFailure>(open).why.find("cannot connect: ") == 0);
  CHECK_FALSE(std::get<RedisFailure>(open).may_have_run);
  open = RedisConnection::open({"no such host.invalid"}, in(std::chrono::seconds(5)));
  CHECK(std::get<RedisFailure>(open).why.find("its name is not known") == 0);
}
