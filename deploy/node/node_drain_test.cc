#include "deploy/node/node_drain.h"

#include <doctest/doctest.h>

#include <set>
#include <utility>

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

// A leaving worker, node 3, of a cluster with routers 1 and 2 and workers 3, 4 and 5; 5 is not connected.
struct Leaver {
  std::vector<std::pair<Address, Message>> posted;
  int waits = 0, waits_max = 1'000;
  std::set<NodeId> migrated;  // routers that have migrated the item blocks
  Revision members_epoch = 7;
  std::uint64_t user_blocks_open = 0;
  std::vector<LeaveProgress> reports;
  std::set<NodeId> disconnected{5};
  std::set<NodeId> silent;  // routers that do not answer
  NodeDrain::TimePoint now{};
  std::function<void()> on_wait = [] {};
  NodeDrain drain{{.node = 3, .router = false, .cache_meta = false},
                  {""},
                  [this](Address to, const Message& message) { answer(to, message); },
                  [this](std::chrono::microseconds) {
                    on_wait();
                    return ++waits >= waits_max;
                  },
                  [this] { return now; }};
  NodeSettings settings;

  Leaver() { settings.leave_time_min = {0}, settings.leave_time_max = long_limit; }

  void answer(Address to, const Message& message) {
    posted.push_back({to, message});
    if (to.role == Role::router) {
      if (silent.contains(to.node)) return;
      const bool done = migrated.contains(to.node);
      StatusReply reply{std::get<StatusRequest>(message).id, to.node, to.role, true, {}};
      reply.fields = {{"members_epoch", std::to_string(members_epoch)}, {"handed_on", done ? "yes" : "no"}};
      if (!done)
        reply.fields.insert(
            reply.fields.end(),
            {{"item_blocks_to_copy", "37"}, {"items_looked_up", "512"}, {"awaited_workers", "4 5"}});
      CHECK(drain.take(reply));
      return;
    }
    StatusReply reply{std::get<Drain>(message).id, to.node, to.role, true, {}};
    reply.fields = {{"drained", user_blocks_open == 0 ? "yes" : "no"},
                    {"users_blocks", "40"},
                    {"users_blocks_handed_on", std::to_string(30 - user_blocks_open)},
                    {"users_blocks_held_elsewhere", "9"},
                    {"users_blocks_left_behind", "1"}};
    CHECK(drain.take(reply));
  }
  bool migrate() {
    return drain.migrate_blocks(
        {.staying =
             [](NodeRole role) {
               return role == NodeRole::router ? std::vector<NodeId>{1, 2} : std::vector<NodeId>{4, 5};
             },
         .is_connected = [this](NodeId node) { return !disconnected.contains(node); },
         .leaves_since = [] { return Revision{7}; },
         .name_of = [](NodeId node) { return "node-" + std::to_string(node); },
         .report = [this](const LeaveProgress& progress) { reports.push_back(progress); }},
        settings);
  }
};

TEST_CASE("node drain: a leaving worker migrates until every router and its own KV-cache worker are done") {
  Leaver leaver;
  leaver.migrated = {1};
  leaver.user_blocks_open = 3;
  leaver.on_wait = [&] {
    if (leaver.waits == 4) leaver.user_blocks_open = 0;
    if (leaver.waits == 9) leaver.migrated.insert(2);
  };
  CHECK(leaver.migrate());
  CHECK(leaver.waits == 11);  // the answers to the tenth question say that it is done
  for (const auto& [to, message] : leaver.posted)
    if (const auto* drain = std::get_if<Drain>(&message)) {
      CHECK(to == Address{3, Role::kv_worker});
      CHECK(drain->user_targets == std::vector<NodeId>{4});  // only connected workers
    }
  REQUIRE(leaver.reports.size() == 11);
  const LeaveProgress first = leaver.reports[0], last = leaver.reports[9];
  CHECK(first.user_blocks == 40);
  CHECK(first.user_blocks_open == 3);
  REQUIRE(first.routers.size() == 1);
  CHECK(first.routers[0] == LeaveProgress::Router{"node-2", "", true, 37, 512, {"node-4", "node-5"}});
  CHECK(last.user_blocks_open == 0);
  CHECK(last.routers.size() == 1);
  CHECK(leaver.reports[10].routers.empty());
}

TEST_CASE("node drain: a router that follows older members has not migrated what this node has") {
  Leaver leaver;
  leaver.migrated = {1, 2};
  leaver.members_epoch = 6;
  leaver.on_wait = [&] {
    if (leaver.waits == 2) leaver.members_epoch = 7;
  };
  CHECK(leaver.migrate());
  CHECK(leaver.waits == 4);
  CHECK(leaver.reports[0].routers.size() == 2);
}

TEST_CASE("node drain: a router that is not connected is reported only as long as it is awaited") {
  Leaver leaver;
  leaver.disconnected = {2};
  leaver.silent = {2};
  leaver.on_wait = [&] {
    if (leaver.waits == 1) leaver.now += std::chrono::seconds(10);
    if (leaver.waits == 2) leaver.migrated = {1};
  };
  CHECK(leaver.migrate());
  REQUIRE(leaver.reports.size() >= 3);
  REQUIRE(leaver.reports[0].routers.size() == 2);
  CHECK(leaver.reports[0].routers[1] == LeaveProgress::Router{"node-2", "", false, 0, 0, {}});
  REQUIRE(leaver.reports[2].routers.size() == 1);
  CHECK(leaver.reports[2].routers[0].name == "node-1");
}

TEST_CASE("node drain: where no router is connected, one of them is awaited") {
  Leaver leaver;
  leaver.disconnected = leaver.silent = {1, 2};
  leaver.on_wait = [&] { leaver.now += std::chrono::seconds(10); };
  leaver.waits_max = 3;
  CHECK_FALSE(leaver.migrate());
  REQUIRE(leaver.reports.size() == 3);
  CHECK(leaver.reports[2].routers.size() == 2);
}

TEST_CASE("node drain: a migration ends at its limit or at another signal, and is then not whole") {
  Leaver hurried;
  hurried.waits_max = 3;
  CHECK_FALSE(hurried.migrate());
  CHECK(hurried.waits == 3);
  Leaver late;
  late.settings.leave_time_max = {0};
  CHECK_FALSE(late.migrate());
  CHECK(late.posted.empty());
}

TEST_CASE("node drain: a worker whose blocks are migrated stays for node.leave_time_min") {
  Leaver leaver;
  leaver.migrated = {1, 2};
  leaver.settings.leave_time_min = long_limit;
  leaver.waits_max = 5;
  CHECK(leaver.migrate());
  CHECK(leaver.waits == 5);
  CHECK(leaver.reports.back() ==
        LeaveProgress{.phase = LeaveProgress::Phase::migrates, .user_blocks = 40, .routers = {}});
}

TEST_CASE("node drain: a reply to a client is not taken") {
  Node node({});
  CHECK_FALSE(node.drain.take(StatusReply{1, 1, Role::router, true, {{"drained", "yes"}}}));
}

}  // namespace node_drain_test
}  // namespace troupe::deploy
