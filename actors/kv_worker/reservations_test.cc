#include "actors/kv_worker/reservations.h"

#include "actors/testing/kv_worker_parts.h"

namespace troupe::actors {
namespace reservations_test {

using namespace kv_worker_test;

// The four pages of the item area are full.
struct FullBench : PartsBench {
  FullBench() {
    for (const std::uint8_t n : {1, 2, 3, 4}) put(item(n));
  }
  const PoolBlock* reserve(const AcquireBlocks& ask, const BlockWant& want,
                           BlockSource source = BlockSource::computed) {
    const PoolBlock* block = reservations.reserve(ask, want, source, false);
    if (block) pool.commit(want.name, block->generation, 77);
    return block;
  }
};

TEST_CASE_FIXTURE(FullBench, "reservations: a request that may not evict gets only free pages") {
  CHECK(reserve({.may_evict = false}, item(5)) == nullptr);
  CHECK(reserve({.may_evict = false}, user(6)));
  CHECK(reserve({}, item(5)));
  CHECK(pool.find(name(1)) == nullptr);
}

TEST_CASE_FIXTURE(FullBench,
                  "reservations: a block pulled into a full area is a copy unless it belongs here") {
  CHECK(reserve({}, at(2, item(5)), BlockSource::pulled)->copy_of == 2);
  CHECK(reserve({.retention = {.belongs = true}}, at(2, item(6)), BlockSource::pulled)->copy_of == 0);
  CHECK(reserve({}, at(2, user(7)), BlockSource::pulled)->copy_of == 0);  // its area is not full
}

TEST_CASE_FIXTURE(FullBench, "reservations: with keep_hotter an item displaces only what is wanted less") {
  AcquireBlocks ask{.retention = {.keep_hotter = true}};
  ask.wants = {item(1), item(2), item(3), item(4)};
  reservations.count_wants(ask);
  for (const std::uint8_t n : {5, 6, 7}) CHECK(reserve(ask, user(n)));  // takes the free pages
  CHECK(reserve(ask, item(8)) == nullptr);
  ask.wants = {item(8)};
  reservations.count_wants(ask);
  reservations.count_wants(ask);
  CHECK(reservations.times_wanted(name(8)) == 2);
  CHECK(reserve(ask, item(8)));
}

TEST_CASE_FIXTURE(FullBench,
                  "reservations: an offered block takes free pages, and others only if it may evict") {
  const auto offer = [&](bool may_evict, std::uint8_t n, std::uint32_t tokens) {
    return reservations.reserve({.may_evict = may_evict}, at(2, user(n, tokens)), BlockSource::pulled, true);
  };
  put(user(10)), put(user(11));
  const PoolBlock* block = offer(false, 12, 4);
  REQUIRE(block);
  CHECK(block->copy_of == 0);  // its holder leaves
  CHECK(offer(false, 13, 4) == nullptr);
  CHECK(offer(true, 13, 8));
}

}  // namespace reservations_test
}  // namespace troupe::actors
