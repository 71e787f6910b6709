#include <doctest/doctest.h>

#include <chrono>
#include <deque>
#include <thread>

#include "server/http/tenant_pauses.h"
#include "server/testing/http_server_test.h"

using namespace troupe;
using namespace troupe::server;
using namespace troupe::server::http_server_test;

TEST_SUITE("HTTP server, tenant floods") {
  TEST_CASE("tenant floods: a refusal says how long its client should wait") {
    Fixture f;
    f.silent = true;
    RawClient client(f.http_server->port());
    client.send(post_rank("") + rank_body);
    f.asked.wait(0);
    f.http_server->deliver(
        Refused{1, {RefusalKind::over_quota, "tenant_overloaded", "much", "tenant", "less", 7}});
    const std::string reply = client.read_until("\r\n\r\n");
    CHECK(has(reply, " 429 "));
    CHECK(has(reply, "Retry-After: 7\r\n"));
  }

  TEST_CASE(
      "tenant floods: a paused tenant is heard again when one of its requests is answered, others before") {
    HttpServerConfig config;
    config.tenant_pause_us = 3'600'000'000;  // does not end by itself
    Fixture f(config);
    f.silent = true;
    RawClient first(f.http_server->port()), flood(f.http_server->port()), steady(f.http_server->port());
    auto ask = [&f, asked = 0](RawClient& client, const char* tenant) mutable {
      client.send(post_rank(std::string("x-troupe-tenant: ") + tenant + "\r\n") + rank_body);
      f.asked.wait(asked++);
    };
    ask(first, "flood");
    ask(flood, "flood");
    f.http_server->deliver(
        Refused{2, {RefusalKind::over_quota, "tenant_overloaded", "much", "tenant", "less", 7}});
    CHECK(has(flood.read_until("}}"), " 429 "));
    flood.send(post_rank("x-troupe-tenant: flood\r\n") +
               std::string(rank_body.size(), 'x'));  // not parsed as JSON
    const std::string again = flood.read_until("}}");
    CHECK(has(again, " 429 "));
    CHECK(has(again, "Retry-After: 7\r\n"));
    ask(steady, "steady");
    f.http_server->deliver(RankReply{3, "u"});
    CHECK(has(steady.read_until("\r\n\r\n"), " 200 "));
    f.http_server->deliver(RankReply{1, "u"});
    CHECK(has(first.read_until("\r\n\r\n"), " 200 "));
    f.silent = false;
    flood.send(post_rank("x-troupe-tenant: flood\r\n") + rank_body);
    CHECK(has(flood.read_until("\r\n\r\n"), " 200 "));
  }

  // A tenant at its limit, and further requests of it.
  struct Flooded : Fixture {
    const std::string request = post_rank("x-troupe-tenant: flood\r\n") + rank_body;
    RawClient first{http_server->port()}, flood{http_server->port()};

    Flooded() {
      silent = true;
      first.send(request);
      asked.wait(0);
      full = true;
      refuse(1);
    }
    void refuse(std::int64_t requests) {
      for (; requests > 0; --requests) {
        flood.send(request);
        CHECK(has(flood.read_until("}}"), " 429 "));
      }
    }
  };

  TEST_CASE("tenant floods: repeated requests are refused no faster than the configured rate") {
    Flooded f;
    const auto began = std::chrono::steady_clock::now();
    f.refuse(TenantPauses::refusals_at_once + 61);  // a few of them reach the router
    CHECK(std::chrono::steady_clock::now() - began >=
          std::chrono::microseconds(50 * TenantPauses::refusal_interval_us));
  }

  TEST_CASE("tenant floods: lines of a paused tenant are refused unread, at the same rate") {
    Flooded f;
    f.full = false;
    const auto lines = [&f](int count) {
      std::string body;
      for (int i = 0; i < count; ++i) body += "no JSON\n";
      f.flood.send(
          "POST /v1/rank HTTP/1.1\r\nhost: localhost\r\nx-troupe-tenant: flood\r\n"
          "content-type: application/x-ndjson\r\ncontent-length: " +
          std::to_string(body.size()) + "\r\n\r\n" + body);
      return f.flood.read_until("{\"lines\":" + std::to_string(count));
    };
    const std::string refused = lines(2);
    CHECK(has(refused, "{\"line\":1,\"status\":429,"));
    CHECK(has(refused, "{\"line\":2,\"status\":429,"));
    CHECK(has(refused, "tenant_overloaded"));
    const auto began = std::chrono::steady_clock::now();
    lines(static_cast<int>(TenantPauses::refusals_at_once) + 64);
    CHECK(std::chrono::steady_clock::now() - began >=
          std::chrono::microseconds(20 * TenantPauses::refusal_interval_us));
  }

  TEST_CASE("tenant floods: a closing server sends the delayed refusals") {
    Flooded f;
    f.refuse(TenantPauses::refusals_at_once);
    std::deque<RawClient> held;
    for (int i = 0; i < 100; ++i) {
      held.emplace_back(f.http_server->port());
      held.back().send(f.request);
    }
    while (f.metrics.value(Metric::http_requests) < 2 + TenantPauses::refusals_at_once + 100)
      std::this_thread::yield();
    f.http_server->close();
    for (RawClient& client : held) CHECK(has(client.read_all(), " 429 "));
  }

  TEST_CASE("tenant floods: a timed out request frees a slot for its tenant like an answer") {
    HttpServerConfig config;
    config.answer_us_max = 500'000;
    config.tenant_pause_us = 3'600'000'000;
    Fixture f(config);
    f.silent = true;
    RawClient first(f.http_server->port()), flood(f.http_server->port());
    const std::string request = post_rank("x-troupe-tenant: flood\r\n") + rank_body;
    first.send(request);
    f.asked.wait(0);
    f.full = true;  // refuses at once, so that this request cannot time out before
    flood.send(request);
    CHECK(has(flood.read_until("}}"), " 429 "));
    f.full = false;
    CHECK(has(first.read_until("}}"), " 504 "));
    flood.send(request);
    CHECK(has(flood.read_until("}}"), " 504 "));
  }
}
