#include "server/http/http_server_calls.h"

#include <doctest/doctest.h>

#include <future>

#include "server/testing/http_server_test.h"

using namespace troupe;
using namespace troupe::server;
using namespace troupe::server::http_server_test;

namespace http_server_calls_test {

ServerCall ranking(const std::string& user) {
  ServerCall call{.route = "/call",
                  .kind = "rank",
                  .asked = {Message{RankRequest{.user = user, .candidates = {"a"}}}, {}}};
  call.asked.body = [](const Message& reply, const AnsweringModel&,
                       std::int64_t) -> std::variant<std::string, Refusal> {
    const auto& ranked = std::get<RankReply>(reply);
    return ranked.user + " of " + ranked.policy;  // where the fixture puts the tenant
  };
  return call;
}

// Sends a call; the future holds its one answer. A second answer would throw.
std::future<ServerReply> ask(HttpServer& http_server, ServerCall call) {
  const auto answer = std::make_shared<std::promise<ServerReply>>();
  http_server.ask(std::move(call), [answer](ServerReply reply) { answer->set_value(std::move(reply)); });
  return answer->get_future();
}

TEST_SUITE("HTTP server, calls") {
  TEST_CASE("calls: a call reaches the router with its tenant, and the answer has the call's form") {
    Fixture f;
    ServerCall call = ranking("ana");
    call.tenant = "acme";
    const ServerReply reply = ask(*f.http_server, std::move(call)).get();
    CHECK(!reply.refused);
    CHECK(reply.body == "ana of acme");
  }

  TEST_CASE("calls: a tenant's name that is no UTF-8 is refused") {
    Fixture f;
    ServerCall call = ranking("ana");
    call.tenant = "caf\xe9";
    const ServerReply reply = ask(*f.http_server, std::move(call)).get();
    CHECK(reply.refused == RefusalKind::malformed);
    CHECK(reply.code == "bad_tenant");
  }

  TEST_CASE("calls: a refusal is returned with its code") {
    Fixture f;
    const ServerReply reply = ask(*f.http_server, ranking("nobody")).get();
    CHECK(reply.refused == RefusalKind::not_found);
    CHECK(reply.code == "unknown_user");
    CHECK(has(reply.body, "no such user"));
  }

  TEST_CASE("calls: a ranking of another arrangement than the named one is refused") {
    Fixture f;
    ServerCall call = ranking("ana");
    std::get<RankRequest>(call.asked.message).arrangement = Arrangement::item_first;
    const ServerReply other = ask(*f.http_server, call).get();  // of a router that ignores the name
    CHECK(other.refused == RefusalKind::unavailable);
    CHECK(other.code == "wrong_arrangement");
    f.serves = Arrangement::item_first;
    CHECK(ask(*f.http_server, call).get().body == "ana of ");
  }

  TEST_CASE("calls: with keys a call needs one, which sets its tenant") {
    HttpServerConfig config;
    ApiKeys keys;
    const NewKey made = make_key({.tenant = "acme"});
    keys.add(made.key);
    config.keys = std::make_shared<const ApiKeys>(std::move(keys));
    Fixture f(config);
    CHECK(ask(*f.http_server, ranking("ana")).get().code == "no_key");
    ServerCall call = ranking("ana");
    call.authorization = "Bearer " + made.text;
    CHECK(ask(*f.http_server, call).get().body == "ana of acme");
    call.tenant = "other";
    CHECK(ask(*f.http_server, call).get().code == "not_your_tenant");
    call.tenant = "";
    call.fault =
        Refusal{RefusalKind::too_large, "too_many_candidates", "there are many", "candidates", "fewer"};
    CHECK(ask(*f.http_server, call).get().code == "too_many_candidates");
    call.authorization = "";
    CHECK(ask(*f.http_server, call).get().code == "no_key");
  }

  TEST_CASE("calls: a tenant's limit counts calls like requests") {
    HttpServerConfig config;
    config.tenant_limit.at_once = 1;
    Fixture f(config);
    f.silent = true;
    auto first = ask(*f.http_server, ranking("ana"));
    f.asked.wait(0);
    CHECK(ask(*f.http_server, ranking("ana")).get().code == "too_many_at_once");
    f.http_server->deliver(RankReply{1, "ana"});
    CHECK(!first.get().refused);
  }

  TEST_CASE("calls: a closing server answers waiting and new calls") {
    Fixture f;
    f.silent = true;
    auto waits = ask(*f.http_server, ranking("ana"));
    f.asked.wait(0);
    f.http_server->close();
    CHECK(waits.get().code == "stopping");
    CHECK(ask(*f.http_server, ranking("ana")).get().code == "stopping");
  }
}

}  // namespace http_server_calls_test
