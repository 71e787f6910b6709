#include "actors/inference/own_shards.h"

#include <doctest/doctest.h>

#include "actors/testing/effects_of.h"
#include "actors/testing/inference_bench.h"
#include "runtime/actor/table_shard.h"

namespace troupe::actors {
namespace own_shards_test {

using namespace inference_test;

// A table of 40 shards on three nodes.
struct Own {
  InferenceConfig config = spread();
  ShardRequests shards{config};
  Serials serials{1};
  OwnShards own{config, shards, serials};
  Effects effects;

  static InferenceConfig spread() {
    InferenceConfig config = Bench::config(1);
    config.shard_owners = {1, 2, 3};
    return config;
  }
  AcquireBlocks begin() {
    own.advance({0}, true, effects);
    end(1, ShardsFilled{{{name(7), 40}}, {}});
    return sent<AcquireBlocks>(effects).at(0);
  }
  void end(std::int64_t us, JobResult result) {
    JobDone done{started<FillShards>(effects).at(0).first, std::move(result)};
    effects = {};
    CHECK(own.on_job_done({us}, done, effects));
  }
};

TEST_CASE("shard requests: each shard is asked for at its owner, and this node's own shards here") {
  Own o;
  std::size_t own = 0;
  std::vector<TableShard> all;
  for (std::uint32_t i = 0; i < 40; ++i) all.push_back({name(7), i});
  const AcquireBlocks ask = o.shards.request(5, all, false);
  REQUIRE(ask.wants.size() == 40);
  CHECK(ask.id == 5);
  CHECK(ask.may_evict);
  CHECK_FALSE(o.shards.request(5, all, true).may_evict);
  for (std::uint32_t i = 0; i < 40; ++i) {
    CHECK(ask.wants[i].name == block_of(all[i]));
    CHECK((ask.wants[i].at == 0) == o.shards.is_own(all[i]));
    CHECK(ask.wants[i].at != 1);
    own += o.shards.is_own(all[i]);
  }
  CHECK(own > 5);
  CHECK(own < 25);
}

TEST_CASE("own shards: the missing ones are filled and released, and the walk ends") {
  Own o;
  const AcquireBlocks ask = o.begin();
  std::vector<BlockGrant> grants(ask.wants.size(), {Grant::read, 5, 6, {7}});
  grants[1] = {Grant::write, 8, 0, {9}};
  BlocksAcquired answer = acquired(ask.id, grants);
  o.effects = {};
  CHECK(o.own.on_acquired({2}, answer, o.effects));
  CHECK(block_of(started<FillShards>(o.effects).at(0).second.shards.at(0).shard) == ask.wants[1].name);
  const BlockOutcome written{ask.wants[1].name, 8, Outcome::written, 77};
  o.end(3, ShardsFilled{{}, {written}});
  CHECK(sent<ReleaseBlocks>(o.effects).at(0) == ReleaseBlocks{ask.id, {written}});
  CHECK(sent<AcquireBlocks>(o.effects).empty());
  CHECK(o.own.filled() == 1);
  o.effects = {};
  o.own.advance({10'000'002}, true, o.effects);
  CHECK(o.effects.list.empty());
  o.own.advance({10'000'003}, true, o.effects);
  CHECK(started<FillShards>(o.effects).size() == 1);
}

TEST_CASE("own shards: nothing begins without leave, and a foreign answer or job is left alone") {
  Own o;
  o.own.advance({0}, false, o.effects);
  CHECK(o.effects.list.empty());
  const AcquireBlocks ask = o.begin();
  BlocksAcquired other = acquired(ask.id + 1, {});
  CHECK_FALSE(o.own.on_acquired({2}, other, o.effects));
  JobDone job{99, ShardsFilled{}};
  CHECK_FALSE(o.own.on_job_done({2}, job, o.effects));
}

}  // namespace own_shards_test
}  // namespace troupe::actors
