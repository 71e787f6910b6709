// Tests several hosts of this process that are joined over loopback, as if they were processes.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/network/caf_host.h"
#include "runtime/testing/host_test.h"

namespace troupe {
namespace {

// Records what happened, in order, as words.
class Diary {
 public:
  void write(std::string what) {
    const std::lock_guard lock(mutex_);
    entries_.push_back(std::move(what));
    changed_.notify_all();
  }
  // The limit only turns a hang into a failure.
  bool await(const std::string& what, std::size_t times = 1) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return count(what) >= times; });
  }
  bool has(const std::string& what) {
    std::lock_guard lock(mutex_);
    return count(what) > 0;
  }

 private:
  std::size_t count(const std::string& what) const {
    return static_cast<std::size_t>(std::count_if(entries_.begin(), entries_.end(), [&](const auto& entry) {
      return entry.find(what) != std::string::npos;
    }));
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> entries_;
};

constexpr std::uint64_t asks_for_many = 777;  // id of a request for `many` messages to the router itself
constexpr int many = 100;

// A node whose router answers each StatusRequest with its id, and each ScoreRequest with the size of its
// query.
class Node {
 public:
  struct Wish {
    NodeId node = 0;
    std::vector<PeerAddress> peers;
    Incarnation incarnation = 1;
    std::uint16_t port = 0;
    std::string cluster = "troupe";
    ModelActorIds actor_ids = {};
  };

