#include "deploy/node/node_drain.h"

#include <doctest/doctest.h>

namespace troupe::deploy {
namespace node_drain_test {

constexpr Duration long_limit{600'000'000};

// A drain whose actors report after some questions that they have drained.
struct Node {
  NodeDrain drain;
  std::vector<Address> asked;
  std::size_t questions_each = 1;  // until an actor has drained
  int waits = 0, waits_max = 100;  // a signal comes at the last one

  explicit Node(const NodeRoles& roles, const std::vector<std::string>& models = {""})
      : drain(
            roles, models,
            [this, models](Address to, const Message& message) { answer(to, message, models); },
            [this](std::chrono::microseconds) { return ++waits >= waits_max; }) {}

  void answer(Address to, const Message& message, const std::vector<std::string>& models) {
    asked.push_back(to);
    if (static_cast<std::size_t>(std::ranges::count(asked, to)) < questions_each) return;
    const std::uint32_t model =
        is_of_model(to.role) ? ModelActorIds{static_cast<std::uint32_t>(models.size())}.model_of(to.node) : 0;
    StatusReply reply{std::get<Drain>(message).id, 1, to.role, true, {{"drained", "yes"}}};
    if (is_of_model(to.role) && !models[model].empty()) reply.fields.push_back({"model", models[model]});
    CHECK(drain.take(reply));
  }
};

TEST_CASE("node drain: the router drains first, then the worker, then the cache-meta") {
  Node node({});
  node.questions_each = 2;
  CHECK(node.drain.drain_all(long_limit));
  const Address router{1, Role::router}, worker{1, Role::inference_worker}, meta{1, Role::cache_meta};
  CHECK(node.asked == std::vector{router, router, worker, worker, meta, meta});
}

TEST_CASE("node drain: only actors that this node has are asked, each model's by its own id") {
  Node node({.node = 3, .cache_meta = false, .worker = false}, {"games", "news"});
  CHECK(node.drain.drain_all(long_limit));
  const ModelActorIds ids{2};
  CHECK(node.asked ==
        std::vector<Address>{{ids.number(3, 0), Role::router}, {ids.number(3, 1), Role::router}});
}

TEST_CASE("node drain: another signal ends the wait, and so does the limit") {
  Node hurried({});
  hurried.questions_each = 1000;
  hurried.waits_max = 3;
  CHECK_FALSE(hurried.drain.drain_all(long_limit));
  CHECK(hurried.asked.size() == 3);
  Node late({});
  CHECK(late.drain.drain_all({0}));
  CHECK(late.asked.empty());
}

TEST_CASE("node drain: a reply to a client is not taken") {
  Node node({});
  CHECK_FALSE(node.drain.take(StatusReply{1, 1, Role::router, true, {{"drained", "yes"}}}));
}

}  // namespace node_drain_test
}  // namespace troupe::deploy
