#include "actors/kv_worker/pending_blocks.h"

#include "actors/testing/kv_worker_parts.h"

namespace troupe::actors {
namespace pending_blocks_test {

using namespace kv_worker_test;

// Item 1 is pending for a writer; requests wait for it.
struct WaitBench : PartsBench {
  std::uint64_t generation =
      pending.reserve(*requests.find(add({item(1)})), 0, BlockSource::computed, effects)->generation;

  Serial wait(bool early = false, Address from = worker) {
    const Serial serial = add({item(1)}, from);
    requests.find(serial)->ask.early = early;
    pending.wait(serial, *requests.find(serial), 0);
    return serial;
  }
  Grant granted(std::size_t answer) const { return sent<BlocksAcquired>().at(answer).grants.at(0).grant; }
  void fail() {
    pool.abandon(name(1), generation);
    pending.fail(name(1), generation, effects);
  }
};

TEST_CASE_FIXTURE(WaitBench, "pending blocks: all requests that wait for a block read it when it is ready") {
  wait(), wait();
  pool.commit(name(1), generation, 77);
  pending.finish(name(1), generation, false, effects);
  CHECK(sent<BlocksAcquired>().size() == 2);
  CHECK(granted(1) == Grant::read);
  CHECK(pool.find(name(1))->pins == 2);
  CHECK(pending.size() == 0);
}

TEST_CASE_FIXTURE(WaitBench,
                  "pending blocks: after a failure the earliest that still waits writes the block") {
  const Serial gives_up = wait(), first = wait(), second = wait();
  pending.end_wait(gives_up, effects);
  CHECK(granted(0) == Grant::none);
  fail();
  REQUIRE(sent<BlocksAcquired>().size() == 2);
  CHECK(sent<BlocksAcquired>()[1].id == first);
  CHECK(granted(1) == Grant::write);
  CHECK(requests.find(second)->undecided == 1);
  CHECK(pending.is_awaited(name(1), pool.find(name(1))->generation));
  CHECK(pending.waiting_for_nobody() == 0);
}

TEST_CASE_FIXTURE(WaitBench, "pending blocks: an offer gets nothing from a failure, and writes nothing") {
  const Serial offer = wait(false, far);
  requests.find(offer)->offered = true;
  wait();
  fail();
  CHECK(granted(0) == Grant::none);
  CHECK(granted(1) == Grant::write);
  CHECK(requests.find(offer) == nullptr);
}

TEST_CASE_FIXTURE(WaitBench,
                  "pending blocks: a request with `early` is told once that its block is in flight") {
  const Serial early = wait(true), late = wait();
  pending.announce(early, effects);
  CHECK(sent<BlocksAcquired>().empty());
  CHECK(pending.has_in_flight_reader(name(1)));
  pending.begin_copy(name(1), 99);
  pending.announce_to_waiters(name(1), effects);
  pending.announce_to_waiters(name(1), effects);
  REQUIRE(sent<BlocksAcquired>().size() == 1);
  const BlockGrant grant = sent<BlocksAcquired>()[0].grants.at(0);
  CHECK(grant == BlockGrant{Grant::read, generation, 99, pool.find(name(1))->pages, false, true});
  CHECK(pending.awaits_in_flight(*requests.find(early)));
  CHECK_FALSE(pending.awaits_in_flight(*requests.find(late)));
}

TEST_CASE_FIXTURE(WaitBench, "pending blocks: a pull is slow for a request that would wait for less") {
  pending.begin_pull({0}, name(1));
  const Request& request = *requests.find(wait());  // waits until 100
  CHECK_FALSE(pending.is_slow_pull({50}, name(1), request));
  CHECK(pending.is_slow_pull({51}, name(1), request));
}

}  // namespace pending_blocks_test
}  // namespace troupe::actors
