#include "actors/kv_worker/corrupt_blocks.h"

#include "actors/testing/kv_worker_parts.h"

namespace troupe::actors {
namespace corrupt_blocks_test {

using namespace kv_worker_test;

TEST_CASE_FIXTURE(PartsBench,
                  "corrupt blocks: a quarantined block is removed from the pool and from the tier") {
  const PoolBlock& block = put(item(1));
  tier.note_saved({name(1), SegmentKind::item, "item 1", 4, 77});
  corrupt.quarantine(block, effects);
  CHECK(pool.find(name(1)) == nullptr);
  CHECK(tier.stored().find(name(1)) == nullptr);
  REQUIRE(started<EraseBlocks>().size() == 1);
  CHECK(started<EraseBlocks>()[0].second.names == std::vector<BlockName>{name(1)});
}

TEST_CASE_FIXTURE(PartsBench, "corrupt blocks: all are counted, and a report alone removes nothing") {
  put(item(1));
  corrupt.report(name(1), "node 2", effects);
  corrupt.report_stored({name(2), name(3)}, effects);
  CHECK(corrupt.blocks() == 3);
  CHECK(pool.find(name(1)));
  CHECK(started<EraseBlocks>().empty());
}

}  // namespace corrupt_blocks_test
}  // namespace troupe::actors
