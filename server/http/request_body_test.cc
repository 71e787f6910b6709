#include "server/http/request_body.h"

#include <doctest/doctest.h>

using namespace troupe::server;

namespace request_body_test {

constexpr BodyLimits small{.body_bytes_max = 20,
                           .extension_bytes_max = 8,
                           .extensions_bytes_max = 12,
                           .trailers_bytes_max = 30,
                           .trailers_max = 3};

RequestBody chunks(std::string_view bytes, std::size_t at_a_time = 1'000) {
  RequestBody body = RequestBody::chunked(small);
  while (!bytes.empty() && !body.done() && !body.fault()) {
    body.take(bytes.substr(0, at_a_time));
    bytes.remove_prefix(std::min(at_a_time, bytes.size()));
  }
  return body;
}

std::string fault_of(std::string_view bytes) {
  const RequestBody body = chunks(bytes), by_byte = chunks(bytes, 1);
  REQUIRE(body.fault().has_value());
  CHECK(body.fault() == by_byte.fault());
  CHECK(body.held_bytes() < small.body_bytes_max);
  CHECK(is_fault_of_request(body.fault()->kind));
  return body.fault()->code;
}

TEST_SUITE("request body") {
  TEST_CASE("request body: a body with a length takes that many bytes and leaves the others") {
    RequestBody body(5, small);
    CHECK(body.take("abc") == 3);
    CHECK_FALSE(body.done());
    CHECK(body.take("defg") == 2);
    CHECK(body.done());
    CHECK(body.text() == "abcde");
    CHECK(body.take("more") == 0);
    CHECK(RequestBody(0, small).done());
    CHECK(RequestBody(20, small).fault() == std::nullopt);
    CHECK(RequestBody(21, small).fault()->code == "body_too_long");
  }

  TEST_CASE("request body: chunks are joined, however the bytes are split") {
    const std::string bytes = "5\r\nabcde\r\n0a;x=\"y\"\r\n0123456789\r\n0\r\n\r\n";
    for (const std::size_t cut : {1u, 2u, 3u, 7u, 1'000u}) {
      const RequestBody body = chunks(bytes, cut);
      CHECK(body.done());
      CHECK(body.text() == "abcde0123456789");
    }
    std::string many;
    for (int i = 0; i < 20; ++i) many += "1\r\nx\r\n";
    CHECK(chunks(many + "0\r\n\r\n").text() == std::string(20, 'x'));
    RequestBody body = RequestBody::chunked(small);
    CHECK(body.take("1\r\nx\r\n0\r\n\r\nGET /") == 11);
    CHECK(body.done());
  }

  TEST_CASE("request body: memory follows what came, not what was announced") {
    const BodyLimits large{.body_bytes_max = 1 << 30};
    RequestBody announced(1 << 30, large), chunk = RequestBody::chunked(large);
    announced.take(std::string(100, 'x'));
    chunk.take("3fffffff\r\n" + std::string(100, 'x'));
    CHECK(announced.held_bytes() < 1'000);
    CHECK(chunk.held_bytes() < 1'000);
    RequestBody exact(1'000'000, large);
    for (int i = 0; i < 1'000; ++i) exact.take(std::string(1'000, 'x'));
    CHECK(exact.done());
    CHECK(exact.held_bytes() < 1'100'000);
    RequestBody uneven(1'200, large);
    uneven.take(std::string(700, 'x'));
    uneven.take(std::string(500, 'x'));
    CHECK(uneven.done());
    CHECK(uneven.held_bytes() == 1'200);
  }

  TEST_CASE("request body: a buffer of many lines is freed when they are returned") {
    RequestBody lines = RequestBody::until_end({.body_bytes_max = 2'048, .by_lines = true});
    std::string many;
    for (int i = 0; i < 100; ++i) many += std::string(999, 'x') + "\n";
    lines.take(many + "part");
    CHECK(lines.held_bytes() >= many.size());
    CHECK(lines.held_bytes() < 2 * many.size());
    for (int i = 0; i < 100; ++i) CHECK(lines.next_line() == std::string(999, 'x'));
    CHECK(lines.next_line() == std::nullopt);
    CHECK(lines.held_bytes() < 1'000);
    lines.end();
    CHECK(lines.next_line() == "part");
  }

  TEST_CASE("request body: lines are the same however the bytes are cut, and nothing returned is kept") {
    const std::string lines = "a\n\nbb\r\nccc\n \ndddd\ne";
    for (std::size_t cut = 1; cut <= lines.size(); ++cut) {
      RequestBody body(lines.size(), {.body_bytes_max = 8, .by_lines = true});
      std::string found;
      for (std::size_t at = 0; at < lines.size(); at += cut) {
        body.take(std::string_view(lines).substr(at, cut));
        while (const auto line = body.next_line()) found += *line + "|";
        CHECK(body.text().size() <= 4);  // the line that has not ended
      }
      CHECK(found == "a|bb\r|ccc|dddd|e|");
      CHECK(body.done());
      CHECK(body.text().empty());
    }
  }

  TEST_CASE("request body: too many bytes are refused when they are announced") {
    CHECK(fault_of("15\r\n") == "body_too_long");
    CHECK(fault_of("a\r\n0123456789\r\nb") == "body_too_long");
    CHECK(fault_of("ffffffffffffffff\r\n") == "body_too_long");
    CHECK(fault_of("0000000000000000000") == "bad_http");
  }

  TEST_CASE("request body: chunk extensions are bounded, each and in total, and not kept") {
    CHECK(chunks("1;12345678\r\nx\r\n0\r\n\r\n").text() == "x");
    CHECK(chunks("1;12345\r\nx\r\n1;12345\r\nx\r\n0\r\n\r\n").text() == "xx");
    CHECK(fault_of("1;123456789") == "extension_too_long");
    CHECK(fault_of("1;12345678\r\nx\r\n1;12345") == "extension_too_long");
    CHECK(fault_of("1;a=\"" + std::string(1'000'000, 'x')) == "extension_too_long");
  }

  TEST_CASE("request body: trailers are dropped, and bounded in bytes and in number") {
    const RequestBody body = chunks("1\r\nx\r\n0\r\nx-troupe-tenant: evil\r\nb:\r\n\r\n");
    CHECK(body.done());
    CHECK(body.text() == "x");
    CHECK(fault_of("0\r\na: " + std::string(1'000'000, 'x')) == "trailer_too_long");
    CHECK(fault_of("0\r\na:\r\nb:\r\nc:\r\nd:") == "trailer_too_long");
    CHECK(chunks("0\r\na:\r\nb:\r\nc:\r\n\r\n").done());
  }

  TEST_CASE("request body: an invalid chunk is refused") {
    for (const char* bad : {"\r\n",           "x",           "-1\r\n",      " 1\r\n",
                            "1 \r\n",         "1\n",         "1\r\r",       "1\r\nab",
                            "1\r\nx\n",       "1\r\nx\rx",   ";\r\n",       "1;\n",
                            "0\r\n\n",        "0\r\n\rx",    "0\r\na\r\n",  "0\r\na: b\r\nc\r\n",
                            "0\r\n a: b\r\n", "0\r\n:b\r\n", "0\r\na: b\n", "0\r\na: b\rc",
                            "0x1\r\n"}) {
      CAPTURE(bad);
      CHECK(fault_of(bad) == "bad_http");
    }
    CHECK(fault_of(std::string_view("1;\0", 3)) == "bad_http");
  }

  TEST_CASE("request body: a body without a length lasts until its end, within the limit") {
    RequestBody body = RequestBody::until_end(small);
    CHECK(body.take("abc") == 3);
    CHECK(body.take("def") == 3);
    CHECK_FALSE(body.done());
    body.end();
    CHECK(body.done());
    CHECK(body.text() == "abcdef");
    CHECK(body.take("more") == 0);
    RequestBody large = RequestBody::until_end(small);
    large.take(std::string(20, 'x'));
    CHECK_FALSE(large.fault());
    large.take("x");
    REQUIRE(large.fault());
    CHECK(large.fault()->code == "body_too_long");
    large.end();
    CHECK_FALSE(large.done());
    RequestBody empty = RequestBody::until_end(small);
    empty.end();
    CHECK(empty.done());
    RequestBody shorter(5, small);
    shorter.take("abc");
    shorter.end();
    REQUIRE(shorter.fault());
    CHECK(shorter.fault()->code == "bad_http");
    BodyLimits by_lines = small;
    by_lines.by_lines = true;
    RequestBody lines = RequestBody::until_end(by_lines);
    lines.take("one\ntw");
    CHECK(lines.next_line() == "one");
    CHECK(lines.next_line() == std::nullopt);
    lines.take("o");
    lines.end();
    CHECK(lines.next_line() == "two");
    CHECK(lines.next_line() == std::nullopt);
  }
}

}  // namespace request_body_test
