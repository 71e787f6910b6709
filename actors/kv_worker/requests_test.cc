#include "actors/kv_worker/requests.h"

#include "actors/testing/kv_worker_parts.h"

namespace troupe::actors {
namespace requests_test {

using namespace kv_worker_test;

TEST_CASE_FIXTURE(PartsBench, "requests: a request is found by its number and by its sender's id for it") {
  const Serial serial = add({item(1)});
  CHECK(requests.serial_of(worker, serial) == serial);
  CHECK_FALSE(requests.serial_of(far, serial));
  CHECK(requests.find(serial)->ask.wants.size() == 1);
  CHECK(requests.take(serial).holds.size() == 1);
  CHECK_FALSE(requests.serial_of(worker, serial));
  CHECK(requests.find(serial) == nullptr);
}

TEST_CASE("requests: those of other nodes have a bound of their own") {
  KvWorkerConfig config = kv_worker_test::Bench::small();
  config.requests_max = 3;
  config.remote_reads_max = 1;
  PartsBench b(config);
  const Serial remote = b.add({item(1)}, far);
  CHECK(b.requests.is_full(true));
  CHECK_FALSE(b.requests.is_full(false));
  b.add({}), b.add({});
  CHECK(b.requests.is_full(false));
  CHECK(b.requests.check_bounds() == "");
  b.add({});
  CHECK(b.requests.check_bounds() == "requests: 4 of 3");
  b.requests.take(remote);
  CHECK(b.requests.remote_reads() == 0);
}

TEST_CASE_FIXTURE(PartsBench, "requests: an answered request stays as long as it holds a block") {
  const PoolBlock& block = put(item(1));
  const Serial reads = add({item(1), item(2)}), gets_nothing = add({item(2)});
  requests.find(reads)->holds[0] = requests.read(block, false, effects);
  requests.answer(reads, effects);
  requests.answer(gets_nothing, effects);
  const auto answers = sent<BlocksAcquired>();
  REQUIRE(answers.size() == 2);
  CHECK(answers[0].grants.at(0) == BlockGrant{Grant::read, block.generation, 77, block.pages, true});
  CHECK(answers[0].grants.at(1) == BlockGrant{});
  CHECK(requests.find(reads)->answered);
  CHECK(requests.find(gets_nothing) == nullptr);
  CHECK(requests.unanswered() == 0);
}

TEST_CASE_FIXTURE(PartsBench,
                  "requests: a block is checked until its bytes were found right, but not for others") {
  const PoolBlock& block = put(item(1));
  CHECK(requests.read(block, false, effects).check);
  CHECK_FALSE(requests.read(block, true, effects).check);
  pool.set_checked(block);
  CHECK_FALSE(requests.read(block, false, effects).check);  // the sampled fraction is 0
  CHECK(block.pins == 3);
}

}  // namespace requests_test
}  // namespace troupe::actors
