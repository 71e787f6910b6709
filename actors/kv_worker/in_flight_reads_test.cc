#include "actors/kv_worker/in_flight_reads.h"

#include "actors/testing/kv_worker_parts.h"

namespace troupe::actors {
namespace in_flight_reads_test {

using namespace kv_worker_test;

TEST_CASE_FIXTURE(PartsBench, "in-flight reads: pages of a failed copy stay until the last reader's end") {
  const std::uint64_t generation = pool.reserve({name(1), SegmentKind::item, "", 8, true})->generation;
  in_flight.begin(name(1), generation);
  in_flight.begin(name(1), generation);
  CHECK(in_flight.has_readers(generation));
  CHECK(in_flight.keep_pages(name(1), generation));
  CHECK(pool.find(name(1)) == nullptr);
  in_flight.end(generation);
  CHECK(pool.used(PoolArea::item) == 2);
  in_flight.end(generation);
  CHECK(pool.used(PoolArea::item) == 0);
  CHECK(in_flight.blocks() == 0);
}

TEST_CASE_FIXTURE(PartsBench, "in-flight reads: a copy that nobody reads, or that succeeds, is left alone") {
  const PoolBlock& block = *pool.reserve({name(1), SegmentKind::item, "", 4, true});
  CHECK_FALSE(in_flight.keep_pages(name(1), block.generation));
  in_flight.begin(name(1), block.generation);
  pool.commit(name(1), block.generation, 77);
  in_flight.end(block.generation);
  CHECK(pool.find(name(1)) == &block);
}

}  // namespace in_flight_reads_test
}  // namespace troupe::actors
