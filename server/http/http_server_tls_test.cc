#include "server/http/http_server_tls.h"

#include <doctest/doctest.h>

#include <boost/asio.hpp>

#include "runtime/network/certificates.h"
#include "server/testing/http_server_test.h"

using namespace troupe;
using namespace troupe::server;
using namespace troupe::server::http_server_test;

namespace http_server_tls_test {

const Certificate& authority() {
  static const Certificate made = make_authority("door-test", 1);
  return made;
}
ServerCertificate certificate_for(const std::string& name) {
  const Certificate made = make_certificate(authority(), name, 1);
  return {made.certificate, made.key};
}
HttpServerConfig tls_config() {
  HttpServerConfig config;
  config.certificate = certificate_for("localhost");
  return config;
}
HttpCall secure_call(const Fixture& f) {
  return {.server = "https://localhost:" + std::to_string(f.http_server->port()),
          .target = "/v2/health/live",
          .authority = authority().certificate};
}
std::string failure(const HttpCall& call) {
  try {
    http_call(call);
    return "";
  } catch (const ClientError& error) {
    return error.what();
  }
}

TEST_SUITE("HTTP server over TLS") {
  TEST_CASE("TLS: requests are served as without it, many per connection and large ones") {
    Fixture f(tls_config());
    CHECK(http_call(secure_call(f)).body == "{\"live\":true}");
    HttpCall rank = secure_call(f);
    rank.method = "POST", rank.target = "/v1/rank";
    rank.body = R"({"user":"ana","candidates":["a"],"policy":")" + std::string(300'000, 'x') + "\"}";
    CHECK(http_call(rank).status == 200);
    rank.target = "/v1/users",
    rank.body = "{\"user\":\"ana\",\"tokens\":[1]}\n{\"user\":\"bob\",\"tokens\":[1]}\n";
    CHECK(has(http_call(rank).body, "{\"lines\":2,\"failed\":0}"));
  }

  TEST_CASE("TLS: a client that trusts another authority or expects another name stops") {
    Fixture f(tls_config());
    HttpCall stranger = secure_call(f);
    stranger.authority = make_authority("other", 1).certificate;
    CHECK(has(failure(stranger), "expected"));
    Fixture other = [] {
      HttpServerConfig config;
      config.certificate = certificate_for("elsewhere");
      return Fixture(config);
    }();
    CHECK(has(failure(secure_call(other)), "expected"));
  }

  TEST_CASE("TLS: a connection is kept between calls, and made anew if either side closed it") {
    for (const bool secure : {false, true}) {
      CAPTURE(secure);
      Fixture f(secure ? tls_config() : HttpServerConfig());
      HttpCall live = secure_call(f);
      if (!secure) live.server = "127.0.0.1:" + std::to_string(f.http_server->port());
      HttpConnection connection;
      for (int i = 0; i < 3; ++i) CHECK(connection.call(live).body == "{\"live\":true}");
      CHECK(connection.connects() == 1);
      live.headers = "connection: close\r\n";
      CHECK(connection.call(live).status == 200);
      live.headers = "";
      CHECK(connection.call(live).status == 200);
      CHECK(connection.connects() == 2);
      f.http_server->close();
      CHECK_THROWS_AS(connection.call(live), ClientError);
    }
  }

  TEST_CASE("TLS: a client without TLS is told that TLS is required") {
    Fixture f(tls_config());
    const std::string reply = f.raw(live + end);
    CHECK(has(reply, " 400 "));
    CHECK(has(reply, "needs_tls"));
    CHECK(f.asked == 0);
  }

  TEST_CASE("TLS: an endless handshake is cut by time or bytes, while others are served") {
    HttpServerConfig config = tls_config();
    config.timeout_us = 500'000;
    Fixture f(config);
    RawClient silent(f.http_server->port()), slow(f.http_server->port()), endless(f.http_server->port());
    slow.send(std::string("\x16\x03\x01\x02", 4));
    CHECK(silent.read_all() == "");
    slow.read_all();
    // A client hello split into record after record that never becomes complete.
    std::string record("\x16\x03\x01\x40\x00", 5);
    record += std::string("\x01\x01\x00\x00", 4) + std::string(0x4000 - 4, 'x');
    for (int i = 0; i < 8; ++i) endless.send(record);
    endless.read_all();
    CHECK(http_call(secure_call(f)).status == 200);
  }

