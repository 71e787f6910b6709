#include "deploy/box/membership.h"

#include <doctest/doctest.h>

#include <stdexcept>

#include "runtime/hard_state/coordination_state.h"

using namespace troupe;
using namespace troupe::deploy;

namespace membership_test {

const std::vector<Member> file{{1, "front", "10.0.0.1", 7000}, {2, "w2", "10.0.0.2", 7000}};

// In memory; `between` happens once, before the next write.
struct Store final : Coordination {
  CoordinationState state;
  std::mutex mutex;
  bool away = false;
  std::function<void()> between;

  std::variant<Coordinated, Refusal> ask(const Coordinate& question) override {
    if (std::holds_alternative<WriteKey>(question.what))
      if (const auto first = std::exchange(between, nullptr)) first();
    const std::lock_guard lock(mutex);
    if (away) return Refusal{503, "coordination_unavailable", "etcd is away", "etcd", "one that answers"};
    return state.ask(0, question);
  }
};

ReadMembers join(Store& store, const std::string& name) {
  return change_members(store, [&](Members now) { return with_joined(std::move(now), file, {0, name, "10.0.0.9", 7000}); });
}

TEST_SUITE("membership") {
  TEST_CASE("two that join at a time have both joined, with numbers of their own") {
    Store store;
    store.between = [&] { join(store, "b"); };
    CHECK(join(store, "a").members.find("a")->node == 4);
    const ReadMembers known = read_members(store);
    CHECK(known.members.find("b")->node == 3);
    CHECK(join(store, "a").revision == known.revision);  // it is there: nothing is written
  }

  TEST_CASE("what is refused, an etcd that is away and a text that is none are told") {
    Store store;
    CHECK_THROWS_WITH_AS(join(store, "w2"), doctest::Contains("is in the cluster's file"), std::runtime_error);
    store.away = true;
    CHECK_THROWS_WITH_AS(read_members(store), "etcd: etcd is away; expected one that answers", std::runtime_error);
    store.away = false;
    store.state.ask(0, {WriteKey{std::string(members_key), "nonsense"}});
    CHECK_THROWS_WITH_AS(read_members(store), doctest::Contains("line 1 has no end"), std::runtime_error);
  }

  TEST_CASE("peers are the file's nodes that are there and those that joined, but oneself") {
    Members members{.last = 3, .joined = {{3, "w3", "10.0.0.3", 7000}}, .left = {2}};
    const auto peers = peers_of(file, members, 1);
    REQUIRE(peers.size() == 1);
    CHECK(peers[0].node == 3);
    CHECK(peers_of(file, members, 3).size() == 1);
  }

  TEST_CASE("a node that joins has joined once it has met all others") {
    Store store;
    join(store, "a");
    Membership membership(store, 3, file, read_members(store));
    std::atomic<int> asked = 0;
    membership.start({.on_peers = [](const std::vector<PeerAddress>&) {},
                      .on_leave = [] {},
                      .on_fault = [](const std::string& why) { FAIL(why); },
                      .has_met =
                          [&](const std::vector<PeerAddress>& peers) {
                            CHECK(peers.size() == 2);
                            const std::lock_guard lock(store.mutex);
                            CHECK(store.state.keys().at(std::string(members_key)).value.find("joining 3") != std::string::npos);
                            asked += 1;
                            asked.notify_all();
                            return asked >= 3;
                          }});
    for (int seen = asked; seen < 3; seen = asked) asked.wait(seen);
    membership.stop();
    CHECK(read_members(store).members.joining.empty());
  }

  TEST_CASE("a node hears of its peers, and once that it is to leave; at its end it is no member") {
    Store store;
    join(store, "a");
    change_members(store, [](Members now) { return with_leaving(std::move(now), file, "w2"); });
    Membership membership(store, 2, file, read_members(store));
    std::mutex mutex;
    std::condition_variable changed;
    int told = 0, leaves = 0;
    membership.start({.on_peers =
                          [&](const std::vector<PeerAddress>& peers) {
                            const std::lock_guard lock(mutex);
                            told += peers.size() == 2;
                          },
                      .on_leave =
                          [&] {
                            const std::lock_guard lock(mutex);
                            ++leaves;
                            changed.notify_all();
                          },
                      .on_fault = [](const std::string& why) { FAIL(why); },
                      .has_met = [](const std::vector<PeerAddress>&) { return true; }});
    {
      std::unique_lock lock(mutex);
      CHECK(changed.wait_for(lock, std::chrono::seconds(20), [&] { return leaves > 0; }));
    }
    membership.stop();
    CHECK(told == 1);
    CHECK(leaves == 1);
    CHECK(membership.leaves_since() > 0);
    CHECK(membership.end() == "");
    CHECK(read_members(store).members.left == std::set<NodeId>{2});
    store.away = true;
    CHECK(membership.end().find("etcd is away") != std::string::npos);
  }
}

}  // namespace membership_test
