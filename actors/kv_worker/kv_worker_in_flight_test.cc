#include "actors/testing/kv_worker_test.h"

namespace troupe::actors {
namespace kv_worker_in_flight_test {

using namespace kv_worker_test;

// Acquires with `early`, and pulls in three parts from node 2, whose worker is played by hand.
struct InFlightBench : Bench {
  InFlightBench() : Bench(in_parts()) {}
  static KvWorkerConfig in_parts() {
    KvWorkerConfig config = small();
    config.pull_parts = 3;
    return config;
  }

  RequestId ask(std::int64_t us, std::vector<BlockWant> wants) {
    AcquireBlocks asks{++last, 100, std::move(wants)};
    asks.early = true;
    probe.receive(us, worker, asks);
    return last;
  }
  // Grants the owner's pages for the latest request, so that the copy runs.
  std::uint64_t copy(std::int64_t us, std::vector<std::uint32_t> pages) {
    const AcquireBlocks question = probe.sent<AcquireBlocks>().at(0);
    std::vector<BlockGrant> grants;
    for (const std::uint32_t page : pages) grants.push_back({Grant::read, 500U + page, 40U + page, {page}});
    probe.receive(us, far, BlocksAcquired{question.id, 300, 900, std::move(grants)});
    return probe.started<PullBlocks>().at(0).first;
  }
  std::vector<BlocksAcquired> answers() const { return probe.sent<BlocksAcquired>(); }
  std::uint32_t used() const { return core.pool().used(PoolArea::item); }
};

TEST_SUITE("kv_worker_in_flight") {
  TEST_CASE("in-flight reads: a request is told of blocks in flight, and again when they have arrived") {
    InFlightBench b;
    b.write(0, item(1));
    b.ask(1, {item(1), at(2, item(2))});
    CHECK(b.answers().empty());
    const std::uint64_t job = b.copy(10, {9});
    const PullBlocks work = b.probe.started<PullBlocks>().at(0).second;
    CHECK(work.parts == 3);
    REQUIRE(b.answers().size() == 1);
    const std::vector<BlockGrant> early = b.answers()[0].grants;
    CHECK_FALSE(early.at(0).in_flight);
    CHECK(early.at(1) == BlockGrant{Grant::read, work.blocks[0].here, 49, work.blocks[0].to, false, true});
    b.probe.done(20, job, PullResult{{1}});
    REQUIRE(b.answers().size() == 1);
    const BlockGrant last = b.answers()[0].grants.at(1);
    CHECK(last == BlockGrant{Grant::read, early[1].generation, 49, early[1].pages, false, false, true});
    CHECK(b.answers()[0].pull_us == 19);
    b.probe.receive(30, worker, ReleaseBlocks{b.last, {}});
    CHECK(b.core.pool().find(name(2))->pins == 0);
  }

  TEST_CASE("in-flight reads: a request without `early` is told once, and its pages come whole") {
    InFlightBench b;
    b.acquire(0, {at(2, item(1))});
    b.copy(10, {9});
    CHECK(b.probe.started<PullBlocks>().at(0).second.parts == 1);
    CHECK(b.answers().empty());
  }

  TEST_CASE("in-flight reads: nothing is announced while another block is missing that is not in flight") {
    InFlightBench b;
    b.acquire(0, {item(5)});  // computes it
    b.ask(1, {item(5), at(2, item(1))});
    b.copy(10, {9});
    CHECK(b.answers().empty());
  }

  TEST_CASE("in-flight reads: a request that arrives during the copy is told at once") {
    InFlightBench b;
    b.ask(0, {at(2, item(1))});
    const std::uint64_t job = b.copy(10, {9});
    b.ask(20, {item(1)});
    REQUIRE(b.answers().size() == 1);
    CHECK(b.answers()[0].grants.at(0).in_flight);
    b.probe.done(30, job, PullResult{{1}});
    CHECK(b.answers().size() == 2);
    CHECK(b.core.pool().find(name(1))->pins == 2);
  }

  TEST_CASE(
      "in-flight reads: pages of a failed copy stay with their readers while the block is made elsewhere") {
    InFlightBench b;
    const RequestId first = b.ask(0, {at(2, item(1))});
    const std::uint64_t job = b.copy(10, {9});
    const RequestId second = b.ask(11, {item(1)});
    b.probe.done(20, job, PullResult{{0}});
    REQUIRE(b.answers().size() == 1);  // the first request writes it now, into other pages
    CHECK(b.answers()[0].id == first);
    CHECK(b.answers()[0].grants.at(0).grant == Grant::write);
    CHECK(b.used() == 2);
    CHECK(b.core.check_bounds() == "");
    b.probe.run_until(150);  // wait deadline of the second request
    REQUIRE(b.answers().size() == 1);
    CHECK(b.answers()[0].grants.at(0).grant == Grant::none);
    b.probe.receive(160, worker, ReleaseBlocks{first, {}});
    CHECK(b.used() == 1);
    b.probe.receive(170, worker, ReleaseBlocks{second, {}});
    CHECK(b.used() == 0);
  }

  TEST_CASE("in-flight reads: after an early release the block stays cached when its copy ends") {
    InFlightBench b;
    const RequestId id = b.ask(0, {at(2, item(1))});
    const std::uint64_t job = b.copy(10, {9});
    b.probe.receive(15, worker, ReleaseBlocks{id, {}});
    b.probe.done(20, job, PullResult{{1}});
    CHECK(b.answers().empty());
    CHECK(b.core.pool().find(name(1))->state == BlockState::ready);
    CHECK(b.acquire(30, {item(1)}).at(0).grant == Grant::read);
  }

  TEST_CASE("in-flight reads: a reader of a failed copy returns the pages once, before or after its end") {
    for (const bool before : {true, false}) {
      InFlightBench b;
      const RequestId id = b.ask(0, {at(2, item(1))});
      const std::uint64_t job = b.copy(10, {9});
      const auto let_go = [&](std::int64_t us) { b.probe.receive(us, worker, ReleaseBlocks{id, {}}); };
      if (before) let_go(15);
      b.probe.done(20, job, PullResult{{0}});
      for (const std::int64_t us : {25, 26}) let_go(us);
      CHECK(b.used() == 0);
      CHECK(b.core.pool().check_invariants() == "");  // no page is free twice
    }
  }

  TEST_CASE("in-flight reads: the wait deadline does not apply while a block is in flight") {
    InFlightBench b;
    b.ask(0, {at(2, item(1))});
    const std::uint64_t job = b.copy(10, {9});
    b.probe.run_until(500);
    CHECK(b.answers().empty());
    b.probe.done(500, job, PullResult{{1}});
    REQUIRE(b.answers().size() == 1);
    CHECK(b.answers()[0].grants.at(0).grant == Grant::read);
  }

  TEST_CASE("in-flight reads: a block forgotten in flight keeps its pages for its readers") {
    InFlightBench b;
    const RequestId id = b.ask(0, {at(2, item(1))});
    const std::uint64_t job = b.copy(10, {9});
    b.forget(15, {SegmentKind::item, "item 1", 3});
    const auto answers = b.answers();  // the request wants this very content, and computes it
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].grants.at(0).grant == Grant::write);
    b.probe.done(20, job, PullResult{{1}});
    CHECK(b.used() == 2);
    b.probe.receive(30, worker, ReleaseBlocks{id, {}});
    CHECK(b.used() == 0);
  }
}

}  // namespace kv_worker_in_flight_test
}  // namespace troupe::actors
