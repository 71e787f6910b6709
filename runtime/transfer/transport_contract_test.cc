// Contract of every transport, as a KV-cache worker relies on it: every case runs over UCX,
// sealed and not, over links, with TLS and not, and within one process.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <thread>

#include "runtime/testing/transport_test.h"

using namespace troupe;

namespace {

std::vector<std::uint32_t> some_pages(std::mt19937_64& random, std::size_t of) {
  std::vector<std::uint32_t> pages(of);
  std::iota(pages.begin(), pages.end(), 0);
  std::shuffle(pages.begin(), pages.end(), random);
  return pages;
}

// Splits shuffled pages of both sides into blocks of random sizes; some pages are left out.
std::vector<PullBlocks::One> random_blocks(std::mt19937_64& random, const PageArena& from,
                                           const PageArena& to) {
  auto there = some_pages(random, from.pages()), here = some_pages(random, to.pages());
  std::vector<PullBlocks::One> blocks;
  const std::size_t most = std::min(there.size(), here.size()) * 3 / 4;
  for (std::size_t at = 0; at < most;) {
    const std::size_t count = std::min<std::size_t>(1 + random() % 7, most - at);
    const auto part = [&](auto& pages) {
      const auto begin = pages.begin() + static_cast<std::ptrdiff_t>(at);
      return std::vector<std::uint32_t>(begin, begin + static_cast<std::ptrdiff_t>(count));
    };
    blocks.push_back(block_of(from, part(there), part(here)));
    at += count;
  }
  return blocks;
}

// Returns the expected content of `to` afterwards.
std::vector<std::byte> expected(const PageArena& from, const PageArena& to,
                                const std::vector<PullBlocks::One>& blocks) {
  auto bytes = bytes_of(to);
  for (const auto& block : blocks)
    for (std::size_t i = 0; i < block.to.size(); ++i)
      std::copy_n(from.page(block.from[i]), from.page_bytes(), &bytes[block.to[i] * to.page_bytes()]);
  return bytes;
}

template <class World>
struct Pair {
  explicit Pair(std::size_t page_bytes = 4096, std::size_t pages = 64)
      : owner(world, 1, 100, page_bytes, pages), reader(world, 2, 200, page_bytes, pages) {
    reader.meet(owner);
  }
  // Pulls pages 0..count of the owner into those of the reader.
  PullBlocks work(std::uint32_t count = 2, std::int64_t budget_us = patient_us) const {
    std::vector<std::uint32_t> pages(count);
    std::iota(pages.begin(), pages.end(), 0);
    PullBlocks pull = pull_from(owner, budget_us);
    pull.blocks.push_back(block_of(owner.arena, pages, pages));
    return pull;
  }
  World world;
  TestNode<World> owner, reader;
};

TEST_CASE_TEMPLATE("transport: the owner's bytes arrive in the right pages, and nowhere else", World,
                   LocalWorld, UcxWorld, SealedWorld, LinkWorld, TlsWorld) {
  for (const std::size_t page_bytes :
       {std::size_t{8}, std::size_t{100}, std::size_t{4097}, std::size_t{16} << 10, std::size_t{61'440},
        std::size_t{64} << 10, std::size_t{1} << 20, (std::size_t{1} << 20) + 24, std::size_t{4} << 20}) {
    CAPTURE(page_bytes);
    Pair<World> nodes(page_bytes, std::clamp<std::size_t>((16 << 20) / page_bytes, 8, 6000));
    std::mt19937_64 random(page_bytes);
    PullBlocks pull = pull_from(nodes.owner);
    pull.blocks = random_blocks(random, nodes.owner.arena, nodes.reader.arena);
    const auto after = expected(nodes.owner.arena, nodes.reader.arena, pull.blocks);
    CHECK(said(nodes.reader.transport->pull(pull)) == "ok " + std::string(pull.blocks.size(), '1'));
    CHECK(bytes_of(nodes.reader.arena) == after);
    CHECK(nodes.reader.protocol_errors() + nodes.owner.protocol_errors() == 0);
  }
}

TEST_CASE_TEMPLATE("transport: only a block whose bytes do not match its checksum is bad", World, LocalWorld,
                   UcxWorld, SealedWorld, LinkWorld, TlsWorld) {
  Pair<World> nodes;
  PullBlocks pull = pull_from(nodes.owner);
  for (std::uint32_t i = 0; i < 5; ++i)
    pull.blocks.push_back(block_of(nodes.owner.arena, {2 * i, 2 * i + 1}, {10 + 2 * i, 11 + 2 * i}));
  pull.blocks[1].checksum ^= 1;
  std::swap(pull.blocks[3].from[0], pull.blocks[3].from[1]);
  CHECK(said(nodes.reader.transport->pull(pull)) == "ok 10101");
}

// Covers any parts: pages divided evenly and unevenly, into more parts than they have cache lines,
// and not divided at all.
TEST_CASE_TEMPLATE("transport: in parts the same bytes arrive, and arrivals are reported before the outcome",
                   World, LocalWorld, UcxWorld, SealedWorld, LinkWorld, TlsWorld) {
  for (const std::size_t page_bytes :
       {std::size_t{8}, std::size_t{4097}, std::size_t{16} << 10, std::size_t{1} << 20})
    for (const std::uint32_t parts : {2u, 3u, 28u, 1'000u}) {
      CAPTURE(page_bytes);
      CAPTURE(parts);
      Pair<World> nodes(page_bytes, std::clamp<std::size_t>((4 << 20) / page_bytes, 8, 256));
      std::mt19937_64 random(page_bytes + parts);
      PullBlocks pull = pull_from(nodes.owner);
      pull.parts = parts;
      pull.blocks = random_blocks(random, nodes.owner.arena, nodes.reader.arena);
      for (std::size_t i = 0; i < pull.blocks.size(); ++i) pull.blocks[i].here = 100 + i;
      ++pull.blocks.back().checksum;
      const auto after = expected(nodes.owner.arena, nodes.reader.arena, pull.blocks);
      CHECK(said(nodes.reader.transport->pull(pull)) ==
            "ok " + std::string(pull.blocks.size() - 1, '1') + "0");
      CHECK(bytes_of(nodes.reader.arena) == after);
      for (std::size_t i = 0; i < pull.blocks.size(); ++i)
        CHECK(nodes.reader.arena.arrivals().wait(100 + i, page_bytes, {}) == (i + 1 < pull.blocks.size()));
      CHECK(nodes.owner.protocol_errors() == 0);
    }
}

TEST_CASE_TEMPLATE("transport: a refused pull in parts marks its arrivals as failed", World, LocalWorld,
                   UcxWorld, SealedWorld, LinkWorld, TlsWorld) {
  Pair<World> nodes;
  PullBlocks pull = nodes.work();
  pull.parts = 4;
  pull.blocks[0].here = 7;
  ++pull.incarnation;
  CHECK(said(nodes.reader.transport->pull(pull)) == "wrong_incarnation");
  CHECK_FALSE(nodes.reader.arena.arrivals().wait(7, 1, PageArrivals::Clock::time_point::max()));
}

TEST_CASE_TEMPLATE("transport: a pull of nothing returns at once", World, LocalWorld, UcxWorld, SealedWorld,
                   LinkWorld, TlsWorld) {
  Pair<World> nodes;
  CHECK(said(nodes.reader.transport->pull(pull_from(nodes.owner))) == "ok ");
}

TEST_CASE_TEMPLATE(
    "transport: a wrong incarnation or pages that do not exist are refused, nothing is written", World,
    LocalWorld, UcxWorld, SealedWorld, LinkWorld, TlsWorld) {
  Pair<World> nodes;
  TestNode<World> other(nodes.world, 3, 300, 8192);
  Transport& reader = *nodes.reader.transport;
  const auto before = bytes_of(nodes.reader.arena);
  const PullBlocks good = nodes.work();
  const auto refused = [&](auto change) {
    PullBlocks pull = good;
    change(pull);
    return said(reader.pull(pull));
  };
  CHECK(refused([](auto& pull) { pull.node = 9; }) == "peer_unknown");
  CHECK(refused([](auto& pull) { pull.incarnation = 99; }) == "wrong_incarnation");
  CHECK(refused([](auto& pull) { pull.incarnation = 101; }) == "wrong_incarnation");
  CHECK(refused([](auto& pull) { pull.blocks[0].from[1] = 64; }) == "bad_pages");
  CHECK(refused([](auto& pull) { pull.blocks[0].from[0] = ~0u; }) == "bad_pages");
  CHECK(refused([](auto& pull) { pull.blocks[0].to[1] = 64; }) == "bad_pages");
  CHECK(refused([](auto& pull) { pull.blocks[0].to.pop_back(); }) == "bad_pages");
  CHECK(refused([](auto& pull) { pull.blocks.push_back({}); }) == "bad_pages");
  // Another node's address, so that the owner must notice.
  reader.meet(3, 301, other.transport->address());
  CHECK(refused([](auto& pull) { pull.node = 3, pull.incarnation = 301; }) == "wrong_incarnation");
  reader.meet(4, 300, other.transport->address());
  CHECK(refused([](auto& pull) { pull.node = 4, pull.incarnation = 300; }) == "wrong_page_bytes");
  reader.meet(5, 1, Bytes{1, 2, 3});
  CHECK(refused([](auto& pull) { pull.node = 5, pull.incarnation = 1; }) == "peer_unreachable");
  CHECK(nodes.reader.protocol_errors() == 1);  // the malformed address
  CHECK(nodes.owner.protocol_errors() == 2);   // pages 64 and ~0
  CHECK(other.protocol_errors() == 1);         // the size of its pages
  CHECK(bytes_of(nodes.reader.arena) == before);
  CHECK(said(reader.pull(good)) == "ok 1");
}

TEST_CASE_TEMPLATE(
    "transport: a hung peer gives a refusal at the deadline, and its late bytes are not written", World,
    LocalWorld, UcxWorld, SealedWorld, LinkWorld, TlsWorld) {
  Pair<World> nodes;
  CHECK(said(nodes.reader.transport->pull(nodes.work(1))) == "ok 1");
  const auto before = bytes_of(nodes.reader.arena);
  nodes.owner.gate.shut();
  CHECK(said(nodes.reader.transport->pull(nodes.work(20, hasty_us))) == "transfer_timeout");
  CHECK(said(nodes.reader.transport->pull(nodes.work(20, 0))) == "transfer_timeout");
  CHECK(said(nodes.reader.transport->pull(nodes.work(20, -1))) == "transfer_timeout");
  nodes.owner.gate.open();
  CHECK(said(nodes.reader.transport->pull(nodes.work(1))) == "ok 1");
  CHECK(bytes_of(nodes.reader.arena) == before);
  CHECK(said(nodes.reader.transport->pull(nodes.work(20))) == "ok 1");
}

TEST_CASE_TEMPLATE("transport: a lost peer's running pulls end at once, and it can be met again", World,
                   LocalWorld, UcxWorld, SealedWorld, LinkWorld, TlsWorld) {
  Pair<World> nodes;
  Transport& reader = *nodes.reader.transport;
  nodes.owner.gate.shut();
  std::vector<std::string> outcomes(3);
  std::vector<std::thread> threads;
  for (std::string& outcome : outcomes)
    threads.emplace_back([&] { outcome = said(reader.pull(nodes.work())); });
  CHECK(nodes.owner.gate.await_arrived(1));
  reader.lose(1, 99);   // an earlier incarnation
  reader.lose(7, 100);  // another node
  reader.lose(1, 100);
  for (std::thread& thread : threads) thread.join();
  for (const std::string& outcome : outcomes) CHECK(outcome == "peer_lost");
  CHECK(said(reader.pull(nodes.work())) == "peer_lost");
  nodes.owner.gate.open();
  reader.meet(1, 99, nodes.owner.transport->address());
  CHECK(said(reader.pull(nodes.work())) == "peer_lost");
  nodes.reader.meet(nodes.owner);
  CHECK(said(reader.pull(nodes.work())) == "ok 1");
}

TEST_CASE_TEMPLATE("transport: a newer incarnation replaces an older one", World, LocalWorld, UcxWorld,
                   SealedWorld, LinkWorld, TlsWorld) {
  Pair<World> nodes;
  TestNode<World> next(nodes.world, 1, 101);
  Transport& reader = *nodes.reader.transport;
  nodes.owner.gate.shut();
  std::string outcome;
  std::thread thread([&] { outcome = said(reader.pull(nodes.work())); });
  CHECK(nodes.owner.gate.await_arrived(1));
  nodes.reader.meet(nodes.owner);  // already met: changes nothing
  nodes.reader.meet(next);
  thread.join();
  CHECK(outcome == "peer_lost");
  nodes.reader.meet(nodes.owner);
  reader.lose(1, 100);
  CHECK(said(reader.pull(nodes.work())) == "wrong_incarnation");
  PullBlocks pull = pull_from(next);
  pull.blocks.push_back(block_of(next.arena, {3, 1}, {0, 1}));
  CHECK(said(reader.pull(pull)) == "ok 1");
}

TEST_CASE_TEMPLATE("transport: two nodes pull from each other at once", World, LocalWorld, UcxWorld,
                   SealedWorld, LinkWorld, TlsWorld) {
  Pair<World> nodes(64 << 10, 128);
  nodes.owner.meet(nodes.reader);
  // The first half of one goes to the second half of the other.
  const auto half = [](auto& from, auto& to) {
    PullBlocks pull = pull_from(from);
    for (std::uint32_t i = 0; i < 64; i += 4)
      pull.blocks.push_back(block_of(from.arena, {i, i + 1, i + 2, i + 3}, {64 + i, 65 + i, 66 + i, 67 + i}));
    std::string worst;
    for (int round = 0; round < 8; ++round) worst = std::max(worst, said(to.transport->pull(pull)));
    return worst;
  };
  std::string there;
  std::thread thread([&] { there = half(nodes.reader, nodes.owner); });
  CHECK(half(nodes.owner, nodes.reader) == "ok " + std::string(16, '1'));
  thread.join();
  CHECK(there == "ok " + std::string(16, '1'));
}

TEST_CASE_TEMPLATE("transport: several nodes pull from one owner, each with several threads", World,
                   LocalWorld, UcxWorld, SealedWorld, LinkWorld, TlsWorld) {
  World world;
  TestNode<World> owner(world, 1, 100, 16 << 10, 256);
  std::vector<std::unique_ptr<TestNode<World>>> readers;
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  constexpr std::uint32_t slots = 3, pages = 80;
  for (NodeId id = 2; id < 5; ++id) {
    readers.push_back(std::make_unique<TestNode<World>>(world, id, 100 * id, 16 << 10, 256));
    readers.back()->meet(owner);
  }
  for (auto& reader : readers)
    for (std::uint32_t slot = 0; slot < slots; ++slot)
      threads.emplace_back([&, slot] {
        std::mt19937_64 random(reader->id * 10 + slot);
        for (int round = 0; round < 10; ++round) {
          auto from = some_pages(random, 256);
          from.resize(pages);
          std::vector<std::uint32_t> to(pages);
          std::iota(to.begin(), to.end(), slot * pages);
          PullBlocks pull = pull_from(owner);
          pull.blocks.push_back(block_of(owner.arena, from, to));
          good += said(reader->transport->pull(pull)) == "ok 1";
        }
      });
  for (std::thread& thread : threads) thread.join();
  CHECK(good == 3 * slots * 10);
}

TEST_CASE_TEMPLATE("transport: a transport that stops or is destroyed ends its pulls", World, LocalWorld,
                   UcxWorld, SealedWorld, LinkWorld, TlsWorld) {
  for (const bool destroyed : {false, true}) {
    CAPTURE(destroyed);
    Pair<World> nodes;
    nodes.owner.gate.shut();
    std::string outcome;
    std::thread thread([&, &reader = *nodes.reader.transport] { outcome = said(reader.pull(nodes.work())); });
    CHECK(nodes.owner.gate.await_arrived(1));
    if (destroyed) {
      nodes.reader.transport.reset();
    } else {
      nodes.reader.transport->stop();
      CHECK(said(nodes.reader.transport->pull(nodes.work())) == "transport_stopped");
    }
    thread.join();
    CHECK(outcome == "transport_stopped");
  }
}

TEST_CASE_TEMPLATE("transport: an owner that ends refuses its readers in bounded time", World, LocalWorld,
                   UcxWorld, SealedWorld, LinkWorld, TlsWorld) {
  Pair<World> nodes(1 << 20, 64);
  std::atomic<bool> first = false;
  std::string last = "ok 1";
  std::thread thread([&] {
    for (int round = 0; last == "ok 1"; ++round, first = true)
      last = said(nodes.reader.transport->pull(nodes.work(40, 5'000'000)));
  });
  while (!first) std::this_thread::yield();
  nodes.owner.transport.reset();
  thread.join();
  CHECK((last == "peer_lost" || last == "transfer_timeout"));
}

TEST_CASE_TEMPLATE("transport: an owner survives readers that die", World, UcxWorld, SealedWorld, LinkWorld,
                   TlsWorld) {
  constexpr std::size_t page_bytes = 64 << 10, pages = 256;
  World world;
  TestNode<World> owner(world, 1, 100, page_bytes, pages);
  for (NodeId round = 0; round < 3; ++round) {
    TestNode<World> reader(world, 2, 200 + round, page_bytes, pages);
    reader.meet(owner);
    owner.gate.shut();
    PullBlocks pull = pull_from(owner);
    std::vector<std::uint32_t> all(pages);
    std::iota(all.begin(), all.end(), 0);
    pull.blocks.push_back(block_of(owner.arena, all, all));
    std::string outcome;
    std::thread thread([&] { outcome = said(reader.transport->pull(pull)); });
    CHECK(owner.gate.await_arrived(1));
    reader.transport.reset();
    thread.join();
    CHECK(outcome == "transport_stopped");
    owner.gate.open();
  }
  TestNode<World> last(world, 3, 300, page_bytes, pages);
  last.meet(owner);
  PullBlocks pull = pull_from(owner);
  pull.blocks.push_back(block_of(owner.arena, {5}, {6}));
  CHECK(said(last.transport->pull(pull)) == "ok 1");
}

TEST_CASE_TEMPLATE("transport: a silent peer delays neither other pulls nor its own pulls' deadlines", World,
                   UcxWorld, SealedWorld, LinkWorld, TlsWorld) {
  World world;
  TestNode<World> silent(world, 1, 100), well(world, 2, 200), reader(world, 3, 300);
  reader.meet(silent);
  reader.meet(well);
  silent.gate.shut();
  PullBlocks in_vain = pull_from(silent, hasty_us), pull = pull_from(well);
  in_vain.blocks.push_back(block_of(silent.arena, {1}, {1}));
  pull.blocks.push_back(block_of(well.arena, {2}, {2}));
  std::array<std::string, 2> outcomes;
  std::thread first([&] { outcomes[0] = said(reader.transport->pull(in_vain)); });
  std::thread second([&] { outcomes[1] = said(reader.transport->pull(in_vain)); });
  for (int round = 0; round < 20; ++round) CHECK(said(reader.transport->pull(pull)) == "ok 1");
  first.join();
  second.join();
  // The second pull to end may find that the first has closed the connection.
  for (const std::string& outcome : outcomes)
    CHECK((outcome == "transfer_timeout" || outcome == "peer_lost"));
  silent.gate.open();
}

}  // namespace
