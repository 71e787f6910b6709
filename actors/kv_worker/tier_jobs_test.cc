#include "actors/kv_worker/tier_jobs.h"

#include "actors/testing/kv_worker_parts.h"

namespace troupe::actors {
namespace tier_jobs_test {

using namespace kv_worker_test;

struct TierBench : PartsBench {
  TierJobs jobs{pool, tier, serials, corrupt};
  // Ends the first job among the latest effects.
  template <class Work>
  void end(std::int64_t us, JobResult result) {
    const Serial job = started<Work>().at(0).first;
    effects = {};
    jobs.on_done({us}, *tier.end(job), std::move(result), effects);
  }
};

TEST_CASE_FIXTURE(TierBench,
                  "tier jobs: a block stays pinned while it is saved, and is then known as stored") {
  const PoolBlock& block = put(item(1));
  tier.want_save(name(1));
  jobs.advance({0}, effects);
  CHECK(block.pins == 1);
  end<SaveBlock>(1, BlockSaveResult{.ok = true});
  CHECK(block.pins == 0);
  CHECK(tier.stored().find(name(1)));
}

TEST_CASE_FIXTURE(TierBench, "tier jobs: a block that was forgotten while it was saved is erased again") {
  put(item(1));
  tier.want_save(name(1));
  jobs.advance({0}, effects);
  pool.remove(name(1));
  end<SaveBlock>(1, BlockSaveResult{.ok = true});
  CHECK(started<EraseBlocks>().size() == 1);
  CHECK(tier.stored().find(name(1)) == nullptr);
}

TEST_CASE_FIXTURE(TierBench, "tier jobs: a failed list is repeated after the back-off") {
  jobs.list(effects);
  end<ListStored>(0, Refusal{});
  jobs.advance({4'999'999}, effects);
  CHECK(started<ListStored>().empty());
  jobs.advance({5'000'000}, effects);
  CHECK(started<ListStored>().size() == 1);
}

}  // namespace tier_jobs_test
}  // namespace troupe::actors
