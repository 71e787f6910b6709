#include "server/http2/http2_session.h"

#include <doctest/doctest.h>

#include <map>

#include "server/testing/http2_peer.h"

using namespace troupe::server;

namespace http2_session_test {

using namespace troupe::server::http2_test;

// A session and a client, joined without sockets. Bodies are consumed at once.
struct Joined {
  explicit Joined(const Http2Limits& limits = {}) : session(limits) {}

  struct Request {
    Http2Fields fields;
    Http2Event::Fault fault = Http2Event::Fault::none;
    std::string body;
    bool head = false, end = false, closed = false, answered = false;
  };

  void note() {
    for (Http2Event& event : session.take_events()) {
      Request& of = seen[event.stream];
      switch (event.kind) {
        case Http2Event::Kind::head:
          of.head = true, of.fields = std::move(event.fields), of.fault = event.fault;
          break;
        case Http2Event::Kind::data:
          of.body += event.data;
          if (consumes) session.consume(event.stream, event.data.size());
          break;
        case Http2Event::Kind::end:
          of.end = true;
          break;
        case Http2Event::Kind::closed:
          of.closed = true, of.answered = event.answered;
      }
    }
  }
  // Passes bytes in both directions until neither side has any.
  void run() {
    for (int round = 0; round < 1000; ++round) {
      const std::string asked = peer.output();
      session.receive(asked, now_us);
      note();
      std::string answered;
      session.take_output(answered, 1 << 20);
      note();
      peer.input(answered);
      if (asked.empty() && answered.empty()) return;
    }
    FAIL("the two sides never end");
  }

