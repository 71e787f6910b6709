#include "server/testing/http_server_test.h"

#include <doctest/doctest.h>

#include <sys/resource.h>

#include <deque>
#include <optional>
#include <thread>

using namespace troupe;
using namespace troupe::server;
using namespace troupe::server::http_server_test;

TEST_SUITE("HTTP server") {
  TEST_CASE("HTTP server: a request goes to the router and its answer comes back") {
    Fixture f;
    const HttpReply reply = f.call("POST", "/v1/rank", R"({"user":"ana","candidates":["a"]})");
    CHECK(reply.status == 200);
    CHECK(reply.body.find("\"ana\"") != std::string::npos);
    CHECK(f.metrics.value(Metric::http_requests) == 1);
  }

  TEST_CASE("HTTP server: either of two shared versions may be named, and the answer says which replied") {
    Fixture f;
    f.version = "v1";
    const std::string infer = R"({"inputs":[{"name":"user","shape":[1],"datatype":"BYTES","data":["ana"]},)"
                              R"({"name":"candidates","shape":[1],"datatype":"BYTES","data":["a"]}]})";
    const auto rerank = [&](const std::string& model) {
      return f.call("POST", "/v1/rerank", R"({"query":"ana","documents":["a"],"model":")" + model + "\"}");
    };
    CHECK(rerank("v1").status == 200);
    CHECK(rerank("v2").status == 404);
    CHECK(f.call("POST", "/v2/models/v2/infer", infer).status == 404);
    CHECK(f.call("GET", "/v2/models/v2").status == 404);
    f.next = "v2";
    const HttpReply other = rerank("v2");
    CHECK(other.status == 200);
    CHECK(has(other.body, R"("model":"v1")"));
    CHECK(has(f.call("POST", "/v2/models/v2/infer", infer).body, R"("model_version":"v1")"));
    CHECK(has(f.call("GET", "/v2/models/v2").body, R"("versions":["v2"])"));
    CHECK(has(f.call("GET", "/v2/models/troupe").body, R"("versions":["v1"])"));
    const HttpReply unknown = rerank("v3");
    CHECK(unknown.status == 404);
    CHECK(has(unknown.body, "unknown_model"));
    CHECK(has(unknown.body, "v1, v2, troupe, or none"));
  }

  TEST_CASE("HTTP server: a version may be asked by the names of its directories, which are listed with it") {
    Fixture f;
    f.version = "v1";
    f.version_name = "spring, stable";
    const auto rerank = [&](const std::string& model) {
      return f.call("POST", "/v1/rerank", R"({"query":"ana","documents":["a"],"model":")" + model + "\"}");
    };
    for (const char* name : {"v1", "spring", "stable"}) {
      CAPTURE(name);
      CHECK(rerank(name).status == 200);
      CHECK(has(f.call("GET", std::string("/v2/models/") + name).body, R"("versions":["v1"])"));
    }
    CHECK(rerank("summer").status == 404);
    CHECK(has(rerank("summer").body, "v1, spring, stable, troupe, or none"));
    const std::string present = R"("version_name":"spring, stable"})";
    CHECK(has(f.call("GET", "/v1/models").body, R"("serves":"",)" + present));
    f.next = "v2";
    f.next_name = "summer";
    CHECK(rerank("summer").status == 200);
    CHECK(has(f.call("GET", "/v2/models/summer").body, R"("versions":["v2"])"));
    CHECK(has(f.call("GET", "/v1/models").body, R"("version_name":"summer","share":0.5})"));
  }

  TEST_CASE("HTTP server: a model may be asked by its configured names, and answers show the first") {
    HttpServerConfig config;
    config.model_names = {"Qwen/Reranker", "small"};
    Fixture f(config);
    f.version = "v1";
    const auto rerank = [&](const std::string& model) {
      return f.call("POST", "/v1/rerank", R"({"query":"ana","documents":["a"],"model":")" + model + "\"}");
    };
    for (const char* name : {"Qwen/Reranker", "small", "v1", "troupe"}) {
      const HttpReply reply = rerank(name);
      CHECK(reply.status == 200);
      CHECK(has(reply.body, R"("model":"Qwen/Reranker")"));
    }
    CHECK(has(rerank("large").body, "Qwen/Reranker, small, v1, troupe, or none"));
    CHECK(f.call("POST", "/v1/rank", R"({"user":"ana","candidates":["a"],"model":"small"})").status == 200);
    const HttpReply models = f.call("GET", "/v1/models");
    CHECK(has(models.body, R"({"id":"Qwen/Reranker","object":"model")"));
    CHECK(has(models.body, R"({"id":"small","object":"model")"));
    CHECK(has(models.body, R"("version":"v1")"));
    CHECK(has(f.call("GET", "/v2/models/small").body, R"("versions":["v1"])"));
    CHECK(f.call("GET", "/v2/models/Qwen%2FReranker/ready").status == 200);
    CHECK(f.call("GET", "/v2/models/large").status == 404);
    CHECK(has(f.call("GET", "/info").body, R"("model_id":"Qwen/Reranker","model_sha":"v1")"));
  }

  TEST_CASE("HTTP server: probes need no key and no host, and OPTIONS / tells readiness") {
    HttpServerConfig config;
    ApiKeys keys;
    keys.add(make_key({.tenant = "acme"}).key);
    config.keys = std::make_shared<const ApiKeys>(std::move(keys));
    Fixture f(config);
    for (const char* target : {"/livez", "/healthz", "/readyz", "/health", "/ping"}) {
      CHECK(f.call("GET", target, "").status == 200);
      CHECK(f.raw("HEAD " + std::string(target) + " HTTP/1.1\r\nhost: lb\r\nconnection: close\r\n\r\n")
                .starts_with("HTTP/1.1 200 "));
    }
    CHECK(f.call("GET", "/info", "").status == 401);
    CHECK(f.call("OPTIONS", "/v1/rank", "").status == 401);
    CHECK(f.raw("OPTIONS / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 200 "));  // haproxy's default
    f.why_not = "the catalog has no items";
    CHECK(f.call("OPTIONS", "/", "").status == 503);
    CHECK(f.call("GET", "/ping", "").status == 503);
    CHECK(f.call("GET", "/healthz", "").status == 200);
  }

  TEST_CASE("HTTP server: OPTIONS lists a path's methods, and gives pages of other sites nothing") {
    Fixture f;
    const std::string answer = f.raw(
        "OPTIONS /v1/rank HTTP/1.1\r\nhost: x\r\norigin: http://evil.example\r\n"
        "access-control-request-method: POST\r\nconnection: close\r\n\r\n");
    CHECK(answer.starts_with("HTTP/1.1 200 "));
    CHECK(has(answer, "\r\nAllow: POST, OPTIONS\r\n"));
    CHECK_FALSE(has(answer, "ccess-control-allow"));
  }

  TEST_CASE("HTTP server: a refusal names the document at fault as the request does") {
    Fixture f;
    const HttpReply reply =
        f.call("POST", "/v1/rerank", R"({"query":"ana","documents":["a","b","c","nothing"]})");
    CHECK(reply.status == 404);
    CHECK(has(reply.body, R"("where":"documents[3]")"));
    CHECK(has(reply.body, R"("param":"documents[3]")"));
    CHECK(has(f.call("POST", "/v1/rank", R"({"user":"ana","candidates":["a","nothing"]})").body,
              R"("where":"candidates[1]")"));
  }

  TEST_CASE("HTTP server: a refusal keeps its status and code") {
    Fixture f;
    const HttpReply reply = f.call("POST", "/v1/rank", R"({"user":"nobody","candidates":["a"]})");
    CHECK(reply.status == 404);
    CHECK(reply.body.find("unknown_user") != std::string::npos);
  }

  // An older router skips the field that it does not know, and its reply names no arrangement.
  TEST_CASE("HTTP server: a ranking of another arrangement than the named one is refused with 503") {
    Fixture f;
    const auto rank = [&](const std::string& more) {
      return f.call("POST", "/v1/rank", R"({"user":"ana","candidates":["a"])" + more + "}");
    };
    const std::string named = R"(,"arrangement":"user_first")";
    const HttpReply older = rank(named);
    CHECK(older.status == 503);
    CHECK(has(older.body, R"("code":"wrong_arrangement")"));
    CHECK(has(older.body, R"(names arrangement \"user_first\", and the router served one without a name)"));
    CHECK(f.metrics.value(Metric::http_refused, "wrong_arrangement") == 1);
    CHECK(rank("").status == 200);
    f.serves = Arrangement::causal;
    CHECK(has(rank(named).body, R"(and the router served \"causal\")"));
    CHECK(f.call("POST", "/v1/rerank", R"({"query":"ana","documents":["a"])" + named + "}").status == 503);
    CHECK(rank("").status == 200);
    f.serves = Arrangement::user_first;
    CHECK(rank(named).status == 200);
  }

  TEST_CASE("HTTP server: a silent router gives a typed time-out, not a hanging client") {
    HttpServerConfig config;
    config.answer_us_max = 20'000;
    Fixture f(config);
    f.silent = true;
    CHECK(f.call("POST", "/v1/rank", R"({"user":"ana","candidates":["a"]})").status == 504);
  }

  TEST_CASE("HTTP server: a reload needs admin routes and has its own time limit") {
    HttpServerConfig config;
    const std::string body = R"({"model":"m2","catalog":"c2"})";
    {
      Fixture closed(config);
      CHECK(closed.call("POST", "/v1/models/reload", body).status == 403);
      CHECK(closed.asked == 0);
    }
    config.limits.admin_routes = true;
    config.reload_us_max = 20'000;
    Fixture f(config);
    CHECK(f.call("POST", "/v1/models/reload", body).status == 200);
    f.silent = true;
    const HttpReply late = f.call("POST", "/v1/catalog/reload", body);
    CHECK(late.status == 504);
    CHECK(late.body.find("within 20 ms") != std::string::npos);
  }

  TEST_CASE("HTTP server: health, metrics and the cluster are answered") {
    Fixture f;
    CHECK(f.call("GET", "/v2/health/live").status == 200);
    CHECK(f.call("GET", "/v2/health/ready").status == 200);
    CHECK(f.call("GET", "/metrics").body.find("troupe_http") != std::string::npos);
    CHECK(f.call("GET", "/v1/cluster").body.find("cache_meta") != std::string::npos);
  }

  TEST_CASE("HTTP server: readiness asks only the required actors, and a retired server is not ready") {
    HttpServerConfig config;
    config.must_be_ready = {{1, Role::router}};
    config.last_id = 1'000;
    Fixture f(config);
    const int before = f.asked;
    CHECK(f.call("GET", "/v2/health/ready").status == 200);
    CHECK(f.asked == before + 1);
    f.http_server->retire();
    CHECK(f.call("GET", "/v2/health/ready").status == 503);
    CHECK(f.call("POST", "/v1/rank", R"({"user":"ana","candidates":["a"]})").status == 200);
  }

  TEST_CASE("HTTP server: a not-ready answer gives the reason of the actor or of the node") {
    std::string obstacle;
    HttpServerConfig config;
    config.obstacle = [&] { return obstacle; };
    Fixture f(config);
    CHECK(f.call("GET", "/v2/health/ready").status == 200);
    f.why_not = "the catalog has no items";
    const HttpReply actor = f.call("GET", "/v2/health/ready");
    CHECK(actor.status == 503);
    CHECK(has(actor.body, "is not ready: the catalog has no items"));
    f.why_not.clear();
    obstacle = "no router is connected";
    const HttpReply node = f.call("GET", "/v2/health/ready");
    CHECK(node.status == 503);
    CHECK(has(node.body, "no router is connected"));
  }

  TEST_CASE("HTTP server: a ready answer lists why the node serves worse than it should, each reason once") {
    std::vector<std::string> reasons;
    HttpServerConfig config;
    config.degraded = [&] { return reasons; };
    Fixture f(config);
    const auto ask = [&] { return f.call("GET", "/v2/health/ready"); };
    CHECK(ask().body == R"({"ready":true})");
    reasons = {"the disk is full"};
    f.degraded = "1 of 2 workers are lost: \"node\" 3";  // said by two actors
    const HttpReply reply = ask();
    CHECK(reply.status == 200);
    CHECK(reply.body ==
          R"({"ready":true,"degraded":["the disk is full","1 of 2 workers are lost: \"node\" 3"]})");
    f.why_not = "draining";
    CHECK(ask().status == 503);
    f.why_not.clear(), f.degraded.clear(), reasons.clear();
    CHECK(ask().body == R"({"ready":true})");
  }

  TEST_CASE("HTTP server: hostile bytes get a typed answer and the server keeps serving") {
    HttpServerConfig config;
    config.header_bytes_max = 1024;
    config.body_bytes_max = 2048;
    Fixture f(config);
    const std::string post = "POST /v1/rank HTTP/1.1\r\nhost: x\r\n", long_header(5000, 'h'),
                      long_body(5000, 'b');
    CHECK(has(f.raw("GET / HTTP/1.1\r\nhost: x\r\nx: " + long_header + "\r\n\r\n"), " 431 "));
    CHECK(has(f.raw(post + "content-length: 5000\r\n\r\n" + long_body), " 413 "));
    CHECK(has(f.raw(post + "transfer-encoding: chunked\r\n\r\n1388\r\n" + long_body), " 413 "));
    CHECK(has(f.raw(post + "content-length: 99999999999999999999\r\n\r\n"), " 400 "));
    CHECK(has(f.raw(post + "content-length: 9\r\n\r\n{"), " 400 "));
    CHECK(has(f.raw("\x16\x03\x01nonsense\r\n\r\n"), " 400 "));
    CHECK(has(f.raw("GET / HTTP/2.0\r\n\r\n"), " 400 "));
    CHECK(f.raw("") == "");
    CHECK(f.call("GET", "/v2/health/live").status == 200);
  }

  TEST_CASE("HTTP server: a body with an ambiguous end is refused, and bytes after it are not served") {
    Fixture f;
    for (const char* headers :
         {"content-length: 3\r\ntransfer-encoding: chunked\r\n",
          "transfer-encoding: chunked\r\ncontent-length: 3\r\n", "transfer-encoding: gzip\r\n",
          "transfer-encoding: chunked, gzip\r\n", "transfer-encoding: gzip, chunked\r\n",
          "content-length: 3\r\ncontent-length: 4\r\n", "content-length: -1\r\n"}) {
      CAPTURE(headers);
      const std::string reply = f.raw(std::string("POST /v1/rank HTTP/1.1\r\nhost: x\r\n") + headers +
                                      "\r\n0\r\n\r\n" + live + end);
      CHECK((has(reply, " 400 ") || has(reply, " 501 ")));
      CHECK(has(reply, "Connection: close"));
      CHECK_FALSE(has(reply, " 200 "));
    }
    CHECK(has(f.raw("POST /v1/rank HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"), " 501 "));
    CHECK(f.asked == 0);
  }

  TEST_CASE("HTTP server: a request with two tenants is refused") {
    Fixture f;
    CHECK(
        has(f.raw(post_rank("x-troupe-tenant: a\r\nX-Troupe-Tenant: b\r\n") + rank_body), "repeated_tenant"));
    CHECK(has(f.raw(post_rank("x-troupe-tenant: a\r\n") + rank_body), " 200 "));
  }

  TEST_CASE("HTTP server: pipelined requests are answered in order") {
    Fixture f;
    const std::string reply = f.raw(live + end + "GET /nothing HTTP/1.1\r\nhost: x\r\n\r\n" + live + end);
    const std::size_t first = reply.find(" 200 "), second = reply.find(" 404 ");
    CHECK(first < second);
    CHECK(reply.find(" 200 ", second) != std::string::npos);
  }

  TEST_CASE("HTTP server: a connection is kept or closed as its client asks, in both HTTP versions") {
    Fixture f;
    RawClient kept(f.http_server->port());
    for (int i = 0; i < 3; ++i) {
      kept.send(live + end);
      CHECK(has(kept.read_until("{\"live\":true}"), " 200 "));
    }
    RawClient closed(f.http_server->port());
    closed.send(live + "connection: close\r\n\r\n");
    CHECK(has(closed.read_all(), "Connection: close"));
    RawClient old(f.http_server->port());
    old.send("GET /v2/health/live HTTP/1.0\r\n\r\n");
    CHECK(has(old.read_all(), "HTTP/1.0 200 "));
    RawClient old_kept(f.http_server->port());
    for (int i = 0; i < 2; ++i) {
      old_kept.send("GET /v2/health/live HTTP/1.0\r\nconnection: keep-alive\r\n\r\n");
      CHECK(has(old_kept.read_until("{\"live\":true}"), "Connection: keep-alive"));
    }
  }

  TEST_CASE("HTTP server: HEAD gives GET's headers without a body, a wrong method lists the right ones") {
    Fixture f;
    const std::string reply = f.raw("HEAD /v2/health/live HTTP/1.1\r\nhost: x\r\n\r\n" + live + end);
    CHECK(has(reply, "Content-Length: 13\r\n\r\nHTTP/1.1 200"));
    CHECK(has(f.raw("PATCH /v1/users/a HTTP/1.1\r\nhost: x\r\n\r\n"), "Allow: PUT, GET, HEAD, DELETE"));
  }

  TEST_CASE("HTTP server: an expecting client gets 100 Continue, or its refusal at once") {
    HttpServerConfig config;
    config.body_bytes_max = 2048;
    Fixture f(config);
    RawClient client(f.http_server->port());
    client.send(post_rank("expect: 100-continue\r\n"));
    CHECK(client.read_until("\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n");
    client.send(rank_body);
    CHECK(has(client.read_until("\r\n\r\n"), " 200 "));
    RawClient empty(f.http_server->port());
    empty.send("GET /v2/health/live HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\n\r\n");
    CHECK(has(empty.read_until("\r\n\r\n"), " 200 "));
    RawClient large(f.http_server->port());
    large.send("POST /v1/rank HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 5000\r\n\r\n");
    CHECK(has(large.read_until("\r\n\r\n"), " 413 "));
  }

  TEST_CASE("HTTP server: slow or silent clients lose their connection") {
    HttpServerConfig config;
    config.timeout_us = 20'000;
    Fixture f(config);
    for (const char* part :
         {"", "GET /v2/health", "POST /v1/rank HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{"}) {
      RawClient client(f.http_server->port());
      client.send(part);
      CHECK(client.read_all() == "");
    }
  }

  TEST_CASE("HTTP server: closing answers waiting requests, and a server that never opened closes too") {
    Fixture f;
    f.silent = true;
    RawClient waiting(f.http_server->port()), idle(f.http_server->port());
    waiting.send(post_rank("") + rank_body);
    f.asked.wait(0);
    f.http_server->close();
    CHECK(has(waiting.read_all(), "\"stopping\""));
    CHECK(idle.read_all() == "");
    f.http_server->deliver(RankReply{1});  // a late answer
    f.http_server->close();
    HttpServer never(
        {.port = 0}, [](Address, Message) {}, f.metrics);
  }

  TEST_CASE("HTTP server: a port in use is an error that names it") {
    Fixture f;
    HttpServerConfig taken;
    taken.port = f.http_server->port();
    CHECK_THROWS_AS(HttpServer(
                        taken, [](Address, Message) {}, f.metrics),
                    ServerError);
  }

  TEST_CASE("HTTP server: endless input is refused before it is kept") {
    Fixture f;
    const std::string endless(8 << 20, 'x'), chunked = post_chunked("");
    CHECK(has(f.raw("GET /v2/health/live HTTP/1.1\r\nhost: x\r\ny: " + endless), "header_too_long"));
    CHECK(has(f.raw(chunked + "1;a=\"" + endless), "extension_too_long"));
    CHECK(has(f.raw(chunked + "0\r\ny: " + endless), "trailer_too_long"));
    CHECK(has(f.raw(chunked + "0\r\n" + many("y: z\r\n", 100'000)), "trailer_too_long"));
    CHECK(has(f.raw(chunked + many("1;a=bcdefghijkl\r\n \r\n", 100'000)), "extension_too_long"));
    CHECK(has(f.raw("GET /v2/health/live HTTP/1.1\r\nhost: x\r\n" + many("y:\r\n", 200) + end),
              "header_too_long"));
    CHECK(f.asked == 0);
    CHECK(f.call("GET", "/v2/health/live").status == 200);
  }

  TEST_CASE("HTTP server: the tenant comes from the header, never from a trailer") {
    Fixture f;
    const std::string body = "21\r\n" + rank_body + "\r\n0\r\nx-troupe-tenant: evil\r\n\r\n";
    REQUIRE(rank_body.size() == 0x21);
    RawClient client(f.http_server->port());
    for (const char* tenant : {"", "acme"}) {
      client.send(post_chunked(*tenant ? "x-troupe-tenant: acme\r\n" : "") + body);
      client.read_until("\r\n\r\n");
      CHECK(has(client.read_until("\"approximate\""), "\"policy\":\"" + std::string(tenant) + "\""));
    }
  }

  TEST_CASE("HTTP server: a request has one host, or none in HTTP/1.0") {
    Fixture f;
    const std::string ask = "GET /v2/health/live HTTP/1.1\r\n";
    CHECK(has(f.raw(ask + end), "bad_host"));
    CHECK(has(f.raw(ask + "host: a\r\nHost: b\r\n" + end), "bad_host"));
    CHECK(has(f.raw(ask + "host:\r\n" + end), " 200 "));
    CHECK(has(f.raw("GET http://y/v2/health/live HTTP/1.1\r\nhost: x\r\n\r\n"), " 200 "));
  }

  TEST_CASE("HTTP server: a web page of another site can neither write nor reach it by its own name") {
    HttpServerConfig config;
    config.hosts = ServedHosts::parse("", true);
    Fixture f(config);
    const std::string line = R"({"item":"a","tokens":[1],"identifier":2})";
    const auto post = [&](const std::string& host, const std::string& headers) {
      return f.raw("POST /v1/items HTTP/1.1\r\nhost: " + host + "\r\n" + headers +
                   "content-length: " + std::to_string(line.size()) + "\r\n\r\n" + line);
    };
    const std::string text = "content-type: text/plain\r\n";
    for (const char* marks : {"origin: http://evil.example\r\n", "origin: null\r\n",
                              "sec-fetch-site: cross-site\r\n", "sec-fetch-site: same-site\r\n",
                              "origin: http://localhost:8080\r\norigin: http://evil.example\r\n"}) {
      CAPTURE(marks);
      const std::string reply = post("localhost:8080", marks + text);
      CHECK(has(reply, " 403 "));
      CHECK(has(reply, "foreign_origin"));
      CHECK_FALSE(has(reply, "Access-Control"));
    }
    CHECK(has(post("localhost:8080", "origin: http://localhost:8080\r\n" + text), "form_body"));
    CHECK(has(post("evil.example:8080", "origin: http://evil.example:8080\r\n"), "unknown_host"));
    const std::string read = f.raw("GET /v1/users/ana HTTP/1.1\r\nhost: evil.example\r\n\r\n");
    CHECK(has(read, " 400 "));
    CHECK(has(read, "http.hosts"));
    CHECK(f.asked == 0);
    CHECK(has(f.raw("GET /v2/health/live HTTP/1.1\r\nhost: node.example\r\n\r\n"), " 200 "));
    CHECK(has(post("localhost:8080", text), R"({"lines":1,"failed":0})"));  // as curl sends it
  }

  TEST_CASE("HTTP server: one empty line before a request is skipped") {
    Fixture f;
    RawClient client(f.http_server->port());
    for (int i = 0; i < 2; ++i) {
      client.send("\r");
      client.send("\n" + live + end);
      CHECK(has(client.read_until("true}"), " 200 "));
    }
    CHECK(has(f.raw(end + end + live + end), " 400 "));
    CHECK(has(f.raw("\r"), " 400 "));
  }

  TEST_CASE("HTTP server: a new connection replaces the longest waiting one of the busiest address") {
    HttpServerConfig config;
    config.connections_max = 4;
    config.connections_per_address_max = 3;
    Fixture f(config);
    RawClient lonely(f.http_server->port(), "127.0.0.3");
    std::deque<RawClient> idle;
    for (int i = 0; i < 20; ++i) {
      idle.emplace_back(f.http_server->port(), "127.0.0.2");
      idle.back().send(live + end);
      CHECK(has(idle.back().read_until("true}"), " 200 "));
    }
    CHECK(f.metrics.value(Metric::http_connections) == 4);
    CHECK(f.metrics.value(Metric::http_evicted) == 17);
    CHECK(idle.front().read_all() == "");
    CHECK(has(f.raw(live + end, "127.0.0.4"), " 200 "));
    lonely.send(live + end);
    CHECK(has(lonely.read_until("true}"), " 200 "));
  }

  TEST_CASE("HTTP server: if every connection is in use, new ones get Retry-After and health is answered") {
    HttpServerConfig config;
    config.connections_max = 1;
    Fixture f(config);
    f.silent = true;
    std::optional<RawClient> held(f.http_server->port());
    held->send(post_rank("") + rank_body);
    f.asked.wait(0);
    const std::string refused = f.raw(post_rank("") + rank_body);
    CHECK(has(refused, "too_many_connections"));
    CHECK(has(refused, "Retry-After: 1\r\n"));
    CHECK(f.asked == 1);
    f.silent = false;
    RawClient idle(f.http_server->port());
    for (int i = 0; i < 100; ++i) CHECK(has(f.raw(live + end), " 200 "));
    CHECK(has(f.raw("GET /v2/health/ready HTTP/1.1\r\nhost: x\r\n\r\n"), " 200 "));
    CHECK(has(f.raw("GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n"), "troupe_http"));
    CHECK(has(f.raw("GET /v1/cluster HTTP/1.1\r\nhost: x\r\n\r\n"), "too_many_connections"));
    f.http_server->deliver(RankReply{1});
    CHECK(has(held->read_until("\r\n\r\n"), " 200 "));
    std::string reply;  // until the server has noticed that the first client may be closed
    while (!has(reply, " 200 ")) reply = f.raw(post_rank("") + rank_body);
  }

  TEST_CASE("HTTP server: endless bodies take memory only from their sender") {
    HttpServerConfig config;
    config.body_bytes_max = 64 << 10;
    config.memory_bytes_max = 1 << 20;
    Fixture f(config);
    const std::string half = "POST /v1/rank HTTP/1.1\r\nhost: x\r\ncontent-length: 65000\r\n\r\n";
    RawClient honest(f.http_server->port());
    honest.send(post_rank("") + rank_body.substr(0, 20));
    std::deque<RawClient> hungry;
    for (int i = 0; i < 60; ++i) {
      hungry.emplace_back(f.http_server->port(), "127.0.0.2");
      hungry.back().send(half + std::string(50'000, ' '));
      CHECK(has(f.raw(live + end), " 200 "));
    }
    CHECK(f.metrics.value(Metric::http_evicted) > 20);
    honest.send(rank_body.substr(20));
    CHECK(has(honest.read_until("\r\n\r\n"), " 200 "));
  }

  TEST_CASE("HTTP server: a response beyond the memory limit is dropped, and its client gets a refusal") {
    HttpServerConfig config;
    config.body_bytes_max = 16 << 10;
    config.memory_bytes_max = 64 << 10;
    Fixture f(config);
    f.silent = true;
    RawClient greedy(f.http_server->port());
    greedy.send(post_rank("") + rank_body);
    f.asked.wait(0);
    f.http_server->deliver(RankReply{1, std::string(1 << 20, 'x')});
    const std::string reply = greedy.read_until("\r\n\r\n");
    CHECK(has(reply, " 503 "));
    CHECK(has(reply, "Retry-After: 1\r\n"));
    RawClient modest(f.http_server->port());
    modest.send(post_rank("") + rank_body);
    f.asked.wait(1);
    f.http_server->deliver(RankReply{2, std::string(30'000, 'x')});
    CHECK(has(modest.read_until("\r\n\r\n"), " 200 "));
  }

  TEST_CASE("HTTP server: if it cannot accept, it logs that and closes the longest waiting connection") {
    Fixture f;
    std::deque<RawClient> idle;
    for (int i = 0; i < 4; ++i) {
      idle.emplace_back(f.http_server->port(), "127.0.0.2");
      idle.back().send(live + end);
      CHECK(has(idle.back().read_until("true}"), " 200 "));
    }
    RawClient late("127.0.0.3");  // has its own file descriptor already
    rlimit before{};
    REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
    const rlimit none{3, before.rlim_max};
    REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
    late.connect(f.http_server->port());
    late.send(live + end);
    while (f.metrics.value(Metric::http_evicted) < 1) std::this_thread::yield();
    REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK(has(late.read_until("true}"), " 200 "));
    CHECK(f.metrics.value(Metric::http_accept_failed) >= 1);
    CHECK(f.metrics.value(Metric::http_accept_failed) < 20);
    const std::lock_guard lock(f.logging);
    CHECK(f.logged == std::vector<std::string>{"accept_failed"});
  }

  TEST_CASE("HTTP server: a late answer or one of the wrong kind does no harm") {
    Fixture f;
    f.silent = true;
    RawClient client(f.http_server->port());
    client.send(post_rank("") + rank_body);
    f.asked.wait(0);
    f.http_server->deliver(RankReply{77});
    f.http_server->deliver(StatusReply{1, 1, Role::router, true, {}});
    f.http_server->deliver(StatusReply{1, 1, Role::cache_meta, true, {}});
    f.http_server->deliver(StatusRequest{1});
    CHECK(has(client.read_until("\r\n\r\n"), " 500 "));
  }
}
