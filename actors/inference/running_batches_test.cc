#include "actors/inference/running_batches.h"

#include <doctest/doctest.h>

#include "actors/testing/effects_of.h"
#include "actors/testing/inference_bench.h"

namespace troupe::actors {
namespace running_batches_test {

using namespace inference_test;

// One plan with a deadline at 1,000 us, on a worker whose tables are spread.
struct Running {
  InferenceConfig config = spread();
  ShardRequests shards{config};
  Serials serials{7};
  RunningBatches batches{config, shards, serials};
  Task task;
  Effects effects;

  static InferenceConfig spread() {
    InferenceConfig config = Bench::config(1);
    config.shard_owners = {1, 2};
    return config;
  }
  Running() {
    task.deadline = {1'000};
    task.request = std::make_shared<const BatchRequest>();
    batches.start({0}, {&task}, {.operations = 5}, effects);
  }
  Serial job() const { return started<RunBatch>(effects).back().first; }
  RunBatch work() const { return started<RunBatch>(effects).back().second; }
  std::optional<RunningBatch> end(std::int64_t us, BatchDone result) {
    JobDone done{job(), std::move(result)};
    effects = {};
    return batches.end({us}, done, effects);
  }
  AcquireBlocks miss_one() {
    BatchDone away;
    away.away = {{name(3), 0}};
    CHECK_FALSE(end(1, std::move(away)));
    return sent<AcquireBlocks>(effects).at(0);
  }
  bool acquire(RequestId id, std::vector<BlockGrant> grants) {
    BlocksAcquired answer = acquired(id, std::move(grants));
    effects = {};
    return batches.on_acquired({2}, answer, effects);
  }
};

TEST_CASE("running batches: a batch ends with its tasks and keeps its slot until then") {
  Running r;
  CHECK(r.work().asks_for_shards);
  CHECK(r.work().requests.at(0) == r.task.request);
  CHECK(r.batches.size() == 1);
  const auto batch = r.end(1, BatchDone{});
  REQUIRE(batch);
  CHECK(batch->tasks == std::vector<Task*>{&r.task});
  CHECK(r.batches.size() == 0);
  CHECK(sent<ReleaseBlocks>(r.effects).empty());
}

TEST_CASE("running batches: a batch that missed shards runs again with them and releases them") {
  Running r;
  const AcquireBlocks ask = r.miss_one();
  CHECK(r.batches.size() == 1);
  CHECK(r.acquire(ask.id, {{Grant::write, 8, 0, {9}}}));
  CHECK(r.work().requests.at(0) == r.task.request);
  CHECK(r.work().shards.at(0).grant.check);
  CHECK_FALSE(r.work().asks_for_shards);
  const Serial job = r.job();
  CHECK(r.acquire(ask.id, {{Grant::write, 8, 0, {9}}}));  // a duplicate
  CHECK(r.effects.list.empty());
  BatchDone result;
  result.shards = {{name(3), 8, Outcome::written, 77}};
  JobDone done{job, result};
  CHECK(r.batches.end({3}, done, r.effects).has_value());
  CHECK(sent<ReleaseBlocks>(r.effects).at(0) == ReleaseBlocks{ask.id, result.shards});
}

TEST_CASE(
    "running batches: without an answer in time the batch runs again, and the late answer is released") {
  Running r;
  const AcquireBlocks ask = r.miss_one();
  CHECK_FALSE(r.batches.on_timer({151}, ask.id + 1, r.effects));
  CHECK(r.batches.on_timer({151}, ask.id, r.effects));
  CHECK(r.work().shards.empty());
  CHECK(r.acquire(ask.id, {{Grant::write, 8, 0, {9}}}));
  CHECK(sent<ReleaseBlocks>(r.effects).at(0).id == ask.id);
  CHECK_FALSE(r.acquire(ask.id + 50, {}));
}

}  // namespace running_batches_test
}  // namespace troupe::actors
