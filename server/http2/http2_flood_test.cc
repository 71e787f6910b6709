// Floods of frames and resets against a session without sockets: it must end, and keep little meanwhile.
#include <doctest/doctest.h>

#include <functional>
#include <memory>

#include "server/http2/http2_session.h"
#include "server/testing/http2_peer.h"

using namespace troupe::server;

namespace http2_flood_test {

using namespace troupe::server::http2_test;

constexpr std::size_t piece_bytes = 8 << 10;  // as a connection reads
constexpr std::size_t kept_bytes_max = 640 << 10;

// Sends `part` again and again, in pieces, as fast as the clock allows; returns the pieces until the
// session ended, 0 = it did not. Answers nothing, and drops the output as a socket would take it.
std::size_t pieces_until_over(Http2Session& session, const std::string& begin,
                              const std::function<std::string(std::uint32_t)>& part,
                              std::size_t pieces = 400) {
  std::string bytes = begin;
  std::uint32_t turn = 0;
  for (std::size_t i = 1; i <= pieces; ++i) {
    while (bytes.size() < piece_bytes) bytes += part(turn++);
    session.receive(std::string_view(bytes).substr(0, piece_bytes), static_cast<std::int64_t>(i) * 100);
    bytes.erase(0, piece_bytes);
    session.take_events();
    std::string out;
    session.take_output(out, 64 << 10);
    session.take_events();
    CHECK(session.held_bytes() < kept_bytes_max);
    if (session.is_over()) return i;
  }
  return 0;
}

bool is_flood(const std::string& begin, const std::function<std::string(std::uint32_t)>& part,
              std::size_t pieces = 400) {
  Http2Session session({});
  return pieces_until_over(session, preface() + begin, part, pieces) > 0 && session.is_flooded();
}

std::string open_request() { return head(1, post("/a")); }

TEST_SUITE("HTTP/2 floods") {
  TEST_CASE("floods: frames that bring nothing forward end the connection") {
    CHECK(is_flood("", [](auto) { return frame(ping, 0, 0, "12345678"); }));
    CHECK(is_flood("", [](auto) { return frame(settings, 0, 0, std::string("\0\x04\0\0\xff\xff", 6)); }));
    CHECK(is_flood("", [](auto) { return frame(settings, 0, 0, ""); }));
    CHECK(is_flood("", [](auto) { return frame(window, 0, 0, number(1)); }));
    CHECK(is_flood("", [](auto) { return frame(0xfa, 0, 0, ""); }));
    CHECK(is_flood("", [](auto i) { return frame(priority, 0, 2 * i + 1, number(0) + "\x10"); }));
    CHECK(is_flood(open_request(), [](auto) { return frame(data, 0, 1, ""); }));
    CHECK(is_flood(open_request(), [](auto) { return frame(data, 0, 1, "x"); }));
    CHECK(is_flood(
        open_request(),
        [](auto) { return frame(data, 8, 1, std::string(1, '\xc8') + std::string(200, '\0')); }, 4000));
    CHECK(is_flood(open_request(), [](auto) { return frame(window, 0, 1, number(1)); }));
    CHECK(is_flood("", [](auto) { return frame(rst_stream, 0, 1, number(8)); }) == false);  // an idle stream
  }

  TEST_CASE("floods: CONTINUATION without end ends the connection, however little each has") {
    const std::string begin = frame(headers, 0, 1, hpack(post("/a")));
    CHECK(is_flood(begin, [](auto) { return frame(more, 0, 1, ""); }));
    CHECK(is_flood(begin, [](auto) { return frame(more, 0, 1, hpack({{"y", std::string(4000, 'y')}})); }));
    CHECK(is_flood(begin, [](auto) { return frame(more, 0, 1, hpack({{"y", "z"}})); }));
  }

  TEST_CASE("floods: requests that are reset at once end the connection") {
    CHECK(is_flood("", [](auto i) { return head(2 * i + 1, get("/a"), true) + reset(2 * i + 1); }));
    CHECK(is_flood("", [](auto i) { return head(2 * i + 1, post("/a")) + reset(2 * i + 1); }));
  }

  TEST_CASE("floods: requests that the client makes the server reset end the connection") {
    CHECK(is_flood("", [](auto i) {  // more data than its length says
      return head(2 * i + 1, post("/a", {{"content-length", "1"}})) + frame(data, 0, 2 * i + 1, "two");
    }));
    CHECK(is_flood("", [](auto i) {
      return head(2 * i + 1, post("/a")) + frame(window, 0, 2 * i + 1, number(0x7fffffff));
    }));
    CHECK(is_flood("", [](auto i) { return head(2 * i + 1, post("/a")); }));  // beyond the allowed number
  }

  TEST_CASE("floods: a window that grows by nothing is an error of the connection") {
    Http2Session session({});
    session.receive(preface() + open_request() + frame(window, 0, 1, number(0)), 0);
    std::string out;
    session.take_output(out, 1 << 20);
    CHECK(session.is_over());
  }

  // Requests of 24 KB, each with references of one byte to a field of `bytes` in HPACK's table. Returns
  // the session after them.
  std::unique_ptr<Http2Session> after_references(std::size_t bytes, char filler, bool as_trailers = false) {
    const std::string large = std::string("\x40\x01y", 3) + hpack_length(bytes) + std::string(bytes, filler);
    const std::string many(12'000, '\xbe');
    auto session = std::make_unique<Http2Session>(Http2Limits{});
    session->receive(preface() + head(1, post("/a"), true), 0);
    for (std::uint32_t i = 1; i <= 8; ++i) {
      const std::uint32_t id = 2 * i + 1;
      const std::string first = i == 1 ? large : "";
      if (as_trailers)
        session->receive(head(id, post("/a")) + frame(headers, end_stream, id, first + many) +
                             frame(more, end_headers, id, many),
                         0);
      else
        session->receive(
            frame(headers, 0, id, hpack(post("/a")) + first + many) + frame(more, end_headers, id, many), 0);
    }
    return session;
  }

  TEST_CASE("floods: references to HPACK's table cost bounded work, and their requests are reset") {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{4}, std::size_t{4'000}})
      for (const char filler : {'y', '\x01'})  // the second is no byte of a field
        for (const bool as_trailers : {false, true}) {
          CAPTURE(bytes);
          CAPTURE(filler);
          CAPTURE(as_trailers);
          const auto session = after_references(bytes, filler, as_trailers);
          CHECK(session->checked_fields() <= 8 * 4 * 110);
          CHECK(session->checked_bytes() <= 8 * ((64 << 10) + 5'000));
          CHECK(session->held_bytes() < 64 << 10);
          std::string out;
          session->take_output(out, 1 << 20);
          CHECK(session->stream_count() == 1);  // the one before them
          CHECK_FALSE(session->is_over());
          session->receive(head(101, get("/b"), true), 0);
          const std::vector<Http2Event> events = session->take_events();
          CHECK(events.back().kind == Http2Event::Kind::end);
          CHECK(events.back().stream == 101);
        }
  }

  TEST_CASE("floods: requests that are reset for their references to HPACK's table end the connection") {
    const std::string large = std::string("\x40\x01y", 3) + hpack_length(4'000) + std::string(4'000, 'y');
    CHECK(is_flood(frame(headers, end_headers | end_stream, 1, hpack(get("/a")) + large), [](auto i) {
      return frame(headers, end_headers | end_stream, 2 * i + 3,
                   hpack(get("/a")) + std::string(4'000, '\xbe'));
    }));
  }

  TEST_CASE("floods: fields of refused requests cost bounded work") {
    Http2Session session({.streams_max = 1});
    std::string bytes = preface() + head(1, post("/a"));
    for (std::uint32_t i = 1; i <= 8; ++i)
      bytes += frame(headers, end_headers, 2 * i + 1, hpack(post("/a")) + std::string(16'000, '\x90'));
    session.receive(bytes, 0);
    CHECK(session.checked_fields() <= 9 * 4 * 110);
  }

  TEST_CASE("floods: a client that pings now and then, or is answered, is served on") {
    Http2Session session({});
    session.receive(preface(), 0);
    std::int64_t now_us = 0;
    const auto works = [&](const std::string& bytes) {
      session.receive(bytes, now_us);
      session.take_events();
      std::string out;
      session.take_output(out, 1 << 20);
      session.take_events();
      return !session.is_over();
    };
    for (int i = 0; i < 5'000; ++i, now_us += 10'000) CHECK(works(frame(ping, 0, 0, "12345678")));
    for (std::uint32_t i = 0; i < 5'000; ++i) {  // all within one moment
      const std::uint32_t stream = 2 * i + 1;
      CHECK(works(head(stream, get("/a"), true) + frame(ping, 0, 0, "12345678") +
                  frame(window, 0, 0, number(9))));
      session.answer(static_cast<Http2StreamId>(stream), 200, {}, "x");
      CHECK(works(frame(window, 0, stream, number(9))));
    }
    for (std::uint32_t i = 5'000; i < 5'200; ++i) {  // some are cancelled
      const std::uint32_t stream = 2 * i + 1;
      CHECK(works(head(stream, get("/a"), true) + reset(stream)));
    }
  }

  TEST_CASE("floods: frames wait to be sent in bounded number") {
    Http2Session session({.queued_max = 100});
    std::string bytes = preface();
    for (int i = 0; i < 200; ++i) bytes += frame(ping, 0, 0, "12345678");
    session.receive(bytes, 0);
    CHECK(session.is_flooded());
  }
}

}  // namespace http2_flood_test