  TEST_CASE("TLS: a new certificate serves new connections, and a damaged one is rejected") {
    Fixture f(tls_config());
    CHECK_THROWS_AS(f.http_server->renew({"nonsense", "nonsense"}, nullptr), std::runtime_error);
    CHECK_THROWS_AS(
        f.http_server->renew({certificate_for("localhost").chain, certificate_for("localhost").key}, nullptr),
        std::runtime_error);  // not a matching pair
    CHECK(http_call(secure_call(f)).status == 200);
    f.http_server->renew(certificate_for("elsewhere"), nullptr);
    CHECK(has(failure(secure_call(f)), "expected"));
    f.http_server->renew(certificate_for("localhost"), nullptr);
    CHECK(http_call(secure_call(f)).status == 200);
    CHECK_THROWS_AS(HttpServer({.certificate = {"nonsense", "nonsense"}}, {}, f.metrics), std::runtime_error);
  }

  TEST_CASE("TLS: of TLS 1.2 only ephemeral keys and authenticated encryption are accepted") {
    const auto context = make_tls_context(certificate_for("localhost"));
    STACK_OF(SSL_CIPHER)* const ciphers = SSL_CTX_get_ciphers(context->native_handle());
    int of_tls12 = 0;
    for (int i = 0; i < sk_SSL_CIPHER_num(ciphers); ++i) {
      const SSL_CIPHER* const cipher = sk_SSL_CIPHER_value(ciphers, i);
      CAPTURE(SSL_CIPHER_get_name(cipher));
      CHECK(SSL_CIPHER_is_aead(cipher) == 1);
      if (std::string(SSL_CIPHER_get_version(cipher)) == "TLSv1.3") continue;
      ++of_tls12;
      CHECK(SSL_CIPHER_get_kx_nid(cipher) == NID_kx_ecdhe);
    }
    CHECK(of_tls12 > 0);
  }

  TEST_CASE("TLS: a closing server closes idle connections") {
    Fixture f(tls_config());
    RawClient begun(f.http_server->port());
    begun.send(std::string("\x16\x03\x01", 3));
    f.http_server->close();
    begun.read_all();
  }
}

