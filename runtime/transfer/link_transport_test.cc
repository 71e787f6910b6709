// Tests what is particular to pages over links. The contract of every transport is tested in
// transport_contract_test.cc, and links that open connections for pages in network/page_links_test.cc.
#include "runtime/transfer/link_transport.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "runtime/testing/transport_test.h"

namespace troupe {
namespace link_transport_test {

// A pull of pages 0..count into the same pages.
template <class Node>
PullBlocks same_pages(const Node& owner, std::uint32_t count, std::int64_t budget_us = patient_us) {
  std::vector<std::uint32_t> pages(count);
  std::iota(pages.begin(), pages.end(), 0);
  PullBlocks pull = pull_from(owner, budget_us);
  pull.blocks.push_back(block_of(owner.arena, pages, pages));
  return pull;
}

LinkTransport& inner(const TestNode<LinkWorld>& node) {
  return static_cast<ConnectedTransport&>(*node.transport).inner();
}

// Reads until the other side closes; false after ten seconds.
bool is_closed(int fd) {
  const timeval limit{10, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  char bytes[4'096];
  ssize_t count = 0;
  while ((count = recv(fd, bytes, sizeof bytes, 0)) > 0) continue;
  return count == 0 || errno == ECONNRESET;
}

TEST_CASE("link transport: one connection serves all pulls from a peer, and a new one its next process") {
  LinkWorld world;
  TestNode<LinkWorld> owner(world, 1, 100), next(world, 1, 101), reader(world, 2, 200);
  reader.meet(owner);
  for (int i = 0; i < 5; ++i) CHECK(said(reader.transport->pull(same_pages(owner, 3))) == "ok 1");
  CHECK(world.sockets.dialled() == 1);
  reader.meet(next);
  CHECK(said(reader.transport->pull(same_pages(next, 3))) == "ok 1");
  CHECK(world.sockets.dialled() == 2);
}

TEST_CASE("link transport: an owner that loses a reader ends its connection, and the next pull opens one") {
  LinkWorld world;
  TestNode<LinkWorld> owner(world, 1, 100), reader(world, 2, 200);
  reader.meet(owner);
  CHECK(said(reader.transport->pull(same_pages(owner, 1))) == "ok 1");
  const auto [stays, left] = tcp_pair();
  inner(owner).accept(3, 300, PageSocket(left));
  const auto [ends, right] = tcp_pair();
  inner(owner).accept(2, 200, PageSocket(right));
  owner.transport->lose(2, 199);  // an earlier process
  owner.transport->lose(2, 200);
  CHECK(is_closed(ends));
  char byte = 0;
  CHECK(recv(stays, &byte, 1, MSG_DONTWAIT) == -1);
  close(stays), close(ends);
  // The reader may find the end of its connection in this pull or before it.
  std::string outcome = said(reader.transport->pull(same_pages(owner, 1)));
  if (outcome == "peer_lost") outcome = said(reader.transport->pull(same_pages(owner, 1)));
  CHECK(outcome == "ok 1");
  CHECK(world.sockets.dialled() == 2);
}

TEST_CASE("link transport: of many connections of one reader the oldest are closed") {
  LinkWorld world;
  TestNode<LinkWorld> owner(world, 1, 100);
  std::vector<int> ends;
  for (int i = 0; i < 6; ++i) {
    const auto [here, there] = tcp_pair();
    ends.push_back(here);
    inner(owner).accept(2, 200, PageSocket(there));
  }
  CHECK(is_closed(ends[0]));
  CHECK(is_closed(ends[1]));
  char byte = 0;
  for (std::size_t i = 2; i < ends.size(); ++i) CHECK(recv(ends[i], &byte, 1, MSG_DONTWAIT) == -1);
  for (const int end : ends) close(end);
}

TEST_CASE("link transport: random bytes on a reader's connection end it alone, and are counted") {
  LinkWorld world;
  TestNode<LinkWorld> owner(world, 1, 100), reader(world, 2, 200);
  reader.meet(owner);
  std::mt19937 random(5);
  for (int i = 0; i < 50; ++i) {
    const auto [here, there] = tcp_pair();
    inner(owner).accept(3, 300, PageSocket(there));
    Bytes noise(8 + random() % 500);
    for (auto& byte : noise) byte = static_cast<std::uint8_t>(random());
    noise[3] = 0xFF;  // a length beyond any bound
    ::send(here, noise.data(), noise.size(), MSG_NOSIGNAL);
    CHECK(is_closed(here));
    close(here);
    CHECK(said(reader.transport->pull(same_pages(owner, 2))) == "ok 1");
  }
  CHECK(owner.await_protocol_errors(50));
}

TEST_CASE("link transport: a request that is none is counted and dropped, and the connection stays") {
  LinkWorld world;
  TestNode<LinkWorld> owner(world, 1, 100);
  const auto [here, there] = tcp_pair();
  inner(owner).accept(2, 200, PageSocket(there));
  const auto say = [end = here](const Bytes& request) {
    const auto bytes = static_cast<std::uint32_t>(request.size());
    ::send(end, &bytes, sizeof bytes, MSG_NOSIGNAL);
    ::send(end, request.data(), request.size(), MSG_NOSIGNAL);
  };
  say(Bytes(100, 7));
  say(encode(PullRequest{.owner = 100, .pull = 9, .page_bytes = owner.arena.page_bytes(), .pages = {5}}));
  Bytes answer(4 + reply_header_bytes + owner.arena.page_bytes());
  REQUIRE(recv(here, answer.data(), answer.size(), MSG_WAITALL) == static_cast<ssize_t>(answer.size()));
  CHECK(std::memcmp(answer.data() + 4 + reply_header_bytes, owner.arena.page(5), owner.arena.page_bytes()) ==
        0);
  CHECK(owner.await_protocol_errors(1));
  close(here);
}

// The reader's connections lead to `owner_end`.
struct LoneReader {
  PageArena arena{4096, 64};
  MetricRegistry metrics;
  LinkTransport transport;
  int owner_end = -1;
  explicit LoneReader(std::chrono::milliseconds silence_max = std::chrono::milliseconds(1'000))
      : transport({.silence_max = silence_max}, 200, arena, metrics) {
    transport.meet(1, 100, Bytes{'T', 'P', 'L', '1'});
  }
  ~LoneReader() { close(owner_end); }
  PullBlocks work(std::int64_t budget_us) const {
    PullBlocks pull{1, 100, budget_us, {}};
    pull.blocks.push_back(block_of(arena, {1}, {2}));
    return pull;
  }
};

TEST_CASE("link transport: without links, or if they find no peer, a pull ends at once") {
  LoneReader reader;
  const auto without = reader.transport.pull(reader.work(patient_us));
  CHECK(std::get<Refusal>(without).what == "node 1 cannot be reached: this process has no links");
  reader.transport.dial_with(
      [](NodeId node, Incarnation incarnation, const Bytes&, const LinkTransport::TakeSocket& take) {
        CHECK(node == 1);
        CHECK(incarnation == 100);
        take(PageSocket(), "it is away");
      });
  const auto away = reader.transport.pull(reader.work(patient_us));
  CHECK(std::get<Refusal>(away).code == "peer_lost");
  CHECK(std::get<Refusal>(away).what == "node 1 cannot be reached: it is away");
}

TEST_CASE("link transport: links that never answer cost a pull its time, and may answer after the end") {
  LinkTransport::TakeSocket late;
  {
    LoneReader reader;
    reader.transport.dial_with(
        [&](NodeId, Incarnation, const Bytes&, LinkTransport::TakeSocket take) { late = std::move(take); });
    CHECK(said(reader.transport.pull(reader.work(hasty_us))) == "transfer_timeout");
    reader.transport.stop();
    CHECK(said(reader.transport.pull(reader.work(patient_us))) == "transport_stopped");
  }
  const auto [here, there] = tcp_pair();
  late(PageSocket(there), "");
  late = {};  // drops what nobody takes any more
  CHECK(is_closed(here));
  close(here);
}

TEST_CASE("link transport: a silent peer gets a new connection, and its late bytes are not written") {
  LinkWorld world;
  TestNode<LinkWorld> owner(world, 1, 100);
  PageArena arena(4096, 64);
  MetricRegistry metrics;
  ConnectedTransport reader(world.sockets, {.silence_max = std::chrono::milliseconds(0)}, 200, arena,
                            metrics);
  reader.meet(1, 100, owner.transport->address());
  PullBlocks pull = pull_from(owner);
  pull.blocks.push_back(block_of(owner.arena, {1, 2}, {1, 2}));
  for (int round = 0; round < 3; ++round) {
    owner.gate.shut();
    PullBlocks in_vain = pull_from(owner, 3 * hasty_us);
    in_vain.blocks.push_back(block_of(owner.arena, {3, 4}, {3, 4}));
    CHECK(said(reader.pull(in_vain)) == "transfer_timeout");
    // The gate stays shut until then: a late answer would show that the peer is not silent.
    std::string outcome;
    const int before = world.sockets.dialled();
    std::thread next([&] { outcome = said(reader.pull(pull)); });
    CHECK(world.sockets.await_dialled(before + 1));
    owner.gate.open();
    next.join();
    CHECK(outcome == "ok 1");
  }
  CHECK(arena.page(3)[0] == std::byte{0});
  CHECK(arena.page(4)[4095] == std::byte{0});
}

// A peer that holds the connection but is no correct owner.
TEST_CASE("link transport: an owner's invalid replies are counted, write nothing and end the connection") {
  LoneReader reader;
  std::atomic<int> end = -1;
  reader.transport.dial_with([&](NodeId, Incarnation, const Bytes&, const LinkTransport::TakeSocket& take) {
    const auto [here, there] = tcp_pair();
    end = there;
    take(PageSocket(here), "");
  });
  std::string outcome;
  std::thread thread([&] { outcome = said(reader.transport.pull(reader.work(patient_us))); });
  while (end < 0) std::this_thread::yield();
  reader.owner_end = end;
  const auto say = [&](const Bytes& message) {
    const auto bytes = static_cast<std::uint32_t>(message.size());
    ::send(end, &bytes, sizeof bytes, MSG_NOSIGNAL);
    ::send(end, message.data(), message.size(), MSG_NOSIGNAL);
  };
  std::uint8_t request[4 + 44] = {};
  REQUIRE(recv(end, request, sizeof request, MSG_WAITALL) == sizeof request);
  const auto asked = parse_request(std::span(request).subspan(4));
  REQUIRE(asked.has_value());
  const auto reply = [](const PullReply& head, std::size_t bytes) {
    const ReplyHeader header = encode(head);
    Bytes message(header.begin(), header.end());
    message.resize(header.size() + bytes, 7);
    return message;
  };
  say(Bytes(30, 1));                                         // no header
  say(Bytes(3, 1));                                          // shorter than one
  say(reply({.pull = asked->pull, .chunk = 5}, 4'096));      // was not asked for
  say(reply({.pull = asked->pull, .chunk = 0}, 4'095));      // another size
  say(reply({.pull = asked->pull + 1, .chunk = 0}, 4'096));  // no such pull: late
  const std::uint32_t huge = 1 << 30;
  ::send(end, &huge, sizeof huge, MSG_NOSIGNAL);
  thread.join();
  CHECK(outcome == "peer_lost");
  CHECK(reader.metrics.value(Metric::protocol_errors) == 5);
  for (std::uint32_t page = 0; page < 64; ++page) CHECK(reader.arena.page(page)[0] == std::byte{0});
}

// Starts a pull; its outcome comes later.
std::future<std::string> start(Transport& transport, PullBlocks work) {
  const auto outcome = std::make_shared<std::promise<std::string>>();
  CHECK(transport.start_pull(work, [outcome](PullOutcome got) { outcome->set_value(said(got)); }));
  return outcome->get_future();
}

TEST_CASE("link transport: a started pull ends as one that a thread waits for") {
  LinkWorld world;
  TestNode<LinkWorld> owner(world, 1, 100), reader(world, 2, 200);
  Transport& transport = *reader.transport;
  CHECK(start(transport, same_pages(owner, 1)).get() == "peer_unknown");
  reader.meet(owner);
  PullBlocks blocks = pull_from(owner);
  for (std::uint32_t page = 0; page < 50; ++page)
    blocks.blocks.push_back(block_of(owner.arena, {page}, {63 - page}));
  ++blocks.blocks[1].checksum;
  CHECK(start(transport, blocks).get() == "ok 10" + std::string(48, '1'));
  for (std::uint32_t page = 0; page < 50; ++page)
    CHECK(std::memcmp(owner.arena.page(page), reader.arena.page(63 - page), owner.arena.page_bytes()) == 0);
  CHECK(start(transport, pull_from(owner)).get() == "ok ");
  PullBlocks bad = same_pages(owner, 1);
  bad.blocks[0].to = {64};
  CHECK(start(transport, bad).get() == "bad_pages");
  bad = same_pages(owner, 1);
  bad.blocks[0].from = {64};
  CHECK(start(transport, bad).get() == "bad_pages");
  CHECK(start(transport, same_pages(owner, 20, 0)).get() == "transfer_timeout");
  owner.gate.shut();
  CHECK(start(transport, same_pages(owner, 20, hasty_us)).get() == "transfer_timeout");
  owner.gate.open();
  CHECK(start(transport, same_pages(owner, 20)).get() == "ok 1");
}

TEST_CASE("link transport: work in parts is not started but left to a thread that waits") {
  LinkWorld world;
  TestNode<LinkWorld> owner(world, 1, 100), reader(world, 2, 200);
  reader.meet(owner);
  PullBlocks work = same_pages(owner, 3);
  work.parts = 2;
  CHECK_FALSE(reader.transport->start_pull(work, [](PullOutcome) { FAIL("it was started"); }));
  CHECK(said(reader.transport->pull(work)) == "ok 1");
}

TEST_CASE("link transport: many started pulls run at once, and each has one outcome") {
  LinkWorld world;
  TestNode<LinkWorld> owner(world, 1, 100), reader(world, 2, 200);
  reader.meet(owner);
  owner.gate.shut();
  std::vector<std::future<std::string>> outcomes;
  for (int i = 0; i < 20; ++i) outcomes.push_back(start(*reader.transport, same_pages(owner, 64)));
  CHECK(owner.gate.await_arrived(1));
  owner.gate.open();
  for (auto& outcome : outcomes) CHECK(outcome.get() == "ok 1");
  CHECK(world.sockets.dialled() == 1);
}

TEST_CASE("link transport: a pull is begun on the thread that starts it if the loop's thread is idle") {
  LinkWorld world;
  TestNode<LinkWorld> owner(world, 1, 100), reader(world, 2, 200);
  reader.meet(owner);
  std::atomic<int> here = 0;
  inner(reader).dial_with([&here, self = std::this_thread::get_id()](NodeId, Incarnation, const Bytes&,
                                                                     const LinkTransport::TakeSocket& take) {
    here += std::this_thread::get_id() == self;
    take({}, "nobody is there");
  });
  // One pull is not enough: the loop's thread may still be at work on the last one.
  for (int i = 0; i < 1'000 && here == 0; ++i)
    CHECK(start(*reader.transport, same_pages(owner, 1)).get() == "peer_lost");
  CHECK(here > 0);
}

TEST_CASE("link transport: started pulls end when their peer is lost and when the transport stops") {
  LinkWorld world;
  TestNode<LinkWorld> owner(world, 1, 100), reader(world, 2, 200);
  reader.meet(owner);
  owner.gate.shut();
  auto lost = start(*reader.transport, same_pages(owner, 3));
  CHECK(owner.gate.await_arrived(1));
  reader.transport->lose(1, 100);
  CHECK(lost.get() == "peer_lost");
  reader.meet(owner);
  auto stopped = start(*reader.transport, same_pages(owner, 3));
  reader.transport->stop();
  CHECK(stopped.get() == "transport_stopped");
  CHECK(start(*reader.transport, same_pages(owner, 3)).get() == "transport_stopped");
  owner.gate.open();
}

TEST_CASE(
    "link transport: pulls started by several threads and by outcomes, as a peer comes and goes, end once") {
  LinkWorld world;
  TestNode<LinkWorld> owner(world, 1, 100), reader(world, 2, 200);
  reader.meet(owner);
  std::atomic<int> left = 400, ended = 0, arrived = 0, other = 0;
  // Each outcome starts the next pull, on the transport's thread.
  const std::function<void()> next = [&] {
    if (left.fetch_sub(1) <= 0) return;
    PullBlocks work = same_pages(owner, 3);
    reader.transport->start_pull(work, [&](PullOutcome outcome) {
      const std::string what = said(outcome);
      arrived += what == "ok 1";
      other += what != "ok 1" && what != "peer_lost";
      next();
      ++ended;
    });
  };
  std::vector<std::thread> starters;
  for (int i = 0; i < 3; ++i) starters.emplace_back(next);
  for (std::thread& starter : starters) starter.join();
  while (left > 100) {
    reader.transport->lose(1, 100);
    next();
    reader.meet(owner);
    std::this_thread::yield();
  }
  while (ended < 400) std::this_thread::yield();
  CHECK(ended == 400);
  CHECK(arrived > 0);
  CHECK(other == 0);
}

TEST_CASE("link transport: the address of another transport is unreachable, but no protocol error") {
  LinkWorld links;
  UcxWorld ucx;
  TestNode<LinkWorld> one(links, 1, 100);
  TestNode<UcxWorld> two(ucx, 2, 200);
  one.transport->meet(2, 200, two.transport->address());
  two.transport->meet(1, 100, one.transport->address());
  CHECK(said(one.transport->pull(same_pages(two, 1))) == "peer_unreachable");
  CHECK(said(two.transport->pull(same_pages(one, 1))) == "peer_unreachable");
  CHECK(one.protocol_errors() + two.protocol_errors() == 0);
}

}  // namespace link_transport_test
}  // namespace troupe