  explicit Node(const Wish& wish) : node_(wish.node) {
    ClusterOptions options;
    options.cluster = wish.cluster;
    options.actor_ids = wish.actor_ids;
    options.node = wish.node;
    options.incarnation = wish.incarnation;
    options.address = "127.0.0.1";
    options.port = wish.port;
    options.peers = wish.peers;
    options.heartbeat = {100'000};
    options.greeting = {static_cast<std::uint8_t>(wish.node), 7};
    options.on_met = [this](NodeId peer, Incarnation incarnation, const Bytes& greeting) {
      links_thread = std::this_thread::get_id();
      diary.write("met " + std::to_string(peer) + " of " + std::to_string(incarnation) + " greeting " +
                  std::to_string(greeting.at(0)) + std::to_string(greeting.at(1)));
    };
    options.on_lost = [this](NodeId peer, Incarnation) { diary.write("left by " + std::to_string(peer)); };
    host.emplace(metrics, [this](LogLevel, std::string_view, std::string_view event, auto fields) {
      std::string line(event);
      for (const LogField& field : fields) line += " " + field.name + "=" + field.value;
      diary.write(line);
    });
    host->join(options);
    for (std::uint32_t model = 0; model < wish.actor_ids.models; ++model)
      add_router(wish.actor_ids.number(node_, model));
    host->set_server({node_, Role::server}, inbox.server());
    host->start();
  }
  ~Node() {
    if (host) host->stop();
  }

  void add_router(NodeId number) {
    host->add(
        {{number, Role::router}, core_of([this, number](Instant, const Event& event, Effects& effects) {
           if (const auto* lost = std::get_if<PeerLost>(&event))
             diary.write("core lost " + std::to_string(lost->node));
           const auto* received = std::get_if<Received>(&event);
           if (!received) return;
           const int on_links = std::this_thread::get_id() == links_thread.load();
           handled_inline += on_links;
           if (const auto* request = std::get_if<StatusRequest>(&received->message)) {
             for (int i = 0; request->id == asks_for_many && i < many; ++i)
               effects.send({number, Role::router}, Stored{});
             effects.send(received->from, Stored{request->id, number});
           }
           if (const auto* score = std::get_if<ScoreRequest>(&received->message))
             effects.send(received->from, Stored{score->id, score->query.size()}), large_inline += on_links;
           if (std::holds_alternative<Stored>(received->message)) own_inline += on_links, ++own;
         })});
  }

  void ask(NodeId to, std::uint64_t id) {
    host->post({to, Role::router}, {node_, Role::server}, StatusRequest{id});
  }
  PeerAddress address() const { return {node_, "", "127.0.0.1", host->port()}; }

  MetricRegistry metrics;
  Diary diary;
  Inbox inbox;
  std::atomic<std::thread::id> links_thread;  // after a peer has joined
  // Messages that a router handled on that thread; of them ScoreRequests, and messages to itself.
  std::atomic<int> handled_inline = 0, large_inline = 0, own_inline = 0;
  std::atomic<int> own = 0;  // messages to itself
  std::optional<CafHost> host;

 private:
  NodeId node_;
};

// Repeats the question until the answer arrives: messages before two nodes have joined are lost.
bool reaches(Node& from, NodeId to, std::uint64_t id) {
  const auto answered = [&] {
    for (const Received& received : from.inbox.await(0))
      if (const auto* stored = std::get_if<Stored>(&received.message); stored && stored->id == id)
        return stored->version == to && received.from == Address{to, Role::router};
    return false;
  };
  for (int i = 0; i < 200; ++i) {
    from.ask(to, id);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (answered()) return true;
  }
  return false;
}

TEST_CASE("CAF hosts: actors of several models on other nodes are reached by their numbers") {
  Node one({.node = 1, .peers = {{2}}, .actor_ids = {3}});
  Node two({.node = 2, .peers = {one.address()}, .actor_ids = {3}});
  for (std::uint32_t model = 0; model < 3; ++model) {
    CHECK(reaches(one, ModelActorIds{3}.number(2, model), 10 + model));
    CHECK(reaches(two, ModelActorIds{3}.number(1, model), 20 + model));
    CHECK(reaches(two, ModelActorIds{3}.number(2, model), 30 + model));
  }
  one.ask(ModelActorIds{4}.number(2, 3), 40);  // a model that does not exist
  CHECK(one.diary.await("no_receiver_at_address"));

  const auto speak_as = [&](NodeId from) {
    two.host->post_encoded({1, Role::router}, encode(Envelope{{from, Role::router}, StatusRequest{50}}));
  };
  speak_as(ModelActorIds{3}.number(2, 1));
  CHECK(reaches(two, 1, 51));
  CHECK_FALSE(one.diary.has("forged_sender"));
  speak_as(ModelActorIds{3}.number(4, 1));  // a number of another node
  CHECK(one.diary.await("forged_sender"));
}

TEST_CASE("CAF hosts: an idle actor handles a message of another node on the thread that has read it") {
  Node one({.node = 1, .peers = {{2}}});
  Node two({.node = 2, .peers = {one.address()}});
  REQUIRE(reaches(one, 2, 1));
  // One message is not enough: the thread may be in a pause, or the actor still busy elsewhere.
  for (std::uint64_t id = 2; id < 500 && two.handled_inline == 0; ++id) {
    one.ask(2, id);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK(two.handled_inline > 0);
}

TEST_CASE("CAF hosts: the thread that reads messages leaves an actor with many messages to other threads") {
  Node one({.node = 1, .peers = {{2}}});
  Node two({.node = 2, .peers = {one.address()}});
  REQUIRE(reaches(one, 2, 1));
  int most = 0;
  for (int asked = 1; asked < 100 && most == 0; ++asked) {
    const int before = two.own_inline;
    one.ask(2, asks_for_many);
    for (int i = 0; i < 20'000 && two.own < asked * many; ++i)  // the limit only ends a hang
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    most = two.own_inline - before;
  }
  CHECK(most > 0);
  CHECK(most < 16);  // and the message that was read
}

TEST_CASE("CAF hosts: a large message of another node is not decoded on the thread that has read it") {
  Node one({.node = 1, .peers = {{2}}});
  Node two({.node = 2, .peers = {one.address()}});
  REQUIRE(reaches(one, 2, 1));
  for (std::uint64_t id = 2; id < 12; ++id) {
    ScoreRequest large;
    large.id = id;
    large.query.assign(40'000, 1);
    one.host->post({2, Role::router}, {1, Role::server}, std::move(large));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  CHECK(reaches(one, 2, 12));
  CHECK(two.large_inline == 0);
}

TEST_CASE("CAF hosts: three nodes reach each other and report which peers are connected") {
  Node one({.node = 1, .peers = {{2}, {3}}});
  Node two({.node = 2, .peers = {one.address(), {3}}, .incarnation = 5});
  Node three({.node = 3, .peers = {one.address(), two.address()}});
  CHECK(one.diary.await("met 2 of 5 greeting 27"));
  CHECK(two.diary.await("met 1 of 1 greeting 17"));
  CHECK(one.diary.await("met 3"));
  CHECK(two.diary.await("met 3"));
  CHECK(reaches(one, 2, 12));
  CHECK(reaches(one, 3, 13));
  CHECK(reaches(two, 1, 21));
  CHECK(reaches(two, 3, 23));
  CHECK(reaches(three, 1, 31));
  CHECK(reaches(three, 2, 32));
  one.ask(9, 99);
  CHECK(one.diary.await("no_receiver_at_address"));
}

TEST_CASE("CAF hosts: cores hear of the loss of a node and of its next process") {
  Node one({.node = 1, .peers = {{2}}});
  auto two = std::make_unique<Node>(Node::Wish{.node = 2, .peers = {one.address()}});
  REQUIRE(reaches(one, 2, 1));
  two.reset();
  CHECK(one.diary.await("core lost 2"));
  CHECK(one.diary.await("left by 2"));
  const double before = one.metrics.value(Metric::messages_undelivered);
  one.ask(2, 2);
  two = std::make_unique<Node>(Node::Wish{.node = 2, .peers = {one.address()}, .incarnation = 2});
  CHECK(one.diary.await("met 2 of 2"));
  CHECK(one.metrics.value(Metric::messages_undelivered) == before + 1);
  CHECK(reaches(one, 2, 3));

  // The called node ends and restarts at its port.
  const std::uint16_t port = one.host->port();
  one.host->stop();
  CHECK(two->diary.await("core lost 1"));
  Node again({.node = 1, .peers = {{2}}, .incarnation = 3, .port = port});
  CHECK(two->diary.await("met 1 of 3"));
  CHECK(reaches(*two, 1, 4));
}

TEST_CASE("CAF hosts: a wrong peer is refused, and both sides log the reason") {
  Node one({.node = 1, .peers = {{2}, {3}}});
  const auto turned_away = [&](const Node::Wish& wish, const std::string& why) {
    Node other(wish);
    CHECK(one.diary.await(why));
    CHECK(other.diary.await(why));
    CHECK_FALSE(other.diary.has("peer_met"));
  };
  turned_away({.node = 2, .peers = {one.address()}, .cluster = "another"}, "belongs to another cluster");
  turned_away({.node = 7, .peers = {one.address()}}, "node 7 is not in the configuration of node 1");
  PeerAddress wrong = one.address();
  wrong.node = 2;
  turned_away({.node = 3, .peers = {wrong}}, "node 3 looks for node 2; this is node 1");
  {
    Node newer({.node = 2, .peers = {one.address()}, .incarnation = 9});
    REQUIRE(reaches(one, 2, 1));
  }
  turned_away({.node = 2, .peers = {one.address()}, .incarnation = 8},
              "older incarnation than the last one that joined");
  CHECK_FALSE(one.diary.has("met 3"));
}

TEST_CASE("CAF hosts: a message with the sender address of another node is refused") {
  Node one({.node = 1, .peers = {{2}}});
  Node two({.node = 2, .peers = {one.address()}});
  REQUIRE(reaches(two, 1, 1));
  two.host->post({1, Role::router}, {7, Role::server}, StatusRequest{5});
  CHECK(one.diary.await("node 2 sends as door@7"));
  CHECK(one.metrics.value(Metric::protocol_errors) == 1);
}

TEST_CASE("CAF hosts: many and large messages arrive once, and waiting bytes are bounded") {
  Node one({.node = 1, .peers = {{2}}});
  Node two({.node = 2, .peers = {one.address()}});
  REQUIRE(reaches(one, 2, 1'000'000));
  const std::size_t before = one.inbox.await(1).size();
  const double undelivered = one.metrics.value(Metric::messages_undelivered);
  constexpr std::uint64_t count = 60;
  for (std::uint64_t id = 1; id <= count; ++id) {
    ScoreRequest large{.id = id};
    large.query.assign(250'000, 7);  // a megabyte; together nearly the bound of waiting bytes
    one.host->post({2, Role::router}, {1, Role::server}, large);
  }
  const auto answers = one.inbox.await(before + count);
  REQUIRE(answers.size() == before + count);
  std::vector<int> seen(count + 1);
  for (const Received& received : answers)
    if (const auto* stored = std::get_if<Stored>(&received.message); stored && stored->id <= count) {
      CHECK(stored->version == 250'000);
      ++seen[stored->id];
    }
  CHECK(std::count(seen.begin(), seen.end(), 1) == static_cast<std::ptrdiff_t>(count));
  CHECK(one.metrics.value(Metric::messages_undelivered) == undelivered);
}

TEST_CASE("CAF hosts: a port that is in use is reported before anything runs") {
  Node one({.node = 1});
  ClusterOptions options{.node = 2, .incarnation = 1, .address = "127.0.0.1", .port = one.host->port()};
  MetricRegistry metrics;
  CafHost host(metrics, nullptr, 1);
  host.join(options);
  CHECK_THROWS_WITH_AS(host.start(), doctest::Contains("cannot listen on 127.0.0.1 port"),
                       std::runtime_error);
  host.stop();
}

TEST_CASE(
    "CAF hosts: a peer is refused before it is a member, accepted as one, and disconnected when it leaves") {
  Node one({.node = 1});
  const PeerAddress first = one.address();
  Node two({.node = 2, .peers = {first}});
  CHECK(one.diary.await("node 2 is not in the configuration of node 1"));
  one.host->follow({{2, "", "127.0.0.1", 1}});
  CHECK(one.diary.await("met 2"));
  CHECK(two.diary.await("met 1"));
  CHECK(reaches(two, 1, 9));
  one.host->follow({});
  CHECK(one.diary.await("left by 2"));
  CHECK(two.diary.await("core lost 1"));
  CHECK(two.diary.await("node 2 is not in the configuration of node 1", 2));
}

TEST_CASE("CAF hosts: a node connects to a new member with a lower number") {
  Node one({.node = 1});
  Node two({.node = 2});
  one.host->follow({{2, "", "127.0.0.1", 1}});
  two.host->follow({one.address()});
  CHECK(one.diary.await("met 2"));
  CHECK(two.diary.await("met 1"));
}

}  // namespace
}  // namespace troupe
