// Tests what the server records of requests: trace ids in and out, the access log, the slowest
// requests, the page.
#include <doctest/doctest.h>

#include <deque>
#include <nlohmann/json.hpp>

#include "server/observability/page.h"
#include "server/testing/http2_client.h"
#include "server/testing/http_server_test.h"

using namespace troupe;
using namespace troupe::server;
using namespace troupe::server::http_server_test;

namespace {

const std::string parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const std::string trace = "4bf92f3577b34da6a3ce929d0e0e4736";

std::string header_of(const std::string& reply, const std::string& name) {
  const std::size_t at = reply.find("\r\n" + name + ": ");
  if (at == reply.npos) return "";
  const std::size_t begin = at + name.size() + 4;
  return reply.substr(begin, reply.find("\r\n", begin) - begin);
}

// A call whose answer is plain text. The body "fault" makes a request with a fault.
class TextCall : public RpcCall {
 public:
  std::string_view route() const override { return "/call"; }
  bool needs_key() const override { return true; }
  RpcActions begin() override { return {}; }
  RpcActions receive(std::string_view bytes, std::size_t) override {
    body_ += bytes;
    return {};
  }
  RpcActions end(std::int64_t) override {
    ServerCall call{.kind = "rank",
                    .asked = {Message{RankRequest{.user = "ana", .candidates = {"a"}}},
                              [](const Message&, const AnsweringModel&,
                                 std::int64_t) -> std::variant<std::string, Refusal> { return "seven"; }}};
    if (body_ == "fault")
      call.fault =
          Refusal{RefusalKind::too_large, "too_many_candidates", "there are many", "candidates", "fewer"};
    return {.call = std::move(call)};
  }
  RpcActions replied(const ServerReply& reply, std::int64_t) override {
    return {.bytes = reply.body, .trailers = Http2Fields{{"status", reply.code}}};
  }
  RpcActions is_ready(bool) override { return {}; }
  RpcActions refuse(const Refusal& refusal) override {
    return {.trailers = Http2Fields{{"status", refusal.code}}, .refusal = refusal};
  }
  std::size_t held_bytes() const override { return body_.capacity(); }

 private:
  std::string body_;
};

class TextService : public RpcService {
 public:
  std::unique_ptr<RpcCall> find_call(const Http2Fields&) const override {
    return std::make_unique<TextCall>();
  }
  const Http2Fields& answer_fields() const override {
    static const Http2Fields none;
    return none;
  }
};

// An HTTP server whose log lines and messages are kept.
struct Watched {
  MetricRegistry metrics;
  std::mutex mutex;
  std::vector<std::vector<LogField>> lines;
  std::deque<Message> asked;
  std::unique_ptr<HttpServer> http_server;
  std::atomic<int> recorded = 0;

  explicit Watched(HttpServerConfig config = {}) {
    config.port = 0;
    config.router = router_address;
    if (config.actors.empty()) config.actors = {router_address, {7, Role::kv_worker}};
    const std::string first = config.models.empty() ? "" : config.models.front().name;
    config.names = {{7, "<worker>"}};
    config.on_sampled = [this](const ObservedRequest&) { ++recorded; };
    http_server = std::make_unique<HttpServer>(
        config,
        [this, first](Address to, Message m) {
          if (const auto* rank = std::get_if<RankRequest>(&m)) {
            RankReply reply{.id = rank->id,
                            .user = rank->user,
                            .plan = "item",
                            .tokens_total = 9,
                            .node = 4,
                            .timings = {.compute = 5}};
            {
              const std::lock_guard lock(mutex);
              asked.push_back(std::move(m));
            }
            return http_server->deliver(reply);
          }
          if (const auto* status = std::get_if<StatusRequest>(&m); status && to.node == 1)
            http_server->deliver(StatusReply{status->id, 1, to.role, true, {{"model", first}}});
        },
        metrics,
        [this](LogLevel, std::string_view, std::string_view event, std::span<const LogField> fields) {
          const std::lock_guard lock(mutex);
          if (event == "request") lines.emplace_back(fields.begin(), fields.end());
        });
    http_server->open();
  }
  std::string raw(const std::string& bytes) {
    RawClient client(http_server->port());
    client.send(bytes);
    client.send_no_more();
    return client.read_all();
  }
  std::string field(std::size_t line, const char* name) const {  // requires `mutex`
    for (const LogField& f : lines[line])
      if (f.name == name) return f.value;
    return "none";
  }
  std::string rank(const std::string& headers) {
    return raw(post_rank("connection: close\r\n" + headers) + rank_body);
  }
  std::string get(const std::string& path, const std::string& headers = "") {
    return raw("GET " + path + " HTTP/1.1\r\nhost: x\r\nconnection: close\r\n" + headers + "\r\n");
  }
};

std::string body_of(const std::string& reply) { return reply.substr(reply.find("\r\n\r\n") + 4); }

}  // namespace

