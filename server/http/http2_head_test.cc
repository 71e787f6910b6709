#include "server/http/http2_head.h"

#include <doctest/doctest.h>

#include "server/http/in_flight_limiter.h"

using namespace troupe;
using namespace troupe::server;

namespace http2_head_test {

TEST_SUITE("HTTP/2 heads") {
  TEST_CASE("HTTP/2 head: fields become those of a request") {
    RequestHead::HeadFields asked;
    CHECK(!read_http2_head({{":method", "PUT"},
                            {":path", "/v1/users/a"},
                            {"x-troupe-tenant", "acme"},
                            {"authorization", "Bearer k"},
                            {"if-match", "\"7\""},
                            {"x-request-id", "mine"},
                            {"traceparent", "not visible \x01"},
                            {"content-length", "12"}},
                           asked));
    CHECK(asked.method == "PUT");
    CHECK(asked.target == "/v1/users/a");
    CHECK(asked.tenant == "acme");
    CHECK(asked.authorization == "Bearer k");
    CHECK(asked.if_match == "\"7\"");
    CHECK(asked.request_id == "mine");
    CHECK(asked.traceparent.empty());
    CHECK_FALSE(asked.waits);
    CHECK(!read_http2_head({{":path", "/"}, {"expect", "100-Continue"}}, asked));
    CHECK(asked.waits);
    CHECK(!read_http2_head({{":path", "/"}, {"expect", "200-ok"}}, asked));
    CHECK_FALSE(asked.waits);
    CHECK(content_length({{"content-length", "12"}}) == 12);
    for (const char* text : {"", "-1", "x", "1x", "99999999999999999999999"})
      CHECK(content_length({{"content-length", text}}) == std::nullopt);
  }

  TEST_CASE("HTTP/2 head: a browser's fields, with the host from :authority or `host`") {
    RequestHead::HeadFields asked;
    CHECK(!read_http2_head({{":path", "/"}, {":authority", "a:1"}, {"host", "a:1"}, {"origin", "http://a:1"}},
                           asked));
    CHECK(asked.browser.host == "a:1");
    CHECK(asked.browser.origin == "http://a:1");
    CHECK(!read_http2_head(
        {{":path", "/"}, {"host", "b"}, {"origin", "a"}, {"origin", "a"}, {"sec-fetch-site", "none"}},
        asked));
    CHECK(asked.browser.host == "b");
    CHECK(asked.browser.origin == "null");
    CHECK(asked.browser.fetch_site == "none");
  }

  TEST_CASE("HTTP/2 head: several tenants or keys, no path, and heads over a limit are refused") {
    RequestHead::HeadFields asked;
    const auto code = [&](Http2Fields fields) { return read_http2_head(fields, asked)->code; };
    CHECK(code({{":path", "/"}, {"x-troupe-tenant", "a"}, {"x-troupe-tenant", "a"}}) == "repeated_tenant");
    CHECK(code({{":path", "/"}, {"authorization", "a"}, {"authorization", "b"}}) == "repeated_key");
    CHECK(code({{":method", "GET"}}) == "bad_http");
    CHECK(code({{":path", "/"}, {":authority", "a"}, {"host", "b"}}) == "bad_host");
    CHECK(code({{":path", "/"}, {"host", "a"}, {"host", "a"}}) == "bad_host");
    CHECK(code({{":path", "/"}, {"x-troupe-tenant", "caf\xe9"}}) == "bad_tenant");
    CHECK(asked.tenant.empty());
    using Fault = Http2Event::Fault;
    CHECK(refusal_of(Fault::too_long, 99).kind == RefusalKind::header_too_large);
    CHECK(refusal_of(Fault::too_long, 99).expected == "at most 99 bytes (http.header_bytes_max)");
    CHECK(refusal_of(Fault::too_many_fields, 99).kind == RefusalKind::header_too_large);
    CHECK(refusal_of(Fault::malformed, 99).kind == RefusalKind::malformed);
  }

  TEST_CASE("in flight: requests are bounded in total and per address") {
    InFlightLimiter limiter(3, 2);
    CHECK(limiter.enter(1));
    CHECK(limiter.enter(1));
    CHECK_FALSE(limiter.enter(1));
    CHECK(limiter.enter(2));
    CHECK_FALSE(limiter.enter(3));
    limiter.leave(1);
    CHECK(limiter.enter(3));
    CHECK(limiter.count() == 3);
    limiter.leave(9);
    CHECK(limiter.count() == 3);
  }

  TEST_CASE("in flight: an address whose requests are mostly abandoned gets no further ones") {
    InFlightLimiter limiter(100, 16);
    for (int i = 0; i < 4; ++i) CHECK(limiter.enter(1));
    limiter.abandon(1);
    CHECK(limiter.enter(1));
    limiter.abandon(1);
    CHECK_FALSE(limiter.enter(1));
    CHECK(limiter.enter(2));
    limiter.leave(1);
    CHECK_FALSE(limiter.enter(1));
    limiter.leave(1, true);
    CHECK(limiter.enter(1));
    CHECK(limiter.count() == 5);
  }
}

}  // namespace http2_head_test
