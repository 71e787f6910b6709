// Tests pages over real links: two or more nodes with certificates or without, each with links and a
// transport, and strangers at the port of the owner.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "runtime/network/certificates.h"
#include "runtime/network/links.h"
#include "runtime/testing/etcd_test_server.h"
#include "runtime/testing/transport_test.h"

namespace troupe {
namespace page_links_test {

// A folder with the certificates of a cluster; "" = no TLS.
class Authority {
 public:
  explicit Authority(const std::string& cluster)
      : path_(std::filesystem::temp_directory_path() /
              ("troupe-page-links-" + std::to_string(getpid()) + "-" + cluster)),
        authority_(make_authority(cluster, 2)) {
    std::filesystem::create_directories(path_);
    write("ca.pem", authority_.certificate);
  }
  ~Authority() { std::filesystem::remove_all(path_); }
  Authority(const Authority&) = delete;
  TlsFiles files(const std::string& name) const {
    const Certificate own = make_certificate(authority_, name, 2);
    return {(path_ / "ca.pem").string(), write(name + ".pem", own.certificate),
            write(name + ".key", own.key)};
  }

 private:
  std::string write(const std::string& file, const std::string& text) const {
    std::ofstream(path_ / file) << text;
    return (path_ / file).string();
  }
  std::filesystem::path path_;
  Certificate authority_;
};

std::string name_of(NodeId node) { return "node-" + std::to_string(node); }

// A node: its links and its transport of pages, wired as a process wires them.
class Node {
 private:
  void note(const std::string& what) {
    const std::lock_guard lock(mutex_);
    ++noted_[what];
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, int> noted_;
  Journal journal_{metrics, [this](LogLevel, std::string_view, std::string_view event, auto) {
                     note(std::string(event));
                   }};

 public:
  // `port` = 0: any free one.
  Node(NodeId number, std::vector<PeerAddress> peers, const Authority* authority, bool has_pages = true,
       std::uint16_t port = 0)
      : id(number), incarnation(100 * number), arena(16 << 10, 256) {
    fill(arena, incarnation);
    if (has_pages)
      transport = std::make_unique<LinkTransport>(LinkTransportOptions{}, incarnation, arena, metrics);
    ClusterOptions options;
    options.node = number;
    options.name = name_of(number);
    options.port = port;
    options.incarnation = incarnation;
    options.heartbeat = {50'000};
    options.peers = std::move(peers);
    if (authority) options.tls = authority->files(options.name);
    if (transport) options.greeting = transport->address();
    options.on_met = [this](NodeId node, Incarnation of, const Bytes& address) {
      if (transport && !address.empty()) transport->meet(node, of, address);
      note("met " + std::to_string(node));
    };
    options.on_lost = [this](NodeId node, Incarnation of) {
      if (transport) transport->lose(node, of);
      note("lost " + std::to_string(node));
    };
    if (transport)
      options.on_pages = [this](NodeId node, Incarnation of, PageSocket socket) {
        ++opened;
        transport->accept(node, of, std::move(socket));
      };
    links = std::make_unique<Links>(
        options, Links::Inside{[this](NodeId, Address, auto) { ++messages; }, [](NodeId) {}}, journal_);
    if (transport)
      transport->dial_with([this](NodeId node, Incarnation of, const Bytes&, auto take) {
        links->open_pages(node, of, std::move(take));
      });
    links->open();
  }
  ~Node() {
    if (transport) transport->stop();
    links->close();
  }
  PeerAddress address() const { return {id, name_of(id), "127.0.0.1", links->port()}; }
  bool await(const std::string& what, int times = 1) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return noted_[what] >= times; });
  }
  // Pulls the first `count` pages of the owner into pages here, from page `to` on.
  std::string pull(const Node& owner, std::uint32_t count, std::uint32_t to = 0) {
    std::vector<std::uint32_t> from(count), here(count);
    std::iota(from.begin(), from.end(), 0);
    std::iota(here.begin(), here.end(), to);
    PullBlocks work{owner.id, owner.incarnation, patient_us, {}};
    work.blocks.push_back(block_of(owner.arena, from, here));
    return said(transport->pull(work));
  }