TEST_SUITE("HTTP server, observability") {
  TEST_CASE("traces: a client's trace goes through the message and comes back with the server's span") {
    Watched w;
    const std::string reply = w.rank("traceparent: " + parent + "\r\nx-request-id: r-17\r\n");
    CHECK(header_of(reply, "x-request-id") == "r-17");
    CHECK(std::get<RankRequest>(w.asked.at(0)).client_request_id == "r-17");
    const std::string out = header_of(reply, "traceparent");
    CHECK(out.substr(0, 36) == parent.substr(0, 36));
    CHECK(out.substr(36, 16) != parent.substr(36, 16));
    CHECK(out.ends_with("-01"));
    const auto& asked = std::get<RankRequest>(w.asked.at(0)).trace;
    CHECK(trace_id(asked) == trace);
    CHECK(span_id(asked.span) == out.substr(36, 16));
    CHECK(asked.sampled);
    CHECK(w.recorded == 1);
  }

  TEST_CASE("traces: each line of many rankings carries the client's request id") {
    Watched w;
    const std::string lines = rank_body + "\n" + rank_body + "\n";
    w.raw(
        "POST /v1/rank HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-request-id: r-18\r\n"
        "content-type: application/x-ndjson\r\ncontent-length: " +
        std::to_string(lines.size()) + "\r\n\r\n" + lines);
    REQUIRE(w.asked.size() == 2);
    for (const Message& asked : w.asked) CHECK(std::get<RankRequest>(asked).client_request_id == "r-18");
  }

  TEST_CASE("traces: missing or invalid ids are replaced by new ones, different for each request") {
    Watched w;
    const std::string a = w.rank(""), b = w.rank("x-request-id: a b\r\ntraceparent: 00-zz\r\n");
    for (const std::string& reply : {a, b}) {
      const std::string id = header_of(reply, "x-request-id");
      CHECK(id.size() == 32);
      CHECK(header_of(reply, "traceparent") == "00-" + id + header_of(reply, "traceparent").substr(35));
    }
    CHECK(header_of(a, "x-request-id") != header_of(b, "x-request-id"));
    for (const Message& asked : w.asked) CHECK(std::get<RankRequest>(asked).client_request_id.empty());
    CHECK(w.recorded == 0);
    CHECK(header_of(w.get("/nothing"), "x-request-id").size() == 32);
    CHECK(header_of(w.raw("nonsense\r\n\r\n"), "x-request-id").size() == 32);
  }

  TEST_CASE("traces: the configured share of untraced requests is recorded") {
    HttpServerConfig config;
    config.sampled_share = 1;
    Watched w(config);
    CHECK(header_of(w.rank(""), "traceparent").ends_with("-01"));
    CHECK(
        header_of(w.rank("traceparent: " + parent.substr(0, 53) + "00\r\n"), "traceparent").ends_with("-00"));
  }

  TEST_CASE("access log: a call of messages has a line too") {
    HttpServerConfig config;
    config.access_log = AccessLog::all;
    config.rpc = std::make_shared<TextService>();
    Watched w(config);
    http2_test::Http2Client client(w.http_server->port());
    const auto answer = client.call(http2_test::post("/", {{"x-request-id", "r-18"}}), "ask");
    CHECK(answer.body == "seven");
    const std::lock_guard lock(w.mutex);
    REQUIRE(w.lines.size() == 1);
    CHECK(w.field(0, "route") == "/call");
    CHECK(w.field(0, "status") == "200");
    CHECK(w.field(0, "bytes_out") == "5");
    CHECK(w.field(0, "node") == "4");
    CHECK(std::get<RankRequest>(w.asked.at(0)).client_request_id == "r-18");
  }

  TEST_CASE("access log: a call's line says who asked, as what, and how it was refused") {
    HttpServerConfig config;
    config.access_log = AccessLog::all;
    config.rpc = std::make_shared<TextService>();
    Watched w(config);
    http2_test::Http2Client client(w.http_server->port());
    const auto answer = client.call(
        http2_test::post("/", {{"x-troupe-tenant", "acme"}, {"x-request-id", "r1"}, {"traceparent", parent}}),
        "fault");
    CHECK(answer.trailers.at("status") == "too_many_candidates");
    const std::lock_guard lock(w.mutex);
    REQUIRE(w.lines.size() == 1);
    CHECK(w.field(0, "method") == "POST");
    CHECK(w.field(0, "tenant") == "acme");
    CHECK(w.field(0, "request_id") == "r1");
    CHECK(w.field(0, "trace_id") == trace);
    CHECK(w.field(0, "status") == "413");
    CHECK(w.field(0, "code") == "too_many_candidates");
    CHECK(w.field(0, "bytes_in") == "5");
    CHECK(w.field(0, "bytes_out") == std::to_string(answer.body.size()));
    CHECK(w.metrics.value(Metric::http_refused, "too_many_candidates") == 1);
    CHECK(w.metrics.value(Metric::http_requests) == 1);
  }

  TEST_CASE("access log: a request's line says who asked, for what, and how long it took") {
    HttpServerConfig config;
    config.access_log = AccessLog::all;
    Watched w(config);
    w.rank("x-troupe-tenant: t\r\ntraceparent: " + parent + "\r\n");
    w.raw("PATCH /v1/users/ana?x=1 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    const std::lock_guard lock(w.mutex);
    REQUIRE(w.lines.size() == 2);
    CHECK(w.field(0, "route") == "/v1/rank");
    CHECK(w.field(0, "tenant") == "t");
    CHECK(w.field(0, "trace_id") == trace);
    CHECK(w.field(0, "status") == "200");
    CHECK(w.field(0, "plan") == "item");
    CHECK(w.field(0, "node") == "4");
    CHECK(w.field(0, "bytes_in") == std::to_string(rank_body.size()));
    CHECK(w.field(1, "route") == "/v1/users/{id}");
    CHECK(w.field(1, "code") == "wrong_method");
    CHECK(w.metrics.value(Metric::http_responses, "/v1/users/{id}\t405") == 1);
  }

  TEST_CASE("page: it is served with its content security policy and what it loads") {
    Watched w;
    const std::string page = w.get("/");
    CHECK(page.starts_with("HTTP/1.1 200"));
    CHECK(header_of(page, "Content-Type") == "text/html; charset=utf-8");
    CHECK(header_of(page, "content-security-policy") == page_security());
    CHECK(body_of(page) == page_text());
    w.rank("");
    const auto slowest = nlohmann::json::parse(body_of(w.get("/v1/slowest")));
    CHECK(slowest["requests"].size() == 1);
    CHECK(slowest["requests"][0]["timings"]["compute"] == 5);
    const auto cluster = nlohmann::json::parse(body_of(w.get("/v1/cluster")));
    CHECK(cluster["actors"].size() == 1);
    CHECK(cluster["silent"][0]["node"] == 7);
    CHECK(cluster["silent"][0]["role"] == "kv_worker");
    CHECK(cluster["names"]["7"] == "<worker>");
  }

  TEST_CASE("cluster: with several models a silent actor is named by node and model") {
    HttpServerConfig config;
    config.actor_ids = {2};
    config.models = {{.name = "games"}, {.name = "news"}};
    const NodeId router = config.actor_ids.number(1, 1), worker = config.actor_ids.number(7, 1);
    config.actors = {
        router_address, {router, Role::router}, {worker, Role::inference_worker}, {7, Role::kv_worker}};
    Watched w(config);
    const auto silent = nlohmann::json::parse(body_of(w.get("/v1/cluster")))["silent"];
    REQUIRE(silent.size() == 3);
    CHECK(silent[0] == nlohmann::json({{"node", 1}, {"role", "router"}, {"model", "news"}}));
    CHECK(silent[1] == nlohmann::json({{"node", 7}, {"role", "inference_worker"}, {"model", "news"}}));
    CHECK(silent[2] == nlohmann::json({{"node", 7}, {"role", "kv_worker"}}));
  }

  TEST_CASE("cluster: a joined node is shown, and a node that left is not asked") {
    Watched w;
    w.http_server->follow({router_address, {1, Role::cache_meta}, {9, Role::kv_worker}}, {{9, "joined"}});
    const auto cluster = nlohmann::json::parse(body_of(w.get("/v1/cluster")));
    CHECK(cluster["actors"].size() == 2);
    REQUIRE(cluster["silent"].size() == 1);
    CHECK(cluster["silent"][0]["node"] == 9);
    CHECK(cluster["names"] == nlohmann::json({{"9", "joined"}}));
  }

  TEST_CASE("metrics: a client that accepts OpenMetrics gets it") {
    Watched w;
    const std::string reply = w.get("/metrics", "accept: application/openmetrics-text;version=1.0.0\r\n");
    CHECK(header_of(reply, "Content-Type").starts_with("application/openmetrics-text"));
    CHECK(reply.ends_with("# EOF\n"));
    CHECK_FALSE(w.get("/metrics").ends_with("# EOF\n"));
  }
}