TEST_SUITE("HTTP server with keys") {
  struct Keyed {
    NewKey acme = make_key({.tenant = "acme"}), admin = make_key({.admin = true}),
           scraper = make_key({.scrape = true}), slow = make_key({.tenant = "slow", .rate = 0.01});
    Fixture f{[this] {
      ApiKeys keys;
      for (const NewKey* made : {&acme, &admin, &scraper, &slow}) keys.add(made->key);
      HttpServerConfig config;
      config.keys = std::make_shared<const ApiKeys>(keys);
      return config;
    }()};
    HttpReply ask(const NewKey* key, std::string method, std::string target, std::string body = "",
                  std::string tenant = "") {
      return http_call({.server = "127.0.0.1:" + std::to_string(f.http_server->port()),
                        .method = std::move(method),
                        .target = std::move(target),
                        .body = std::move(body),
                        .tenant = std::move(tenant),
                        .key = key ? key->text : ""});
    }
  };

  TEST_CASE("keys: without a key only health is served, and a key sets the tenant") {
    Keyed k;
    CHECK(k.ask(nullptr, "GET", "/v2/health/live").status == 200);
    CHECK(k.ask(nullptr, "GET", "/v2/health/ready").status == 200);
    for (const char* path : {"/metrics", "/v1/cluster", "/v1/models", "/v1/users/ana", "/nothing"}) {
      const HttpReply reply = k.ask(nullptr, "GET", path);
      CHECK(reply.status == 401);
      CHECK(has(reply.body, "no_key"));
    }
    CHECK(k.ask(nullptr, "POST", "/v1/rank", rank_body, "acme").status ==
          401);  // the header alone is not enough
    const HttpReply ranked = k.ask(&k.acme, "POST", "/v1/rank", rank_body);
    CHECK(ranked.status == 200);
    CHECK(has(ranked.body, "\"policy\":\"acme\""));  // the tenant, which the fixture returns as policy
    CHECK(k.ask(&k.acme, "POST", "/v1/rank", rank_body, "acme").status == 200);
    CHECK(k.ask(&k.acme, "POST", "/v1/rank", rank_body, "other").status == 403);
    CHECK(k.ask(&k.acme, "GET", "/v1/models").status == 200);
    CHECK(has(k.f.raw(post_rank("authorization: Bearer a\r\nauthorization: Bearer b\r\n")), "repeated_key"));
    CHECK(has(k.f.raw(post_rank("authorization: Bearer nonsense\r\n")), "WWW-Authenticate: Bearer"));
  }

  TEST_CASE("keys: the page opens without a key, so that it can ask for one, and counts for no tenant") {
    Keyed k;
    for (const char* path : {"/", "/?from=bookmark", "http://x/"}) {
      CAPTURE(path);
      for (const NewKey* key : std::initializer_list<const NewKey*>{nullptr, &k.acme, &k.scraper}) {
        const HttpReply page = k.ask(key, "GET", path);
        CHECK(page.status == 200);
        CHECK(has(page.body, "This server requires an API key"));
      }
    }
    CHECK(k.ask(nullptr, "GET", "/", "", "acme").status == 200);
    CHECK(k.ask(nullptr, "POST", "/").status == 405);
    for (int again = 0; again < 3; ++again) CHECK(k.ask(&k.slow, "GET", "/").status == 200);
    CHECK(k.ask(&k.slow, "POST", "/v1/rank", rank_body).status == 200);  // nothing was counted before
    CHECK(k.ask(&k.slow, "POST", "/v1/rank", rank_body).status == 429);
    for (const char* path : {"/v1/cluster", "/v1/slowest", "/openapi.json", "//", "/index.html"})
      CHECK_MESSAGE(k.ask(nullptr, "GET", path).status == 401, path);
  }

  TEST_CASE("keys: what shows all tenants is served to an admin's key, and metrics to a scrape key") {
    Keyed k;
    for (const char* path :
         {"/v1/cluster", "/metrics", "/v1/cluster?x", "/metrics?x=1", "http://x/metrics"}) {
      CAPTURE(path);
      CHECK(k.ask(&k.acme, "GET", path).status == 403);
      CHECK(k.ask(&k.admin, "GET", path).status == 200);
      const bool metrics = has(path, "metrics");
      CHECK(k.ask(&k.scraper, "GET", path).status == (metrics ? 200 : 403));
    }
    CHECK(has(k.ask(&k.acme, "GET", "/metrics").body, "needs_scrape_key"));
    CHECK(has(k.ask(&k.acme, "GET", "/v1/cluster").body, "needs_admin_key"));
    CHECK(has(k.ask(&k.scraper, "POST", "/v1/rank", rank_body).body, "only_metrics"));
    CHECK(k.ask(&k.scraper, "GET", "/v2/health/live").status == 200);
  }

  TEST_CASE("keys: a tenant sees its own slowest requests, and an admin all") {
    Keyed k;
    k.ask(&k.acme, "POST", "/v1/rank", rank_body);
    k.ask(&k.slow, "POST", "/v1/rank", rank_body);
    CHECK(has(k.ask(&k.admin, "GET", "/v1/slowest").body, "\"tenant\":\"slow\""));
    const std::string own = k.ask(&k.acme, "GET", "/v1/slowest").body;
    CHECK(has(own, "\"tenant\":\"acme\""));
    CHECK_FALSE(has(own, "slow\""));
  }

  TEST_CASE("keys: an admin key may do what others may not") {
    Keyed k;
    const std::string reload = R"({"model":"m2"})", item = R"({"tokens":[1],"identifier":2})";
    CHECK(k.ask(&k.acme, "POST", "/v1/models/reload", reload).status == 403);
    CHECK(k.ask(&k.acme, "PUT", "/v1/items/i", item).status == 403);
    CHECK(k.ask(&k.admin, "POST", "/v1/models/reload", reload).status == 200);
    CHECK(k.ask(&k.admin, "PUT", "/v1/items/i", item).status == 200);
  }

  TEST_CASE("keys: a revoked key is refused from the next request on") {
    Keyed k;
    CHECK(k.ask(&k.acme, "POST", "/v1/rank", rank_body).status == 200);
    ApiKeys others;
    others.add(k.admin.key);
    k.f.http_server->renew({}, std::make_shared<const ApiKeys>(others));
    CHECK(k.ask(&k.acme, "POST", "/v1/rank", rank_body).status == 401);
    CHECK(k.ask(&k.admin, "GET", "/metrics").status == 200);
  }

  // Sends lines one by one within one request, and reads their results.
  struct LineClient {
    RawClient client;
    LineClient(Keyed& k, const NewKey& key, const std::string& path) : client(k.f.http_server->port()) {
      client.send("POST " + path + " HTTP/1.1\r\nhost: x\r\nauthorization: Bearer " + key.text +
                  "\r\ntransfer-encoding: chunked\r\n\r\n");
    }
    void send(const std::string& line) {
      char size[16];
      std::snprintf(size, sizeof size, "%zx\r\n", line.size() + 1);
      client.send(size + line + "\n\r\n");
    }
  };
  void keep_only(Keyed & k, std::initializer_list<ApiKey> kept) {
    ApiKeys keys;
    for (const ApiKey& key : kept) keys.add(key);
    k.f.http_server->renew(std::make_shared<const ApiKeys>(keys));
    k.ask(nullptr, "GET", "/v2/health/live");  // the server's thread has them now
  }

  TEST_CASE("keys: a request of many lines ends once its key is revoked") {
    Keyed k;
    LineClient lines(k, k.acme, "/v1/users");
    lines.send(R"({"user":"ana","tokens":[1]})");
    CHECK(has(lines.client.read_until("\"version\":7}\n"), R"({"line":1,"status":200)"));
    keep_only(k, {k.acme.key, k.admin.key});  // other keys, and this one still among them
    lines.send(R"({"user":"bob","tokens":[1]})");
    CHECK(has(lines.client.read_until("\"version\":7}\n"), R"({"line":2,"status":200)"));
    keep_only(k, {k.admin.key});
    lines.send(R"({"user":"cat","tokens":[1]})");
    const std::string rest = lines.client.read_all();
    CHECK(has(rest, R"({"line":3,"status":401,"error":{"status":401,"code":"key_revoked")"));
    CHECK(has(rest, R"({"lines":2,"failed":1})"));
    CHECK(rest.ends_with("0\r\n\r\n"));
    CHECK(k.f.written == std::vector<std::string>{"acme/ana", "acme/bob"});
    CHECK(k.f.metrics.value(Metric::http_refused, "key_revoked") == 1);
  }

  TEST_CASE("keys: a request of many items ends once its key is no admin's") {
    Keyed k;
    NewKey admin = make_key({.tenant = "acme", .admin = true});
    keep_only(k, {admin.key});
    LineClient lines(k, admin, "/v1/items");
    lines.send(R"({"item":"a","tokens":[1],"identifier":2})");
    CHECK(has(lines.client.read_until("\"version\":3}\n"), R"({"line":1,"status":200)"));
    admin.key.admin = false;
    keep_only(k, {admin.key});
    lines.send(R"({"item":"b","tokens":[1],"identifier":2})");
    CHECK(has(lines.client.read_all(),
              R"({"line":2,"status":403,"error":{"status":403,"code":"not_your_catalog")"));
    CHECK(k.f.written == std::vector<std::string>{"item a"});
  }

  TEST_CASE("keys: renewing only the certificate keeps the keys, including newer ones") {
    Keyed k;
    ApiKeys others;
    others.add(k.admin.key);
    k.f.http_server->renew(std::make_shared<const ApiKeys>(others));
    k.f.http_server->renew(ServerCertificate{});
    CHECK(k.ask(&k.acme, "POST", "/v1/rank", rank_body).status == 401);
    CHECK(k.ask(&k.admin, "GET", "/metrics").status == 200);
    CHECK(k.ask(nullptr, "GET", "/metrics").status == 401);
  }

  TEST_CASE("keys: a key over its rate is refused with a retry time, others are not") {
    Keyed k;
    CHECK(k.ask(&k.slow, "POST", "/v1/rank", rank_body).status == 200);
    const HttpReply refused = k.ask(&k.slow, "POST", "/v1/rank", rank_body);
    CHECK(refused.status == 429);
    CHECK(has(refused.body, "rate_limited"));
    CHECK(has(
        k.f.raw(post_rank("connection: close\r\nauthorization: Bearer " + k.slow.text + "\r\n") + rank_body),
        "Retry-After: "));
    CHECK(k.ask(&k.acme, "POST", "/v1/rank", rank_body).status == 200);
  }

  TEST_CASE("rate limits: without keys the header's tenant is limited") {
    HttpServerConfig config;
    config.tenant_limit.at_once = 1;
    Fixture f(config);
    f.silent = true;
    RawClient first(f.http_server->port());
    first.send(post_rank("x-troupe-tenant: a\r\n") + rank_body);
    f.asked.wait(0);
    CHECK(
        has(f.raw(post_rank("x-troupe-tenant: a\r\nconnection: close\r\n") + rank_body), "too_many_at_once"));
    CHECK(f.asked == 1);
    f.silent = false;
    CHECK(has(f.raw(post_rank("x-troupe-tenant: b\r\nconnection: close\r\n") + rank_body), " 200 "));
  }

  TEST_CASE("versions: they are entity tags, and a client with the current one is not sent it again") {
    Fixture f;
    const std::string reply = f.raw("GET /v1/users/ana HTTP/1.1\r\nhost: x\r\n\r\n");
    CHECK(has(reply, "ETag: \"7\""));
    CHECK(has(reply, R"("history":["a"])"));
    const std::string again = f.raw("GET /v1/users/ana HTTP/1.1\r\nhost: x\r\nif-none-match: \"7\"\r\n\r\n");
    CHECK(has(again, " 304 "));
    CHECK(again.ends_with("\r\n\r\n"));
    CHECK(has(f.raw("PUT /v1/users/ana HTTP/1.1\r\nhost: x\r\nif-match: 7\r\ncontent-length: "
                    "13\r\n\r\n{\"tokens\":[]}"),
              "bad_condition"));
  }
}

}  // namespace http_server_tls_test
