#pragma once
// Counts and reports blocks whose bytes do not match their checksum, and quarantines those that are
// wrong in memory: no request finds them again, so the next one computes the block anew.
#include <cstdint>
#include <string>
#include <vector>

#include "actors/kv_worker/kv_worker_timer.h"
#include "actors/kv_worker/persistent_tier.h"
#include "runtime/actor/core.h"
#include "runtime/pool/page_pool.h"

namespace troupe::actors {

class CorruptBlocks {
 public:
  CorruptBlocks(PagePool& pool, PersistentTier& tier, Serials& serials)
      : pool_(pool), tier_(tier), serials_(serials) {}

  // `where`: memory, or the node that reported or sent the block.
  void report(const BlockName& name, std::string where, Effects& effects);
  // Reports blocks of the tier, at least one, in one line.
  void report_stored(const std::vector<BlockName>& names, Effects& effects);
  // Reports the block and removes it from the pool and the tier.
  void quarantine(const PoolBlock& block, Effects& effects);
  std::uint64_t blocks() const { return blocks_; }  // reported so far

 private:
  PagePool& pool_;
  PersistentTier& tier_;
  Serials& serials_;
  std::uint64_t blocks_ = 0;
};

}  // namespace troupe::actors