  const NodeId id;
  const Incarnation incarnation;
  PageArena arena;
  MetricRegistry metrics;
  std::atomic<int> opened = 0, messages = 0;
  std::unique_ptr<LinkTransport> transport;
  std::unique_ptr<Links> links;
};

PeerAddress listed(NodeId node, std::uint16_t port = 1) { return {node, name_of(node), "127.0.0.1", port}; }

// A connection of somebody who is no node.
class Stranger {
 public:
  explicit Stranger(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  ~Stranger() { close(socket_); }
  Stranger(const Stranger&) = delete;
  void say(const Bytes& bytes) const { ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }

 private:
  int socket_;
};

TEST_CASE("page links: nodes pull from each other over the links' ports, with certificates and without") {
  const Authority authority("blue");
  for (const Authority* with : {&authority, static_cast<const Authority*>(nullptr)}) {
    CAPTURE(with != nullptr);
    const std::uint16_t port = free_port();
    Node one(1, {listed(2, port)}, with);
    Node two(2, {one.address()}, with, true, port);
    REQUIRE(one.await("met 2"));
    REQUIRE(two.await("met 1"));
    // The node with the lower number may open connections for pages, too.
    std::string there;
    std::thread thread([&] { there = one.pull(two, 128, 128); });
    CHECK(two.pull(one, 128, 128) == "ok 1");
    thread.join();
    CHECK(there == "ok 1");
    CHECK(two.pull(one, 256) == "ok 1");
    CHECK(bytes_of(two.arena) == bytes_of(one.arena));
    CHECK(one.pull(two, 256) == "ok 1");
    CHECK(one.opened == 1);
    CHECK(two.opened == 1);
    two.links->send({1, Role::router}, std::make_shared<const Bytes>(8));  // the link is not disturbed
    while (one.messages == 0) std::this_thread::yield();
    CHECK(one.metrics.value(Metric::protocol_errors) + two.metrics.value(Metric::protocol_errors) == 0);
  }
}

// The last row ends a process whose UCX receives it: a connection request that is too short.
TEST_CASE("page links: where nodes have certificates, no byte of a stranger reaches the transport") {
  const Authority authority("blue"), foreign("red");
  Node one(1, {listed(2), listed(3)}, &authority);
  Node two(2, {one.address(), listed(3)}, &authority);
  REQUIRE(two.await("met 1"));
  std::mt19937 random(5);
  for (int i = 0; i < 60; ++i) {
    Bytes noise(45);
    for (auto& byte : noise) byte = static_cast<std::uint8_t>(random());
    const Stranger stranger(one.links->port());
    stranger.say(noise);
    if (i % 10 == 0) CHECK(two.pull(one, 64) == "ok 1");
  }
  {  // a node of another cluster
    Node three(3, {one.address()}, &foreign);
    REQUIRE(three.await("peer_away"));
    three.transport->meet(1, 100, one.transport->address());
    CHECK(three.pull(one, 1) == "peer_lost");
  }
  {  // without TLS
    Node three(3, {one.address()}, nullptr);
    REQUIRE(three.await("peer_away"));
    three.transport->meet(1, 100, one.transport->address());
    CHECK(three.pull(one, 1) == "peer_lost");
  }
  CHECK(two.pull(one, 256) == "ok 1");
  CHECK(one.opened == 1);
  CHECK(one.metrics.value(Metric::protocol_errors) == 0);
}

TEST_CASE("page links: connections for pages end with the link, and are refused without one") {
  const Authority authority("blue");
  Node one(1, {listed(2)}, &authority);
  Node two(2, {one.address()}, &authority);
  REQUIRE(two.await("met 1"));
  CHECK(two.pull(one, 4) == "ok 1");
  one.links->follow({});  // node 2 is no member any more
  REQUIRE(one.await("lost 2"));
  REQUIRE(two.await("lost 1"));
  CHECK(two.pull(one, 4) == "peer_lost");
  std::string fault;
  std::atomic<bool> answered = false;
  two.links->open_pages(1, 100, [&](PageSocket socket, const std::string& why) {
    CHECK_FALSE(socket.is_open());
    fault = why;
    answered = true;
  });
  while (!answered) std::this_thread::yield();
  CHECK(fault == "node 1 is not connected");
  one.links->follow({listed(2)});
  REQUIRE(two.await("met 1", 2));
  CHECK(two.pull(one, 4) == "ok 1");
  CHECK(one.opened == 2);
}

TEST_CASE("page links: a node without pages refuses connections for them, and names of nodes are checked") {
  const Authority authority("blue");
  Node one(1, {listed(2)}, &authority, false);
  Node two(2, {one.address()}, &authority);
  REQUIRE(two.await("met 1"));
  std::string fault;
  std::atomic<int> answers = 0;
  const auto open = [&](Incarnation incarnation) {
    const int before = answers;
    two.links->open_pages(1, incarnation, [&](PageSocket socket, const std::string& why) {
      CHECK_FALSE(socket.is_open());
      fault = why;
      ++answers;
    });
    while (answers == before) std::this_thread::yield();
    return fault;
  };
  CHECK(open(100) == "refused by the peer: node 1 has no pages; expected a worker whose pages travel so");
}

TEST_CASE("page links: another process of the owner than the expected one is refused") {
  const Authority authority("blue");
  Node one(1, {listed(2)}, &authority);
  Node two(2, {one.address()}, &authority);
  REQUIRE(two.await("met 1"));
  std::string fault;
  std::atomic<bool> answered = false;
  two.links->open_pages(1, 99, [&](PageSocket, const std::string& why) {
    fault = why;
    answered = true;
  });
  while (!answered) std::this_thread::yield();
  CHECK(fault == "node 1 with incarnation 100 answers; expected node 1 with incarnation 99");
}

TEST_CASE("page links: an owner whose links close ends its readers' pulls at once") {
  const Authority authority("blue");
  auto one = std::make_unique<Node>(1, std::vector{listed(2)}, &authority);
  Node two(2, {one->address()}, &authority);
  REQUIRE(two.await("met 1"));
  CHECK(two.pull(*one, 4) == "ok 1");
  PullBlocks work{1, 100, patient_us, {}};
  work.blocks.push_back(block_of(one->arena, {1}, {1}));
  one.reset();
  REQUIRE(two.await("lost 1"));
  CHECK(said(two.transport->pull(work)) == "peer_lost");
}

}  // namespace page_links_test
}  // namespace troupe
