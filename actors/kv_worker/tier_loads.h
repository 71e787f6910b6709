#pragma once
// Loads blocks from the persistent tier: those that a request wants, and, at the start, as many as
// fill the free pages. The worker is ready once this warm start has ended.
#include <vector>

#include "actors/kv_worker/pending_blocks.h"
#include "actors/kv_worker/tier_jobs.h"

namespace troupe::actors {

class TierLoads {
 public:
  TierLoads(PagePool& pool, PersistentTier& tier, Serials& serials, TierJobs& jobs, CorruptBlocks& corrupt,
            PendingBlocks& pending)
      : pool_(pool), tier_(tier), serials_(serials), jobs_(jobs), corrupt_(corrupt), pending_(pending) {}

  // Starts loading blocks that are pending here and known to be stored. `warm`: for the warm start.
  void load(const std::vector<const PoolBlock*>& blocks, bool warm, Effects& effects);
  void on_loaded(Instant now, const PersistentTier::LoadJob& ended, const JobResult& result,
                 Effects& effects);
  // Continues the warm start after a job of the tier has ended. Returns true once, when it has
  // ended.
  bool advance_warm_start(Effects& effects);

 private:
  std::vector<const PoolBlock*> reserve_warm();

  PagePool& pool_;
  PersistentTier& tier_;
  Serials& serials_;
  TierJobs& jobs_;
  CorruptBlocks& corrupt_;
  PendingBlocks& pending_;
};

}  // namespace troupe::actors
