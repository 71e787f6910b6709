// The KV-cache worker's use of its persistent tier: the warm start, loads on demand, background
// saves, and the handling of wrong data and failures of the disk (promise 9: a miss, never a wrong
// block).
#include <algorithm>

#include "actors/kv_worker/kv_worker_core.h"
#include "kernels/base/check.h"
#include "runtime/actor/block_name.h"

namespace troupe::actors {
namespace {

constexpr std::uint64_t store_timer = 2;

}  // namespace

void KvWorkerCore::on_store_done(Instant now, const JobDone& done, Effects& effects) {
  const auto ended = tier_.end(done.job);
  if (!ended) return;
  if (const auto* load = std::get_if<PersistentTier::LoadJob>(&*ended)) {
    on_loaded(now, load->blocks, done.result, effects);
  } else if (const auto* save = std::get_if<PersistentTier::SaveJob>(&*ended)) {
    on_saved(now, *save, done.result, effects);
  } else if (const auto* erase = std::get_if<PersistentTier::EraseJob>(&*ended)) {
    on_erased(now, erase->names, done.result, effects);
  } else {
    on_listed(now, done.result, effects);
  }
  if (!tier_.was_warm()) load_warm(effects);
}

// Resumes work that waited for the end of a back-off.
void KvWorkerCore::advance_store(Instant now, Effects& effects) {
  if (tier_.take_list_retry(now)) list_stored(effects);
  if (auto names = tier_.next_erasures(now); !names.empty()) erase_stored(std::move(names), effects);
  save_more(now, effects);
}

// ---- loads ----

void KvWorkerCore::list_stored(Effects& effects) {
  const Serial job = next_serial_++;
  tier_.begin(job, PersistentTier::ListJob{});
  effects.start(job, ListStored{});
}

// A failed listing is repeated after the back-off. The worker becomes ready without it: the blocks
// of the later list are loaded when they are wanted.
void KvWorkerCore::on_listed(Instant now, const JobResult& result, Effects& effects) {
  if (const auto* refusal = std::get_if<Refusal>(&result)) {
    tier_.note_list_failed();
    return back_off_store(now, refusal->what, effects);
  }
  tier_.note_list(std::get<StoredList>(result));
}

// Loads until the item area is full. The remaining blocks are loaded when they are wanted.
void KvWorkerCore::load_warm(Effects& effects) {
  while (tier_.may_warm()) {
    const std::vector<const PoolBlock*> blocks = reserve_warm();
    if (!blocks.empty()) load(blocks, true, effects);
  }
  if (!tier_.is_warm()) return;
  ready_ = true;
  effects.log(LogLevel::info, "warm_start_done",
              {{"blocks_stored", tier_.stored().blocks()}, {"item_pages_used", pool_.used(PoolArea::item)}});
}

std::vector<const PoolBlock*> KvWorkerCore::reserve_warm() {
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
    pending_blocks_[stored->name] = {block->generation, {}};
    blocks.push_back(block);
  }
  return blocks;
}

// Starts loading blocks that are reserved here and known to be stored.
void KvWorkerCore::load(const std::vector<const PoolBlock*>& blocks, bool warm, Effects& effects) {
  LoadBlocks work;
  PersistentTier::LoadJob loading{.warm = warm};
  for (const PoolBlock* block : blocks) {
    const StoredBlock& stored = *tier_.stored().find(block->name);
    work.blocks.push_back({block->name, block->pages, block->tokens, stored.checksum});
    loading.blocks.push_back({stored, block->generation});
  }
  const Serial job = next_serial_++;
  tier_.begin(job, std::move(loading));
  effects.start(job, std::move(work));
}

void KvWorkerCore::on_loaded(Instant now, const std::vector<StoreTransfer>& loads, const JobResult& result,
                             Effects& effects) {
  if (const auto* refusal = std::get_if<Refusal>(&result)) {
    back_off_store(now, refusal->what, effects);
    tier_.stop_warm();
  }
  const auto* loaded = std::get_if<BlockLoadResult>(&result);
  TROUPE_CHECK(!loaded || loaded->ok.size() == loads.size(), "the store answers for each block");
  std::vector<BlockName> bad;
  for (std::size_t i = 0; i < loads.size(); ++i) {
    const BlockName& name = loads[i].block.name;
    if (loaded && loaded->ok[i] && pool_.commit(name, loads[i].generation, loads[i].block.checksum, true)) {
      effects.count(Metric::item_blocks_loaded);
      finish_block(name, loads[i].generation, effects);
      continue;
    }
    if (loaded && !loaded->ok[i]) bad.push_back(name);
    if (pool_.abandon(name, loads[i].generation)) fail_block(name, loads[i].generation, effects);
  }
  if (bad.empty()) return;
  blocks_corrupt_ += bad.size();
  effects.count(Metric::blocks_corrupt, static_cast<double>(bad.size()));
  effects.log(LogLevel::error, "block_corrupt",
              {{"where", "store"}, {"blocks", bad.size()}, {"first", to_hex(bad.front())}});
  erase_stored(bad, effects);
}

