#include "deploy/node/shared_keys.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>

#include "runtime/testing/redis_test_server.h"

using namespace troupe;
using namespace troupe::deploy;

namespace shared_keys_test {

constexpr std::chrono::milliseconds often{20};

struct Bench {
  RedisTestServer server{std::vector<std::string>{"--appendonly", "yes"}};
  RedisApiKeysOptions options{.address = server.address(), .cluster = "blue"};
  RedisApiKeys admin{options};
  std::mutex mutex;
  std::vector<std::string> events;
  LogSink log() {
    return [this](LogLevel, std::string_view, std::string_view event, std::span<const LogField>) {
      const std::lock_guard held(mutex);
      events.emplace_back(event);
    };
  }
  std::ptrdiff_t count(const std::string& event) {
    const std::lock_guard held(mutex);
    return std::ranges::count(events, event);
  }
  bool has(const std::string& event) { return count(event) > 0; }
  void put(const server::NewKey& made) {
    server::ApiKeys one;
    one.add(made.key);
    REQUIRE(admin.put(made.key.id, one.text()) == "");
  }
};

bool opens(const SharedKeys& keys, const server::NewKey& made) {
  return std::holds_alternative<server::ApiKeys::Caller>(keys.keys()->find("Bearer " + made.text, ""));
}

template <class Holds>
bool soon(const Holds& holds) {
  for (int tries = 0; tries < 1'000; ++tries) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST_SUITE("shared keys") {
  TEST_CASE("shared keys: follow the Redis; its absence or malformed records change nothing") {
    if (!RedisTestServer::is_installed()) return;
    Bench b;
    const server::NewKey acme = server::make_key({.tenant = "acme"}),
                         other = server::make_key({.tenant = "b"});
    b.put(acme);
    SharedKeys keys(b.options, often, b.log());
    CHECK(opens(keys, acme));
    CHECK_FALSE(opens(keys, other));
    std::atomic<int> news = 0;
    keys.start([&](SharedKeys::Keys) { ++news; });
    b.put(other);
    CHECK(soon([&] { return opens(keys, other); }));
    CHECK(news == 1);  // unchanged keys are no news
    b.server.kill();
    CHECK(soon([&] { return b.has("keys_unavailable"); }));
    CHECK(opens(keys, acme));
    CHECK(keys.age_seconds() > 0);
    b.server.start();
    CHECK(soon([&] { return b.has("keys_available"); }));
    CHECK(opens(keys, acme));
    RedisApiKeys admin(b.options);
    REQUIRE(admin.put(std::string(12, 'a'), "nonsense") == "");
    CHECK(soon([&] { return b.count("keys_unavailable") == 2; }));
    CHECK(opens(keys, other));
    REQUIRE(std::get<bool>(admin.erase(std::string(12, 'a'))));
    REQUIRE(std::get<bool>(admin.erase(acme.key.id)));
    keys.read_now();
    CHECK(soon([&] { return !opens(keys, acme); }));
    CHECK(opens(keys, other));
  }

  TEST_CASE(
      "shared keys: a Redis without keys keeps the last ones, and stops a start; the next key is news") {
    if (!RedisTestServer::is_installed()) return;
    Bench b;
    CHECK_THROWS_WITH_AS(SharedKeys(b.options, often, b.log()),
                         doctest::Contains("it has no keys of this cluster"), ConfigError);
    const server::NewKey acme = server::make_key({.tenant = "acme"}),
                         other = server::make_key({.tenant = "b"});
    b.put(acme);
    SharedKeys keys(b.options, often, b.log());
    keys.start([](SharedKeys::Keys) {});
    REQUIRE(b.server.say({"FLUSHALL"}) == "OK");
    CHECK(soon([&] { return b.has("keys_unavailable"); }));
    CHECK(opens(keys, acme));
    b.put(other);
    CHECK(soon([&] { return opens(keys, other); }));
    CHECK_FALSE(opens(keys, acme));
    CHECK(soon([&] { return b.has("keys_available"); }));
  }

  TEST_CASE("shared keys: stop does not wait for the next refresh, and read_now reads at once") {
    if (!RedisTestServer::is_installed()) return;
    Bench b;
    b.put(server::make_key({.tenant = "acme"}));
    SharedKeys keys(b.options, std::chrono::hours(1), b.log());
    std::atomic<int> news = 0;
    keys.start([&](SharedKeys::Keys) { ++news; });
    b.put(server::make_key({.tenant = "b"}));
    keys.read_now();
    CHECK(soon([&] { return news == 1; }));
    keys.stop();
    CHECK(keys.keys()->all().size() == 2);
    CHECK(keys.age_seconds() < 60);
  }

  TEST_CASE("shared keys: a server without its keys does not start, and never shows the password") {
    RedisAddress nobody = parse_redis_url("redis://:sesame@127.0.0.1:1");
    try {
      SharedKeys keys({.address = nobody, .cluster = "blue"}, often, {});
      FAIL("it has keys");
    } catch (const ConfigError& error) {
      CHECK(std::string(error.what()).find("redis://127.0.0.1:1/0: cannot connect") != std::string::npos);
      CHECK(std::string(error.what()).find("sesame") == std::string::npos);
    }
  }

  TEST_CASE("shared keys: the start's error names the cluster and a command that works as it is") {
    Config config;
    config.cluster.name = "blue";
    CHECK(keys_command(config, "redis://:sesame@r:7") ==
          "troupe keys add redis://r:7/0 --cluster blue --login FILE");
    config.cluster.name = "our shop";
    config.features.login = "redis.login", config.features.authority = "ca.pem";
    CHECK(keys_command(config, "rediss://r") ==
          "troupe keys add rediss://r:6379/0 --cluster 'our shop' --login redis.login --authority ca.pem");
    if (!RedisTestServer::is_installed()) return;
    Bench b;
    CHECK_THROWS_WITH_AS(
        SharedKeys(b.options, often, b.log(), "troupe keys add … --cluster blue"),
        doctest::Contains("expected a Redis with keys of the cluster blue (troupe keys add … "
                          "--cluster blue)"),
        ConfigError);
  }

  TEST_CASE("shared keys: a record under another key's field is refused") {
    server::ApiKeys one;
    const server::NewKey made = server::make_key({.tenant = "acme"});
    one.add(made.key);
    CHECK(keys_of({{made.key.id, one.text()}}, "here")->all().size() == 1);
    CHECK_THROWS_AS(keys_of({{std::string(12, 'b'), one.text()}}, "here"), ConfigError);
    CHECK_THROWS_AS(keys_of({{made.key.id, one.text() + one.text()}}, "here"), ConfigError);
    CHECK_THROWS_WITH_AS(
        keys_of({{made.key.id, one.text()}, {"b\n\x1b" + std::string(99, 'b'), "nonsense"}}, "here"),
        doctest::Contains(("here: the field \"b??" + std::string(29, 'b') + "…\", line 1: ").c_str()),
        ConfigError);
  }
}

}  // namespace shared_keys_test
