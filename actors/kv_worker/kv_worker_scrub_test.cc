#include "actors/testing/kv_worker_test.h"

namespace troupe::actors {
namespace {

using namespace kv_worker_test;

// Scrubs its seven pages in 700 us, a page at a time.
struct ScrubBench : Bench {
  static KvWorkerConfig scrubbing() {
    KvWorkerConfig config = small();
    config.scrub = {.interval = {700}, .cost = 0.5};
    return config;
  }
  explicit ScrubBench(KvWorkerConfig config = scrubbing()) : Bench(std::move(config)) { probe.start(); }

  // Runs the due checks until `until_us`, and fails the check of generation `bad`. Returns the
  // generations in order.
  std::vector<std::uint64_t> scrub(std::int64_t until_us, std::uint64_t bad = 0, std::int64_t took_us = 0) {
    std::vector<std::uint64_t> checked;
    for (; now <= until_us; ++now) {
      probe.run_until(now);
      rounds_s += probe.counted(Metric::scrub_round_seconds);
      for (const auto& [job, work] : probe.started<CheckBlocks>()) {
        BlockCheckResult result{{}, took_us};
        for (const auto& one : work.blocks) {
          checked.push_back(one.generation);
          result.ok.push_back(one.generation != bad);
        }
        probe.done(now, job, result);
        corrupt += probe.counted(Metric::blocks_corrupt);
      }
    }
    return checked;
  }
  std::uint64_t generation(std::uint8_t n) { return core.pool().find(name(n))->generation; }

