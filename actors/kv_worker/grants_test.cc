#include "actors/kv_worker/grants.h"

#include "actors/testing/kv_worker_parts.h"

namespace troupe::actors {
namespace grants_test {

using namespace kv_worker_test;

struct GrantBench : PartsBench {
  PullFlow flow{config, pool, serials, in_flight, corrupt, pending};
  Scrub scrub{config.scrub, pool, serials, corrupt};
  Grants grants{
      config,
      {pool, serials, requests, reservations, pending, in_flight, flow.pulls(), tier, corrupt, scrub}};

  Grants::Fetches acquire(AcquireBlocks ask, Address from = worker) {
    effects = {};
    const Grants::Fetches fetches = grants.acquire({0}, from, std::move(ask), effects);
    if (fetches.request != 0) grants.settle(fetches.request, effects);
    return fetches;
  }
};

TEST_CASE_FIXTURE(GrantBench,
                  "grants: a missing block is pulled rather than loaded, and loaded rather than written") {
  for (const std::uint8_t n : {1, 2}) tier.note_saved({name(n), SegmentKind::item, "", 4, 77});
  const auto fetches = acquire({.id = 1, .budget_us = 100, .wants = {at(2, item(1)), item(2), item(3)}});
  CHECK(fetches.pulls.at(2) == std::vector{pool.find(name(1))});
  CHECK(fetches.loads == std::vector{pool.find(name(2))});
  CHECK(sent<BlocksAcquired>().empty());  // waits for two of them
  CHECK(requests.find(fetches.request)->holds[2].grant == Grant::write);
}

TEST_CASE_FIXTURE(GrantBench, "grants: a request that cannot wait fetches nothing") {
  const auto fetches = acquire({.id = 1, .wants = {at(2, item(1))}});
  CHECK(fetches.pulls.empty());
  CHECK(sent<BlocksAcquired>().at(0).grants.at(0).grant == Grant::write);
}

TEST_CASE_FIXTURE(GrantBench, "grants: the last outcome that a release names for a block counts") {
  acquire({.id = 1, .wants = {item(1)}});
  const std::uint64_t generation = pool.find(name(1))->generation;
  grants.release(
      {1}, worker,
      {1, {{name(1), generation, Outcome::abandoned}, {name(1), generation, Outcome::written, 77}}}, effects);
  CHECK(pool.find(name(1))->checksum == 77);
}

TEST_CASE_FIXTURE(GrantBench,
                  "grants: a read by another node ends with its lease, a tenth later than it was promised") {
  const PoolBlock& block = put(item(1));
  const auto fetches = acquire({.id = 1, .wants = {item(1)}, .read_only = true}, far);
  CHECK(sent<BlocksAcquired>().at(0).lease_us == 1'000);
  grants.on_timer({1'099}, fetches.request, effects);
  CHECK(block.pins == 1);
  grants.on_timer({1'100}, fetches.request, effects);
  CHECK(block.pins == 0);
  CHECK(requests.size() == 0);
}

}  // namespace grants_test
}  // namespace troupe::actors
