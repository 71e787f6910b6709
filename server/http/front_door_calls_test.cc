#include "server/http/front_door_calls.h"

#include <doctest/doctest.h>

#include <future>

#include "server/testing/front_door_test.h"

using namespace troupe;
using namespace troupe::server;
using namespace troupe::server::front_door_test;

namespace front_door_calls_test {

DoorCall ranking(const std::string& user) {
  DoorCall call{.route = "/call",
                .kind = "rank",
                .asked = {Message{RankRequest{.user = user, .candidates = {"a"}}}, {}}};
  call.asked.body = [](const Message& reply, const KnownModel&,
                       std::int64_t) -> std::variant<std::string, Refusal> {
    const auto& ranked = std::get<RankReply>(reply);
    return ranked.user + " of " + ranked.policy;  // where the fixture puts the tenant
  };
  return call;
}

// Sends a call; the future holds its one answer. A second answer would throw.
std::future<DoorReply> ask(FrontDoor& door, DoorCall call) {
  const auto answer = std::make_shared<std::promise<DoorReply>>();
  door.ask(std::move(call), [answer](DoorReply reply) { answer->set_value(std::move(reply)); });
  return answer->get_future();
}

TEST_SUITE("HTTP server, calls") {
  TEST_CASE("calls: a call reaches the router with its tenant, and the answer has the call's form") {
    Fixture f;
    DoorCall call = ranking("ana");
    call.tenant = "acme";
    const DoorReply reply = ask(*f.door, std::move(call)).get();
    CHECK(reply.status == 200);
    CHECK(reply.body == "ana of acme");
  }

  TEST_CASE("calls: a refusal is returned with its code") {
    Fixture f;
    const DoorReply reply = ask(*f.door, ranking("nobody")).get();
    CHECK(reply.status == 404);
    CHECK(reply.code == "unknown_user");
    CHECK(has(reply.body, "no such user"));
  }

  TEST_CASE("calls: with keys a call needs one, which sets its tenant") {
    DoorConfig config;
    ApiKeys keys;
    const MadeKey made = make_key({.tenant = "acme"});
    keys.add(made.key);
    config.keys = std::make_shared<const ApiKeys>(std::move(keys));
    Fixture f(config);
    CHECK(ask(*f.door, ranking("ana")).get().code == "no_key");
    DoorCall call = ranking("ana");
    call.authorization = "Bearer " + made.text;
    CHECK(ask(*f.door, call).get().body == "ana of acme");
    call.tenant = "other";
    CHECK(ask(*f.door, call).get().code == "not_your_tenant");
    call.tenant = "";
    call.fault = Refusal{413, "too_many_candidates", "there are many", "candidates", "fewer"};
    CHECK(ask(*f.door, call).get().code == "too_many_candidates");
    call.authorization = "";
    CHECK(ask(*f.door, call).get().code == "no_key");
  }

  TEST_CASE("calls: a tenant's limit counts calls like requests") {
    DoorConfig config;
    config.tenant_limit.at_once = 1;
    Fixture f(config);
    f.silent = true;
    auto first = ask(*f.door, ranking("ana"));
    f.asked.wait(0);
    CHECK(ask(*f.door, ranking("ana")).get().code == "too_many_at_once");
    f.door->deliver(RankReply{1, "ana"});
    CHECK(first.get().status == 200);
  }

  TEST_CASE("calls: a closing server answers waiting and new calls") {
    Fixture f;
    f.silent = true;
    auto waits = ask(*f.door, ranking("ana"));
    f.asked.wait(0);
    f.door->close();
    CHECK(waits.get().code == "stopping");
    CHECK(ask(*f.door, ranking("ana")).get().code == "stopping");
  }
}

}  // namespace front_door_calls_test
