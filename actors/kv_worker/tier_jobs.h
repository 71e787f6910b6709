#pragma once
// Runs the jobs of the persistent tier that no request waits for: the list at the start, saves in
// the background, and erasures. A wrong or failing disk is a miss, never a wrong block (promise 9):
// after a failure the tier is left alone for a while, and the answers stay the same, but slower.
#include <string>
#include <vector>

#include "actors/kv_worker/corrupt_blocks.h"
#include "actors/kv_worker/kv_worker_timer.h"
#include "actors/kv_worker/persistent_tier.h"
#include "runtime/actor/core.h"
#include "runtime/pool/page_pool.h"

namespace troupe::actors {

class TierJobs {
 public:
  TierJobs(PagePool& pool, PersistentTier& tier, Serials& serials, CorruptBlocks& corrupt)
      : pool_(pool), tier_(tier), serials_(serials), corrupt_(corrupt) {}

  void list(Effects& effects);
  // Starts saves, and what waited for the end of a back-off.
  void advance(Instant now, Effects& effects);
  // `ended`: a job other than a load.
  void on_done(Instant now, PersistentTier::Job&& ended, JobResult&& result, Effects& effects);
  void erase(std::vector<BlockName> names, Effects& effects);
  // Stops reads and writes for a while after a failure.
  void back_off(Instant now, const std::string& why, Effects& effects);

 private:
  void on_listed(Instant now, JobResult&& result, Effects& effects);
  void on_saved(Instant now, const PersistentTier::StoreTransfer& save, const JobResult& result,
                Effects& effects);
  void on_not_saved(Instant now, const PersistentTier::StoreTransfer& save, const BlockSaveResult& saved,
                    Effects& effects);
  void on_erased(Instant now, const std::vector<BlockName>& names, const JobResult& result, Effects& effects);
  void save_more(Instant now, Effects& effects);
  void evict(Effects& effects);
  void report_back_off(Instant till, const std::string& why, Effects& effects);

  PagePool& pool_;
  PersistentTier& tier_;
  Serials& serials_;
  CorruptBlocks& corrupt_;
};

}  // namespace troupe::actors