// ---- saves ----

void KvWorkerCore::save_more(Instant now, Effects& effects) {
  while (const auto name = tier_.next_save(now)) {
    const PoolBlock* block = find(*name);
    if (!block || block->state != BlockState::ready) continue;  // evicted or forgotten meanwhile
    pool_.pin(*block);
    const StoredBlock stored{*name, block->kind, block->owner, block->tokens, block->checksum};
    const Serial job = next_serial_++;
    tier_.begin(job, PersistentTier::SaveJob{{stored, block->generation, block}});
    effects.start(job, SaveBlock{stored, block->pages});
  }
}

void KvWorkerCore::on_saved(Instant now, const StoreTransfer& save, const JobResult& result,
                            Effects& effects) {
  const BlockName& name = save.block.name;
  const bool wanted = find(name) != nullptr;  // false if it was forgotten, or found to be corrupt
  pool_.unpin(*save.pinned);
  if (const auto* refusal = std::get_if<Refusal>(&result)) {
    effects.count(Metric::item_blocks_save_failed);
    if (wanted) tier_.want_save(name);
    return back_off_store(now, refusal->what, effects);
  }
  const auto& saved = std::get<BlockSaveResult>(result);
  if (!saved.ok) return on_not_saved(now, save, saved, effects);
  effects.count(Metric::item_blocks_saved);
  tier_.note_saved(save.block);
  if (!wanted) erase_stored({name}, effects);
}

void KvWorkerCore::on_not_saved(Instant now, const StoreTransfer& save, const BlockSaveResult& saved,
                                Effects& effects) {
  const BlockName& name = save.block.name;
  effects.count(Metric::item_blocks_save_failed);
  if (saved.corrupt) {  // damaged in memory, not by the disk
    pool_.remove(name, save.generation);
    return count_corrupt(name, "memory", effects);
  }
  if (find(name)) tier_.want_save(name);
  if (saved.full && !tier_.saves_in_back_off(now)) evict_stored(effects);
  report_back_off(tier_.back_off_saves(now), saved.why, effects);
}

// ---- erasures ----

// Erases old blocks from a full tier, so that newer ones can be saved. Blocks in the pool are kept,
// because they would not be saved again.
void KvWorkerCore::evict_stored(Effects& effects) {
  std::vector<BlockName> names =
      tier_.oldest([&](const BlockName& name) { return pool_.find(name) != nullptr; });
  if (!names.empty()) erase_stored(std::move(names), effects);
}

void KvWorkerCore::erase_stored(std::vector<BlockName> names, Effects& effects) {
  const Serial job = next_serial_++;
  effects.start(job, EraseBlocks{names});
  tier_.begin(job, PersistentTier::EraseJob{std::move(names)});
}

// Some of them may have been erased in spite of the failure.
void KvWorkerCore::on_erased(Instant now, const std::vector<BlockName>& names, const JobResult& result,
                             Effects& effects) {
  const auto* refusal = std::get_if<Refusal>(&result);
  if (!refusal) return;
  tier_.note_not_erased(names);
  back_off_store(now, refusal->what, effects);
}

// Stops reads and writes for a while after a failure: the answers stay the same, but slower.
void KvWorkerCore::back_off_store(Instant now, const std::string& why, Effects& effects) {
  report_back_off(tier_.back_off(now), why, effects);
}

// Logs the failure and sets a timer, so that waiting saves go on after the back-off.
void KvWorkerCore::report_back_off(Instant till, const std::string& why, Effects& effects) {
  effects.log(LogLevel::warning, "store_failed", {{"why", why}, {"rests_us", tier_.back_off_time().us}});
  effects.set_timer(store_timer, till);
}

}  // namespace troupe::actors
