#include <doctest/doctest.h>

#include "runtime/network/certificates.h"
#include "server/http/http_server_tls.h"
#include "server/testing/http2_client.h"
#include "server/testing/http_server_test.h"

using namespace troupe;
using namespace troupe::server;
using namespace troupe::server::http_server_test;

namespace http_server_http2_test {

using namespace troupe::server::http2_test;

const Http2Fields rank = post("/v1/rank");

std::uint16_t port_of(const Fixture& f) { return f.http_server->port(); }

TEST_SUITE("HTTP server over HTTP/2") {
  TEST_CASE("HTTP/2 server: requests are answered as over HTTP/1.1, many on one connection") {
    Fixture f;
    Http2Client client(port_of(f));
    CHECK(client.call(get("/v2/health/live")).body == "{\"live\":true}");
    const PeerAnswer ranked =
        client.call(post("/v1/rank", {{"x-troupe-tenant", "acme"}, {"x-request-id", "mine"}}), rank_body);
    CHECK(ranked.status == "200");
    CHECK(ranked.fields.at("content-type") == "application/json");
    CHECK(ranked.fields.at("x-request-id") == "mine");
    CHECK(ranked.fields.contains("traceparent"));
    CHECK(ranked.fields.at("content-length") == std::to_string(ranked.body.size()));
    CHECK(ranked.body ==
          f.raw(post_rank("x-troupe-tenant: acme\r\nconnection: close\r\n") + rank_body)
              .substr(f.raw(post_rank("x-troupe-tenant: acme\r\nconnection: close\r\n") + rank_body)
                          .find("\r\n\r\n") +
                      4));
    CHECK(client.call(get("/nothing")).status == "404");
    CHECK(client.call(get("/v1/rank")).status == "405");
    CHECK(client.call(get("/v1/rank")).fields.at("allow") == "POST");
    CHECK(client.call(rank, "{").status == "400");
    CHECK(client.call(get("/metrics")).body.find("troupe_http_requests_total") != std::string::npos);
    CHECK(client.call(get("/v1/users/ana")).fields.at("etag") == "\"7\"");
    Http2Fields known = get("/v1/users/ana");
    known.emplace_back("if-none-match", "\"7\"");
    CHECK(client.call(known).status == "304");
    Http2Fields head = get("/v2/health/live");
    head.front().second = "HEAD";
    CHECK(client.call(head).status == "200");
    CHECK(client.call(head).body.empty());
    std::vector<Http2StreamId> streams;
    for (int i = 0; i < 50; ++i) streams.push_back(client.ask(rank, rank_body));
    for (const Http2StreamId stream : streams) CHECK(client.answer(stream).status == "200");
  }

  TEST_CASE(
      "HTTP/2 server: a request may come in parts, and a connection that begins otherwise is HTTP/1.1") {
    Fixture f;
    Http2Client client(port_of(f));
    const Http2StreamId stream = client.ask(rank, rank_body.substr(0, 10), false);
    CHECK(client.call(get("/v2/health/live")).status == "200");
    client.send(stream, rank_body.substr(10), true);
    CHECK(client.answer(stream).status == "200");
    CHECK(has(f.raw("PRI * HTTP/2.0\r\n\r\nnot the rest of it"), " 400 "));
    CHECK(has(f.raw("P"), "bad_http"));
    RawClient slow(port_of(f));
    for (const char c : live + "connection: close\r\n" + end) slow.send(std::string(1, c));
    CHECK(has(slow.read_all(), "{\"live\":true}"));
    RawClient by_bytes(port_of(f));
    for (const char c : preface() + http2_test::head(1, get("/v2/health/live"), true))
      by_bytes.send(std::string(1, c));
    CHECK(has(by_bytes.read_until("{\"live\":true}"), "{\"live\":true}"));
  }

  TEST_CASE("HTTP/2 server: limits of body and header hold, and the connection goes on") {
    HttpServerConfig config;
    config.body_bytes_max = 1'000;
    Fixture f(config);
    Http2Client client(port_of(f));
    CHECK(client.call(rank, std::string(2'000, ' ')).status == "413");
    CHECK(client.call(post("/v1/rank", {{"content-length", "5000"}}), std::string(5'000, ' ')).status ==
          "413");
    CHECK(client.call(post("/v1/rank", {{"y", std::string(9'000, 'y')}})).status == "431");
    Http2Fields many = rank;
    for (int i = 0; i < 120; ++i) many.emplace_back("y", "z");
    CHECK(client.call(many).status == "431");
    Http2Fields head = get("/v2/health/live");
    head.front().second = "HEAD";
    head.emplace_back("y", std::string(9'000, 'y'));
    CHECK(client.call(head).status == "431");
    CHECK(client.call(head).body.empty());
    CHECK(client.call(head).fields.at("content-length") != "0");
    CHECK(client.call(post("/v1/rank", {{"x-troupe-tenant", "a"}, {"x-troupe-tenant", "b"}})).status ==
          "400");
    CHECK(client.call(post("/v1/rank", {{"authorization", "a"}, {"authorization", "b"}})).status == "400");
    CHECK(client.call(rank, rank_body).status == "200");
    CHECK(f.asked == 1);
  }

  TEST_CASE("HTTP/2 server: a client that waits to send its body is told to, or gets a refusal instead") {
    HttpServerConfig config;
    config.body_bytes_max = 1'000;
    config.timeout_us = 2'000'000;
    Fixture f(config);
    Http2Client client(port_of(f));
    const std::pair<std::string, std::string> waits{"expect", "100-continue"};
    for (const char* path : {"/v1/rank", "/v1/users"}) {
      const Http2StreamId stream = client.ask(post(path, {waits}), "", false);
      CHECK(client.status(stream) == "100");
      client.send(stream, path == std::string("/v1/rank") ? rank_body : "{\"user\":\"a\",\"tokens\":[1]}\n",
                  true);
      CHECK(client.answer(stream).status == "200");
      CHECK_FALSE(client.answer(stream).body.empty());
    }
    const Http2StreamId too_long =
        client.ask(post("/v1/rank", {waits, {"content-length", "5000"}}), "", false);
    CHECK(client.status(too_long) == "413");
    const Http2StreamId unknown = client.ask(post("/v1/rank", {waits, {"host", "other"}}), "", false);
    CHECK(client.status(unknown) == "400");
    const Http2StreamId whole = client.ask(post("/v1/rank", {waits}), rank_body);
    CHECK(client.answer(whole).status == "200");
    CHECK(client.answer(whole).fields.contains("content-type"));  // no interim answer came before it
  }

  TEST_CASE("HTTP/2 server: keys are needed as over HTTP/1.1, and checked before the body") {
    ApiKeys keys;
    const NewKey acme = make_key({.tenant = "acme"});
    keys.add(acme.key);
    HttpServerConfig config;
    config.keys = std::make_shared<const ApiKeys>(keys);
    Fixture f(config);
    Http2Client client(port_of(f));
    CHECK(client.call(get("/v2/health/live")).status == "200");
    const Http2StreamId unknown = client.ask(rank, "{", false);  // its body never ends
    CHECK(client.answer(unknown).status == "401");
    CHECK(client.answer(unknown).fields.at("www-authenticate") == "Bearer");
    const PeerAnswer ranked =
        client.call(post("/v1/rank", {{"authorization", "Bearer " + acme.text}}), rank_body);
    CHECK(ranked.status == "200");
    CHECK(has(ranked.body, "\"policy\":\"acme\""));
  }

  TEST_CASE("HTTP/2 server: a request that is not completed, and an idle connection, are given up") {
    HttpServerConfig config;
    config.timeout_us = 300'000;
    Fixture f(config);
    Http2Client client(port_of(f));
    const Http2StreamId half = client.ask(rank, "{", false);
    CHECK(client.answer(half).ended);
    CHECK(client.answer(half).error == NGHTTP2_CANCEL);
    client.wait_until_closed();
    CHECK(client.peer.goes_away());
    CHECK(client.peer.goaway_error() == NGHTTP2_NO_ERROR);
    RawClient silent(port_of(f));
    silent.send(preface());
    silent.read_all();
    CHECK(f.call("GET", "/v2/health/live").status == 200);
  }

  TEST_CASE("HTTP/2 server: a client that does not read its answer is given up") {
    HttpServerConfig config;
    config.timeout_us = 300'000;
    Fixture f(config);
    RawClient client(port_of(f));
    // The window of its streams is empty, so that no answer fits.
    client.send(std::string(http2_preface) + frame(settings, 0, 0, std::string("\0\x04\0\0\0\0", 6)) +
                http2_test::head(1, get("/v2/health/live"), true));
    client.read_all();
    CHECK(f.call("GET", "/v2/health/live").status == 200);
  }

  TEST_CASE("HTTP/2 server: requests with the actors are bounded, also those that were reset") {
    HttpServerConfig config;
    config.connections_max = 8, config.connections_per_address_max = 4;
    Fixture f(config);
    f.silent = true;
    Http2Client client(port_of(f));
    std::vector<Http2StreamId> streams;
    for (int i = 0; i < 4; ++i) {
      streams.push_back(client.ask(rank, rank_body));
      while (f.asked <= i) f.asked.wait(i);
    }
    for (const Http2StreamId stream : streams) client.cancel(stream);
    CHECK(client.call(rank, rank_body).status == "503");
    CHECK(has(client.call(rank, rank_body).body, "overloaded"));
    CHECK(client.call(get("/v2/health/live")).status == "200");
    CHECK(f.asked == 4);
    f.silent = false;
    Http2Client other(port_of(f), "127.0.0.2");
    CHECK(other.call(rank, rank_body).status == "200");
    for (RequestId id = 1; id <= 4; ++id) f.http_server->deliver(RankReply{id, "ana"});
    CHECK(client.call(rank, rank_body).status == "200");
  }

  TEST_CASE("HTTP/2 server: one connection has a bound of requests, however many it resets") {
    HttpServerConfig config;
    config.streams_max = 3;
    Fixture f(config);
    f.silent = true;
    Http2Client client(port_of(f));
    for (int i = 0; i < 3; ++i) {
      const Http2StreamId stream = client.ask(rank, rank_body);
      while (f.asked <= i) f.asked.wait(i);
      client.cancel(stream);
    }
    CHECK(client.call(rank, rank_body).status == "503");
    CHECK(f.asked == 3);
  }

  TEST_CASE("HTTP/2 server: bodies that do not end are bounded together, and an honest client is served") {
    HttpServerConfig config;
    config.memory_bytes_max = 1 << 20, config.body_bytes_max = 256 << 10;
    Fixture f(config);
    std::vector<std::unique_ptr<Http2Client>> clients;
    std::size_t held = 0;
    for (int i = 0; i < 4; ++i) {
      clients.push_back(std::make_unique<Http2Client>(port_of(f)));
      for (int k = 0; k < 20; ++k) {
        clients.back()->finish_sending(clients.back()->ask(rank, std::string(60'000, ' '), false));
        held += 60'000;
      }
    }
    CHECK(held > 4 << 20);
    Http2Client honest(port_of(f), "127.0.0.2");
    CHECK(honest.call(rank, rank_body).status == "200");
    CHECK(f.call("GET", "/v2/health/live").status == 200);
    CHECK(has(f.call("GET", "/metrics").body, "overloaded"));
  }

  TEST_CASE("HTTP/2 server: floods end their connection, and others are served") {
    Fixture f;
    std::string pings = preface(), resets = preface(), opens = preface();
    for (int i = 0; i < 20'000; ++i) pings += frame(ping, 0, 0, "12345678");
    for (std::uint32_t i = 0; i < 5'000; ++i) {
      resets += http2_test::head(2 * i + 1, rank, false) + http2_test::reset(2 * i + 1);
      opens += http2_test::head(2 * i + 1, rank, false);
    }
    for (const std::string& flood : {pings, resets, opens}) {
      RawClient client(port_of(f));
      client.send(flood);
      client.read_all();  // until the server closes
      CHECK(f.call("GET", "/v2/health/live").status == 200);
    }
    CHECK(has(f.call("GET", "/metrics").body, "http2_flood"));
    CHECK(f.asked == 0);
  }

  TEST_CASE("HTTP/2 server: requests of many lines have a result for each, as over HTTP/1.1") {
    Fixture f;
    Http2Client client(port_of(f));
    std::string lines;
    for (int i = 0; i < 100; ++i) lines += "{\"user\":\"u" + std::to_string(i) + "\",\"tokens\":[1]}\n";
    const PeerAnswer whole = client.call(post("/v1/users"), lines + "{\"user\":7}\n");
    CHECK(whole.status == "200");
    CHECK(whole.fields.at("content-type") == "application/x-ndjson");
    CHECK(has(whole.body, "{\"line\":1,\"status\":200,\"version\":7}"));
    CHECK(has(whole.body, "{\"line\":101,\"status\":400"));
    CHECK(has(whole.body, "{\"lines\":101,\"failed\":1}"));
    CHECK(f.written.size() == 100);
    // Results come while the request goes on, and lines about one user stay in order.
    const Http2StreamId stream = client.ask(post("/v1/users"), "{\"user\":\"a\",\"tokens\":[1]}\n", false);
    CHECK(client.waits_for(stream, "\"line\":1"));
    client.send(stream,
                "{\"user\":\"a\",\"tokens\":[2]}\n{\"user\":\"a\",\"delete\":true}\n{\"user\":\"b\",\"tok");
    CHECK(client.waits_for(stream, "\"line\":3"));
    client.send(stream, "ens\":[1]}", true);
    CHECK(has(client.answer(stream).body, "{\"lines\":4,\"failed\":0}"));
    CHECK(client.call(post("/v1/users"), "").body == "{\"lines\":0,\"failed\":0}\n");
    CHECK(client.call(get("/v1/users")).status == "405");
    CHECK(client.call(post("/v1/users"), std::string(3 << 20, ' ')).status == "200");
  }

  TEST_CASE("HTTP/2 server: a key that is revoked ends a request of many lines") {
    ApiKeys keys;
    const NewKey acme = make_key({.tenant = "acme"});
    keys.add(acme.key);
    HttpServerConfig config;
    config.keys = std::make_shared<const ApiKeys>(keys);
    Fixture f(config);
    Http2Client client(port_of(f));
    const Http2StreamId stream = client.ask(post("/v1/users", {{"authorization", "Bearer " + acme.text}}),
                                            "{\"user\":\"a\",\"tokens\":[1]}\n", false);
    CHECK(client.waits_for(stream, "\"line\":1,\"status\":200"));
    f.http_server->renew(std::make_shared<const ApiKeys>());
    CHECK(f.call("GET", "/metrics").status == 401);  // the new keys are in use
    client.send(stream, "{\"user\":\"b\",\"tokens\":[1]}\n");
    CHECK(has(client.answer(stream).body, "\"line\":2,\"status\":401"));
    CHECK(f.written.size() == 1);
  }

  TEST_CASE("HTTP/2 server: a closing server answers what waits and closes") {
    Fixture f;
    f.silent = true;
    Http2Client client(port_of(f));
    const Http2StreamId waits = client.ask(rank, rank_body), half = client.ask(rank, "{", false);
    f.asked.wait(0);
    f.http_server->close();
    CHECK(has(client.answer(waits).body, "stopping"));
    CHECK(client.answer(half).ended);
    client.wait_until_closed();
  }

  TEST_CASE("HTTP/2 server: connections over it count like all others") {
    HttpServerConfig config;
    config.connections_max = 6, config.connections_per_address_max = 2;
    Fixture f(config);
    Http2Client one(port_of(f)), two(port_of(f));
    CHECK(one.call(get("/v2/health/live")).status == "200");
    CHECK(two.call(get("/v2/health/live")).status == "200");
    Http2Client three(port_of(f));  // the one that waited longest makes way
    CHECK(three.call(get("/v2/health/live")).status == "200");
    one.wait_until_closed();
    CHECK(two.call(get("/v2/health/live")).status == "200");
  }

  TEST_CASE("HTTP/2 server: over TLS it is chosen in the handshake") {
    const Certificate authority = make_authority("http2-test", 1),
                      made = make_certificate(authority, "localhost", 1);
    HttpServerConfig config;
    config.certificate = {made.certificate, made.key};
    Fixture f(config);
    boost::asio::io_context io;
    boost::asio::ssl::context security(boost::asio::ssl::context::tls_client);
    boost::asio::ssl::stream<Tcp::socket> stream(io, security);
    const unsigned char offered[] = "\x08http/1.1\x02h2";
    SSL_set_alpn_protos(stream.native_handle(), offered, sizeof offered - 1);
    stream.next_layer().connect({boost::asio::ip::make_address("127.0.0.1"), port_of(f)});
    stream.handshake(boost::asio::ssl::stream_base::client);
    const unsigned char* name = nullptr;
    unsigned bytes = 0;
    SSL_get0_alpn_selected(stream.native_handle(), &name, &bytes);
    CHECK(std::string(reinterpret_cast<const char*>(name), bytes) == "h2");
    boost::asio::write(stream,
                       boost::asio::buffer(preface() + http2_test::head(1, get("/v2/health/live"), true)));
    std::string received;
    boost::asio::read_until(stream, boost::asio::dynamic_buffer(received), "{\"live\":true}");
    CHECK(has(received, "{\"live\":true}"));
  }
}

}  // namespace http_server_http2_test
