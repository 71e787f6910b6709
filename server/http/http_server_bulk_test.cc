#include "server/http/http_server_bulk.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "server/formats/bulk_results.h"
#include "server/testing/http_server_test.h"

using namespace troupe;
using namespace troupe::server;
using namespace troupe::server::http_server_test;

namespace http_server_bulk_test {

std::string post(const std::string& path, const std::string& body, const std::string& headers = "",
                 const char* version = "1.1") {
  return "POST " + path + " HTTP/" + version + "\r\nhost: x\r\n" + headers +
         "content-length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}
int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

const std::string by_lines = "content-type: application/x-ndjson\r\n";
std::string rankings(int lines) { return many(rank_body + "\n", lines); }

// The least memory that a server takes: for one request of each kind. A result that is refused because it
// does not fit is counted until then.
constexpr std::size_t version_bytes = 20'000;  // in every result
constexpr std::size_t kept_bytes_max = 2 * (8192 + 2048) + (64 << 10) + version_bytes + 1000;
HttpServerConfig little_memory() {
  HttpServerConfig config;
  config.header_bytes_max = 8192;
  config.body_bytes_max = 2048;
  config.memory_bytes_max = 1;
  return config;
}

// Watches the bytes that a server keeps for its connections.
class KeptBytes {
 public:
  explicit KeptBytes(const MetricRegistry& metrics)
      : watch_([this, &metrics](const std::stop_token& stop) {
          while (!stop.stop_requested())
            most_ = std::max(most_.load(), metrics.value(Metric::http_kept_bytes));
        }) {}
  double most() const { return most_; }

 private:
  std::atomic<double> most_ = 0;
  std::jthread watch_;
};

TEST_SUITE("HTTP server, bulk") {
  TEST_CASE("bulk: each line has its own result, and a bad line does not stop the others") {
    Fixture f;
    const std::string reply =
        f.raw(post("/v1/users",
                   "{\"user\":\"ana\",\"history\":[\"a\"]}\n\n{\"user\":\"bob\"}\nnonsense\r\n"
                   "{\"user\":\"bob\",\"delete\":true}",
                   "x-troupe-tenant: acme\r\n"));
    CHECK(has(reply, "HTTP/1.1 200 OK"));
    CHECK(has(reply, "application/x-ndjson"));
    CHECK(has(reply, R"({"line":1,"status":200,"version":7})"));
    CHECK(has(reply, R"({"line":2,"status":400,"error":{"status":400,"code":"missing_field")"));
    CHECK(has(reply, R"({"line":3,"status":400,"error":{)"));
    CHECK(has(reply, R"({"line":4,"status":200,"version":9})"));
    CHECK(has(reply, R"({"lines":4,"failed":2})"));
    CHECK(reply.ends_with("0\r\n\r\n"));
    CHECK(f.written == std::vector<std::string>{"acme/ana", "not bob"});
  }

  TEST_CASE("bulk: lines about one user are handled in order, however many come at once") {
    Fixture f;
    std::string body;
    for (int i = 0; i < 100; ++i)
      body += "{\"user\":\"u" + std::to_string(i % 7) + "\",\"events\":[{\"item\":\"a\"}]}\n";
    const std::string reply = f.raw(post("/v1/events", body));
    CHECK(count(reply, "\"appended\":1") == 100);
    CHECK(has(reply, R"({"lines":100,"failed":0})"));
    REQUIRE(f.written.size() == 100);
    for (int i = 0; i < 100; ++i)
      CHECK(f.written[static_cast<std::size_t>(i)] == "events of u" + std::to_string(i % 7));
    for (int line = 1; line < 100; ++line)
      CHECK(reply.find("{\"line\":" + std::to_string(line) + ",") <
            reply.find("{\"line\":" + std::to_string(line + 1) + ","));
  }

  TEST_CASE("bulk: several users are ranked in one call") {
    Fixture f;
    const std::string lines =
        "{\"user\":\"ana\",\"candidates\":[\"a\"]}\n{\"user\":\"nobody\",\"candidates\":[\"a\"]}\n";
    const std::string reply =
        f.raw(post("/v1/rank", lines, "content-type: application/x-ndjson; charset=utf-8\r\n"));
    CHECK(has(reply, R"({"line":1,"status":200,"user":"ana")"));
    CHECK(has(reply, R"({"line":2,"status":404,"error":{)"));
    CHECK(has(f.raw(post("/v1/rank", lines)), " 400 "));  // a single body
  }

  TEST_CASE("bulk: a body of lines has no length limit, and memory for it is bounded") {
    HttpServerConfig config;
    config.body_bytes_max = 2048;
    Fixture f(config);
    RawClient client(f.http_server->port());
    const std::string line = "{\"user\":\"ana\",\"tokens\":[1]}\n";
    client.send("POST /v1/users HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
    std::string reply;
    for (int i = 0; i < 200; ++i) {  // ten times the limit of one body
      char size[16];
      std::snprintf(size, sizeof size, "%zx\r\n", line.size());
      client.send(size + line + "\r\n");
      reply += client.read_until("\"version\":7}\n");
    }
    client.send("0\r\n\r\n");
    reply += client.read_until("0\r\n\r\n");
    CHECK(count(reply, "\"status\":200") == 200);
    CHECK(has(reply, R"({"lines":200,"failed":0})"));
    client.send(live + "connection: close\r\n" + end);  // the connection continues
    CHECK(has(client.read_all(), " 200 "));
    const std::string long_line = f.raw(post("/v1/users", line + std::string(4000, 'x') + "\n" + line));
    CHECK(has(long_line, R"({"line":2,"status":413,"error":{"status":413,"code":"line_too_long")"));
    CHECK(has(long_line, R"({"lines":1,"failed":1})"));
  }

  TEST_CASE("bulk: results count in http.memory_max as they come, and what does not fit is refused") {
    Fixture f(little_memory());
    f.version = std::string(version_bytes, 'v');
    const KeptBytes kept(f.metrics);
    const std::string reply = f.raw(post("/v1/rank", rankings(64), by_lines));
    const int ranked = count(reply, "\"status\":200"), refused = count(reply, "\"code\":\"overloaded\"");
    CHECK(ranked + refused == 64);
    CHECK(ranked >= 40);  // once the size of a result is known, only as many lines are taken as fit
    CHECK(refused >= 1);  // of the first lines, whose results were larger than expected
    CHECK(has(reply, "{\"lines\":64,\"failed\":" + std::to_string(refused) + "}"));
    CHECK(kept.most() <= kept_bytes_max);
  }

  TEST_CASE("bulk: clients that do not read their results take no more than http.memory_max") {
    Fixture f(little_memory());
    f.version = std::string(version_bytes, 'v');
    const KeptBytes kept(f.metrics);
    std::vector<std::unique_ptr<RawClient>> silent;
    constexpr int clients = 12;
    for (int i = 0; i < clients; ++i) {
      silent.push_back(std::make_unique<RawClient>("127.0.0.1"));
      silent.back()->receive_little();
      silent.back()->connect(f.http_server->port());
      silent.back()->send(post("/v1/rank", rankings(400), by_lines));
    }
    // With so little memory a ranking may be refused beside them.
    for (int i = 0; i < 20; ++i) CHECK(f.call("POST", "/v1/rank", rank_body).status != 0);
    CHECK(f.raw(post("/v1/rank", rankings(8), by_lines)).ends_with("0\r\n\r\n"));
    // Each client may have one line whose result is only expected.
    CHECK(kept.most() <= kept_bytes_max + clients * version_bytes);
  }

  TEST_CASE("bulk: an HTTP/1.0 client gets the lines and the end of the connection") {
    Fixture f;
    const std::string reply =
        f.raw(post("/v1/items", R"({"item":"a","tokens":[1],"identifier":2})", "", "1.0"));
    CHECK(has(reply, "Connection: close"));
    CHECK_FALSE(has(reply, "chunked"));
    CHECK(has(reply, "\r\n\r\n{\"line\":1,\"status\":200,\"version\":3}\n{\"lines\":1,\"failed\":0}\n"));
  }

  TEST_CASE("bulk: a broken body closes the connection, and a foreign catalog is not changed") {
    Fixture f;
    const std::string reply =
        f.raw("POST /v1/users HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n" + live + end);
    CHECK(has(reply, "\"code\":\"bad_http\""));
    CHECK(count(reply, "HTTP/1.1") == 1);
    CHECK(has(f.raw(post("/v1/items", "{}\n", "x-troupe-tenant: acme\r\n")), "not_your_catalog"));
    CHECK(has(f.raw("GET /v1/users HTTP/1.1\r\nhost: x\r\n\r\n"), " 405 "));
    CHECK(f.written.empty());
  }

  TEST_CASE("bulk: a closing server refuses each remaining line") {
    Fixture f;
    f.silent = true;
    RawClient client(f.http_server->port());
    client.send(post("/v1/users", "{\"user\":\"ana\",\"tokens\":[1]}\n"));
    f.asked.wait(0);
    f.http_server->close();
    const std::string reply = client.read_all();
    CHECK(has(reply, "\"status\":503"));
    CHECK(has(reply, R"({"lines":1,"failed":1})"));
  }
}

}  // namespace http_server_bulk_test
