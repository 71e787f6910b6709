// Loads of blocks from the persistent tier into the pool, for requests and for the warm start.
#include "actors/kv_worker/tier_loads.h"

#include <utility>
#include <variant>

#include "kernels/base/check.h"

namespace troupe::actors {

void TierLoads::load(const std::vector<const PoolBlock*>& blocks, bool warm, Effects& effects) {
  LoadBlocks work;
  PersistentTier::LoadJob loading{.warm = warm};
  for (const PoolBlock* block : blocks) {
    const StoredBlock& stored = *tier_.stored().find(block->name);
    work.blocks.push_back({block->name, block->pages, block->tokens, stored.checksum});
    loading.blocks.push_back({stored, block->generation});
  }
  const Serial job = serials_.next();
  tier_.begin(job, std::move(loading));
  effects.start(job, std::move(work));
}

void TierLoads::on_loaded(Instant now, const PersistentTier::LoadJob& ended, const JobResult& result,
                          Effects& effects) {
  if (const auto* refusal = std::get_if<Refusal>(&result)) {
    jobs_.back_off(now, refusal->what, effects);
    tier_.stop_warm();
  }
  const auto* loaded = std::get_if<BlockLoadResult>(&result);
  TROUPE_CHECK(!loaded || loaded->found.size() == ended.blocks.size(), "the store answers for each block");
  std::vector<BlockName> bad;
  for (std::size_t i = 0; i < ended.blocks.size(); ++i) {
    const auto& [stored, generation, pinned] = ended.blocks[i];
    const bool is_sound = loaded && loaded->found[i] == BlockLoad::sound;
    if (is_sound && pool_.commit(stored.name, generation, stored.checksum, true)) {
      effects.count(Metric::item_blocks_loaded);
      pending_.finish(stored.name, generation, false, effects);
      continue;
    }
    if (loaded && loaded->found[i] == BlockLoad::corrupt) bad.push_back(stored.name);
    if (loaded && loaded->found[i] == BlockLoad::gone) tier_.note_gone(stored);
    if (pool_.abandon(stored.name, generation)) pending_.fail(stored.name, generation, effects);
  }
  if (bad.empty()) return;
  corrupt_.report_stored(bad, effects);
  jobs_.erase(std::move(bad), effects);
}

// Loads until the item area is full. The remaining blocks are loaded when they are wanted.
bool TierLoads::advance_warm_start(Effects& effects) {
  if (tier_.was_warm()) return false;
  while (tier_.may_warm()) {
    const std::vector<const PoolBlock*> blocks = reserve_warm();
    if (!blocks.empty()) load(blocks, true, effects);
  }
  if (!tier_.is_warm()) return false;
  effects.log(LogLevel::info, "warm_start_done",
              {{"blocks_stored", tier_.stored().blocks()}, {"item_pages_used", pool_.used(PoolArea::item)}});
  return true;
}

std::vector<const PoolBlock*> TierLoads::reserve_warm() {
  std::vector<const PoolBlock*> blocks;
  while (blocks.size() < tier_.warm_load_blocks()) {
    const StoredBlock* stored = tier_.next_warm();
    if (!stored) break;
    if (pool_.find(stored->name)) continue;
    if (pool_.pages_available(pool_.area_of(stored->kind)) < pool_.pages_for(stored->tokens)) {
      tier_.stop_warm();
      break;
    }
    const PoolBlock* block = pool_.reserve({stored->name, stored->kind, stored->owner, stored->tokens, true});
    TROUPE_CHECK(block, "a reservation within the free pages succeeds");
    pending_.add(*block);
    blocks.push_back(block);
  }
  return blocks;
}

}  // namespace troupe::actors
