// gRPC through the whole server, over sockets.
#include <doctest/doctest.h>

#include "server/grpc/grpc_framing.h"
#include "server/grpc/grpc_service.h"
#include "server/testing/grpc_bytes.h"
#include "server/testing/http2_client.h"
#include "server/testing/http_server_test.h"

using namespace troupe;
using namespace troupe::server;
using namespace troupe::server::http_server_test;

namespace grpc_server_test {

using namespace troupe::server::grpc_test;
using namespace troupe::server::http2_test;

HttpServerConfig with_grpc(HttpServerConfig config = {}) {
  config.rpc = std::make_shared<GrpcService>(GrpcConfig{.message_bytes_max = config.body_bytes_max});
  return config;
}

Http2Fields call_of(const std::string& method, Http2Fields more = {}) {
  more.insert(more.begin(), {{"content-type", "application/grpc"}, {"te", "trailers"}});
  return post(method, more);
}

// Trailers of an answer, which has only those if it is a refusal.
std::string trailer(const PeerAnswer& answer, const std::string& name) {
  const auto& fields = answer.trailers.empty() ? answer.fields : answer.trailers;
  return fields.contains(name) ? fields.at(name) : "";
}
std::string status(const PeerAnswer& answer) { return trailer(answer, "grpc-status"); }
std::string code(const PeerAnswer& answer) { return trailer(answer, "troupe-code"); }

TEST_SUITE("gRPC server") {
  TEST_CASE("gRPC server: a ranking reaches the router with its tenant, and is answered with a message") {
    Fixture f(with_grpc());
    Http2Client client(f.http_server->port());
    const PeerAnswer ranked =
        client.call(call_of(rank, {{"x-troupe-tenant", "acme"}}), grpc_message(ranking("ana")));
    CHECK(ranked.status == "200");
    CHECK(ranked.fields.at("content-type") == "application/grpc");
    CHECK(status(ranked) == "0");
    CHECK(has(ranked.body, text_field(1, "ana")));
    CHECK(has(ranked.body, text_field(3, "acme")));              // where the fixture puts the tenant
    CHECK(client.call(get("/v2/health/live")).status == "200");  // the connection serves HTTP, too
    std::vector<Http2StreamId> streams;
    for (int i = 0; i < 40; ++i) streams.push_back(client.ask(call_of(rank), grpc_message(ranking())));
    for (const Http2StreamId stream : streams) CHECK(status(client.answer(stream)) == "0");
  }

  TEST_CASE("gRPC server: a refusal has its status and details in trailers") {
    Fixture f(with_grpc());
    Http2Client client(f.http_server->port());
    const PeerAnswer unknown = client.call(call_of(rank), grpc_message(ranking("nobody")));
    CHECK(unknown.status == "200");
    CHECK(status(unknown) == "5");
    CHECK(code(unknown) == "unknown_user");
    CHECK(trailer(unknown, "troupe-where") == "user");
    CHECK(has(trailer(unknown, "grpc-message"), "no such user"));
    CHECK(status(client.call(call_of("/troupe.v1.Troupe/None"), "")) == "12");
    CHECK(code(client.call(call_of(rank), grpc_message("\xff\xff"))) == "bad_message");
    CHECK(status(client.call(call_of(rank), grpc_message(std::string(2 << 20, 'x')))) == "8");
    CHECK(code(client.call(call_of(rank, {{"grpc-timeout", std::string(2'000, 'x')}}))) == "bad_timeout");
    CHECK(status(client.call(call_of(rank, {{"grpc-encoding", "gzip"}}), grpc_message(ranking()))) == "12");
    CHECK(status(client.call(call_of(rank, {{"grpc-timeout", "99999999H"}}), grpc_message(ranking()))) ==
          "0");
    CHECK(code(client.call(call_of(rank, {{"x-troupe-tenant", "a"}, {"x-troupe-tenant", "b"}}))) ==
          "repeated_tenant");
  }

  TEST_CASE("gRPC server: metadata over a limit, and malformed ones, are refused with a status of gRPC") {
    Fixture f(with_grpc());
    Http2Client client(f.http_server->port());
    const PeerAnswer is_long =
        client.call(call_of(rank, {{"y", std::string(9'000, 'y')}}), grpc_message(ranking()));
    CHECK(is_long.status == "200");
    CHECK(is_long.fields.at("content-type") == "application/grpc");
    CHECK(status(is_long) == "8");
    CHECK(code(is_long) == "header_too_long");
    Http2Fields late = post(rank, {{"y", std::string(9'000, 'y')}, {"content-type", "application/grpc"}});
    CHECK(status(client.call(late, grpc_message(ranking()))) == "8");
    Http2Fields many = call_of(rank);
    for (int i = 0; i < 120; ++i) many.emplace_back("y", "z");
    CHECK(status(client.call(many, grpc_message(ranking()))) == "8");
    const PeerAnswer malformed = client.call(call_of(rank, {{"x", "a\x01z"}}), grpc_message(ranking()));
    CHECK(status(malformed) == "3");
    CHECK(code(malformed) == "bad_http");
    CHECK(f.asked == 0);
  }

  TEST_CASE("gRPC server: a ranking of another arrangement than the named one is refused") {
    Fixture f(with_grpc());
    Http2Client client(f.http_server->port());
    const std::string named = grpc_message(ranking() + text_field(14, "item_first"));
    CHECK(code(client.call(call_of(rank), named)) ==
          "wrong_arrangement");  // of a router that ignores the name
    f.serves = Arrangement::item_first;
    CHECK(status(client.call(call_of(rank), named)) == "0");
  }

  TEST_CASE("gRPC server: with keys a call needs one, which sets its tenant; health needs none") {
    HttpServerConfig config;
    ApiKeys keys;
    const NewKey made = make_key({.tenant = "acme"});
    keys.add(made.key);
    config.keys = std::make_shared<const ApiKeys>(std::move(keys));
    Fixture f(with_grpc(config));
    Http2Client client(f.http_server->port());
    const std::pair<std::string, std::string> key{"authorization", "Bearer " + made.text};
    CHECK(code(client.call(call_of(rank), grpc_message(ranking()))) == "no_key");
    CHECK(status(client.answer(client.ask(call_of(rank), "", false))) == "16");  // before its message
    CHECK(has(client.call(call_of(rank, {key}), grpc_message(ranking())).body, "acme"));
    CHECK(code(client.call(call_of(rank, {key, {"x-troupe-tenant", "other"}}), grpc_message(ranking()))) ==
          "not_your_tenant");
    CHECK(code(client.call(call_of(rank, {key, key}), grpc_message(ranking()))) == "repeated_key");
    CHECK(code(client.call(call_of(rank, {key}), grpc_message(ranking("ana", 2'000)))) ==
          "too_many_candidates");
    CHECK(code(client.call(call_of(rank), grpc_message(ranking("ana", 2'000)))) == "no_key");
    CHECK(status(client.call(call_of(reflection), grpc_message(text_field(7, "")))) == "16");
    CHECK(status(client.call(call_of(health), grpc_message(""))) == "0");
  }

  TEST_CASE("gRPC server: the rules of HTTP for hosts, tenants' names and rights of keys hold for calls") {
    HttpServerConfig config = with_grpc();
    config.hosts = ServedHosts::parse("", true);
    ApiKeys keys;
    const NewKey acme = make_key({.tenant = "acme"}), scrape = make_key({.scrape = true});
    keys.add(acme.key), keys.add(scrape.key);
    config.keys = std::make_shared<const ApiKeys>(std::move(keys));
    config.rpc_address = "127.0.0.1";
    Fixture f(config);
    const std::pair<std::string, std::string> key{"authorization", "Bearer " + acme.text};
    const auto at = [](const std::string& host, Http2Fields fields) {
      for (auto& [name, value] : fields)
        if (name == ":authority") value = host;
      return fields;
    };
    Http2Client client(f.http_server->port()), rpc(f.http_server->rpc_port());
    CHECK(status(client.call(at("localhost", call_of(rank, {key})), grpc_message(ranking()))) == "0");
    CHECK(code(client.call(call_of(rank, {key}), grpc_message(ranking()))) == "unknown_host");
    CHECK(status(rpc.call(call_of(rank, {key}), grpc_message(ranking()))) == "0");  // has hosts of its own
    CHECK(status(client.call(call_of(health), grpc_message(""))) == "0");           // by any name
    const Http2Fields bad = call_of(rank, {key, {"x-troupe-tenant", "caf\xe9"}});
    CHECK(code(client.call(at("localhost", bad), grpc_message(ranking()))) == "bad_tenant");
    const Http2Fields scrapes = call_of(rank, {{"authorization", "Bearer " + scrape.text}});
    CHECK(status(client.call(at("localhost", scrapes), grpc_message(ranking()))) == "7");
    CHECK(f.asked == 4);  // two rankings, and health of two actors
  }

  TEST_CASE("gRPC server: a large message is answered like a small one, and a reset call is withdrawn") {
    HttpServerConfig config = with_grpc();
    config.answer_us_max = 60'000'000;
    Fixture f(config);
    Http2Client client(f.http_server->port());
    std::string message = ranking();
    for (int i = 0; i < 900; ++i) message += text_field(2, std::string(240, 'x') + std::to_string(i));
    const std::string large = grpc_message(message);
    CHECK(status(client.call(call_of(rank), large)) == "0");
    CHECK(code(client.call(call_of(rank), large + "x")) == "bad_message_count");
    f.silent = true;
    const Http2StreamId call = client.ask(call_of(rank), large);
    client.finish_sending(call);
    while (f.asked < 2) f.asked.wait(f.asked);
    client.cancel(call);
    f.cancelled.wait(0);
    CHECK(f.cancelled == f.last_ranking);
  }

  TEST_CASE("gRPC server: a tenant's limit counts calls like requests, and a waiting one goes on") {
    HttpServerConfig config;
    config.tenant_limit.at_once = 1;
    Fixture f(with_grpc(config));
    f.silent = true;
    Http2Client client(f.http_server->port());
    const Http2StreamId first = client.ask(call_of(rank), grpc_message(ranking()));
    f.asked.wait(0);
    CHECK(code(client.call(call_of(rank), grpc_message(ranking()))) == "too_many_at_once");
    CHECK(client.call(post("/v1/rank"), rank_body).status == "429");
    f.http_server->deliver(RankReply{1, "ana"});
    CHECK(status(client.answer(first)) == "0");
  }

  TEST_CASE("gRPC server: health tells what readiness tells") {
    Fixture f(with_grpc());
    Http2Client client(f.http_server->port());
    CHECK(client.call(call_of(health), grpc_message("")).body == grpc_message(number_field(1, 1)));
    f.why_not = "the catalog has no items";
    CHECK(client.call(call_of(health), grpc_message("")).body == grpc_message(number_field(1, 2)));
    CHECK(status(client.call(call_of(health), grpc_message(text_field(1, "other")))) == "5");
    CHECK(status(client.call(call_of("/grpc.health.v1.Health/Watch"), grpc_message(""))) == "12");
  }

  TEST_CASE("gRPC server: health counts as a request of its connection, and is logged if its client goes") {
    HttpServerConfig config = with_grpc();
    config.streams_max = 1;
    Fixture f(config);
    f.silent = true;
    Http2Client client(f.http_server->port());
    const Http2StreamId reset = client.ask(call_of(health), grpc_message(""));
    while (f.asked < 2) f.asked.wait(f.asked);  // both actors
    client.cancel(reset);
    f.silent = false;
    CHECK(code(client.call(call_of(rank), grpc_message(ranking()))) == "overloaded");
    CHECK(status(client.call(call_of(health), grpc_message(""))) == "0");  // beyond the bound, too
    for (RequestId id = 0; id < 20; ++id)
      for (const Address& actor : {router_address, meta_address})
        f.http_server->deliver(StatusReply{id, 1, actor.role, true, {}});
    while (f.metrics.value(Metric::http_responses, std::string(health) + "\t499") == 0)
      f.call("GET", "/v2/health/live");
    CHECK(status(client.call(call_of(rank), grpc_message(ranking()))) == "0");
  }

  TEST_CASE("gRPC server: the Open Inference Protocol is answered with its tenants, keys and statuses") {
    HttpServerConfig config;
    config.version = "1.2";
    ApiKeys keys;
    const NewKey acme = make_key({.tenant = "acme"});
    keys.add(acme.key);
    config.keys = std::make_shared<const ApiKeys>(std::move(keys));
    Fixture f(with_grpc(config));
    f.version = "v1";
    Http2Client client(f.http_server->port());
    const std::string service = "/inference.GRPCInferenceService/";
    const auto ask = [&](const std::string& method, const std::string& message, bool has_key = true) {
      const Http2Fields key{{"authorization", "Bearer " + acme.text}};
      return client.call(call_of(service + method, has_key ? key : Http2Fields{}), grpc_message(message));
    };
    const auto tensor = [](const std::string& name, const std::string& text) {
      return text_field(5, text_field(1, name) + text_field(2, "BYTES") + text_field(3, "\1") +
                               text_field(5, text_field(8, text)));
    };
    const std::string model = text_field(1, "troupe");
    const std::string ranks = model + tensor("user", "ana") + tensor("candidates", "a");
    CHECK(ask("ServerLive", "", false).body == grpc_message(number_field(1, 1)));
    CHECK(ask("ServerReady", "", false).body == grpc_message(number_field(1, 1)));
    for (const char* method : {"ServerMetadata", "ModelReady", "ModelMetadata", "ModelInfer"})
      CHECK(code(ask(method, ranks, false)) == "no_key");
    CHECK(ask("ServerMetadata", "").body == grpc_message(text_field(1, "troupe") + text_field(2, "1.2")));
    CHECK(ask("ModelReady", model).body == grpc_message(number_field(1, 1)));
    CHECK(has(ask("ModelMetadata", text_field(1, "v1")).body, text_field(1, "v1") + text_field(2, "v1")));
    CHECK(code(ask("ModelMetadata", text_field(1, "other"))) == "unknown_model");
    const PeerAnswer ranked = ask("ModelInfer", ranks);
    CHECK(status(ranked) == "0");
    CHECK(has(ranked.body, model + text_field(2, "v1")));
    CHECK(code(ask("ModelInfer", text_field(1, "other") + tensor("user", "ana") +
                                     tensor("candidates", "a"))) == "unknown_model");
    const PeerAnswer missing =
        ask("ModelInfer", model + tensor("user", "ana") + tensor("candidates", "nothing"));
    CHECK(status(missing) == "5");
    CHECK(trailer(missing, "troupe-where") == "inputs[1].contents.bytes_contents[0]");
    CHECK(code(ask("ModelInfer", model + tensor("user", "nobody") + tensor("candidates", "a"))) ==
          "unknown_user");
    f.why_not = "the catalog has no items";
    CHECK(ask("ModelReady", model).body == grpc_message(""));
    CHECK(ask("ServerReady", "", false).body == grpc_message(""));
  }

  TEST_CASE("gRPC server: a tenant's limit counts questions about models like requests") {
    HttpServerConfig config;
    config.tenant_limit.at_once = 1;
    Fixture f(with_grpc(config));
    f.silent = true;
    Http2Client client(f.http_server->port());
    const Http2StreamId first = client.ask(call_of(rank), grpc_message(ranking()));
    f.asked.wait(0);
    const std::string ready = "/inference.GRPCInferenceService/ModelReady";
    CHECK(code(client.call(call_of(ready), grpc_message(text_field(1, "troupe")))) == "too_many_at_once");
    f.http_server->deliver(RankReply{1, "ana"});
    CHECK(status(client.answer(first)) == "0");
  }

  TEST_CASE("gRPC server: reflection answers each message of its stream as it comes") {
    Fixture f(with_grpc());
    Http2Client client(f.http_server->port());
    const Http2StreamId stream = client.ask(call_of(reflection), grpc_message(text_field(7, "")), false);
    CHECK(client.waits_for(stream, "grpc.health.v1.Health"));
    client.send(stream, grpc_message(text_field(4, "troupe.v1.Troupe.Rank")));
    CHECK(client.waits_for(stream, "RankRequest"));
    client.send(stream, "", true);
    CHECK(status(client.answer(stream)) == "0");
  }

  TEST_CASE("gRPC server: messages that never come are given up, and their memory is bounded") {
    HttpServerConfig config;
    config.timeout_us = 300'000;
    Fixture f(with_grpc(config));
    Http2Client client(f.http_server->port());
    const Http2StreamId half = client.ask(call_of(rank), grpc_message(ranking()).substr(0, 7), false);
    CHECK(client.answer(half).ended);
    CHECK(f.asked == 0);
    // Fields of 8 KiB on every stream, from one address: the bound of all is kept.
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < 50; ++i) {
      clients.push_back(std::make_unique<RawClient>(f.http_server->port()));
      std::string bytes = preface();
      for (std::uint32_t k = 0; k < 100; ++k)
        bytes += http2_test::head(2 * k + 1, call_of(rank, {{"y", std::string(7'800, 'y')}}));
      clients.back()->send(bytes);
    }
    Http2Client honest(f.http_server->port(), "127.0.0.2");
    CHECK(status(honest.call(call_of(rank), grpc_message(ranking()))) == "0");
    const std::size_t buffers = 2 << 20;  // of the connections themselves
    CHECK(f.metrics.value(Metric::http_kept_bytes) <= config.memory_bytes_max + buffers);
  }

  TEST_CASE("gRPC server: its own address serves nothing else, and without the service there is no gRPC") {
    HttpServerConfig config = with_grpc();
    config.rpc_address = "127.0.0.1";
    Fixture f(config);
    REQUIRE(f.http_server->rpc_port() > 0);
    CHECK(f.http_server->rpc_port() != f.http_server->port());
    Http2Client client(f.http_server->rpc_port());
    CHECK(status(client.call(call_of(rank), grpc_message(ranking()))) == "0");
    CHECK(client.call(get("/metrics")).status == "404");
    CHECK(has(client.call(post("/v1/rank"), rank_body).body, "only_grpc"));
    RawClient plain(f.http_server->rpc_port());
    plain.send(live + end);
    CHECK(has(plain.read_all(), "only_grpc"));
    Fixture without;
    Http2Client other(without.http_server->port());
    CHECK(other.call(call_of(rank), grpc_message(ranking())).status == "404");
    CHECK(without.http_server->rpc_port() == 0);
  }

  TEST_CASE("gRPC server: a closing server answers waiting calls") {
    Fixture f(with_grpc());
    f.silent = true;
    Http2Client client(f.http_server->port());
    const Http2StreamId waits = client.ask(call_of(rank), grpc_message(ranking()));
    f.asked.wait(0);
    f.http_server->close();
    CHECK(code(client.answer(waits)) == "stopping");
    CHECK(status(client.answer(waits)) == "14");
  }
}

}  // namespace grpc_server_test
