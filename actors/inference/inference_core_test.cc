#include "actors/inference/inference_core.h"

#include <doctest/doctest.h>

#include "actors/testing/inference_bench.h"
#include "runtime/testing/accepted_senders.h"

namespace troupe::actors {
namespace {

using namespace inference_test;

TEST_CASE("inference worker: accepts messages from the expected senders and counts all else as errors") {
  const auto receive = [](Address from, const Message& message) {
    Bench b;
    b.probe.receive(1, from, message);
    return b.probe.effects;
  };
  CHECK(accepted_senders(1, receive) == R"(Execute: everybody
BlocksAcquired: kv_worker here
Versions: router here, router elsewhere
Drain: everybody
StatusRequest: everybody
LendPages: kv_worker here
Cancel: everybody
)");
}

TEST_CASE("inference worker: a plan without blocks runs at once and its logits are returned") {
  Bench b;
  b.plain(10, 7);
  const auto [job, batch] = b.job();
  REQUIRE(batch.requests.size() == 1);
  CHECK(batch.requests[0]->kv.at(0).grant == Grant::none);
  b.probe.done(40, job, BatchDone{{reply(1, 2.5)}, 25});
  const auto executed = b.probe.sent<Executed>();
  REQUIRE(executed.size() == 1);
  CHECK(executed[0].id == 7);
  CHECK(executed[0].readouts == std::vector<ScoreRow>{{{2.5}}});
  CHECK(executed[0].compute_us == 25);
  CHECK(b.probe.sent<ReleaseBlocks>().empty());
}

TEST_CASE("inference worker: with a waiting quota a batch begins when it is full, or when the quota ends") {
  InferenceConfig config = Bench::config(1);
  config.batch_wait = {200};
  Bench b(config);
  b.plain(10, 7);
  CHECK(b.probe.started<RunBatch>().empty());
  b.plain(50, 8);
  CHECK(b.probe.started<RunBatch>().empty());
  b.probe.run_until(209);
  CHECK(b.probe.started<RunBatch>().empty());
  b.probe.run_until(210);
  const auto quota = b.job();
  CHECK(quota.second.requests.size() == 2);
  b.run(240, quota);
  b.plain(250, 9, 6);
  CHECK(b.probe.started<RunBatch>().empty());
  b.plain(260, 10, 4);  // ten tokens fill a batch
  CHECK(b.job().second.requests.size() == 2);
}

TEST_CASE("inference worker: granted blocks are read and written in place, and every grant is released") {
  Bench b;
  b.execute(0, 7, {block(1), block(2), block(3), segment(2)});
  const auto acquire = b.probe.sent<AcquireBlocks>().at(0);
  CHECK(b.probe.recipients().at(0) == kv);
  CHECK(acquire.wants.size() == 3);
  CHECK(acquire.budget_us == 100);
  CHECK(acquire.retention.evict_first == std::vector<BlockName>{name(99)});
  CHECK(acquire.may_evict);
  auto answer = acquired(acquire.id, {{Grant::read, 4, 55, {9}}, {Grant::write, 5, 0, {8}}, {}});
  answer.pull_us = 17;
  b.probe.receive(30, kv, answer);
  const auto [job, batch] = b.job();
  CHECK(batch.requests[0]->kv[0].grant == Grant::read);
  CHECK(batch.requests[0]->kv[0].checksum == 55);
  CHECK(batch.requests[0]->kv[0].generation == 4);
  CHECK(batch.requests[0]->kv[1].pages == std::vector<std::uint32_t>{8});
  CHECK(batch.requests[0]->kv[2].grant == Grant::none);
  b.probe.done(50, job, BatchDone{{reply(4)}, 20});
  const Executed executed = b.probe.sent<Executed>().at(0);
  CHECK(executed.reused == std::vector<std::uint8_t>{1, 0, 0, 0});
  CHECK(executed.blocks_written == 1);
  CHECK(executed.blocks_us == 30);
  CHECK(executed.pull_us == 17);
  CHECK(b.probe.sent<ReleaseBlocks>().at(0) ==
        ReleaseBlocks{acquire.id, {{name(2), 5, Outcome::written, 88}}});
}

TEST_CASE("inference worker: a read with `check` is verified and reported as done") {
  Bench b;
  b.execute(0, 7, {block(1), block(2), segment(2)});
  const auto acquire = b.probe.sent<AcquireBlocks>().at(0);
  BlockGrant checked{Grant::read, 4, 55, {9}, true};
  b.probe.receive(30, kv, acquired(acquire.id, {checked, {Grant::read, 5, 56, {8}}}));
  const auto [job, batch] = b.job();
  CHECK(batch.requests[0]->kv[0].check);
  CHECK_FALSE(batch.requests[0]->kv[1].check);
  b.probe.done(50, job, BatchDone{{reply(3)}, 20});
  CHECK(b.probe.sent<ReleaseBlocks>().at(0) == ReleaseBlocks{acquire.id, {{name(1), 4, Outcome::done, 0}}});
}

TEST_CASE("inference worker: all blocks behind a kept block are verified, also through computed segments") {
  Bench b;
  std::vector<PlanPart> parts{block(1), block(2), segment(2), block(3), segment(2)};
  parts[2].segment.sees = {0};     // computed, from 1
  parts[3].segment.sees = {2};     // written
  parts[4].segment.sees = {1, 3};  // the answer
  b.execute(0, 7, parts);
  const auto acquire = b.probe.sent<AcquireBlocks>().at(0);
  b.probe.receive(
      30, kv,
      acquired(acquire.id,
               {{Grant::read, 4, 55, {9}}, {Grant::read, 5, 56, {8}}, {Grant::write, 6, 0, {7}}}));
  const auto [job, batch] = b.job();
  CHECK(batch.requests[0]->kv[0].check);
  CHECK_FALSE(batch.requests[0]->kv[1].check);
}

TEST_CASE("inference worker: a batch's use of device copies is counted, and nothing without a device") {
  Bench b;
  b.plain(0, 7);
  const auto job = b.job();
  b.run(10, job);
  CHECK(b.probe.counted(Metric::device_pages) == 0);
  b.plain(20, 8);
  DeviceUse use{3, 4, 5, 6, 7, 100, 9};
  b.probe.done(30, b.probe.started<RunBatch>().at(0).first, BatchDone{{reply(1)}, 20, use});
  const std::pair<Metric, double> expected[] = {
      {Metric::device_blocks_hit, 3}, {Metric::device_blocks_missed, 4}, {Metric::device_blocks_evicted, 5},
      {Metric::device_bytes_in, 6},   {Metric::device_bytes_out, 7},     {Metric::device_pages, 100},
      {Metric::device_pages_used, 9}};
  for (const auto& [metric, amount] : expected) CHECK(b.probe.counted(metric) == amount);
}

TEST_CASE("inference worker: a block with wrong bytes is computed and reported as corrupt") {
  Bench b;
  b.execute(0, 7, {block(1)});
  const auto acquire = b.probe.sent<AcquireBlocks>().at(0);
  b.probe.receive(1, kv, acquired(acquire.id, {{Grant::read, 4, 55, {9}}}));
  BatchReply bad = reply(1);
  bad.corrupt = {0};
  b.probe.done(2, b.job().first, BatchDone{{bad}, 1});
  CHECK(b.probe.sent<Executed>().at(0).reused == std::vector<std::uint8_t>{0});
  CHECK(b.probe.sent<ReleaseBlocks>().at(0).outcomes.at(0).outcome == Outcome::corrupt);
}

TEST_CASE("inference worker: two candidates with the same tokens are one block, written once") {
  Bench b;
  b.execute(0, 7, {block(1), block(1)});
  const auto acquire = b.probe.sent<AcquireBlocks>().at(0);
  REQUIRE(acquire.wants.size() == 1);
  b.probe.receive(1, kv, acquired(acquire.id, {{Grant::write, 4, 0, {9}}}));
  const auto batch = b.job().second;
  CHECK(batch.requests[0]->kv[0].grant == Grant::write);
  CHECK(batch.requests[0]->kv[1].grant == Grant::none);
}

TEST_CASE(
    "inference worker: a silent KV-cache worker costs reuse, not the answer, and late grants are released") {
  Bench b;
  b.execute(0, 7, {block(1)});
  const RequestId id = b.probe.sent<AcquireBlocks>().at(0).id;
  b.probe.run_until(149);
  CHECK(b.probe.started<RunBatch>().empty());
  b.probe.run_until(150);
  CHECK(b.job().second.requests[0]->kv[0].grant == Grant::none);
  CHECK(b.probe.sent<ReleaseBlocks>().at(0) == ReleaseBlocks{id, {}});
  b.probe.receive(160, kv, acquired(id, {{Grant::read, 4, 55, {9}}}));
  CHECK(b.probe.sent<ReleaseBlocks>().at(0) == ReleaseBlocks{id, {}});
  b.probe.receive(170, kv, acquired(id + 99, {{Grant::read, 4, 55, {9}}}));
  CHECK(b.probe.sent<ReleaseBlocks>().size() == 1);
}

TEST_CASE("inference worker: duplicate plans run once and duplicate grants change nothing") {
  Bench b;
  b.execute(0, 7, {block(1)});
  const auto id = b.probe.sent<AcquireBlocks>().at(0).id;
  b.execute(1, 7, {block(1)});
  CHECK(b.probe.effects.list.empty());
  b.probe.receive(2, kv, acquired(id, {{Grant::read, 4, 55, {9}}}));
  b.probe.receive(3, kv, acquired(id, {{Grant::read, 4, 55, {9}}}));
  CHECK(b.probe.effects.list.empty());
}

TEST_CASE("inference worker: a plan whose deadline has passed is refused before it runs") {
  Bench b;
  b.plain(0, 1);
  b.plain(1, 2);
  b.execute(2, 3, {block(1)});  // waits for its blocks
  b.probe.run_until(1'100);
  const auto refused = b.probe.sent<Refused>();
  REQUIRE(refused.size() == 2);
  CHECK(refused[0].id == 2);
  CHECK(refused[0].refusal.kind == RefusalKind::deadline_exceeded);
  CHECK(refused[1].id == 3);
  b.execute(1'200, 4, {segment(1)}, Priority::serving, 0);
  CHECK(b.probe.sent<Refused>().at(0).refusal.code == "deadline_exceeded");
}

TEST_CASE("inference worker: a plan whose client has gone does not begin; one that runs is answered") {
  Bench b;
  b.plain(0, 1);
  const auto running = b.job();
  b.plain(1, 2);
  b.execute(2, 3, {block(1)});  // waits for its blocks
  const RequestId acquiring = b.probe.sent<AcquireBlocks>().at(0).id;
  for (const RequestId id : {1, 2, 3})
    b.probe.receive(3, {2, Role::router}, Cancel{id});  // of another router
  CHECK(b.probe.effects.list.empty());
  b.probe.receive(4, router, Cancel{1});
  CHECK(b.probe.effects.list.empty());
  b.probe.receive(4, router, Cancel{2});
  CHECK(b.probe.sent<Refused>().at(0).id == 2);
  CHECK(b.probe.sent<Refused>().at(0).refusal.code == "client_gone");
  b.probe.receive(4, router, Cancel{3});
  CHECK(b.probe.sent<Refused>().at(0).id == 3);
  CHECK(b.probe.sent<ReleaseBlocks>().at(0).id == acquiring);
  b.run(5, running);
  CHECK(b.probe.sent<Executed>().size() == 1);
  CHECK(b.probe.started<RunBatch>().empty());
  CHECK(b.core.check_bounds() == "");
}

TEST_CASE("inference worker: a plan past its deadline does not run even if its timer is late") {
  Bench b;
  b.plain(0, 1);
  const auto first = b.job();
  b.plain(0, 2);
  b.run(1'000, first);
  CHECK(b.probe.started<RunBatch>().empty());
  CHECK(b.probe.sent<Refused>().at(0).refusal.code == "deadline_exceeded");
}

TEST_CASE("inference worker: a full queue refuses plans, but not duplicates of known ones") {
  Bench b;
  for (RequestId id = 1; id <= 4; ++id) b.plain(0, id);  // one runs, three wait
  b.plain(1, 5);
  CHECK(b.probe.sent<Refused>().at(0).refusal.kind == RefusalKind::unavailable);
  b.plain(2, 1);  // a duplicate of the running plan is ignored
  CHECK(b.probe.sent<Refused>().empty());
}

TEST_CASE("inference worker: behind a device that hangs waiting plans expire and leave nothing behind") {
  Bench b;
  for (RequestId id = 1; id <= 300; ++id) {
    b.plain(id * 1'000, id);
    b.probe.run_until(id * 1'000 + 999);
    CHECK(b.core.check_bounds() == "");
  }
  CHECK(b.core.tasks() == 2);
  CHECK(b.core.running() == 1);
}

TEST_CASE("inference worker: a duplicate of an ended plan is ignored while the plan is remembered") {
  InferenceConfig config = Bench::config(1);
  config.recent_max = 2;
  Bench b(config);
  b.plain(0, 1);
  b.run(1, b.job());
  b.execute(2, 2, {segment(1)}, Priority::serving, 0);
  CHECK(b.probe.sent<Refused>().size() == 1);
  for (const RequestId id : {1, 2}) {
    b.plain(3, id);
    CHECK(b.probe.effects.list.empty());
  }
  b.plain(4, 3);
  b.run(5, b.job());
  b.plain(6, 1);
  CHECK(b.probe.started<RunBatch>().size() == 1);
}

TEST_CASE("inference worker: a suspect runs alone, and the others keep their order") {
  Bench b;
  b.plain(0, 1, 1);
  const auto first = b.job();
  b.plain(1, 2, 1);
  Execute suspect = Bench::plan(3, {segment(2)});
  suspect.alone = true;
  b.probe.receive(1, router, suspect);
  b.plain(1, 4, 1);
  b.run(2, first);
  const auto second = b.job();
  CHECK(second.second.requests.size() == 2);
  b.plain(2, 5, 1);
  b.run(3, second);
  const auto third = b.job();
  CHECK(third.second.requests.size() == 1);
  CHECK(third.second.requests[0]->plan.segments.at(0).tokens.size() == 2);
  b.run(4, third);
  CHECK(b.job().second.requests.size() == 1);
}

TEST_CASE("inference worker: plans are batched in the order in which they became ready") {
  Bench b;
  b.plain(0, 1);
  const auto first = b.job();
  b.execute(1, 2, {block(1)});
  const auto id = b.probe.sent<AcquireBlocks>().at(0).id;
  b.plain(2, 3);
  b.probe.receive(3, kv, acquired(id, {{Grant::write, 3, 0, {1}}}));
  b.run(4, first);
  const auto both = b.job().second;
  REQUIRE(both.requests.size() == 2);
  CHECK_FALSE(both.requests[0]->blocks.at(0).name);
  b.run(5, b.job());
  CHECK(b.core.tasks() == 0);
}

TEST_CASE("inference worker: plans that wait for one slot become one batch, up to its tokens") {
  Bench b;
  b.plain(0, 1);
  const auto first = b.job().first;
  for (RequestId id = 2; id <= 4; ++id) b.plain(1, id, 4);
  b.probe.done(2, first, BatchDone{{reply(1)}, 1});
  CHECK(b.job().second.requests.size() == 2);  // 4 + 4 ≤ 10 < 12
}

TEST_CASE("inference worker: a plan larger than a batch runs alone") {
  Bench b;
  b.plain(0, 1);
  const auto first = b.job().first;
  b.plain(1, 2, 50);
  b.plain(1, 3, 1);
  b.probe.done(2, first, BatchDone{{reply(1)}, 1});
  CHECK(b.job().second.requests.size() == 1);
}

TEST_CASE("inference worker: while all slots run long batches, one batch of small plans runs beside them") {
  Bench b;
  const auto tokens = [](const auto& job) {
    return job.second.requests.at(0)->plan.segments.at(0).tokens.size();
  };
  b.plain(0, 1, 31);
  const auto large = b.job();
  b.plain(1, 2, 40);
  CHECK(b.probe.started<RunBatch>().empty());  // it is large as well
  b.plain(2, 3, 10);
  const auto small = b.job();
  CHECK(tokens(small) == 10);
  b.plain(3, 4, 5);
  b.plain(3, 5, 4);
  CHECK(b.probe.started<RunBatch>().empty());
  b.run(4, small);
  const auto together = b.job();
  REQUIRE(together.second.requests.size() == 2);
  CHECK(tokens(together) == 5);
  b.run(5, large);
  CHECK(b.probe.started<RunBatch>().empty());  // the batch that ran beside takes the slot
  b.plain(6, 6, 1);
  b.run(7, together);
  CHECK(tokens(b.job()) == 40);  // the large plan keeps its position in the queue
  CHECK(tokens(b.probe.started<RunBatch>().at(1)) == 1);
  CHECK(b.core.check_bounds() == "");
}

TEST_CASE(
    "inference worker: nothing runs beside a short batch, and neither background plans nor blocks in flight "
    "do") {
  Bench two(2);
  two.plain(0, 1, 31);
  two.plain(0, 2, 30);
  two.plain(1, 3, 1);
  CHECK(two.probe.started<RunBatch>().empty());

  InferenceConfig overlapping = Bench::config(1);
  overlapping.overlap = true;
  Bench b(overlapping);
  b.plain(0, 1, 31);
  b.execute(1, 2, {segment(1)}, Priority::background);
  b.execute(1, 3, {block(1)});
  BlockGrant in_flight{Grant::read, 4, 55, {9}};
  in_flight.in_flight = true;
  b.probe.receive(2, kv, acquired(b.probe.sent<AcquireBlocks>().at(0).id, {in_flight}));
  CHECK(b.probe.started<RunBatch>().empty());
}

TEST_CASE("inference worker: a small plan that may run beside large ones is not refused because of them") {
  const auto refused = [](std::int64_t budget, bool beside) {
    Bench b(2);
    b.plain(0, 1, 10);
    b.run(1'000, b.job());  // 100 us a token
    b.execute(1'000, 2, {segment(50)}, Priority::serving, 60'000);
    b.execute(1'000, 3, {segment(beside ? 50 : 10)}, Priority::serving, 60'000);
    b.execute(1'000, 4, {segment(50)}, Priority::serving, 60'000);
    b.execute(1'000, 5, {segment(2)}, Priority::serving, budget);
    return !b.probe.sent<Refused>().empty();
  };
  // Plan 5 takes 200 us. On two slots it waits for 5,000 us of waiting plans and half of the 10,000
  // or 6,000 us that run. Beside them it waits for none.
  CHECK_FALSE(refused(5'300, true));
  CHECK_FALSE(refused(300, true));
  CHECK(refused(150, true));
  CHECK(refused(4'100, false));
  CHECK_FALSE(refused(4'300, false));
}

TEST_CASE("inference worker: two free slots share the waiting plans") {
  Bench b(2);
  b.plain(0, 1);
  const auto one = b.job().first;
  b.plain(0, 2);
  const auto two = b.job().first;
  for (RequestId id = 3; id <= 5; ++id) b.plain(1, id, 2);
  b.probe.done(2, one, BatchDone{{reply(1)}, 1});
  CHECK(b.job().second.requests.size() == 3);  // one slot is free: all ready plans
  b.probe.done(3, two, BatchDone{{reply(1)}, 1});
  CHECK(b.probe.started<RunBatch>().empty());
  b.plain(4, 6, 2);
  CHECK(b.job().second.requests.size() == 1);
}

TEST_CASE("inference worker: background plans wait without holding blocks, and their number is bounded") {
  Bench b;
  b.plain(0, 1);
  const auto first = b.job().first;
  b.execute(1, 2, {block(1)}, Priority::background);
  // A serving plan that wants the block must not wait for it.
  CHECK(b.probe.sent<AcquireBlocks>().empty());
  b.execute(2, 3, {segment(1)}, Priority::background);
  CHECK(b.probe.sent<Refused>().at(0).refusal.code == "overloaded");
  b.plain(3, 4);
  b.probe.done(4, first, BatchDone{{reply(1)}, 1});
  CHECK(b.probe.sent<AcquireBlocks>().empty());
  b.probe.done(5, b.job().first, BatchDone{{reply(1)}, 1});
  const auto acquire = b.probe.sent<AcquireBlocks>().at(0);
  CHECK_FALSE(acquire.may_evict);
  CHECK_FALSE(acquire.retention.belongs);
  b.probe.receive(6, kv, acquired(acquire.id, {{Grant::write, 1, 0, {1}}}));
  CHECK(b.job().second.requests[0]->kv[0].grant == Grant::write);
}

TEST_CASE("inference worker: a background plan may evict blocks only if its own belong here") {
  Bench b;
  Execute plan = Bench::plan(1, {block(1)});
  plan.priority = Priority::background;
  plan.retention.belongs = true;
  b.probe.receive(0, router, plan);
  const auto acquire = b.probe.sent<AcquireBlocks>().at(0);
  CHECK(acquire.may_evict);
  CHECK(acquire.retention.belongs);
}

TEST_CASE("inference worker: a background plan that holds blocks runs next, one at a time") {
  Bench b;
  b.execute(0, 1, {block(1)}, Priority::background);
  const auto acquire = b.probe.sent<AcquireBlocks>().at(0);
  b.plain(1, 2);
  const auto serving = b.job().first;
  b.plain(2, 3);
  b.probe.receive(3, kv, acquired(acquire.id, {{Grant::write, 1, 0, {1}}}));
  b.probe.done(4, serving, BatchDone{{reply(1)}, 1});
  const auto background = b.job();
  CHECK(background.second.requests.at(0)->kv[0].grant == Grant::write);
  b.execute(5, 4, {block(2)}, Priority::background);
  b.probe.done(6, background.first, BatchDone{{reply(1)}, 1});
  CHECK(b.probe.sent<AcquireBlocks>().empty());
  b.probe.done(7, b.probe.started<RunBatch>().at(0).first, BatchDone{{reply(1)}, 1});
  CHECK(b.probe.sent<AcquireBlocks>().size() == 1);
}

TEST_CASE("inference worker: background plans leave the other slots free") {
  Bench b(2);
  b.execute(0, 1, {segment(1)}, Priority::background);
  const auto background = b.job().first;
  b.execute(1, 2, {segment(1)}, Priority::background);
  CHECK(b.probe.started<RunBatch>().empty());
  b.plain(2, 3);
  CHECK(b.probe.started<RunBatch>().size() == 1);
  b.probe.done(3, background, BatchDone{{reply(1)}, 1});
  CHECK(b.probe.started<RunBatch>().size() == 1);
}

TEST_CASE(
    "inference worker: a failed batch refuses its only plan, a bad plan only itself, and no write is kept") {
  Bench b;
  b.execute(0, 1, {block(1)});
  const auto id = b.probe.sent<AcquireBlocks>().at(0).id;
  b.probe.receive(1, kv, acquired(id, {{Grant::write, 3, 0, {1}}}));
  const auto first = b.job().first;
  b.plain(2, 2);
  b.plain(2, 3);
  b.probe.done(3, first, Refusal{RefusalKind::unavailable, "device_failed", "", "", ""});
  CHECK(b.probe.sent<Refused>().at(0).refusal.code == "device_failed");
  CHECK(b.probe.sent<ReleaseBlocks>().at(0) == ReleaseBlocks{id, {}});
  BatchReply bad;
  bad.refusal = Refusal{RefusalKind::unprocessable, "bad_plan", "", "", ""};
  b.probe.done(4, b.job().first, BatchDone{{bad, reply(1)}, 1});
  CHECK(b.probe.sent<Refused>().at(0) == Refused{2, *bad.refusal});
  CHECK(b.probe.sent<Executed>().at(0).id == 3);
}

TEST_CASE("inference worker: plans of a failed batch run once more, alone and first, on the same blocks") {
  Bench b;
  const Refusal failed{RefusalKind::unavailable, "device_failed", "", "", ""};
  b.plain(0, 1);
  const auto first = b.job().first;
  b.execute(1, 2, {block(1, 2)});
  const auto id = b.probe.sent<AcquireBlocks>().at(0).id;
  b.probe.receive(2, kv, acquired(id, {{Grant::write, 3, 0, {1}}}));
  b.plain(2, 3, 3);
  b.probe.done(3, first, BatchDone{{reply(1)}, 1});
  const auto both = b.job();
  REQUIRE(both.second.requests.size() == 2);
  for (RequestId other = 4; other <= 6; ++other) b.plain(4, other, 1);  // the queue is full
  b.probe.done(5, both.first, failed);
  CHECK(b.probe.sent<Refused>().empty());
  CHECK(b.probe.sent<ReleaseBlocks>().empty());
  CHECK(b.core.check_bounds() == "");
  const auto second = b.job();
  REQUIRE(second.second.requests.size() == 1);
  CHECK(second.second.requests[0]->plan.segments == both.second.requests[0]->plan.segments);
  CHECK(second.second.requests[0]->plan.readouts == both.second.requests[0]->plan.readouts);
  CHECK(second.second.requests[0]->kv.at(0).pages == std::vector<std::uint32_t>{1});
  b.probe.done(6, second.first, failed);  // the bad plan
  CHECK(b.probe.sent<Refused>().at(0) == Refused{2, failed});
  CHECK(b.probe.sent<ReleaseBlocks>().at(0) == ReleaseBlocks{id, {}});
  const auto third = b.job();
  REQUIRE(third.second.requests.size() == 1);
  CHECK(third.second.requests[0]->plan.segments == both.second.requests[1]->plan.segments);
  b.run(7, third);
  CHECK(b.probe.sent<Executed>().at(0).id == 3);
  CHECK(b.job().second.requests.size() == 3);
}

TEST_CASE("inference worker: plans of a batch that failed too late are refused with it") {
  Bench b;
  b.plain(0, 1);
  const auto first = b.job().first;
  b.plain(0, 2, 1);
  b.execute(0, 3, {segment(1)}, Priority::serving, 2'000);
  b.probe.done(1, first, BatchDone{{reply(1)}, 1});
  b.probe.done(1'000, b.job().first, Refusal{RefusalKind::unavailable, "device_failed", "", "", ""});
  CHECK(b.probe.sent<Refused>().at(0).id == 2);
  CHECK(b.probe.sent<Refused>().at(0).refusal.code == "device_failed");
  CHECK(b.probe.sent<Refused>().size() == 1);
  CHECK(b.job().second.requests.size() == 1);
}

TEST_CASE("inference worker: waiting plans of a lost router are dropped and their blocks released") {
  Bench b;
  b.execute(0, 1, {block(1)});
  b.probe.lose(1, 2);
  CHECK(b.probe.effects.list.empty());
  b.probe.lose(2, 1);
  CHECK(b.probe.sent<ReleaseBlocks>().size() == 1);
  CHECK(b.probe.sent<Refused>().empty());
  b.probe.run_until(5'000);
  CHECK(b.probe.effects.list.empty());
}

TEST_CASE("inference worker: a plan runs with the catalog that it names, whatever is served now") {
  Bench b;
  b.follow(0, 7, "m1");
  b.plain(1, 1);  // keeps the slot busy
  const auto first = b.job();
  for (const RequestId id : {2u, 3u}) {
    Execute wanted = Bench::plan(id, {segment(1)});
    wanted.catalog_version = id == 2 ? "c1" : "c2";
    b.probe.receive(2, router, wanted);
  }
  CHECK(first.second.requests.at(0)->catalog_version == "");
  b.run(3, first);
  const RunBatch both = b.job().second;
  REQUIRE(both.requests.size() == 2);
  CHECK(both.requests[0]->catalog_version == "c1");
  CHECK(both.requests[1]->catalog_version == "c2");
}

}  // namespace
}  // namespace troupe::actors
