// Tests etcd and Redis over TLS and with logins: which servers a process trusts, and that error
// texts contain no secrets.
#include <doctest/doctest.h>

#include <fstream>

#include "runtime/config/config.h"
#include "runtime/network/certificates.h"
#include "runtime/redis/redis_api_keys.h"
#include "runtime/testing/etcd_test_server.h"
#include "runtime/testing/redis_test_server.h"

namespace troupe {
namespace stores_tls_test {

// An authority, and certificates that it has signed, as files.
struct Papers {
  TestFolder folder;
  Certificate authority;
  explicit Papers(const std::string& name = "stores") : authority(make_authority(name, 2)) {
    write("ca.pem", authority.certificate);
    for (const char* who : {"localhost", "elsewhere", "client"}) {
      const Certificate made = make_certificate(authority, who, 2);
      write(std::string(who) + ".pem", made.certificate);
      write(std::string(who) + ".key", made.key);
    }
  }
  void write(const std::string& name, const std::string& text) const { std::ofstream(path(name)) << text; }
  std::string path(const std::string& name) const { return (folder.path() / name).string(); }
  TlsClientFiles client() const { return {path("ca.pem"), path("client.pem"), path("client.key")}; }
};

struct SecureRedis : RedisTestServer {
  explicit SecureRedis(const Papers& papers, const std::string& shown = "localhost",
                       std::uint16_t at = free_port())
      : RedisTestServer({"--tls-port", std::to_string(at), "--tls-cert-file", papers.path(shown + ".pem"),
                         "--tls-key-file", papers.path(shown + ".key"), "--tls-ca-cert-file",
                         papers.path("ca.pem"), "--requirepass", "open sesame"}),
        port(at) {}
  std::uint16_t port;
  RedisAddress at(const std::string& host, const TlsClientFiles& files) const {
    RedisAddress address = parse_redis_url("rediss://:open%20sesame@" + host + ":" + std::to_string(port));
    complete(address, files, "");
    return address;
  }
};

std::string taken(const RedisAddress& address) {
  RedisConnectionPool connections({.address = address, .time_limit = std::chrono::seconds(5)}, {});
  auto taken = connections.take(0);
  if (const auto* failure = std::get_if<RedisFailure>(&taken)) return failure->why;
  const std::vector<RedisCommand> commands{{"SET", "k", std::string(300'000, 'x')}, {"GET", "k"}};
  auto answer = std::get<RedisConnectionPool::Session>(taken).run(commands);
  const auto* replies = std::get_if<std::vector<RedisReply>>(&answer);
  return replies ? std::to_string(replies->at(1).text.size()) : std::get<RedisFailure>(answer).why;
}

const char* const encrypted_key = R"(-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAgXLNnRGSprVgICCAAw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEJf1dRfl1t1hSbsnmXJfkYoEgZAX
4JLpOp1ukFNVi6PD2/OfjRjeEZ0Wg0S7D7YAMVwcC1WS/NfdbcbNyCr+bCfo5HHf
9EKUbynfph3Il+kTJjVkNj1kuqgXifVOpuZO2GtH6Liq79n+1xcF6grQ75HIiJ5w
0CIsDv1kG8Q976qFy3eFe6lIT3vGK1zP1Ev8pJtaNeN17uJ6Z4GABE4EbDpDoPc=
-----END ENCRYPTED PRIVATE KEY-----
)";

bool lacks(const EtcdServer& etcd) {
  if (!etcd.here()) MESSAGE("skipped: no etcd on this machine");
  return !etcd.here();
}

TEST_SUITE("stores over TLS") {
  TEST_CASE("Redis over TLS: only a server with a certificate of the authority for its host is trusted") {
    if (!RedisTestServer::is_installed()) return;
    const Papers papers, others("others");
    const SecureRedis redis(papers);
    CHECK(taken(redis.at("localhost", papers.client())) == "300000");
    CHECK(taken(redis.at("127.0.0.1", papers.client())).find("no TLS: its certificate: ") ==
          0);  // the certificate is for a name
    CHECK(taken(redis.at("localhost", others.client())).find("no TLS: its certificate: ") == 0);
    // it requires a client certificate
    const std::string unknown = taken(redis.at("localhost", {papers.path("ca.pem"), "", ""}));
    CHECK(unknown != "300000");
    const SecureRedis misnamed(papers, "elsewhere");
    CHECK(taken(misnamed.at("localhost", papers.client())).find("hostname mismatch") != std::string::npos);
    RedisAddress in_the_clear = redis.address();  // where TLS is expected
    in_the_clear.host = "localhost", in_the_clear.tls = true,
    in_the_clear.trust = std::make_shared<const TlsClient>(papers.client());
    CHECK(taken(in_the_clear).find("no TLS") == 0);
  }

  TEST_CASE("Redis over TLS: a connection is quiet until the server sends unrequested bytes or closes") {
    if (!RedisTestServer::is_installed()) return;
    const Papers papers;
    SecureRedis redis(papers);
    const RedisDeadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    auto open = RedisConnection::open(redis.at("localhost", papers.client()), deadline);
    auto& connection = std::get<std::unique_ptr<RedisConnection>>(open);
    const RedisCommand commands[] = {{"AUTH", "open sesame"}, {"PING"}};
    auto answer = connection->run(commands, deadline);
    REQUIRE(std::holds_alternative<std::vector<RedisReply>>(answer));
    CHECK(std::get<std::vector<RedisReply>>(answer)[1].text == "PONG");
    CHECK(connection->is_quiet());
    redis.kill();
    CHECK_FALSE(connection->is_quiet());
    CHECK(std::holds_alternative<RedisFailure>(connection->run(commands, deadline)));
  }

  TEST_CASE("Redis API keys: keys are read as they were put, also over TLS; an invalid hash is reported") {
    if (!RedisTestServer::is_installed()) return;
    const Papers papers;
    SecureRedis redis(papers);
    RedisApiKeys keys({.address = redis.at("localhost", papers.client()), .cluster = "blue"});
    CHECK(std::get<0>(keys.read()).empty());
    CHECK(keys.put("a", "line of a") == "");
    CHECK(keys.put("b", "line of b") == "");
    CHECK(std::get<0>(keys.read()) ==
          std::map<std::string, std::string>{{"a", "line of a"}, {"b", "line of b"}});
    CHECK(std::get<bool>(keys.erase("a")));
    CHECK_FALSE(std::get<bool>(keys.erase("a")));
    CHECK(std::get<0>(keys.read()).size() == 1);
    RedisApiKeys of_others({.address = redis.at("localhost", papers.client()), .cluster = "green"});
    CHECK(std::get<0>(of_others.read()).empty());
    REQUIRE(of_others.put("x", "y") == "");
    redis.kill();
    CHECK(std::get<RedisFailure>(keys.read()).why != "");
  }

  TEST_CASE("Redis API keys: a key beyond the maximum number is refused") {
    if (!RedisTestServer::is_installed()) return;
    RedisTestServer redis;
    RedisApiKeys keys(
        {.address = redis.address(), .cluster = "blue", .time_limit = std::chrono::seconds(10)});
    redis.say({"EVAL", "for i = 1, tonumber(ARGV[1]) do redis.call('HSET', KEYS[1], i, 'x') end return 1",
               "1", "troupe:blue:api_keys", std::to_string(RedisApiKeys::keys_max)});
    CHECK(std::get<0>(keys.read()).size() == RedisApiKeys::keys_max);
    CHECK(keys.put("more", "line").find("it has 32768 keys") == 0);
    CHECK(keys.put("1", "another line") == "");  // replaces one
    CHECK(std::get<0>(keys.read()).size() == RedisApiKeys::keys_max);
    REQUIRE(std::get<bool>(keys.erase("2")));
    CHECK(keys.put("more", "line") == "");
    redis.say({"DEL", "troupe:blue:api_keys"});
    CHECK(keys.put("long", std::string(RedisApiKeys::bytes_max, 'x')).find("16 MiB") != std::string::npos);
    CHECK(std::get<0>(keys.read()).empty());
  }

  TEST_CASE("etcd over TLS: only a server with a certificate of the authority is trusted") {
    const Papers papers, others("others");
    const auto trust = std::make_shared<const TlsClient>(papers.client());
    const EtcdServer etcd(
        {"--cert-file=" + papers.path("localhost.pem"), "--key-file=" + papers.path("localhost.key"),
         "--trusted-ca-file=" + papers.path("ca.pem"), "--client-cert-auth"},
        trust);
    if (lacks(etcd)) return;
    const auto asked = [&](const TlsClientFiles& files) {
      EtcdCoordination at({.endpoints = etcd.endpoint(),
                           .limit_us = 5'000'000,
                           .tls = std::make_shared<const TlsClient>(files)});
      std::string said;
      for (int again = 0; again < 2; ++again) {  // the second time over the same connection
        const auto answer = at.ask({WriteKey{"k" + std::to_string(again), "v", 0}});
        const auto* refusal = std::get_if<Refusal>(&answer);
        said = refusal ? refusal->what : "asked";
      }
      return said;
    };
    CHECK(asked(papers.client()) == "asked");
    CHECK(asked(others.client()).find("its certificate: ") == 0);
    CHECK(asked({papers.path("ca.pem"), "", ""}) != "asked");
  }

  TEST_CASE("etcd: the login is sent, and again after a restart of etcd, and the password appears nowhere") {
    EtcdServer etcd;
    if (lacks(etcd)) return;
    EtcdEndpoint admin(etcd.endpoint());
    const auto say = [&](const std::string& path, const std::string& body) {
      const auto by = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      const auto reply = admin.post("/v3/auth/" + path, body, "", by, by);
      REQUIRE(std::holds_alternative<EtcdReply>(reply));
      REQUIRE_MESSAGE(std::get<EtcdReply>(reply).status == 200, std::get<EtcdReply>(reply).body);
    };
    say("user/add", R"({"name":"root","password":"pass \"word"})");
    say("role/add", R"({"name":"root"})");
    say("user/grant", R"({"user":"root","role":"root"})");
    say("enable", "{}");
    const auto with = [&](const Login& login) {
      return std::make_unique<EtcdCoordination>(
          EtcdOptions{.endpoints = etcd.endpoint(), .limit_us = 5'000'000, .login = login});
    };
    const auto written = [&](Coordination& at, const std::string& key) {
      const auto answer = at.ask({WriteKey{key, "v", 0}});
      const auto* refusal = std::get_if<Refusal>(&answer);
      return refusal ? refusal->what + refusal->where + refusal->expected : "written";
    };
    const auto right = with({"root", "pass \"word"});
    CHECK(written(*right, "a") == "written");
    etcd.crash(), etcd.start();  // it keeps its users, but no tokens
    CHECK(written(*right, "b") == "written");
    CHECK(written(*with({}), "c") != "written");
    const std::string wrong = written(*with({"root", "another"}), "d");
    CHECK(wrong != "written");
    for (const char* secret : {"another", "pass \"word"}) CHECK(wrong.find(secret) == std::string::npos);
  }

  TEST_CASE("store TLS: a key with a passphrase is refused without a prompt") {
    const Papers papers;
    papers.write("client.key", encrypted_key);
    CHECK_THROWS_WITH_AS(TlsClient(papers.client()), doctest::Contains("client.key: the key is encrypted"),
                         ConfigError);
  }

  TEST_CASE("store TLS: missing files are named; a login file is read and never shown") {
    const Papers papers;
    const auto fault = [](const auto& tried) -> std::string {
      try {
        tried();
        return "";
      } catch (const ConfigError& error) {
        return error.what();
      }
    };
    papers.write("broken.pem", "-----BEGIN CERTIFICATE-----\nsesame\n");
    CHECK(fault([&] {
            TlsClient({papers.path("broken.pem"), "", ""});
          }).find("broken.pem: ") != std::string::npos);
    CHECK(fault([&] { TlsClient({papers.path("no.pem"), "", ""}); }).find("no.pem: ") != std::string::npos);
    CHECK(fault([&] {
            TlsClient({"", papers.path("client.pem"), ""});
          }).find("only one") != std::string::npos);
    CHECK(fault([&] {
            TlsClient({"", papers.path("client.pem"), papers.path("localhost.key")});
          }).find("localhost.key: ") != std::string::npos);
    papers.write("login", "ann:open:sesame\n");
    CHECK(read_login(papers.path("login")) == Login{"ann", "open:sesame"});
    for (const char* bad : {"", "sesame", "ann:", "ann:sesame\nmore:lines\n"}) {
      papers.write("login", bad);
      const std::string why = fault([&] { read_login(papers.path("login")); });
      CHECK(why.find("expected one line user:password") != std::string::npos);
      CHECK(why.find("sesame") == std::string::npos);
    }
    papers.write("login", ":sesame\n");
    RedisAddress address = parse_redis_url("redis://shop");
    complete(address, {}, papers.path("login"));
    CHECK(address.password == "sesame");
    CHECK(describe(address).find("sesame") == std::string::npos);
    CHECK(fault([&] { complete(address, {}, papers.path("login")); }).find("one of the two") !=
          std::string::npos);
    RedisAddress clear = parse_redis_url("redis://shop");
    CHECK(fault([&] { complete(clear, papers.client(), ""); }).find("without TLS") != std::string::npos);
  }
}

}  // namespace stores_tls_test
}  // namespace troupe
