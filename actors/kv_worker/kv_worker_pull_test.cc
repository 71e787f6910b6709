#include "actors/testing/kv_worker_test.h"

namespace troupe::actors {
namespace {

using namespace kv_worker_test;

// Bench with a worker that pulls from node 2, whose worker is played by hand.
struct PullBench : Bench {
  using Bench::Bench;
  AcquireBlocks asked;  // by the latest `want`

  // The request's wait deadline is 100 us; the owner has half of that.
  void want(std::int64_t us, std::vector<BlockWant> wants) {
    CHECK(acquire(us, std::move(wants)).empty());
    REQUIRE(probe.sent<AcquireBlocks>().size() == 1);
    asked = probe.sent<AcquireBlocks>()[0];
  }
  static BlockGrant pinned(std::uint32_t page) { return {Grant::read, 500U + page, 40U + page, {page}}; }
  // Returns the job.
  std::uint64_t grant(std::int64_t us, std::vector<BlockGrant> grants) {
    probe.receive(us, far, BlocksAcquired{asked.id, 300, 1'000, std::move(grants)});
    const auto jobs = probe.started<PullBlocks>();
    return jobs.empty() ? 0 : jobs[0].first;
  }
};

TEST_CASE("pull: a block of another node is pinned there, copied, and released there") {
  PullBench b;
  b.want(0, {at(2, item(1))});
  CHECK(b.asked == AcquireBlocks{b.asked.id, 50, {item(1)}, {}, false, true});
  CHECK(b.probe.recipients().at(0) == far);
  const std::uint64_t job = b.grant(10, {b.pinned(9)});
  const PullBlocks work = b.probe.started<PullBlocks>().at(0).second;
  CHECK(work.node == 2);
  CHECK(work.incarnation == 300);
  CHECK(work.budget_us == 990);
  REQUIRE(work.blocks.size() == 1);
  CHECK(work.blocks[0].from == std::vector<std::uint32_t>{9});
  CHECK(work.blocks[0].to == b.core.pool().find(name(1))->pages);
  b.probe.done(20, job, PullResult{{1}});
  REQUIRE(b.granted().size() == 1);
  CHECK(b.granted()[0].grant == Grant::read);
  CHECK(b.granted()[0].checksum == 49);
  CHECK(b.sent_changes().added.size() == 1);
  CHECK(b.probe.sent<ReleaseBlocks>() ==
        std::vector<ReleaseBlocks>{{b.asked.id, {{name(1), 509, Outcome::done}}}});
  CHECK(b.acquire(30, {item(1)}).at(0).grant == Grant::read);
}

TEST_CASE("pull: a block pulled into a full area is evicted first and displaces no local block") {
  PullBench b;
  for (std::uint8_t n = 1; n <= 4; ++n) b.write(0, item(n));
  for (std::uint8_t n = 5; n <= 7; ++n) {
    b.want(10 * n, {at(2, item(n))});
    const std::uint64_t job = b.grant(10 * n, {b.pinned(9)});
    b.probe.done(10 * n, job, PullResult{{1}});
    CHECK(b.probe.counted(Metric::item_bytes_moved) == 0);  // a user's request asked for it
    REQUIRE(b.granted().size() == 1);
    b.probe.receive(10 * n, worker, ReleaseBlocks{b.last, {}});
  }
  for (std::uint8_t n = 1; n <= 7; ++n)
    CHECK((b.core.pool().find(name(n)) != nullptr) == (n > 1 && (n < 5 || n == 7)));
}

TEST_CASE("pull: a block that belongs here stays when pulled into a full area, and the oldest is evicted") {
  PullBench b;
  for (std::uint8_t n = 1; n <= 4; ++n) b.write(0, item(n));
  AcquireBlocks ask{++b.last, 100, {at(2, item(5))}};
  ask.retention.belongs = true;
  b.probe.receive(1, worker, ask);
  b.asked = b.probe.sent<AcquireBlocks>().at(0);
  b.probe.done(2, b.grant(2, {b.pinned(9)}), PullResult{{1}});
  CHECK(b.probe.counted(Metric::item_bytes_moved) == 4 * 10);
  b.probe.receive(3, worker, ReleaseBlocks{b.last, {}});
  b.write(4, item(6));
  for (std::uint8_t n = 1; n <= 6; ++n) CHECK((b.core.pool().find(name(n)) != nullptr) == (n > 2));
}

TEST_CASE("pull: with keep_hotter a pulled block is a copy, evicted before blocks that only this node has") {
  PullBench b;
  const auto ask_for = [&](const BlockWant& block) {
    AcquireBlocks ask{++b.last, 100, {block}};
    ask.retention.keep_hotter = true;
    ask.retention.copy_worth = 0.1;
    b.probe.receive(1, worker, ask);
  };
  const auto write = [&](const BlockWant& block) {
    ask_for(block);
    const BlockGrant grant = b.granted().at(0);
    REQUIRE(grant.grant == Grant::write);
    b.probe.receive(1, worker, ReleaseBlocks{b.last, {{block.name, grant.generation, Outcome::written, 77}}});
  };
  for (std::uint8_t n = 1; n <= 5; ++n) write(item(n));
  for (const BlockWant& block : {item(6), user(7)}) {  // the last free pages
    ask_for(at(2, block));
    b.asked = b.probe.sent<AcquireBlocks>().at(0);
    b.probe.done(2, b.grant(2, {b.pinned(9)}), PullResult{{1}});
    b.probe.receive(3, worker, ReleaseBlocks{b.last, {}});
  }
  write(user(8));
  CHECK(b.core.pool().find(name(7)) == nullptr);
  write(item(9));  // wanted as often as the others, but a copy is worth a tenth
  CHECK(b.core.pool().find(name(6)) == nullptr);
  for (std::uint8_t n = 1; n <= 5; ++n) CHECK(b.core.pool().find(name(n)) != nullptr);
}

TEST_CASE("pull: reads of other nodes count as uses") {
  PullBench b;
  const auto want = [&](std::uint8_t n) {
    AcquireBlocks ask{++b.last, 100, {item(n)}};
    ask.retention.keep_hotter = true;
    b.probe.receive(1, worker, ask);
    const BlockGrant grant = b.granted().at(0);
    if (grant.grant == Grant::write)
      b.probe.receive(1, worker, ReleaseBlocks{b.last, {{name(n), grant.generation, Outcome::written, 77}}});
    return grant.grant;
  };
  AcquireBlocks once{++b.last, 100, {item(8)}};  // wanted, and not kept
  once.retention.keep_hotter = true;
  b.probe.receive(1, worker, once);
  b.probe.receive(1, worker,
                  ReleaseBlocks{b.last, {{name(8), b.granted().at(0).generation, Outcome::abandoned}}});
  for (std::uint8_t n = 1; n <= 7; ++n) CHECK(want(n) == Grant::write);
  AcquireBlocks read{99, 100, {item(1)}};
  read.may_evict = false;
  read.read_only = true;
  b.probe.receive(2, far, read);
  b.probe.receive(2, far, ReleaseBlocks{99, {}});
  for (std::uint8_t n = 2; n <= 7; ++n) {
    AcquireBlocks again{++b.last, 100, {item(n)}};
    again.retention.keep_hotter = true;
    b.probe.receive(3, worker, again);
    b.probe.receive(3, worker, ReleaseBlocks{b.last, {}});
  }
  CHECK(want(8) == Grant::none);  // wanted twice, as block 1 was, which is the least recently used
}

TEST_CASE("pull: an answer tells how long its request waited for pulls") {
  PullBench b;
  b.want(0, {at(2, item(1))});
  CHECK(b.acquire(15, {at(2, item(1)), at(2, item(1))}).empty());
  const std::uint64_t job = b.grant(20, {b.pinned(9)});
  b.probe.done(60, job, PullResult{{1}});
  const auto answers = b.probe.sent<BlocksAcquired>();
  REQUIRE(answers.size() == 2);
  CHECK(answers[0].pull_us == 60);
  CHECK(answers[1].pull_us == 45);
  b.acquire(70, {item(1)});
  CHECK(b.probe.sent<BlocksAcquired>().at(0).pull_us == 0);  // already here
  b.want(80, {at(2, item(2))});
  b.probe.done(95, b.grant(90, {b.pinned(9)}), PullResult{{0}});
  CHECK(b.probe.sent<BlocksAcquired>().at(0).pull_us == 0);  // the pull failed
}

TEST_CASE("pull: a request's wants are asked for together, per node; wants without a node are not") {
  PullBench b;
  CHECK(b.acquire(0, {at(2, item(1)), at(3, item(2)), at(2, item(3)), at(1, user(4)), user(5)}).empty());
  const auto asks = b.probe.sent<AcquireBlocks>();
  REQUIRE(asks.size() == 2);
  CHECK(asks[0].wants == std::vector<BlockWant>{item(1), item(3)});
  CHECK(asks[1].wants == std::vector<BlockWant>{item(2)});
}

TEST_CASE("pull: without a pull port every block is computed") {
  KvWorkerConfig config = Bench::small();
  config.pulls = false;
  Bench b(config);
  CHECK(b.acquire(0, {at(2, item(1))}).at(0).grant == Grant::write);
}

TEST_CASE("pull: a silent owner has half the wait time, then the first waiter computes") {
  PullBench b;
  b.want(0, {at(2, item(1))});
  CHECK(b.acquire(1, {at(2, item(1))}).empty());
  b.probe.run_until(49);
  CHECK(b.granted().empty());
  b.probe.run_until(50);
  REQUIRE(b.probe.sent<BlocksAcquired>().size() == 1);
  CHECK(b.granted()[0].grant == Grant::write);
  CHECK(b.probe.sent<ReleaseBlocks>().size() == 1);
  CHECK(b.grant(60, {b.pinned(9)}) == 0);  // too late: the owner gets its pins back
  CHECK(b.probe.sent<ReleaseBlocks>() == std::vector<ReleaseBlocks>{{b.asked.id, {}}});
  CHECK(b.probe.recipients() == std::vector<Address>{far});
}

TEST_CASE("pull: a lost owner is not waited for, but a running copy may end") {
  PullBench b;
  b.want(0, {at(2, item(1))});
  b.probe.lose(10, 2);
  CHECK(b.granted().at(0).grant == Grant::write);
  b.want(20, {at(2, item(2))});
  const std::uint64_t job = b.grant(30, {b.pinned(9)});
  b.probe.lose(40, 2);
  CHECK(b.granted().empty());
  b.probe.done(50, job, PullResult{{1}});
  CHECK(b.granted().at(0).grant == Grant::read);
}

TEST_CASE("pull: blocks that the owner lacks or has in another form are computed, the others pulled") {
  PullBench b;
  b.want(0, {at(2, item(1)), at(2, item(2)), at(2, item(3))});
  BlockGrant other_size = b.pinned(9);
  other_size.pages = {9, 10};
  const std::uint64_t job = b.grant(10, {{}, other_size, b.pinned(11)});
  CHECK(b.probe.started<PullBlocks>().at(0).second.blocks.size() == 1);
  b.probe.done(20, job, PullResult{{1}});
  REQUIRE(b.granted().size() == 3);
  CHECK(b.granted()[0].grant == Grant::write);
  CHECK(b.granted()[1].grant == Grant::write);
  CHECK(b.granted()[2].grant == Grant::read);
}

TEST_CASE("pull: a malformed answer is released and nothing is pulled") {
  PullBench b;
  b.want(0, {at(2, item(1))});
  CHECK(b.grant(10, {b.pinned(9), b.pinned(10)}) == 0);
  CHECK(b.probe.counted(Metric::protocol_errors) == 1);
  CHECK(b.probe.sent<ReleaseBlocks>().size() == 1);
  CHECK(b.granted().at(0).grant == Grant::write);
}

TEST_CASE("pull: a block that arrives after the lease is not used") {
  PullBench b;
  b.want(0, {at(2, item(1))});
  const std::uint64_t job = b.grant(10, {b.pinned(9)});
  b.probe.run_until(100);
  CHECK(b.granted().at(0).grant == Grant::none);  // wait deadline of the request
  b.probe.done(1'000, job, PullResult{{1}});
  CHECK(b.core.pool().find(name(1)) == nullptr);
  CHECK(b.probe.counted(Metric::blocks_corrupt) == 0);
  CHECK(b.probe.sent<ReleaseBlocks>().size() == 1);
}

TEST_CASE("pull: a block that arrives just before the lease ends is kept, also if no request waits") {
  PullBench b;
  b.want(0, {at(2, item(1))});
  const std::uint64_t job = b.grant(10, {b.pinned(9)});
  b.probe.run_until(100);
  b.probe.done(999, job, PullResult{{1}});
  CHECK(b.acquire(1'000, {item(1)}).at(0).grant == Grant::read);
}

TEST_CASE("pull: an answer after its lease starts no copy") {
  KvWorkerConfig config = Bench::small();
  config.read_lease = {20};
  PullBench b(config);
  b.want(0, {at(2, item(1))});
  CHECK(b.grant(20, {b.pinned(9)}) == 0);
  CHECK(b.granted().at(0).grant == Grant::write);
}

TEST_CASE("pull: pages of a restarted owner are not copied, and wrong bytes are not used") {
  PullBench b;
  b.want(0, {at(2, item(1))});
  b.probe.done(20, b.grant(10, {b.pinned(9)}),
               Refusal{RefusalKind::unavailable, "stale", "another incarnation", "port", "300"});
  CHECK(b.granted().at(0).grant == Grant::write);
  CHECK(b.probe.counted(Metric::blocks_corrupt) == 0);
  b.want(30, {at(2, item(2))});
  b.probe.done(50, b.grant(40, {b.pinned(9)}), PullResult{{0}});
  CHECK(b.granted().at(0).grant == Grant::write);
  CHECK(b.probe.counted(Metric::blocks_corrupt) == 1);
  CHECK(b.probe.sent<ReleaseBlocks>().at(0).outcomes.at(0).outcome == Outcome::corrupt);
}

TEST_CASE("pull: nothing is copied for a released request, nor a block forgotten meanwhile") {
  PullBench b;
  b.want(0, {at(2, item(1))});
  b.probe.receive(5, worker, ReleaseBlocks{b.last, {}});
  CHECK(b.grant(10, {b.pinned(9)}) == 0);
  CHECK(b.probe.sent<ReleaseBlocks>().size() == 1);
  b.want(20, {at(2, item(1)), at(2, item(2))});
  b.forget(30, Forget{SegmentKind::item, "item 1", 1});
  b.grant(40, {b.pinned(9), b.pinned(10)});
  REQUIRE(b.probe.started<PullBlocks>().size() == 1);
  CHECK(b.probe.started<PullBlocks>()[0].second.blocks.size() == 1);
}

TEST_CASE("pull: jobs are bounded, and the next pull starts when one ends or is given up") {
  KvWorkerConfig config = Bench::small();
  config.pulling.running_max = 1;
  config.pulling.pulls_max = 3;
  PullBench b(config);
  b.want(0, {at(2, item(1))});
  const std::uint64_t first = b.grant(1, {b.pinned(9)});
  b.want(2, {at(2, item(2))});
  CHECK(b.grant(3, {b.pinned(10)}) == 0);
  b.want(4, {at(2, item(3))});
  CHECK(b.grant(5, {b.pinned(11)}) == 0);
  CHECK(b.acquire(6, {at(2, item(4))}).at(0).grant == Grant::write);  // one pull too many
  b.probe.run_until(52);
  CHECK(b.granted().at(0).grant == Grant::write);  // the second waited for a job until its deadline
  b.probe.done(53, first, PullResult{{1}});
  CHECK(b.probe.started<PullBlocks>().size() == 1);
}

TEST_CASE("pull: pulls per owner are bounded, and other owners' pulls overtake those that wait") {
  PullBench b;
  for (std::uint8_t n : {1, 2, 3}) {
    b.want(n, {at(2, item(n))});
    CHECK((b.grant(n, {b.pinned(n)}) != 0) == (n < 3));
  }
  b.want(4, {at(3, item(4))});
  b.probe.receive(5, {3, Role::kv_worker}, BlocksAcquired{b.asked.id, 300, 1'000, {b.pinned(4)}});
  REQUIRE(b.probe.started<PullBlocks>().size() == 1);
  CHECK(b.probe.started<PullBlocks>()[0].second.node == 3);
}

// ---- owners that fail or are slow: no pulls from them for 10 us ----

void check_back_off(PullBench& b, std::int64_t from_us) {
  CHECK(b.acquire(from_us + 9, {at(2, item(2))}).at(0).grant == Grant::write);
  b.want(from_us + 9, {at(3, item(3))});
  b.want(from_us + 10, {at(2, item(4))});
}

TEST_CASE("pull: a node that failed or was slow is in back-off for a while") {
  SUBCASE("it does not answer") {
    PullBench b;
    b.want(0, {at(2, item(1))});
    b.probe.run_until(50);
    check_back_off(b, 50);
  }
  SUBCASE("it cannot be read") {
    PullBench b;
    b.want(0, {at(2, item(1))});
    b.probe.done(20, b.grant(10, {b.pinned(9)}),
                 Refusal{RefusalKind::unavailable, "reset", "reset", "port", ""});
    check_back_off(b, 20);
  }
  SUBCASE("no block arrives whole") {
    PullBench b;
    b.want(0, {at(2, item(1))});
    b.probe.done(20, b.grant(10, {b.pinned(9)}), PullResult{{0}});
    check_back_off(b, 20);
  }
  SUBCASE("its blocks arrive after the request's wait deadline") {
    PullBench b;
    b.want(0, {at(2, item(1))});
    b.probe.done(100, b.grant(10, {b.pinned(9)}), PullResult{{1}});
    check_back_off(b, 100);
  }
  SUBCASE("its answer arrives after its own lease") {
    KvWorkerConfig config = Bench::small();
    config.read_lease = {20};
    PullBench b(config);
    b.want(0, {at(2, item(1))});
    b.grant(20, {b.pinned(9)});
    check_back_off(b, 20);
  }
}

TEST_CASE("pull: a node that was in time, or whose pull waited for a job here, is not in back-off") {
  KvWorkerConfig config = Bench::small();
  config.pulling.running_max = 1;
  PullBench b(config);
  b.want(0, {at(2, item(1))});
  const std::uint64_t first = b.grant(10, {b.pinned(9)});
  b.want(11, {at(2, item(2))});
  b.grant(12, {b.pinned(10)});
  b.probe.run_until(61);  // the second is given up
  b.want(62, {at(2, item(3))});
  b.probe.done(99, first, PullResult{{1}});
  b.want(100, {at(2, item(4))});
}

TEST_CASE("pull: nodes in back-off are bounded, and the earliest of too many is tried again") {
  KvWorkerConfig config = Bench::small();
  config.pulling.pulls_max = 1;
  PullBench b(config);
  for (NodeId node : {2, 3}) {
    b.want(node, {at(node, item(1))});
    b.probe.lose(node, node);
    b.release(node, b.last, 1, b.granted().at(0), Outcome::abandoned);
  }
  CHECK(b.acquire(4, {at(3, item(3))}).at(0).grant == Grant::write);
  b.want(4, {at(2, item(2))});
}

TEST_CASE("pull: a request does not wait for a pull that has lasted longer than the request would wait") {
  PullBench b;
  b.want(0, {at(2, item(1))});
  const std::uint64_t job = b.grant(10, {b.pinned(9)});
  CHECK(b.acquire(100, {item(1)}).empty());
  CHECK(b.acquire(101, {item(1)}).at(0).grant == Grant::none);
  b.probe.done(150, job, PullResult{{1}});
  CHECK(b.granted().at(0).grant == Grant::read);
}

TEST_CASE("pull: a writer that takes over a pulled block is waited for as any other") {
  PullBench b;
  b.want(0, {at(2, item(1))});
  b.probe.lose(40, 2);
  CHECK(b.granted().at(0).grant == Grant::write);
  CHECK(b.acquire(140, {item(1)}).empty());
}

// ---- the owner's side ----

struct OwnerBench : Bench {
  using Bench::Bench;
  BlocksAcquired ask(std::int64_t us, RequestId id, std::vector<BlockWant> wants, NodeId node = 2) {
    AcquireBlocks ask{id, 50, std::move(wants)};
    ask.read_only = true;
    probe.receive(us, {node, Role::kv_worker}, ask);
    const auto answers = probe.sent<BlocksAcquired>();
    return answers.empty() ? BlocksAcquired{} : answers[0];
  }
};

TEST_CASE("pull owner: another node reads ready blocks only, and is answered at once") {
  OwnerBench b;
  b.write(0, item(1));
  b.acquire(1, {item(2)});
  const BlocksAcquired answer = b.ask(2, 1, {item(1), item(2), item(3), item(1, 8)});
  CHECK(answer.incarnation == 1);
  CHECK(answer.lease_us == 1'000);
  REQUIRE(answer.grants.size() == 4);
  CHECK(answer.grants[0].grant == Grant::read);
  CHECK(answer.grants[0].checksum == 77);
  for (std::size_t i : {1, 2, 3}) CHECK(answer.grants[i].grant == Grant::none);
  CHECK(b.core.remote_reads() == 1);
  CHECK(b.ask(3, 1, {item(1), item(2), item(3), item(1, 8)}) == answer);  // duplicate
  CHECK(b.core.pool().find(name(1))->pins == 1);
  CHECK(b.ask(4, 2, {item(3)}).grants.at(0).grant == Grant::none);
  CHECK(b.core.remote_reads() == 1);
}

TEST_CASE(
    "pull owner: pins of another node end with its release or a tenth after its lease, not with its loss") {
  OwnerBench b;
  b.write(0, user(1, 12));
  const auto grants = b.ask(0, 1, {user(1, 12)}).grants;
  b.ask(0, 2, {user(1, 12)});
  b.probe.receive(1, far, ReleaseBlocks{1, {{name(1), grants.at(0).generation, Outcome::done}}});
  CHECK(b.core.remote_reads() == 1);
  b.probe.lose(2, 2);
  b.probe.run_until(1'099);
  CHECK(b.acquire(1'099, {user(2)}).at(0).grant == Grant::none);
  b.probe.run_until(1'100);
  CHECK(b.core.remote_reads() == 0);
  CHECK(b.acquire(1'100, {user(2)}).at(0).grant == Grant::write);
}

TEST_CASE("pull owner: a block that arrived damaged elsewhere stays here and is counted") {
  OwnerBench b;
  b.write(0, item(1));
  const auto grants = b.ask(1, 1, {item(1)}).grants;
  b.probe.receive(2, far, ReleaseBlocks{1, {{name(1), grants.at(0).generation, Outcome::corrupt}}});
  CHECK(b.probe.counted(Metric::blocks_corrupt) == 1);
  CHECK(b.acquire(3, {item(1)}).at(0).grant == Grant::read);
}

TEST_CASE("pull owner: reads of other nodes are bounded, and this node can still read") {
  KvWorkerConfig config = Bench::small();
  config.remote_reads_max = 1;
  OwnerBench b(config);
  b.write(0, item(1));
  CHECK(b.ask(1, 1, {item(1)}).grants.at(0).grant == Grant::read);
  CHECK(b.ask(2, 2, {item(1)}).grants.at(0).grant == Grant::none);
  CHECK(b.acquire(3, {item(1)}).at(0).grant == Grant::read);
}

}  // namespace
}  // namespace troupe::actors
