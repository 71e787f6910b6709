// The KV-cache worker's dealings with its persistent tier: the warm start, loads on demand, saves behind the
// scenes, and what happens when the disk lies or fails (promise 9: a miss, never a wrong block).
#include <algorithm>

#include "actors/kv_worker/kv_worker_core.h"
#include "kernels/base/check.h"
#include "runtime/actor/block_name.h"

namespace troupe::actors {
namespace {

constexpr std::uint64_t store_timer = 2;
constexpr std::size_t erased_again_max = 1'024;  // names per job

}  // namespace

void KvWorkerCore::on_store_done(Instant now, const Done& done, Effects& effects) {
  if (done.job == list_job_) {
    list_job_ = 0;
    on_listed(now, done.result, effects);
  } else if (const auto load = loads_.extract(done.job)) {
    warm_loads_.erase(done.job);
    on_loaded(now, load.mapped(), done.result, effects);
  } else if (const auto save = saves_.extract(done.job)) {
    on_saved(now, save.mapped(), done.result, effects);
  } else if (const auto erase = erases_.extract(done.job)) {
    on_erased(now, erase.mapped(), done.result, effects);
  }
  if (!ready_ && list_job_ == 0) load_warm(effects);
}

// What waited for the end of a rest.
void KvWorkerCore::tend_store(Instant now, Effects& effects) {
  if (list_again_ && !stored_.loads_rest(now)) {
    list_again_ = false;
    effects.start(list_job_ = next_serial_++, ListStored{});
  }
  if (!erase_again_.empty() && erases_.empty() && !stored_.saves_rest(now)) erase_again(effects);
  save_more(now, effects);
}

// ---- loads ----

// A list that failed is asked for again after the rest. Nobody waits for that one: its blocks are loaded when
// they are wanted.
void KvWorkerCore::on_listed(Instant now, const JobResult& result, Effects& effects) {
  if (const auto* refusal = std::get_if<Refusal>(&result)) {
    list_again_ = true;
    return rest_store(now, refusal->what, effects);
  }
  std::set<BlockName> going(erase_again_.begin(), erase_again_.end());
  for (const auto& [job, names] : erases_) going.insert(names.begin(), names.end());
  for (const StoredBlock& block : std::get<StoredList>(result).blocks) {
    if (block.tokens == 0 || block.kind == SegmentKind::user || going.contains(block.name)) continue;
    stored_.add(block);
    if (ready_) continue;
    if (block.kind == SegmentKind::system) {  // every item block needs it
      warm_.push_front(block.name);
    } else {
      warm_.push_back(block.name);
    }
  }
}

// The item area is filled until it is full; what is left is loaded when it is asked for.
void KvWorkerCore::load_warm(Effects& effects) {
  while (warm_loads_.size() < config_.loads_running_max && !warm_.empty()) {
    const std::vector<const PoolBlock*> blocks = reserve_warm();
    if (!blocks.empty()) warm_loads_.insert(load(blocks, effects));
  }
  if (!warm_.empty() || !warm_loads_.empty()) return;
  ready_ = true;
  effects.log(LogLevel::info, "warm_start_done",
              {{"blocks_stored", std::to_string(stored_.blocks())},
               {"item_pages_used", std::to_string(pool_.used(PoolArea::item))}});
}

std::vector<const PoolBlock*> KvWorkerCore::reserve_warm() {
  std::vector<const PoolBlock*> blocks;
  while (!warm_.empty() && blocks.size() < config_.load_blocks_max) {
    const BlockName name = warm_.front();
    warm_.pop_front();
    const StoredBlock* stored = stored_.find(name);
    if (!stored || pool_.find(name)) continue;
    if (pool_.room(pool_.area_of(stored->kind)) < pool_.pages_for(stored->tokens)) {
      warm_.clear();
      break;
    }
    const PoolBlock* block = pool_.reserve({name, stored->kind, stored->owner, stored->tokens, true});
    TROUPE_CHECK(block, "free room can be reserved");
    making_[name] = {block->generation, {}};
    blocks.push_back(block);
  }
  return blocks;
}

bool KvWorkerCore::is_stored(Instant now, const BlockWant& want) const {
  const StoredBlock* stored = stored_.loads_rest(now) ? nullptr : stored_.find(want.name);
  return stored && stored->tokens == want.tokens && stored->kind == want.kind;
}

// Blocks that are reserved for loading and known to be stored.
KvWorkerCore::Serial KvWorkerCore::load(const std::vector<const PoolBlock*>& blocks, Effects& effects) {
  const Serial job = next_serial_++;
  LoadBlocks work;
  for (const PoolBlock* block : blocks) {
    const StoredBlock& stored = *stored_.find(block->name);
    work.blocks.push_back({block->name, block->pages, block->tokens, stored.checksum});
    loads_[job].push_back({stored, block->generation});
  }
  effects.start(job, std::move(work));
  return job;
}

void KvWorkerCore::on_loaded(Instant now, const std::vector<Moving>& loads, const JobResult& result,
                             Effects& effects) {
  if (const auto* refusal = std::get_if<Refusal>(&result)) {
    rest_store(now, refusal->what, effects);
    warm_.clear();
  }
  const auto* loaded = std::get_if<Loaded>(&result);
  TROUPE_CHECK(!loaded || loaded->ok.size() == loads.size(), "the store answers for each block");
  std::vector<BlockName> bad;
  for (std::size_t i = 0; i < loads.size(); ++i) {
    const BlockName& name = loads[i].block.name;
    if (loaded && loaded->ok[i] && pool_.commit(name, loads[i].generation, loads[i].block.checksum, true)) {
      effects.count(Metric::item_blocks_loaded);
      made(name, loads[i].generation, effects);
      continue;
    }
    if (loaded && !loaded->ok[i]) bad.push_back(name);
    if (pool_.abandon(name, loads[i].generation)) not_made(name, loads[i].generation, effects);
  }
  if (bad.empty()) return;
  effects.count(Metric::blocks_corrupt, static_cast<double>(bad.size()));
  effects.log(LogLevel::error, "block_corrupt",
              {{"where", "store"}, {"blocks", std::to_string(bad.size())}, {"first", to_hex(bad.front())}});
  erase_stored(bad, effects);
}

// ---- saves ----

void KvWorkerCore::save_more(Instant now, Effects& effects) {
  BlockName name;
  while (!stored_.saves_rest(now) && saves_.size() < config_.saves_running_max && stored_.next_save(name)) {
    if (stored_.find(name) || stored_.full()) continue;
    const PoolBlock* block = find(name);
    if (!block || block->state != BlockState::ready) continue;  // evicted or forgotten meanwhile
    pool_.pin(*block);
    const Serial job = next_serial_++;
    const StoredBlock stored{name, block->kind, block->owner, block->tokens, block->checksum};
    saves_[job] = {stored, block->generation, block};
    effects.start(job, SaveBlock{stored, block->pages});
  }
}

void KvWorkerCore::on_saved(Instant now, const Moving& save, const JobResult& result, Effects& effects) {
  const BlockName& name = save.block.name;
  const bool wanted = find(name) != nullptr;  // else it was forgotten, or found to be corrupt
  pool_.unpin(*save.pinned);
  if (const auto* refusal = std::get_if<Refusal>(&result)) {
    effects.count(Metric::item_blocks_save_failed);
    if (wanted) stored_.want_save(name);
    return rest_store(now, refusal->what, effects);
  }
  const auto& saved = std::get<Saved>(result);
  if (!saved.ok) return on_not_saved(now, save, saved, effects);
  effects.count(Metric::item_blocks_saved);
  std::erase_if(erase_again_, [&](const BlockName& waiting) { return identical(waiting, name); });
  stored_.add(save.block);
  if (!wanted) erase_stored({name}, effects);
}

void KvWorkerCore::on_not_saved(Instant now, const Moving& save, const Saved& saved, Effects& effects) {
  const BlockName& name = save.block.name;
  effects.count(Metric::item_blocks_save_failed);
  if (saved.corrupt) {  // the memory's fault, not the disk's
    pool_.remove(name, save.generation);
    effects.count(Metric::blocks_corrupt);
    return effects.log(LogLevel::error, "block_corrupt", {{"block", to_hex(name)}, {"where", "memory"}});
  }
  if (find(name)) stored_.want_save(name);
  if (saved.full && !stored_.saves_rest(now)) make_room(effects);
  stored_.rest_saves(now + config_.store_rest);
  tell_rest(now, saved.why, effects);
}

// ---- erasures ----

// For what is newer. What is in the pool would be saved no more if it were erased now.
void KvWorkerCore::make_room(Effects& effects) {
  std::vector<BlockName> names = stored_.oldest(
      config_.make_room_blocks, [&](const BlockName& name) { return pool_.find(name) != nullptr; });
  if (!names.empty()) erase_stored(std::move(names), effects);
}

void KvWorkerCore::erase_stored(std::vector<BlockName> names, Effects& effects) {
  for (const BlockName& name : names) stored_.erase(name);
  const Serial job = next_serial_++;
  effects.start(job, EraseBlocks{names});
  erases_[job] = std::move(names);
}

// A part of them may be erased: erasing a block twice is harmless.
void KvWorkerCore::on_erased(Instant now, const std::vector<BlockName>& names, const JobResult& result,
                             Effects& effects) {
  const auto* refusal = std::get_if<Refusal>(&result);
  if (!refusal) return;
  for (const BlockName& name : names)
    if (!stored_.find(name) && erase_again_.size() < config_.erases_waiting_max) erase_again_.push_back(name);
  rest_store(now, refusal->what, effects);
}

void KvWorkerCore::erase_again(Effects& effects) {
  const auto count = static_cast<std::ptrdiff_t>(std::min(erase_again_.size(), erased_again_max));
  std::vector<BlockName> names(erase_again_.begin(), erase_again_.begin() + count);
  erase_again_.erase(erase_again_.begin(), erase_again_.begin() + count);
  erase_stored(std::move(names), effects);
}

// A tier that failed is neither read nor written for a while: the same answers, slower.
void KvWorkerCore::rest_store(Instant now, const std::string& why, Effects& effects) {
  stored_.rest(now + config_.store_rest);
  tell_rest(now, why, effects);
}

// The timer wakes the core so that waiting saves go on.
void KvWorkerCore::tell_rest(Instant now, const std::string& why, Effects& effects) {
  effects.log(LogLevel::warning, "store_failed",
              {{"why", why}, {"rests_us", std::to_string(config_.store_rest.us)}});
  effects.set_timer(store_timer, now + config_.store_rest);
}

}  // namespace troupe::actors
