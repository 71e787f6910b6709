#include "actors/kv_worker/pull_flow.h"

#include "actors/testing/kv_worker_parts.h"

namespace troupe::actors {
namespace pull_flow_test {

using namespace kv_worker_test;

// A request waits for items 1 and 2 of node 2, until 100.
struct PullBench : PartsBench {
  PullFlow flow{config, pool, serials, in_flight, corrupt, pending};
  Serial request = add({at(2, item(1)), at(2, item(2))});
  Serial pull = 0;

  PullBench() {
    std::vector<const PoolBlock*> blocks;
    for (const std::size_t want : {0, 1}) {
      blocks.push_back(pending.reserve(*requests.find(request), want, BlockSource::pulled, effects));
      pending.wait(request, *requests.find(request), want);
    }
    flow.ask({0}, *requests.find(request), 2, blocks, effects);
    pull = sent<AcquireBlocks>().at(0).id;
    effects = {};
  }
  void grant(std::int64_t us) {
    const BlockGrant read{Grant::read, 50, 99, {4}};
    flow.on_acquired({us}, far, {pull, 300, 900, {read, read}}, effects);
  }
  Grant granted(std::size_t want) const { return sent<BlocksAcquired>().at(0).grants.at(want).grant; }
};

TEST_CASE_FIXTURE(PullBench,
                  "pull flow: blocks that arrive are read, and those that do not are written here") {
  grant(10);
  REQUIRE(started<PullBlocks>().size() == 1);
  CHECK(started<PullBlocks>()[0].second.blocks.at(1).from == std::vector<std::uint32_t>{4});
  CHECK(flow.on_done({20}, {pull, PullResult{{1, 0}}}, effects));
  CHECK(granted(0) == Grant::read);
  CHECK(granted(1) == Grant::write);
  CHECK(sent<ReleaseBlocks>().at(0).outcomes.at(1).outcome == Outcome::corrupt);
  CHECK(corrupt.blocks() == 1);
  CHECK(flow.blocks_pulled() == 1);
  CHECK_FALSE(flow.on_done({21}, {pull, PullResult{{1, 0}}}, effects));
}

TEST_CASE_FIXTURE(PullBench, "pull flow: a silent owner has half of the request's time") {
  flow.on_timer({49}, pull, effects);
  CHECK(sent<BlocksAcquired>().empty());
  flow.on_timer({50}, pull, effects);
  CHECK(granted(0) == Grant::write);
  CHECK(granted(1) == Grant::write);
  CHECK_FALSE(flow.pulls().may_ask({50}, 2, 1));
  effects = {};
  grant(60);  // too late: only the pins are released
  CHECK(started<PullBlocks>().empty());
  CHECK(sent<ReleaseBlocks>().size() == 1);
}

TEST_CASE_FIXTURE(PullBench, "pull flow: what arrives after the owner's lease is not used") {
  grant(10);
  flow.on_done({900}, {pull, PullResult{{1, 1}}}, effects);
  CHECK(granted(0) == Grant::write);
  CHECK(sent<ReleaseBlocks>().at(0).outcomes.empty());
  CHECK(corrupt.blocks() == 0);
}

TEST_CASE_FIXTURE(PullBench, "pull flow: of a lost node only pulls that do not run are given up") {
  grant(10);
  flow.lose({20}, 2, effects);
  CHECK(flow.pulls().running() == 1);
  CHECK(sent<BlocksAcquired>().empty());
}

}  // namespace pull_flow_test
}  // namespace troupe::actors
