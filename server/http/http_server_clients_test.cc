// Tests of clients that go while their requests wait, and of bodies that are read on another thread.
#include <doctest/doctest.h>

#include "server/testing/http_server_test.h"

using namespace troupe;
using namespace troupe::server;
using namespace troupe::server::http_server_test;

namespace http_server_clients_test {

HttpServerConfig patient() {
  HttpServerConfig config;
  config.answer_us_max = 60'000'000;
  return config;
}

std::string bulk_of(const std::string& path, const std::string& body) {
  return "POST " + path + " HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-ndjson\r\ncontent-length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

TEST_SUITE("HTTP server, clients") {
  TEST_CASE("clients: the request of a broken connection is withdrawn") {
    Fixture f(patient());
    f.silent = true;
    RawClient client(f.http_server->port());
    client.send(post_rank("") + rank_body);
    f.asked.wait(0);
    client.reset();
    f.cancelled.wait(0);
    CHECK(f.cancelled == f.last_ranking);
    f.http_server->deliver(RankReply{f.last_ranking});  // it had begun
    f.silent = false;
    CHECK(f.call("POST", "/v1/rank", rank_body).status == 200);
    CHECK(f.metrics.value(Metric::http_abandoned) == 1);
  }

  TEST_CASE("clients: the request of a closed connection is withdrawn") {
    Fixture f(patient());
    f.silent = true;
    RawClient client(f.http_server->port());
    client.send(post_rank("") + rank_body);
    f.asked.wait(0);
    client.close();
    f.cancelled.wait(0);
    CHECK(f.cancelled == f.last_ranking);
  }

  TEST_CASE("clients: one that sends no more and reads on gets its answer") {
    Fixture f(patient());
    f.silent = true;
    RawClient client(f.http_server->port());
    client.send(post_rank("") + rank_body);
    client.send_no_more();
    CHECK(has(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue"));
    f.http_server->deliver(RankReply{.id = f.last_ranking, .user = "ana"});
    CHECK(has(client.read_all(), " 200 OK"));
    CHECK(f.cancelled == 0);
  }

  TEST_CASE("clients: the lines of a bulk request whose client has gone are withdrawn, and count no more") {
    HttpServerConfig config = patient();
    config.tenant_limit.at_once = 3;
    Fixture f(config);
    f.silent = true;
    RawClient client(f.http_server->port());
    client.send(bulk_of("/v1/rank", rank_body + "\n" + rank_body + "\n" + rank_body));
    while (f.asked < 3) f.asked.wait(f.asked);
    client.reset();
    while (f.cancelled != f.last_ranking) f.cancelled.wait(f.cancelled);
    f.silent = false;
    CHECK(f.call("POST", "/v1/rank", rank_body).status == 200);
    CHECK(f.metrics.value(Metric::http_abandoned) == 3);
  }

  TEST_CASE("clients: a large body is answered like a small one, and refused with the same words") {
    Fixture f;
    std::string history = "\"a\"";
    for (int i = 1; i < 9'000; ++i) history += ",\"item " + std::to_string(i) + "\"";
    CHECK(f.call("PUT", "/v1/users/ana", "{\"history\":[" + history + "]}").status == 200);
    const HttpReply refused = f.call("PUT", "/v1/users/ana", "{\"history\":[" + history + ",7]}");
    CHECK(refused.status == 400);
    CHECK(has(refused.body, "history[9000]"));
    CHECK(f.written == std::vector<std::string>{"/ana"});
  }

  TEST_CASE("clients: requests of one connection keep their order, large or small") {
    Fixture f;
    std::string all;
    for (int i = 0; i < 20; ++i) {
      const std::string body = "{\"tokens\":[1]" + std::string(i % 2 == 0 ? 100'000 : 0, ' ') + "}";
      all += "PUT /v1/users/u" + std::to_string(i) +
             " HTTP/1.1\r\nhost: x\r\ncontent-length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
    }
    f.raw(all);
    REQUIRE(f.written.size() == 20);
    for (int i = 0; i < 20; ++i) CHECK(f.written[static_cast<std::size_t>(i)] == "/u" + std::to_string(i));
  }

  TEST_CASE("clients: large lines of a bulk request keep their order, also about one user") {
    Fixture f;
    std::string lines;
    for (int i = 0; i < 60; ++i)
      lines += "{\"user\":\"u" + std::to_string(i % 3) + "\",\"tokens\":[1]" +
               std::string(i % 5 == 0 ? 50'000 : 0, ' ') + "}\n";
    const std::string reply = f.raw(bulk_of("/v1/users", lines));
    CHECK(has(reply, R"({"lines":60,"failed":0})"));
    REQUIRE(f.written.size() == 60);
    for (int i = 0; i < 60; ++i)
      CHECK(f.written[static_cast<std::size_t>(i)] == "/u" + std::to_string(i % 3));
  }

  TEST_CASE("clients: a server closes while bodies are read") {
    for (int i = 0; i < 20; ++i) {
      Fixture f;
      RawClient client(f.http_server->port()), bulk(f.http_server->port());
      const std::string body = "{\"tokens\":[1]" + std::string(900'000, ' ') + "}";
      client.send("PUT /v1/users/u HTTP/1.1\r\nhost: x\r\ncontent-length: " + std::to_string(body.size()) +
                  "\r\n\r\n" + body);
      bulk.send(bulk_of("/v1/users", "{\"user\":\"v\",\"tokens\":[1]" + std::string(400'000, ' ') + "}\n"));
      f.http_server->close();
    }
  }
}

}  // namespace http_server_clients_test
