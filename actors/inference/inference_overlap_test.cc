#include <doctest/doctest.h>

#include "actors/testing/inference_bench.h"

namespace troupe::actors {
namespace inference_overlap_test {

using namespace inference_test;

const BlockGrant in_flight{Grant::read, 4, 55, {9}, false, true}, there{Grant::read, 4, 55, {9}};

struct OverlapBench : Bench {
  OverlapBench() : Bench(overlapping()) {}
  static InferenceConfig overlapping() {
    InferenceConfig c = config(1);
    c.overlap = true;
    return c;
  }
  // Executes a plan of one block and a segment that sees it. Returns its request to the KV-cache
  // worker.
  AcquireBlocks ask(std::int64_t us, RequestId id) {
    execute(us, id, {block(1), segment(2)});
    return probe.sent<AcquireBlocks>().at(0);
  }
  void answer(std::int64_t us, RequestId id, const BlockGrant& grant) {
    probe.receive(us, kv, acquired(id, {grant}));
  }
  std::size_t jobs() const { return probe.started<RunBatch>().size(); }
};

TEST_SUITE("inference_overlap") {
  TEST_CASE("overlap: a plan begins while its block is in flight, with a time limit for the wait") {
    OverlapBench b;
    const AcquireBlocks asked = b.ask(0, 7);
    CHECK(asked.early);
    b.answer(30, asked.id, in_flight);
    const auto [job, batch] = b.job();
    CHECK(batch.requests.at(0)->kv.at(0).in_flight);
    CHECK(batch.requests[0]->kv[0].generation == 4);
    CHECK(batch.in_flight_us == 120);  // left of the 100 us to wait and 50 us of grace
    CHECK(b.probe.counted(Metric::overlap_begun) == 1);
    b.answer(40, asked.id, there);  // ignored: the running pass sees it by itself
    CHECK(b.jobs() == 0);
    BatchDone done{{reply(2)}, 20};
    done.in_flight_us = 500'000, done.waited_us = 200'000;
    b.probe.done(50, job, done);
    CHECK(b.probe.sent<Executed>().at(0).reused == std::vector<std::uint8_t>{1, 0});
    CHECK(b.probe.counted(Metric::overlap_spared) == doctest::Approx(0.3));
    CHECK(b.probe.sent<ReleaseBlocks>().size() == 1);
  }

  TEST_CASE("overlap: ready plans go first, and a plan whose blocks have arrived joins a batch") {
    OverlapBench b;
    b.plain(0, 1);
    const auto running = b.job();
    const AcquireBlocks asked = b.ask(1, 7);
    b.answer(2, asked.id, in_flight);
    b.plain(3, 2);
    b.answer(4, asked.id, there);
    b.run(5, running);
    const auto [job, batch] = b.job();
    CHECK(batch.requests.size() == 2);
    CHECK_FALSE(batch.requests.at(1)->kv.at(0).in_flight);
  }

  TEST_CASE("overlap: a plan with blocks in flight runs alone, after ready plans") {
    OverlapBench b;
    b.plain(0, 1);
    auto running = b.job();
    const AcquireBlocks asked = b.ask(1, 7);
    b.answer(2, asked.id, in_flight);
    b.plain(3, 2);
    b.run(5, running);
    running = b.job();
    CHECK(running.second.requests.size() == 1);
    CHECK(running.second.requests[0]->kv.size() == 1);
    b.run(6, running);
    CHECK(b.job().second.requests.at(0)->kv.at(0).in_flight);
  }

  TEST_CASE("overlap: a block that did not arrive is not reported as reused") {
    OverlapBench b;
    const AcquireBlocks asked = b.ask(0, 7);
    b.answer(30, asked.id, in_flight);
    BatchReply answer = reply(2);
    answer.missed = {0};
    b.probe.done(50, b.job().first, BatchDone{{answer}, 20});
    CHECK(b.probe.sent<Executed>().at(0).reused == std::vector<std::uint8_t>{0, 0});
    CHECK(b.probe.counted(Metric::overlap_missed) == 1);
    CHECK(b.probe.sent<ReleaseBlocks>().at(0).outcomes.empty());
  }

  TEST_CASE("overlap: a plan that has not begun by its wait deadline computes the missing blocks") {
    OverlapBench b;
    b.plain(0, 1);
    const auto running = b.job();
    const AcquireBlocks asked = b.ask(1, 7);
    b.answer(2, asked.id, in_flight);
    b.probe.run_until(152);
    b.answer(160, asked.id, there);  // too late: already decided
    b.run(170, running);
    CHECK(b.job().second.requests.at(0)->kv.at(0).grant == Grant::none);
    CHECK(b.job().second.in_flight_us == 0);
  }

  TEST_CASE("overlap: a plan whose batch failed is refused, because it was alone in it") {
    OverlapBench b;
    const AcquireBlocks asked = b.ask(0, 7);
    b.answer(30, asked.id, in_flight);
    const auto failed = b.job();
    b.answer(40, asked.id, there);
    b.probe.done(50, failed.first, Refusal{RefusalKind::unavailable, "device_failed"});
    CHECK(b.probe.sent<Refused>().size() == 1);
    CHECK(b.core.tasks() == 0);
    CHECK(b.core.check_bounds() == "");
  }

  TEST_CASE("overlap: a plan dropped while it waits releases everything") {
    OverlapBench b;
    b.plain(0, 1);
    const AcquireBlocks asked = b.ask(1, 7);
    b.answer(2, asked.id, in_flight);
    b.probe.lose(3, router.node);
    CHECK(b.probe.sent<ReleaseBlocks>().at(0).id == asked.id);
    CHECK(b.core.check_bounds() == "");
  }

  TEST_CASE("overlap: without overlap, and for background plans, `early` is not set") {
    Bench plain;
    plain.execute(0, 7, {block(1), segment(2)});
    CHECK_FALSE(plain.probe.sent<AcquireBlocks>().at(0).early);
    OverlapBench b;
    b.execute(0, 7, {block(1), segment(2)}, Priority::background);
    CHECK_FALSE(b.probe.sent<AcquireBlocks>().at(0).early);
  }
}

}  // namespace inference_overlap_test
}  // namespace troupe::actors
