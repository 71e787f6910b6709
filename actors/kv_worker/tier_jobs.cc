// Lists, saves and erases blocks of the persistent tier, and handles failures of the disk.
#include "actors/kv_worker/tier_jobs.h"

#include <utility>
#include <variant>

#include "actors/kv_worker/block_identity.h"

namespace troupe::actors {

void TierJobs::on_done(Instant now, PersistentTier::Job&& ended, JobResult&& result, Effects& effects) {
  if (const auto* save = std::get_if<PersistentTier::SaveJob>(&ended)) {
    on_saved(now, *save, result, effects);
  } else if (const auto* erasure = std::get_if<PersistentTier::EraseJob>(&ended)) {
    on_erased(now, erasure->names, result, effects);
  } else {
    on_listed(now, std::move(result), effects);
  }
}

void TierJobs::advance(Instant now, Effects& effects) {
  if (tier_.take_list_retry(now)) list(effects);
  if (auto names = tier_.next_erasures(now); !names.empty()) erase(std::move(names), effects);
  save_more(now, effects);
}

// ---- the list ----

void TierJobs::list(Effects& effects) {
  const Serial job = serials_.next();
  tier_.begin(job, PersistentTier::ListJob{});
  effects.start(job, ListStored{});
}

// A failed listing is repeated after the back-off. The worker becomes ready without it: the blocks
// of the later list are loaded when they are wanted.
void TierJobs::on_listed(Instant now, JobResult&& result, Effects& effects) {
  if (const auto* refusal = std::get_if<Refusal>(&result)) {
    tier_.note_list_failed();
    return back_off(now, refusal->what, effects);
  }
  tier_.note_list(std::get<StoredList>(std::move(result)));
}

// ---- saves ----

void TierJobs::save_more(Instant now, Effects& effects) {
  while (const auto name = tier_.next_save(now)) {
    const PoolBlock* block = find_block(pool_, *name);
    if (!block || block->state != BlockState::ready) continue;  // evicted or forgotten meanwhile
    pool_.pin(*block);
    const StoredBlock stored{*name, block->kind, block->owner, block->tokens, block->checksum};
    const Serial job = serials_.next();
    tier_.begin(job, PersistentTier::SaveJob{{stored, block->generation, block}});
    effects.start(job, SaveBlock{stored, block->pages});
  }
}

void TierJobs::on_saved(Instant now, const PersistentTier::StoreTransfer& save, const JobResult& result,
                        Effects& effects) {
  const BlockName& name = save.block.name;
  // False if it was forgotten, or found to be corrupt.
  const bool wanted = find_block(pool_, name) != nullptr;
  pool_.unpin(*save.pinned);
  if (const auto* refusal = std::get_if<Refusal>(&result)) {
    effects.count(Metric::item_blocks_save_failed);
    if (wanted) tier_.want_save(name);
    return back_off(now, refusal->what, effects);
  }
  const auto& saved = std::get<BlockSaveResult>(result);
  if (!saved.ok) return on_not_saved(now, save, saved, effects);
  effects.count(Metric::item_blocks_saved);
  tier_.note_saved(save.block);
  if (!wanted) erase({name}, effects);
}

void TierJobs::on_not_saved(Instant now, const PersistentTier::StoreTransfer& save,
                            const BlockSaveResult& saved, Effects& effects) {
  const BlockName& name = save.block.name;
  effects.count(Metric::item_blocks_save_failed);
  if (saved.corrupt) {  // damaged in memory, not by the disk
    pool_.remove(name, save.generation);
    return corrupt_.report(name, "memory", effects);
  }
  if (find_block(pool_, name)) tier_.want_save(name);
  if (saved.full && !tier_.saves_in_back_off(now)) evict(effects);
  report_back_off(tier_.back_off_saves(now), saved.why, effects);
}

// ---- erasures ----

// Erases old blocks from a full tier, so that newer ones can be saved. Blocks in the pool are kept,
// because they would not be saved again.
void TierJobs::evict(Effects& effects) {
  std::vector<BlockName> names =
      tier_.oldest([&](const BlockName& name) { return pool_.find(name) != nullptr; });
  if (!names.empty()) erase(std::move(names), effects);
}

void TierJobs::erase(std::vector<BlockName> names, Effects& effects) {
  tier_.erase(std::move(names), serials_.next(), effects);
}

// Some of them may have been erased in spite of the failure.
void TierJobs::on_erased(Instant now, const std::vector<BlockName>& names, const JobResult& result,
                         Effects& effects) {
  const auto* refusal = std::get_if<Refusal>(&result);
  if (!refusal) return;
  tier_.note_not_erased(names);
  back_off(now, refusal->what, effects);
}

void TierJobs::back_off(Instant now, const std::string& why, Effects& effects) {
  report_back_off(tier_.back_off(now), why, effects);
}

// Logs the failure and sets a timer, so that waiting saves go on after the back-off.
void TierJobs::report_back_off(Instant till, const std::string& why, Effects& effects) {
  effects.log(LogLevel::warning, "store_failed", {{"why", why}, {"rests_us", tier_.back_off_time().us}});
  effects.set_timer(KvWorkerTimer::store, till);
}

}  // namespace troupe::actors
