#include "deploy/node/request_forwarder.h"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "runtime/testing/catalog_test.h"

namespace troupe::deploy {
namespace request_forwarder_test {

constexpr ModelActorIds two_models{2};
constexpr Role router = Role::router;

TEST_CASE("request forwarder: a node without a router sends requests to a connected one of the same model") {
  ConnectedPeers peers(false, {1, 2});
  std::vector<Address> sent;
  RequestForwarder forwarder(two_models, peers, [&](Address to, const Message&) { sent.push_back(to); });
  const Address second_model{two_models.number(1, 1), router};
  forwarder.forward(second_model, RankRequest{.id = 1});
  peers.meet(2);
  forwarder.forward(second_model, RankRequest{.id = 2});
  forwarder.forward({1, router}, RankRequest{.id = 3});
  CHECK(sent == std::vector<Address>{second_model, {two_models.number(2, 1), router}, {2, router}});
}

TEST_CASE("request forwarder: a question about an actor's status goes to that actor") {
  ConnectedPeers peers(false, {1, 2});
  peers.meet(2);
  std::vector<Address> sent;
  RequestForwarder forwarder({1}, peers, [&](Address to, const Message&) { sent.push_back(to); });
  forwarder.forward({1, router}, StatusRequest{1});
  forwarder.forward({3, Role::kv_worker}, StatusRequest{2});
  CHECK(sent == std::vector<Address>{{1, router}, {3, Role::kv_worker}});
}

TEST_CASE("request forwarder: a capture gets the requests of its own router, and their replies") {
  const ConnectedPeers peers(true, {1});
  RequestForwarder forwarder(two_models, peers, [](Address, const Message&) {});
  TraceCapture& capture = forwarder.capture_of(two_models.number(1, 1));
  const auto items = std::make_shared<const ListedCatalog>(std::vector<Item>{{"a", "", {1}, 1, {}}});
  std::vector<std::string> users;
  std::atomic<bool> done = false;
  std::thread recording([&] {
    capture.record(
        {3, 60'000'000}, *items, [](auto&, auto&) { return nullptr; },
        [&](const TracedRequest& request) { return users.push_back(request.user), true; },
        [] { return false; });
    done = true;
  });
  for (RequestId id = 1; !done; id += 2) {
    forwarder.forward({1, router}, RankRequest{.id = id, .user = "first", .candidates = {"a"}});
    forwarder.forward({two_models.number(1, 1), router},
                      RankRequest{.id = id + 1, .user = "second", .candidates = {"a"}});
    forwarder.note_reply(RankReply{.id = id});
    forwarder.note_reply(RankReply{.id = id + 1});
    std::this_thread::yield();
  }
  recording.join();
  CHECK(users == std::vector<std::string>(3, "second"));
}

}  // namespace request_forwarder_test
}  // namespace troupe::deploy
