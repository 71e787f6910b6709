#include "server/http/http_head.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace troupe::server;

namespace {

constexpr HeadLimits limits{.header_bytes_max = 256, .body = {.body_bytes_max = 100}};
const std::string get = "GET /x HTTP/1.1\r\n", host = "Host: a\r\n";

// Parses all bytes at once; returns the fault, or "".
std::string fault_of(const std::string& bytes) {
  RequestHead head(limits);
  head.take(bytes);
  if (!head.fault() && head.done() && head.body().fault()) return head.body().fault()->code;
  return head.fault() ? head.fault()->code : "";
}

// Feeds the bytes in pieces of `step`, each with the unconsumed bytes before it.
std::size_t feed(RequestHead& head, const std::string& bytes, std::size_t step) {
  std::size_t taken = 0, come = 0;
  while (come < bytes.size() && !head.done() && !head.fault()) {
    come = std::min(bytes.size(), come + step);
    taken += head.take(std::string_view(bytes).substr(taken, come - taken));
  }
  return taken;
}

}  // namespace

TEST_SUITE("request head") {
  TEST_CASE("request head: the result is the same in any pieces, and later bytes are left to the body") {
    const std::string bytes =
        "\r\nPOST /v1/rank HTTP/1.1\r\nhost: a\r\nX-Troupe-Tenant: t\r\nexpect: 100-continue\r\n"
        "content-length: 3\r\n\r\n";
    for (std::size_t step = 1; step <= bytes.size() + 3; ++step) {
      CAPTURE(step);
      RequestHead head(limits);
      CHECK(feed(head, bytes + "abc", step) == bytes.size());
      REQUIRE(head.done());
      CHECK(head.asked().method == "POST");
      CHECK(head.asked().target == "/v1/rank");
      CHECK(head.asked().tenant == "t");
      CHECK(head.asked().keep_alive);
      CHECK(head.asked().waits);
      CHECK(head.body().held_bytes() < 100);
      CHECK_FALSE(head.body().done());
    }
  }

  // The parser consumes a line when it sees that the next one has begun, and no longer counts it.
  TEST_CASE("request head: the limit applies to the whole head, even if lines come one at a time") {
    RequestHead head(limits);
    std::string kept = get + host + "a";
    std::size_t come = kept.size();
    for (const std::string piece = ": b\r\na"; !head.fault() && come < 10 * limits.header_bytes_max;
         come += piece.size()) {
      kept += piece;
      kept.erase(0, head.take(kept));
    }
    REQUIRE(head.fault());
    CHECK(head.fault()->kind == troupe::RefusalKind::header_too_large);
    CHECK(come <= limits.header_bytes_max + 12);
    CHECK(head.take("a: b\r\n") == 0);
  }

  TEST_CASE("request head: it may be as long as its limit, and no byte longer") {
    const std::string begin = get + host + "a: ", end = "\r\n\r\n";
    const std::string fits =
        begin + std::string(limits.header_bytes_max - begin.size() - end.size(), 'x') + end;
    CHECK(fault_of(fits) == "");
    CHECK(fault_of(begin + "x" + fits.substr(begin.size())) == "header_too_long");
  }

  TEST_CASE("request head: it has at most a hundred fields") {
    const auto fault_with = [](std::size_t fields) {  // including the host
      std::string bytes = get + host;
      for (std::size_t i = 1; i < fields; ++i) bytes += "a:b\r\n";
      RequestHead head({.header_bytes_max = 8192, .body = limits.body});
      head.take(bytes + "\r\n");
      CHECK((head.fault() || head.done()));
      return head.fault() ? head.fault()->code : "";
    };
    CHECK(fault_with(100) == "");
    CHECK(fault_with(101) == "header_too_long");
  }

  TEST_CASE("request head: it names one host, one tenant and a valid length") {
    CHECK(fault_of(get + host + "\r\n") == "");
    CHECK(fault_of(get + "\r\n") == "bad_host");
    CHECK(fault_of("GET /x HTTP/1.0\r\n\r\n") == "");
    CHECK(fault_of(get + host + host + "\r\n") == "bad_host");
    CHECK(fault_of(get + host + "x-troupe-tenant: a\r\nx-troupe-tenant: b\r\n\r\n") == "repeated_tenant");
    CHECK(fault_of(get + host + "x-troupe-tenant: caf\xe9\r\n\r\n") == "bad_tenant");
    CHECK(fault_of(get + host + "x-troupe-tenant: a\tb\r\n\r\n") == "bad_tenant");
    CHECK(fault_of(get + host + "x-troupe-tenant: caf\xc3\xa9\r\n\r\n") == "");
    CHECK(fault_of(get + host + "content-length: 101\r\n\r\n") == "body_too_long");
    CHECK(fault_of(get + host + "authorization: a\r\nauthorization: b\r\n\r\n") == "repeated_key");
    CHECK(fault_of(get + host + "transfer-encoding: gzip\r\n\r\n") == "transfer_encoding");
    CHECK(fault_of(get + host + "transfer-encoding: gzip, chunked\r\n\r\n") == "transfer_encoding");
    CHECK(fault_of(get + host + "transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n") ==
          "transfer_encoding");
    CHECK(fault_of(get + host + "transfer-encoding:  Chunked \r\n\r\n") == "");
    CHECK(fault_of("GET /x HTTP/2.0\r\n\r\n") == "bad_http");
  }
}
