#include "deploy/node/membership.h"

#include <doctest/doctest.h>

#include <stdexcept>

#include "runtime/coordination/coordination_state.h"
#include "runtime/testing/store_test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

namespace membership_test {

const std::vector<Member> file{{1, "front", "10.0.0.1", 7000}, {2, "w2", "10.0.0.2", 7000}};

// Coordination in memory; `between` runs once before the next write.
struct Store final : Coordination {
  CoordinationState state;
  std::mutex mutex;
  bool away = false;
  std::function<void()> between;

  std::variant<CoordinationReply, Refusal> ask(const Coordinate& question) override {
    if (std::holds_alternative<WriteKey>(question.what))
      if (const auto first = std::exchange(between, nullptr)) first();
    const std::lock_guard lock(mutex);
    if (away)
      return Refusal{RefusalKind::unavailable, "coordination_unavailable", "etcd is away", "etcd",
                     "one that answers"};
    return state.ask(0, question);
  }
};

ReadMembers join(Store& store, const std::string& name) {
  return change_members(store, [&](ClusterMembers now) {
    return with_joined(std::move(now), file, {0, name, "10.0.0.9", 7000});
  });
}

TEST_SUITE("membership") {
  TEST_CASE("members: two nodes that join at the same time get different numbers") {
    Store store;
    store.between = [&] { join(store, "b"); };
    CHECK(join(store, "a").members.find("a")->node == 4);
    const ReadMembers known = read_members(store);
    CHECK(known.members.find("b")->node == 3);
    CHECK(join(store, "a").revision == known.revision);  // already joined: nothing is written
  }

  TEST_CASE("members: refused changes, an unreachable etcd and a malformed document are errors") {
    Store store;
    CHECK_THROWS_WITH_AS(join(store, "w2"), doctest::Contains("is in the cluster's file"),
                         std::runtime_error);
    store.away = true;
    CHECK_THROWS_WITH_AS(read_members(store), "etcd: etcd is away; expected one that answers",
                         std::runtime_error);
    store.away = false;
    store.state.ask(0, {WriteKey{std::string(members_key), "nonsense"}});
    CHECK_THROWS_WITH_AS(read_members(store), doctest::Contains("line 1 has no end"), std::runtime_error);
  }

  TEST_CASE("members: a late etcd is awaited up to the deadline") {
    struct Late final : Coordination {
      int away = 0, asked = 0;
      std::variant<CoordinationReply, Refusal> ask(const Coordinate&) override {
        if (++asked > away) return CoordinationReply{.ok = true};
        return Refusal{RefusalKind::unavailable, "coordination_unavailable", "it does not listen", "etcd",
                       "one that answers"};
      }
    };
    std::vector<std::string> reported;
    const auto tell = [&](const std::string& why) { reported.push_back(why); };
    Late late;
    late.away = 2;
    await_coordination(late, std::chrono::minutes(1), tell);
    CHECK(late.asked == 3);
    CHECK(reported == std::vector<std::string>{"etcd: it does not listen"});
    Late never;
    never.away = 1'000'000;
    await_coordination(never, std::chrono::milliseconds(0), tell);
    CHECK(never.asked == 1);
  }

  TEST_CASE("members: peers are the present nodes of the file and the joined ones, except oneself") {
    ClusterMembers members{.last = 3, .joined = {{3, "w3", "10.0.0.3", 7000}}, .left = {2}};
    const auto peers = peers_of(file, members, 1);
    REQUIRE(peers.size() == 1);
    CHECK(peers[0].node == 3);
    CHECK(peers_of(file, members, 3).size() == 1);
  }

  TEST_CASE(
      "members: a joined node does not replace a file's node with its number, nor the other way round") {
    const ClusterMembers members{.last = 2, .joined = {{2, "x", "10.0.0.9", 7000}}};
    const auto peers = peers_of(file, members, 1);
    REQUIRE(peers.size() == 1);
    CHECK(peers[0].name == "w2");
    CHECK_THROWS_WITH_AS(
        validate_start(file[1], members),
        doctest::Contains("which is that of \"x\", which has joined; expected a number above 2"),
        std::runtime_error);
    CHECK_THROWS_WITH_AS(validate_start(file[1], {.left = {2}}), doctest::Contains("has left the cluster"),
                         std::runtime_error);
    validate_start(file[1], {.last = 2, .joined = {{2, "w2", "10.0.0.8", 7000}}});  // added to the file since
    CHECK(peers_of(file, {.last = 2, .joined = {{2, "w2", "10.0.0.8", 7000}}}, 1).at(0).host == "10.0.0.8");
  }

  TEST_CASE("members: an etcd that has lost its data gets back only which numbers are used") {
    Store store;
    const ClusterMembers seen{.last = 8, .joined = {{8, "a", "10.0.0.9", 7000}}, .left = {2}};
    const ClusterMembers now = read_members(store, seen).members;
    CHECK(now.last == 8);
    CHECK(now.left.empty());
    CHECK(now.joined.empty());  // it may have left; it joins again if it is alive
    CHECK(join(store, "b").members.find("b")->node == 9);
    Store other;
    join(other, "x");
    CHECK_THROWS_WITH_AS(read_members(other, {.last = 3}),
                         doctest::Contains("number 3 is that of \"x\", and was given before; expected"),
                         std::runtime_error);
    CHECK(join(other, "y").members.find("y")->node == 4);
  }

  TEST_CASE("membership: a node stores the members it reads and rejects documents that cannot follow them") {
    const TestFolder folder;
    Store store;
    const ReadMembers joined = join(store, "a");
    MembershipWatcher membership(store, 3, file, joined, {folder.path(), "c", 5});
    std::atomic<int> faults = 0;
    membership.start(
        {.on_peers =
             [&](const std::vector<PeerAddress>& peers) {
               CHECK(peers.size() == 2);
               const std::lock_guard lock(store.mutex);
               store.state.ask(
                   0, {WriteKey{std::string(members_key), "", joined.revision}});  // the data is lost
             },
         .on_leave = [] { FAIL("it leaves"); },
         .on_fault =
             [&](const std::string& why) {
               CHECK(why.find("the last node number given is 0, and was 3 before") != std::string::npos);
               faults += 1;
               faults.notify_all();
             },
         .has_connected = [](const std::vector<PeerAddress>&) { return false; }});
    faults.wait(0);
    membership.stop();
    CHECK(MembersFile(folder.path(), "c").read().members == joined.members);
  }

  TEST_CASE("membership: a joining node sees changes that others made meanwhile") {
    Store store;
    join(store, "a");
    MembershipWatcher membership(store, 3, file, read_members(store));
    store.between = [&] {
      change_members(store, [](ClusterMembers now) { return with_leaving(std::move(now), file, "a"); });
      join(store, "b");
    };
    std::vector<std::size_t> reported;
    std::atomic<bool> leaves = false;
    membership.start(
        {.on_peers = [&](const std::vector<PeerAddress>& peers) { reported.push_back(peers.size()); },
         .on_leave =
             [&] {
               leaves = true;
               leaves.notify_all();
             },
         .on_fault = [](const std::string& why) { FAIL(why); },
         .has_connected = [](const std::vector<PeerAddress>&) { return true; }});
    leaves.wait(false);
    membership.stop();
    CHECK(reported == std::vector<std::size_t>{2, 3});
    CHECK(membership.there(NodeRole::worker) ==
          std::vector<NodeId>{1, 2, 3});  // it leaves; another node is still joining
    CHECK(membership.staying(NodeRole::worker) == std::vector<NodeId>{1, 2});
    CHECK(membership.there(NodeRole::router).empty());
  }

  TEST_CASE("membership: a joining node has arrived once it is connected to all others") {
    Store store;
    join(store, "a");
    MembershipWatcher membership(store, 3, file, read_members(store));
    std::atomic<int> asked = 0;
    membership.start({.on_peers = [](const std::vector<PeerAddress>&) {},
                      .on_leave = [] {},
                      .on_fault = [](const std::string& why) { FAIL(why); },
                      .has_connected =
                          [&](const std::vector<PeerAddress>& peers) {
                            CHECK(peers.size() == 2);
                            const std::lock_guard lock(store.mutex);
                            CHECK(store.state.keys().at(std::string(members_key)).value.find("joining 3") !=
                                  std::string::npos);
                            asked += 1;
                            asked.notify_all();
                            return asked >= 3;
                          }});
    for (int seen = asked; seen < 3; seen = asked) asked.wait(seen);
    membership.stop();
    CHECK(read_members(store).members.joining.empty());
  }

  TEST_CASE("membership: a node hears of its peers, once that it leaves, and is no member after its end") {
    Store store;
    join(store, "a");
    change_members(store, [](ClusterMembers now) { return with_leaving(std::move(now), file, "w2"); });
    MembershipWatcher membership(store, 2, file, read_members(store));
    std::mutex mutex;
    std::condition_variable changed;
    int reported = 0, leaves = 0;
    membership.start({.on_peers =
                          [&](const std::vector<PeerAddress>& peers) {
                            const std::lock_guard lock(mutex);
                            reported += peers.size() == 2;
                          },
                      .on_leave =
                          [&] {
                            const std::lock_guard lock(mutex);
                            ++leaves;
                            changed.notify_all();
                          },
                      .on_fault = [](const std::string& why) { FAIL(why); },
                      .has_connected = [](const std::vector<PeerAddress>&) { return true; }});
    {
      std::unique_lock lock(mutex);
      CHECK(changed.wait_for(lock, std::chrono::seconds(20), [&] { return leaves > 0; }));
    }
    membership.stop();
    CHECK(reported == 1);
    CHECK(leaves == 1);
    CHECK(membership.leaves_since() > 0);
    CHECK(membership.end("last words") == "");
    CHECK(read_members(store).members.left == std::set<NodeId>{2});
    CHECK(store.state.keys().at("leaving/2").value == "last words");
    store.away = true;
    CHECK(membership.end("").find("etcd is away") != std::string::npos);
  }

  TEST_CASE("membership: a node publishes what it waits for under its own key, which ends with its lease") {
    Store store;
    MembershipWatcher membership(store, 2, file, {});
    store.state.ask(0, {WriteKey{"leaving/2", "of its former process"}});
    store.away = true;
    CHECK(membership.end("lost").find("etcd is away") != std::string::npos);
    store.away = false;
    membership.end("first");  // finds the former process's words
    membership.end("second");
    const auto& written = store.state.keys().at("leaving/2");
    CHECK(written.value == "second");
    CHECK(written.lease != 0);
    const Revision revision = written.revision;
    membership.end("second");
    CHECK(store.state.keys().at("leaving/2").revision == revision);
  }

  TEST_CASE("peers: a node that starts is ready once each router is connected, away, or awaited for long") {
    using namespace std::chrono_literals;
    const ConnectedPeers::Clock::time_point start{};
    ConnectedPeers peers(false, {1, 2, 3}), own(true, {1, 2});
    peers.start(start), own.start(start);
    peers.meet(1);
    CHECK(peers.obstacle(start + 1s) == "2 of 3 routers are not connected yet");
    peers.miss(2);
    CHECK(peers.obstacle(start + 1s) == "1 of 3 routers are not connected yet");
    CHECK(peers.obstacle(start + ConnectedPeers::await_time) == "");
    peers.meet(3);
    CHECK(peers.obstacle(start + 1s) == "");
    peers.lose(3);  // afterwards one router is enough
    CHECK(peers.obstacle(start + ConnectedPeers::await_time) == "");
    CHECK(own.obstacle(start) == "");
  }

  TEST_CASE(
      "peers: a node without a router asks the first connected router that stays, one with a router its "
      "own") {
    ConnectedPeers peers(false, {1, 2}), own(true, {1, 2});
    CHECK(peers.router(1) == 1);
    CHECK(peers.obstacle().starts_with("no router is connected out of 2;"));
    peers.meet(2), own.meet(2);
    CHECK(peers.router(1) == 2);
    CHECK(own.router(1) == 1);
    CHECK(peers.obstacle() == "");
    peers.meet(1), peers.meet(5);
    CHECK(peers.router(1) == 1);
    peers.follow({2, 5});  // 1 is leaving
    CHECK(peers.router(1) == 2);
    peers.lose(2);
    CHECK(peers.router(1) == 5);
    peers.lose(5);
    CHECK(peers.router(1) == 1);
    CHECK(peers.has(1));
    CHECK(peers.obstacle().starts_with("no router is connected out of 2;"));
    own.lose(2);
    CHECK(own.obstacle() == "");
  }
}

}  // namespace membership_test
