#include "deploy/tracing/span_exporter.h"

#include <doctest/doctest.h>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "runtime/config/config.h"

using namespace troupe;
using namespace troupe::deploy;

namespace {

// Collector that takes one request and keeps its body.
class OneShotCollector {
 public:
  OneShotCollector() {
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(listen(listener_, 1) == 0);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~OneShotCollector() { close(listener_); }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/otlp/"; }
  std::string request() {
    thread_.join();
    return request_;
  }

 private:
  void serve() {
    const int connection = accept(listener_, nullptr, nullptr);
    char bytes[4096];
    while (request_.find("]}]}]}") == request_.npos) {
      const ssize_t got = recv(connection, bytes, sizeof bytes, 0);
      if (got <= 0) break;
      request_.append(bytes, static_cast<std::size_t>(got));
    }
    const std::string answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
    (void)!write(connection, answer.data(), answer.size());
    close(connection);
  }
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::string request_;
  std::thread thread_;
};

server::ObservedRequest recorded() {
  return {.request_id = "r", .trace = {1, 2, 3, true}, .method = "POST", .route = "/v1/rank", .status = 200};
}

}  // namespace

TEST_CASE("span exporter: spans of sampled requests reach a collector, others are not sent") {
  OneShotCollector collector;
  MetricRegistry metrics;
  {
    SpanExporter exporter(parse_collector(collector.url()), "n1", metrics, {});
    server::ObservedRequest other = recorded();
    other.trace.sampled = false;
    exporter.take(other);
    exporter.take(recorded());
  }
  const std::string request = collector.request();
  CHECK(request.starts_with("POST /otlp/v1/traces HTTP/1.1\r\n"));
  const auto body = nlohmann::json::parse(request.substr(request.find("\r\n\r\n") + 4));
  const auto& spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"];
  CHECK(spans.size() == 1);
  CHECK(spans[0]["traceId"] == "00000000000000010000000000000002");
  const auto& said = body["resourceSpans"][0]["resource"]["attributes"];
  CHECK(said[0]["value"]["stringValue"] == "troupe");
  CHECK(said[2]["key"] == "service.instance.id");
  CHECK(said[2]["value"]["stringValue"] == "n1");
  CHECK(metrics.value(Metric::spans_exported) == 1);
  CHECK(metrics.value(Metric::spans_lost) == 0);
}

TEST_CASE("span exporter: at its end it sends one more batch of the oldest 512 requests") {
  OneShotCollector collector;
  MetricRegistry metrics;
  std::vector<server::ObservedRequest> requests(513, recorded());
  for (std::size_t i = 0; i < requests.size(); ++i) requests[i].trace.low = i + 1;
  {
    SpanExporter exporter(parse_collector(collector.url()), "n1", metrics, {});
    for (const server::ObservedRequest& request : requests) exporter.take(request);
  }
  const std::string request = collector.request();
  const auto body = nlohmann::json::parse(request.substr(request.find("\r\n\r\n") + 4));
  const auto& spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"];
  REQUIRE(spans.size() == 512);
  CHECK(spans[0]["traceId"] == "00000000000000010000000000000001");
  CHECK(spans[511]["traceId"] == "00000000000000010000000000000200");
  CHECK(metrics.value(Metric::spans_exported) == 512);
}

TEST_CASE("span exporter: with an unreachable collector, lost spans are counted and logged once") {
  MetricRegistry metrics;
  std::atomic<int> lines = 0;
  {
    SpanExporter exporter({"127.0.0.1:1", "/v1/traces"}, "n1", metrics, [&](auto...) { ++lines; });
    for (int i = 0; i < 5000; ++i) exporter.take(recorded());
  }
  CHECK(metrics.value(Metric::spans_lost) > 0);
  CHECK(metrics.value(Metric::spans_exported) == 0);
  CHECK(lines == 1);
}

TEST_CASE("collector address: is parsed, or an error says what was expected") {
  CHECK(parse_collector("http://a").server == "a:4318");
  CHECK(parse_collector("http://a").target == "/v1/traces");
  CHECK(parse_collector("http://a:80/x/").target == "/x/v1/traces");
  for (const char* bad : {"https://a:1", "a:1", "http://", "http://u:p@a"})
    CHECK_THROWS_WITH_AS(parse_collector(bad), doctest::Contains("expected http://host:port"), ConfigError);
}
