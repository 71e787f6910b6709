#include "actors/kv_worker/tier_loads.h"

#include "actors/testing/kv_worker_parts.h"

namespace troupe::actors {
namespace tier_loads_test {

using namespace kv_worker_test;

struct LoadBench : PartsBench {
  TierJobs jobs{pool, tier, serials, corrupt};
  TierLoads loads{pool, tier, serials, jobs, corrupt, pending};

  void list(std::vector<std::uint8_t> items) {
    StoredList list;
    for (const std::uint8_t n : items) list.blocks.push_back({name(n), SegmentKind::item, "", 4, n});
    tier.note_list(std::move(list));
  }
  void end(std::vector<BlockLoad> found) {
    const Serial job = started<LoadBlocks>().at(0).first;
    effects = {};
    loads.on_loaded({1}, std::get<PersistentTier::LoadJob>(*tier.end(job)), BlockLoadResult{std::move(found)},
                    effects);
  }
};

TEST_CASE_FIXTURE(LoadBench, "tier loads: the warm start fills the free pages and ends once") {
  list({1, 2, 3, 4, 5});
  CHECK_FALSE(loads.advance_warm_start(effects));
  CHECK(started<LoadBlocks>().at(0).second.blocks.size() == 4);  // as many as there are pages
  end(std::vector(4, BlockLoad::sound));
  CHECK(loads.advance_warm_start(effects));
  CHECK_FALSE(loads.advance_warm_start(effects));
  CHECK(pool.find(name(4))->state == BlockState::ready);
  CHECK(pool.find(name(5)) == nullptr);
}

TEST_CASE_FIXTURE(
    LoadBench, "tier loads: a request waits for a load, and writes the block itself if its bytes are bad") {
  list({1});
  const Serial serial = add({item(1)});
  Request& request = *requests.find(serial);
  const PoolBlock* block = pending.reserve(request, 0, BlockSource::loaded, effects);
  pending.wait(serial, request, 0);
  loads.load({block}, false, effects);
  end({BlockLoad::corrupt});
  CHECK(sent<BlocksAcquired>().at(0).grants.at(0).grant == Grant::write);
  CHECK(started<EraseBlocks>().size() == 1);
  CHECK(corrupt.blocks() == 1);
}

// An item that was put anew while its block was being loaded: another job has erased the block.
TEST_CASE_FIXTURE(LoadBench,
                  "tier loads: a block that is gone is a miss without an alarm, and unknown then") {
  bool saved_since = false;
  SUBCASE("erased") {}
  SUBCASE("erased and saved anew") { saved_since = true; }
  list({1});
  const Serial serial = add({item(1)});
  Request& request = *requests.find(serial);
  const PoolBlock* block = pending.reserve(request, 0, BlockSource::loaded, effects);
  pending.wait(serial, request, 0);
  loads.load({block}, false, effects);
  if (saved_since) tier.note_saved({name(1), SegmentKind::item, "", 4, 77});
  end({BlockLoad::gone});
  CHECK(sent<BlocksAcquired>().at(0).grants.at(0).grant == Grant::write);
  CHECK(started<EraseBlocks>().empty());
  CHECK(corrupt.blocks() == 0);
  CHECK((tier.stored().find(name(1)) != nullptr) == saved_since);
}

}  // namespace tier_loads_test
}  // namespace troupe::actors
