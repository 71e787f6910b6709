// Book-keeping of the item blocks on disk and of the jobs that list, load, save and erase them.
// After a failure of the disk no job starts for a while.
#include "actors/kv_worker/persistent_tier.h"

#include <algorithm>
#include <set>
#include <utility>

#include "actors/kv_worker/bounds.h"

namespace troupe::actors {
namespace {

constexpr std::size_t erased_again_max = 1'024;  // names per job

}  // namespace

bool PersistentTier::may_load(Instant now, const BlockWant& want) const {
  const StoredBlock* stored = now < loads_from_ ? nullptr : stored_.find(want.name);
  return stored && stored->tokens == want.tokens && stored->kind == want.kind;
}

// ---- jobs ----

void PersistentTier::begin(Serial serial, Job job) {
  if (const auto* load = std::get_if<LoadJob>(&job)) warm_loads_ += load->warm;
  if (const auto* erase = std::get_if<EraseJob>(&job))
    for (const BlockName& name : erase->names) stored_.erase(name);
  ++running_[job.index()];
  jobs_[serial] = std::move(job);
}

std::optional<PersistentTier::Job> PersistentTier::end(Serial serial) {
  auto node = jobs_.extract(serial);
  if (node.empty()) return std::nullopt;
  Job job = std::move(node.mapped());
  --running_[job.index()];
  if (const auto* load = std::get_if<LoadJob>(&job)) warm_loads_ -= load->warm;
  return job;
}

void PersistentTier::erase(std::vector<BlockName> names, Serial job, Effects& effects) {
  effects.start(job, EraseBlocks{names});
  begin(job, EraseJob{std::move(names)});
}

// ---- the list, and the warm start ----

void PersistentTier::note_list(StoredList&& list) {
  std::set<BlockName> going(erase_again_.begin(), erase_again_.end());
  for (const auto& [serial, job] : jobs_)
    if (const auto* erase = std::get_if<EraseJob>(&job))
      going.insert(erase->names.begin(), erase->names.end());
  for (StoredBlock& block : list.blocks) {
    if (block.tokens == 0 || block.kind == SegmentKind::user || going.contains(block.name)) continue;
    if (!warm_done_)
      block.kind == SegmentKind::system ? warm_.push_front(block.name) : warm_.push_back(block.name);
    stored_.add(std::move(block));
  }
}

bool PersistentTier::take_list_retry(Instant now) {
  return now >= loads_from_ && std::exchange(list_again_, false);
}

const StoredBlock* PersistentTier::next_warm() {
  while (!warm_.empty()) {
    const StoredBlock* stored = stored_.find(warm_.front());
    warm_.pop_front();
    if (stored) return stored;
  }
  return nullptr;
}

bool PersistentTier::is_warm() {
  if (warm_done_ || running<ListJob>() > 0 || !warm_.empty() || warm_loads_ > 0) return false;
  return warm_done_ = true;
}

// ---- saves ----

void PersistentTier::want_save(const BlockName& name) {
  if (saves_.size() < bounds_.saves_waiting_max) saves_.push_back(name);
}

std::optional<BlockName> PersistentTier::next_save(Instant now) {
  while (!saves_.empty() && !saves_in_back_off(now) && running<SaveJob>() < bounds_.saves_running_max) {
    const BlockName name = saves_.front();
    saves_.pop_front();
    if (!stored_.find(name) && !stored_.full()) return name;
  }
  return std::nullopt;
}

void PersistentTier::note_saved(StoredBlock block) {
  std::erase_if(erase_again_, [&](const BlockName& waiting) { return identical(waiting, block.name); });
  stored_.add(std::move(block));
}

void PersistentTier::note_gone(const StoredBlock& block) {
  const StoredBlock* known = stored_.find(block.name);
  if (known && known->checksum == block.checksum) stored_.erase(block.name);
}

// ---- erasures that failed ----

void PersistentTier::note_not_erased(const std::vector<BlockName>& names) {
  for (const BlockName& name : names)
    if (!stored_.find(name) && erase_again_.size() < bounds_.erases_waiting_max) erase_again_.push_back(name);
}

std::vector<BlockName> PersistentTier::next_erasures(Instant now) {
  if (erase_again_.empty() || saves_in_back_off(now) || running<EraseJob>() > 0) return {};
  const auto end =
      erase_again_.begin() + static_cast<std::ptrdiff_t>(std::min(erase_again_.size(), erased_again_max));
  std::vector<BlockName> names(erase_again_.begin(), end);
  erase_again_.erase(erase_again_.begin(), end);
  return names;
}

// ---- back-off ----

Instant PersistentTier::back_off(Instant now) {
  return saves_from_ = loads_from_ = std::max(loads_from_, now + bounds_.back_off);
}

Instant PersistentTier::back_off_saves(Instant now) {
  return saves_from_ = std::max(saves_from_, now + bounds_.back_off);
}

std::string PersistentTier::check_bounds(std::size_t pool_pages) const {
  return first_fault({bound_fault("loads", loads(), pool_pages),
                      bound_fault("loads of the warm start", warm_loads_, bounds_.warm_loads_max),
                      bound_fault("saves", running<SaveJob>(), bounds_.saves_running_max),
                      bound_fault("saves waiting", saves_.size(), bounds_.saves_waiting_max),
                      bound_fault("erasures waiting", erase_again_.size(), bounds_.erases_waiting_max),
                      bound_fault("blocks stored", stored_.blocks(), bounds_.blocks_max)});
}

}  // namespace troupe::actors