  Http2Session session;
  Http2Peer peer;
  std::map<Http2StreamId, Request> seen;
  std::int64_t now_us = 0;
  bool consumes = true;
};

std::string value_of(const Http2Fields& fields, const std::string& name) {
  for (const auto& [key, value] : fields)
    if (key == name) return value;
  return "";
}

TEST_SUITE("HTTP/2 session") {
  TEST_CASE("HTTP/2: a request arrives with fields and body, and its answer leaves") {
    Joined j;
    const Http2StreamId stream = j.peer.ask(post("/v1/rank", {{"x-troupe-tenant", "acme"}}), "{\"user\":1}");
    j.run();
    CHECK(value_of(j.seen[stream].fields, ":path") == "/v1/rank");
    CHECK(value_of(j.seen[stream].fields, "x-troupe-tenant") == "acme");
    CHECK(j.seen[stream].body == "{\"user\":1}");
    CHECK(j.seen[stream].end);
    CHECK_FALSE(j.seen[stream].closed);
    j.session.answer(stream, 200, {{"content-type", "application/json"}}, "{}");
    j.run();
    CHECK(j.peer.answer(stream).status == "200");
    CHECK(j.peer.answer(stream).fields["content-type"] == "application/json");
    CHECK(j.peer.answer(stream).body == "{}");
    CHECK(j.peer.answer(stream).ended);
    CHECK(j.seen[stream].closed);
    CHECK(j.seen[stream].answered);
    CHECK_FALSE(j.session.has_streams());
    CHECK_FALSE(j.session.is_over());
  }

  TEST_CASE("HTTP/2: an answer in parts ends with trailers, and one without a body is one frame") {
    Joined j;
    const Http2StreamId parts = j.peer.ask(post("/a"), "x"), bare = j.peer.ask(get("/b"));
    j.run();
    j.session.begin_answer(parts, 200, {});
    j.run();
    CHECK(j.peer.answer(parts).begun);
    j.session.write(parts, "one ");
    j.run();
    j.session.write(parts, "two");
    j.session.write(parts, " three");
    CHECK(j.session.unsent_bytes(parts) == 9);
    j.session.end_answer(parts, {{"grpc-status", "0"}});
    j.session.write(parts, "late");
    j.session.answer(bare, 304, {}, "");
    j.run();
    CHECK(j.peer.answer(parts).body == "one two three");
    CHECK(j.peer.answer(parts).trailers["grpc-status"] == "0");
    CHECK(j.peer.answer(parts).ended);
    CHECK(j.peer.answer(bare).status == "304");
    CHECK(j.peer.answer(bare).ended);
    CHECK(j.session.held_bytes() < 64 << 10);
  }

  TEST_CASE("HTTP/2: a large answer leaves as the client's window allows, and large bodies arrive") {
    Joined j;
    const std::string large(1 << 20, 'l');
    const Http2StreamId stream = j.peer.ask(post("/a"), large);
    j.run();
    CHECK(j.seen[stream].body == large);
    j.session.answer(stream, 200, {}, large);
    j.run();
    CHECK(j.peer.answer(stream).body == large);
  }

  TEST_CASE("HTTP/2: a body that is not consumed stops at the window") {
    Joined j;
    j.consumes = false;
    const Http2StreamId stream = j.peer.ask(post("/a"), std::string(1 << 20, 'l'));
    j.run();
    CHECK(j.seen[stream].body.size() == 65'535);
    // another request of the connection goes on
    const Http2StreamId other = j.peer.ask(post("/b"), "whole");
    j.run();
    CHECK(j.seen[other].body == "whole");
    j.session.consume(stream, 65'535);
    j.run();
    CHECK(j.seen[stream].body.size() == 2 * 65'535);
  }

  TEST_CASE("HTTP/2: an answer before the end of a request ends it, and its rest is dropped") {
    Joined j;
    const Http2StreamId stream = j.peer.ask(post("/a"), "begin", false);
    j.run();
    j.session.answer(stream, 413, {}, "too much");
    j.run();
    CHECK(j.peer.answer(stream).status == "413");
    CHECK(j.peer.answer(stream).body == "too much");
    CHECK(j.peer.answer(stream).ended);
    CHECK(j.peer.answer(stream).error == NGHTTP2_NO_ERROR);
    CHECK(j.seen[stream].answered);
  }

  TEST_CASE("HTTP/2: a client that cancels closes the stream, and a late answer does nothing") {
    Joined j;
    const Http2StreamId stream = j.peer.ask(post("/a"), "begin", false);
    j.run();
    j.peer.cancel(stream);
    j.run();
    CHECK(j.seen[stream].closed);
    CHECK_FALSE(j.seen[stream].answered);
    j.session.answer(stream, 200, {}, "late");
    j.session.write(stream, "late");
    j.session.end_answer(stream, {});
    j.session.reset(stream);
    j.session.consume(stream, 1);
    j.run();
    CHECK(j.peer.answer(stream).status == "");
    CHECK_FALSE(j.session.is_over());
  }

  TEST_CASE("HTTP/2: a request can be reset, and further ones refused while open ones go on") {
    Joined j;
    const Http2StreamId one = j.peer.ask(get("/a")), two = j.peer.ask(get("/b"));
    j.run();
    j.session.reset(one);
    j.session.refuse_further();
    j.run();
    CHECK(j.peer.answer(one).error == NGHTTP2_CANCEL);
    CHECK(j.peer.goes_away());
    CHECK(j.peer.goaway_error() == NGHTTP2_NO_ERROR);
    j.session.answer(two, 200, {}, "done");
    j.run();
    CHECK(j.peer.answer(two).body == "done");
    CHECK_FALSE(j.session.has_streams());
  }

  TEST_CASE("HTTP/2: a request that comes before GOAWAY is sent is refused, and not begun") {
    Joined j;
    const Http2StreamId one = j.peer.ask(get("/a"));
    j.run();
    j.session.refuse_further();
    const Http2StreamId late = j.peer.ask(post("/b"), "body");
    j.run();  // the server receives first
    CHECK_FALSE(j.seen[late].head);
    CHECK_FALSE(j.seen[late].end);
    CHECK(j.peer.answer(late).error == NGHTTP2_REFUSED_STREAM);
    CHECK(j.peer.goes_away());
    j.session.answer(one, 200, {}, "done");
    j.run();
    CHECK(j.peer.answer(one).body == "done");
  }

  TEST_CASE("HTTP/2: too long, too many and malformed fields are reported, and the rest is not kept") {
    Joined j({.head_bytes_max = 200, .fields_max = 10});
    Http2Fields many;
    for (int i = 0; i < 8; ++i) many.emplace_back("a", "b");
    const Http2StreamId is_long = j.peer.ask(post("/a", {{"y", std::string(200, 'y')}}), "x"),
                        has_many = j.peer.ask(post("/a", many), "x"), good = j.peer.ask(get("/"));
    j.run();
    CHECK(j.seen[is_long].fault == Http2Event::Fault::too_long);
    CHECK(j.seen[has_many].fault == Http2Event::Fault::too_many_fields);
    const Http2Fields kept{{":method", "POST"}, {":path", "/a"}};
    CHECK(j.seen[is_long].fields == kept);
    CHECK(j.seen[has_many].fields == kept);
    CHECK(j.seen[good].fault == Http2Event::Fault::none);
    Http2Session session({});
    session.receive(preface() + head(1, post("/a", {{"x-a", std::string("a\0b", 3)}}), true), 0);
    const std::vector<Http2Event> events = session.take_events();
    REQUIRE(!events.empty());
    CHECK(events.front().fault == Http2Event::Fault::malformed);
    CHECK(events.front().fields == kept);
  }

  TEST_CASE("HTTP/2: a faulty head keeps its content type wherever it stands, once and if it is short") {
    Joined j({.head_bytes_max = 200});
    const std::pair<std::string, std::string> big{"y", std::string(200, 'y')}, type{"content-type", "a/b"},
        other{"content-type", "c/d"}, is_long{"content-type", std::string(150, 'z')};
    const Http2StreamId before = j.peer.ask(post("/a", {type, big})),
                        after = j.peer.ask(post("/a", {big, type})),
                        twice = j.peer.ask(post("/a", {type, big, other})),
                        none = j.peer.ask(post("/" + std::string(150, 'p'), {big, is_long}));
    j.run();
    const Http2Fields kept{{":method", "POST"}, {":path", "/a"}, type};
    for (const Http2StreamId stream : {before, after, twice}) {
      CHECK(j.seen[stream].fault == Http2Event::Fault::too_long);
      CHECK(j.seen[stream].fields == kept);
    }
    CHECK(j.seen[none].fields == Http2Fields{{":method", "POST"}});
  }

  TEST_CASE("HTTP/2: where the limit allows it, a head may come in many frames") {
    Http2Limits limits{.head_bytes_max = 1 << 20, .heads_bytes_max = 4 << 20};
    limits.frames.header_block_bytes_max = 2 << 20, limits.frames.continuations_max = 128;
    Http2Session session(limits);
    std::string bytes = preface() + frame(headers, 0, 1, hpack(post("/a")));
    for (int i = 0; i < 40; ++i)
      bytes += frame(more, i == 39 ? end_headers : 0, 1, hpack({{"y", std::string(9'000, 'y')}}));
    session.receive(bytes, 0);
    const std::vector<Http2Event> events = session.take_events();
    REQUIRE(events.size() == 1);
    CHECK(events.front().fields.size() == 44);
  }

  TEST_CASE("HTTP/2: fields of all open requests have a bound, which released ones do not touch") {
    Joined j({.head_bytes_max = 1000, .heads_bytes_max = 1500});
    const Http2Fields much = post("/a", {{"y", std::string(900, 'y')}});
    const Http2StreamId one = j.peer.ask(much, "", false), two = j.peer.ask(much, "", false);
    j.run();
    CHECK(j.seen[one].head);
    CHECK_FALSE(j.seen[two].head);
    CHECK(j.peer.answer(two).error == NGHTTP2_REFUSED_STREAM);
    j.session.release_head(one);
    const Http2StreamId three = j.peer.ask(much, "", false);
    j.run();
    CHECK(j.seen[three].head);
  }

  TEST_CASE("HTTP/2: open requests have a bound, also for a client that does not wait for the settings") {
    const Http2Limits limits{.streams_max = 4};
    Http2Session session(limits);
    std::string bytes = preface();
    for (std::uint32_t i = 0; i < 50; ++i) bytes += head(2 * i + 1, post("/a"));
    session.receive(bytes, 0);
    std::size_t heads = 0;
    for (const Http2Event& event : session.take_events()) heads += event.kind == Http2Event::Kind::head;
    CHECK(heads <= 4);
    CHECK(session.stream_count() <= 4);
  }

  TEST_CASE("HTTP/2: bytes that are not HTTP/2 end the session") {
    for (const std::string& bytes :
         {std::string("GET / HTTP/1.1\r\n\r\nand so on and on and on"), std::string(100, '\xff'),
          std::string(http2_preface) + std::string(100, '\xff'), preface() + frame(data, 0, 0, "x"),
          preface() + frame(headers, end_headers, 2, hpack(get("/"))),
          preface() + frame(more, end_headers, 1, hpack(get("/")))}) {
      Http2Session session({});
      session.receive(bytes, 0);
      std::string out;
      session.take_output(out, 1 << 20);
      CHECK(session.is_over());
      CHECK_FALSE(session.is_flooded());
      session.receive(bytes, 0);
      CHECK(session.held_bytes() < 64 << 10);
    }
  }

  TEST_CASE("HTTP/2: bytes in any pieces give the same requests") {
    const std::string bytes = preface() + head(1, post("/a", {{"x", "y"}})) + frame(data, 0, 1, "one ") +
                              head(3, get("/b"), true) + frame(data, end_stream, 1, "two");
    for (const std::size_t step : {1UL, 2UL, 7UL, 1000UL}) {
      Http2Session session({});
      std::string reported;
      for (std::size_t at = 0; at < bytes.size(); at += step) {
        const std::string piece = bytes.substr(at, step);
        session.receive(piece, 0);
        for (const Http2Event& event : session.take_events()) {
          if (event.kind == Http2Event::Kind::data && reported.ends_with("data 1 "))
            reported += event.data;
          else if (event.kind == Http2Event::Kind::data)
            reported += "data 1 " + std::string(event.data);
          else
            reported += (event.kind == Http2Event::Kind::head ? "head " : "end ") +
                        std::to_string(event.stream) + " ";
        }
      }
      std::erase(reported, '\n');
      CHECK(reported.starts_with("head 1 data 1 "));
      CHECK(reported.ends_with("end 1 "));
      CHECK(reported.find("head 3 end 3 ") != reported.npos);
    }
  }
}

}  // namespace http2_session_test
