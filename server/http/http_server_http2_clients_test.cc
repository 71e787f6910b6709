// Tests of clients over HTTP/2: those of other sites, and those that go while their requests wait.
#include <doctest/doctest.h>

#include "server/testing/http2_client.h"
#include "server/testing/http_server_test.h"

using namespace troupe;
using namespace troupe::server;
using namespace troupe::server::http2_test;
using namespace troupe::server::http_server_test;

namespace http_server_http2_clients_test {

std::uint16_t port_of(const Fixture& f) { return f.http_server->port(); }

HttpServerConfig patient() {
  HttpServerConfig config;
  config.answer_us_max = 60'000'000;
  return config;
}

Http2Fields post_to(const std::string& host, Http2Fields more = {}) {
  Http2Fields fields{{":method", "POST"}, {":scheme", "http"}, {":path", "/v1/rank"}, {":authority", host}};
  fields.insert(fields.end(), more.begin(), more.end());
  return fields;
}

TEST_SUITE("HTTP server over HTTP/2, clients") {
  TEST_CASE("HTTP/2 clients: unknown hosts, pages of other sites and their forms are refused") {
    HttpServerConfig config;
    config.hosts = ServedHosts::parse("", true);
    Fixture f(config);
    Http2Client client(port_of(f));
    const auto body = [&](const Http2Fields& fields) { return client.call(fields, rank_body).body; };
    CHECK(has(body(post_to("localhost:8080")), "\"user\":\"ana\""));
    CHECK(has(body(post_to("127.0.0.1")), "\"user\":\"ana\""));
    CHECK(has(body(post_to("evil.example")), "unknown_host"));
    CHECK(has(body(post_to("localhost", {{"host", "evil.example"}})), "bad_host"));
    CHECK(has(body(post_to("localhost", {{"origin", "http://evil.example"}})), "foreign_origin"));
    CHECK(has(body(post_to("localhost", {{"origin", "http://localhost"}, {"origin", "http://localhost"}})),
              "foreign_origin"));
    CHECK(has(body(post_to("localhost", {{"sec-fetch-site", "cross-site"}})), "foreign_origin"));
    CHECK(has(body(post_to("localhost", {{"origin", "http://localhost"}, {"content-type", "text/plain"}})),
              "form_body"));
    CHECK(f.asked == 2);
    CHECK(client.call(get("/v2/health/live")).status == "200");  // by any name
  }

  TEST_CASE("HTTP/2 clients: a tenant's name that is no UTF-8 is refused, and stands in no log or metric") {
    Fixture f;
    Http2Client client(port_of(f));
    const PeerAnswer refused = client.call(post("/v1/rank", {{"x-troupe-tenant", "caf\xe9"}}), rank_body);
    CHECK(refused.status == "400");
    CHECK(has(refused.body, "bad_tenant"));
    CHECK_FALSE(has(f.call("GET", "/metrics").body, "caf"));
  }

  TEST_CASE("HTTP/2 clients: a key for metrics reads them, and nothing else") {
    ApiKeys keys;
    const NewKey scrape = make_key({.scrape = true});
    keys.add(scrape.key);
    HttpServerConfig config;
    config.keys = std::make_shared<const ApiKeys>(keys);
    Fixture f(config);
    Http2Client client(port_of(f));
    const std::pair<std::string, std::string> key{"authorization", "Bearer " + scrape.text};
    Http2Fields metrics = get("/metrics");
    metrics.push_back(key);
    CHECK(client.call(metrics).status == "200");
    CHECK(client.call(post("/v1/rank", {key}), rank_body).status == "403");
    CHECK(f.asked == 0);
  }

  TEST_CASE("HTTP/2 clients: a request that is reset is withdrawn, and counts until its answer has come") {
    HttpServerConfig config = patient();
    config.streams_max = 1;
    Fixture f(config);
    f.silent = true;
    Http2Client client(port_of(f));
    const Http2StreamId reset = client.ask(post("/v1/rank"), rank_body);
    f.asked.wait(0);
    client.cancel(reset);
    f.cancelled.wait(0);
    CHECK(f.cancelled == f.last_ranking);
    CHECK(has(client.call(post("/v1/rank"), rank_body).body, "overloaded"));
    f.silent = false;
    f.http_server->deliver(RankReply{f.last_ranking, "ana"});  // it had begun
    CHECK(client.call(post("/v1/rank"), rank_body).status == "200");
    CHECK(f.metrics.value(Metric::http_abandoned) == 1);
  }

  TEST_CASE("HTTP/2 clients: a request that is reset by the bytes that bring it is not begun") {
    Fixture f;
    RawClient client(port_of(f));
    client.send(preface() + http2_test::head(1, post("/v1/rank")) +
                frame(http2_test::data, end_stream, 1, rank_body) + http2_test::reset(1) +
                http2_test::head(3, get("/v2/health/live"), true));
    CHECK(has(client.read_until("\"live\":true"), "\"live\":true"));
    CHECK(f.asked == 0);
  }

  TEST_CASE("HTTP/2 clients: the requests and lines of a broken connection are withdrawn, each once") {
    Fixture f(patient());
    f.silent = true;
    {
      Http2Client client(port_of(f));
      client.ask(post("/v1/rank"), rank_body);
      client.ask(post("/v1/rank", {{"content-type", "application/x-ndjson"}}),
                 rank_body + "\n" + rank_body + "\n");
      while (f.asked < 3) f.asked.wait(f.asked);
    }
    while (f.metrics.value(Metric::http_abandoned) < 3) f.call("GET", "/v2/health/live");
    CHECK(f.metrics.value(Metric::http_abandoned) == 3);
  }

  TEST_CASE("HTTP/2 clients: an answered request is not withdrawn") {
    Fixture f(patient());
    {
      Http2Client client(port_of(f));
      CHECK(client.call(post("/v1/rank"), rank_body).status == "200");
    }
    CHECK(f.call("GET", "/v2/health/live").status == 200);
    CHECK(f.cancelled == 0);
  }

  TEST_CASE("HTTP/2 clients: a large body is answered like a small one, and refused with the same words") {
    Fixture f;
    Http2Client client(port_of(f));
    std::string history = "\"a\"";
    for (int i = 1; i < 9'000; ++i) history += ",\"item " + std::to_string(i) + "\"";
    Http2Fields put = post("/v1/users/ana");
    put.front().second = "PUT";
    CHECK(client.call(put, "{\"history\":[" + history + "]}").status == "200");
    const PeerAnswer refused = client.call(put, "{\"history\":[" + history + ",7]}");
    CHECK(refused.status == "400");
    CHECK(has(refused.body, "history[9000]"));
    CHECK(f.written == std::vector<std::string>{"/ana"});
  }

  TEST_CASE("HTTP/2 clients: large lines of a bulk request keep their order, also about one user") {
    Fixture f;
    Http2Client client(port_of(f));
    std::string lines;
    for (int i = 0; i < 60; ++i)
      lines += "{\"user\":\"u" + std::to_string(i % 3) + "\",\"tokens\":[1]" +
               std::string(i % 5 == 0 ? 50'000 : 0, ' ') + "}\n";
    const PeerAnswer whole = client.call(post("/v1/users"), lines);
    CHECK(has(whole.body, R"({"lines":60,"failed":0})"));
    REQUIRE(f.written.size() == 60);
    for (int i = 0; i < 60; ++i)
      CHECK(f.written[static_cast<std::size_t>(i)] == "/u" + std::to_string(i % 3));
  }

  TEST_CASE("HTTP/2 clients: many short lines are all answered, though the client's window holds few") {
    Fixture f;
    Http2Client client(port_of(f));
    std::string lines;
    for (int i = 0; i < 5'000; ++i) lines += "{\"user\":\"u" + std::to_string(i) + "\",\"tokens\":[1]}\n";
    CHECK(has(client.call(post("/v1/users"), lines).body, R"({"lines":5000,"failed":0})"));
    CHECK(f.written.size() == 5'000);
  }

  TEST_CASE("HTTP/2 clients: one client's lines are all answered where the memory for requests is smallest") {
    HttpServerConfig config = patient();
    config.header_bytes_max = 1'024, config.body_bytes_max = 1'024, config.memory_bytes_max = 1;
    Fixture f(config);
    Http2Client client(port_of(f));
    std::string users, rankings;
    for (int i = 0; i < 3'000; ++i)
      users += "{\"user\":\"u" + std::to_string(i) + "\",\"tokens\":[1]" + std::string(300, ' ') + "}\n";
    for (int i = 0; i < 500; ++i) rankings += rank_body + std::string(300, ' ') + "\n";
    for (int round = 0; round < 2; ++round) {
      CHECK(has(client.call(post("/v1/users"), users).body, R"({"lines":3000,"failed":0})"));
      CHECK(has(client.call(post("/v1/rank", {{"content-type", "application/x-ndjson"}}), rankings).body,
                R"({"lines":500,"failed":0})"));
    }
    CHECK(client.call(get("/v2/health/live")).status == "200");
  }

  TEST_CASE("HTTP/2 clients: health that is asked beyond the limits may take longer than http.timeout") {
    HttpServerConfig config = patient();
    config.timeout_us = 100'000, config.connections_per_address_max = 1;
    Fixture f(config);
    f.silent = true;
    Http2Client client(port_of(f));
    client.ask(post("/v1/rank"), rank_body);
    f.asked.wait(0);
    CHECK(client.call(post("/v1/rank"), rank_body).status == "503");
    CHECK(client.call(get("/v2/health/ready")).status == "503");  // once the actors are given up
  }

  TEST_CASE("HTTP/2 clients: lines that do not end are bounded by the memory for requests") {
    HttpServerConfig config = patient();
    config.memory_bytes_max = 1 << 20, config.body_bytes_max = 512 << 10;
    Fixture f(config);
    Http2Client client(port_of(f));
    std::vector<Http2StreamId> streams;
    for (int i = 0; i < 8; ++i) {
      streams.push_back(client.ask(post("/v1/users"), std::string(400'000, 'x'), false));
      client.finish_sending(streams.back());
    }
    int refused = 0;
    for (const Http2StreamId stream : streams) {
      if (!client.peer.answer(stream).ended) continue;
      ++refused;
      CHECK(has(client.peer.answer(stream).body, "\"status\":503"));
      CHECK(has(client.peer.answer(stream).body, "http.memory_max"));
      CHECK(has(client.peer.answer(stream).body, R"({"lines":0,"failed":1})"));
    }
    CHECK(refused >= 5);
    CHECK(f.metrics.value(Metric::http_kept_bytes) <= (1 << 20) + (128 << 10));  // and buffers
    CHECK(client.call(post("/v1/rank"), rank_body).status == "200");             // refused lines keep nothing
  }

  TEST_CASE("HTTP/2 clients: a write whose outcome is open when the server closes is told so") {
    Fixture f(patient());
    f.silent = true;
    Http2Client client(port_of(f));
    Http2Fields put = post("/v1/users/ana");
    put.front().second = "PUT";
    const Http2StreamId write = client.ask(put, R"({"tokens":[1]})");
    f.asked.wait(0);
    f.http_server->close();
    CHECK(has(client.answer(write).body, "outcome_unknown"));
  }

  TEST_CASE("HTTP/2 clients: a server closes, and clients go, while bodies are read") {
    const std::string body = "{\"tokens\":[1]" + std::string(900'000, ' ') + "}";
    Http2Fields put = post("/v1/users/u");
    put.front().second = "PUT";
    for (int i = 0; i < 20; ++i) {
      Fixture f;
      Http2Client client(port_of(f));
      auto gone = std::make_unique<Http2Client>(port_of(f));
      client.ask(put, body);
      client.ask(post("/v1/users"), "{\"user\":\"v\",\"tokens\":[1]" + std::string(400'000, ' ') + "}\n");
      const Http2StreamId reset = client.ask(put, body);
      client.cancel(reset);
      gone->ask(put, body);
      gone.reset();
      f.http_server->close();
    }
  }
}

}  // namespace http_server_http2_clients_test