  std::int64_t now = 1;
  double corrupt = 0, rounds_s = 0;
};

using Generations = std::vector<std::uint64_t>;

TEST_CASE("scrub: every ready block is checked once per interval, in order, read or not") {
  ScrubBench b;
  for (std::uint8_t n = 1; n <= 3; ++n) b.write(0, item(n));
  b.write(0, user(4));
  b.acquire(0, {item(2)});  // being read
  b.acquire(0, {item(5)});  // not written yet
  const Generations all{b.generation(1), b.generation(2), b.generation(3), b.generation(4)};
  CHECK(b.scrub(900) == Generations{all[0], all[1], all[2], all[3], all[0], all[1], all[2], all[3]});
}

TEST_CASE("scrub: the length of a round is reported in seconds") {
  ScrubBench b;
  for (std::uint8_t n = 1; n <= 3; ++n) b.write(0, item(n));
  b.scrub(600);
  CHECK(b.rounds_s > 200e-6);
  CHECK(b.rounds_s < 600e-6);
}

TEST_CASE("scrub: a block with wrong bytes is removed and reported") {
  ScrubBench b;
  b.write(0, item(1)), b.write(0, item(2));
  const auto reading = b.acquire(0, {item(1)});
  b.scrub(200, b.generation(1));
  CHECK(b.corrupt == 1);
  CHECK(b.core.pool().find(name(1)) == nullptr);
  CHECK(b.core.pool().find(name(2)) != nullptr);
  CHECK(b.acquire(201, {item(1)}).at(0).grant == Grant::write);
  b.release(202, 1 + 2, 1, reading.at(0), Outcome::done);
}

TEST_CASE("scrub: a slow piece is followed by a pause that keeps the cost bound") {
  ScrubBench b;
  for (std::uint8_t n = 1; n <= 3; ++n) b.write(0, item(n));
  CHECK(b.scrub(1'000, 0, 400).size() == 3);
}

TEST_CASE("scrub: a block that a remote reader reported is checked at once, and stays if it is right") {
  ScrubBench b;
  for (std::uint8_t n = 1; n <= 3; ++n) b.write(0, item(n));
  const std::uint64_t third = b.generation(3);
  b.probe.receive(0, far, AcquireBlocks{1, 0, {item(3)}, {}, false, true});
  b.probe.receive(0, far, ReleaseBlocks{1, {{name(3), third, Outcome::corrupt}}});
  CHECK(b.scrub(100).at(0) == third);
  CHECK(b.core.pool().find(name(3)) != nullptr);
}

TEST_CASE("scrub: a block forgotten during its check frees its pages afterwards") {
  ScrubBench b;
  b.write(0, item(1));
  b.probe.run_until(100);
  const auto checks = b.probe.started<CheckBlocks>();
  REQUIRE(checks.size() == 1);
  b.forget(101, {SegmentKind::item, "item 1", 1});
  CHECK(b.core.pool().free_pages() == 6);
  b.probe.done(102, checks[0].first, BlockCheckResult{{0}});
  CHECK(b.probe.counted(Metric::blocks_corrupt) == 0);
  CHECK(b.core.pool().free_pages() == 7);
}

// ---- checks by readers ----

bool is_checked(Bench& b, std::int64_t us, const BlockWant& want, Outcome outcome = Outcome::done) {
  const BlockGrant grant = b.acquire(us, {want}).at(0);
  REQUIRE(grant.grant == Grant::read);
  b.probe.receive(us, worker, ReleaseBlocks{b.last, {{want.name, grant.generation, outcome}}});
  return grant.check;
}

TEST_CASE(
    "read checks: a computed block is checked until once found right; a release without outcome does not "
    "count") {
  Bench b;
  b.write(0, item(1));
  const auto grants = b.acquire(1, {item(1)});
  CHECK(grants.at(0).check);
  b.probe.receive(1, worker, ReleaseBlocks{b.last, {}});
  CHECK(is_checked(b, 2, item(1)));
  CHECK_FALSE(is_checked(b, 3, item(1)));
  b.write(4, user(2));
  CHECK(is_checked(b, 5, user(2), Outcome::corrupt));
  CHECK(b.core.pool().find(name(2)) == nullptr);
}

TEST_CASE("read checks: a pulled block was checked on arrival") {
  Bench b;
  CHECK(b.acquire(0, {at(2, item(1))}).empty());
  const RequestId question = b.probe.sent<AcquireBlocks>().at(0).id;
  b.probe.receive(1, far, BlocksAcquired{question, 5, 1'000, {{Grant::read, 9, 77, {3}}}});
  b.probe.done(2, b.probe.started<PullBlocks>().at(0).first, PullResult{{1}});
  CHECK_FALSE(b.granted().at(0).check);
}

TEST_CASE("read checks: a fraction of all reads is checked again") {
  for (const double share : {0.0, 0.25, 1.0}) {
    KvWorkerConfig config = Bench::small();
    config.check_reads = share;
    Bench b(config);
    b.write(0, item(1));
    is_checked(b, 1, item(1));
    int checked = 0;
    for (int i = 0; i < 1'000; ++i) checked += is_checked(b, 2 + i, item(1));
    CHECK(checked >= 1'000 * share * 0.8);
    CHECK(checked <= 1'000 * share * 1.2);
  }
}

// ---- reports about areas ----

TEST_CASE("area report: hits and misses of serving requests are counted per area") {
  Bench b;
  b.write(0, item(1)), b.write(0, user(2));
  b.acquire(1, {item(1), item(3), user(2)});
  b.acquire(2, {item(4)}, {}, false);  // background: no request waits for it
  PoolReport report = b.core.report();
  for (AreaReport& area : report.areas) area.savings.clear();
  CHECK(report.areas.at(0) == AreaReport{4, 3, 1, 2});
  CHECK(report.areas.at(1) == AreaReport{3, 1, 1, 1});
}

// ---- copies ----

// Items 1 and 2 are pulled from node 2 into the full area, so they are copies.
struct CopyBench : Bench {
  CopyBench() {
    for (std::uint8_t n = 11; n <= 14; ++n) write(0, item(n));
    for (std::uint8_t n = 1; n <= 2; ++n) {
      acquire(1, {at(2, item(n))});
      const RequestId question = probe.sent<AcquireBlocks>().at(0).id;
      probe.receive(1, far, BlocksAcquired{question, 5, 1'000, {{Grant::read, 9, 77, {3}}}});
      probe.done(1, probe.started<PullBlocks>().at(0).first, PullResult{{1}});
      probe.receive(1, worker, ReleaseBlocks{last, {}});
      if (n == 1) write(1, item(15));  // evicts item 1, which is a copy
    }
  }
  bool is_copy(std::uint8_t n) const { return core.pool().find(name(n))->is_copy(); }
};

TEST_CASE("copies: a copy that is wanted as belonging here becomes the node's own block") {
  CopyBench b;
  CHECK(b.core.pool().find(name(1)) == nullptr);
  REQUIRE(b.is_copy(2));
  b.acquire(2, {item(2)});
  CHECK(b.is_copy(2));
  AcquireBlocks ask{++b.last, 100, {item(2)}};
  ask.retention.belongs = true;
  b.probe.receive(3, worker, ask);
  CHECK_FALSE(b.is_copy(2));
}

TEST_CASE("copies: a copy of a lost node's block becomes the node's own block") {
  CopyBench b;
  b.probe.lose(2, 3);
  CHECK(b.is_copy(2));
  b.probe.lose(3, 2);
  CHECK_FALSE(b.is_copy(2));
}

TEST_CASE("kv worker index: cache-metas are told of a user block that found no pages") {
  Bench b;
  b.acquire(0, {user(1, 12)});  // pinned: the whole area
  b.acquire(1, {user(2), item(3)});
  CHECK(b.sent_changes().refused == std::vector<BlockName>{name(2)});
  b.acquire(2, {item(4)});
  CHECK(b.sent_changes().refused.empty());
}

}  // namespace
}  // namespace troupe::actors
